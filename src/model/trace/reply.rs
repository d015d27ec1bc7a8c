//! From the text of an answer back to what the model said.

use super::ResponseLine;
use crate::model::Reply;
use crate::model::wire::{Failure, Protocol, sse};
use std::time::Duration;

/// What the model `model` (`provider/model`) said in an answer, as far as the trace holds it, and what was wrong with the
/// answer, if anything.
pub fn reply_of(protocol: Protocol, model: &str, response: &ResponseLine) -> (Reply, Option<String>) {
    let mut reply = Reply::default();
    let status = match response.status {
        Some(status @ 200..300) => status,
        Some(status) => {
            let header = |name: &str| header(response, name);
            let failure = Failure::read(protocol, status, header, response.body.as_bytes(), Duration::ZERO);
            return (reply, Some(failure.message));
        }
        None => return (reply, response.problem.clone()),
    };
    let read = read(protocol, model, response, &mut reply);
    let problem = match read {
        _ if response.problem.is_some() => response.problem.clone(),
        Err(_) if response.left_out > 0 => {
            Some(format!("the trace left {} bytes of this answer out ({status})", response.left_out))
        }
        Err(failure) => Some(failure.message),
        Ok(()) => None,
    };
    (reply, problem)
}

/// Takes in all of the body; what came before a failure stays in the reply.
fn read(protocol: Protocol, model: &str, response: &ResponseLine, reply: &mut Reply) -> Result<(), Failure> {
    let mut decoder = protocol.decoder(model.into());
    let mut deltas = Vec::new();
    let body = response.body.as_bytes();
    let is_json = header(response, "content-type").is_some_and(|kind| kind.starts_with("application/json"));
    let fed = if is_json {
        decoder.whole(body, &mut deltas)
    } else {
        let mut parser = sse::Parser::default();
        parser
            .push(body, |event| decoder.event(event, &mut deltas))
            .and_then(|()| parser.finish(|event| decoder.event(event, &mut deltas)))
    };
    let ended = fed.and_then(|()| decoder.end(&mut deltas));
    for delta in deltas {
        // Nothing counts after the end mark, nor the lack of anything.
        if reply.push(delta) {
            return Ok(());
        }
    }
    ended
}

fn header<'r>(response: &'r ResponseLine, name: &str) -> Option<&'r str> {
    let found = response.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}
