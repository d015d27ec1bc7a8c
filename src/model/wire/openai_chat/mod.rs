//! OpenAI's Chat Completions, as OpenAI and two dozen relatives of it speak it.
//!
//! [`encode`] renders a request. [`Decoder`] puts a reply together: text is passed on as it comes; reasoning and calls
//! are complete only at the end, since their fragments may interleave and a signature may come last. A reply has ended
//! when a `finish_reason` came and then `[DONE]` or the end of the stream. An end without either is a cut.
//!
//! What servers do to this protocol stands in the tests, one case each.

mod calls;
mod chunk;
mod encode;
mod reasoning;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_sent;
#[cfg(test)]
mod tests_words;
mod words;

pub(super) use encode::encode;

use super::{Failure, sse};
use crate::model::{Delta, ModelErrorKind, StopKind, ToolCall, Usage};
use calls::Calls;
use chunk::{Chunk, Piece};
use reasoning::Reasoning;
use std::sync::Arc;
use words::Words;

/// Reads one reply.
#[derive(Debug)]
pub struct Decoder {
    name: Arc<str>,
    words: Words,
    reasoning: Reasoning,
    calls: Calls,
    /// As last told.
    usage: Usage,
    finish: Option<Finish>,
    refused: bool,
    /// Something was said.
    spoke: bool,
    done: bool,
}

/// What `finish_reason` said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    /// The model was done, with or without calls: servers say `stop` for both.
    Done,
    Length,
    Filtered,
    /// A word that nobody knows yet.
    Unknown,
}

impl Decoder {
    pub(super) fn new(name: Arc<str>) -> Self {
        Decoder {
            name,
            words: Words::default(),
            reasoning: Reasoning::default(),
            calls: Calls::default(),
            usage: Usage::default(),
            finish: None,
            refused: false,
            spoke: false,
            done: false,
        }
    }

    pub(super) fn event(&mut self, event: &sse::Event<'_>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let data = event.data.trim();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            return self.close(out);
        }
        if event.name == "error" {
            return Err(Failure::in_reply(data));
        }
        let chunk: Chunk<'_> =
            serde_json::from_str(data).map_err(|error| Failure::not_protocol("a chunk", data, &error))?;
        self.take(chunk, data, out)
    }

    pub(super) fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        let body = String::from_utf8_lossy(body);
        let chunk: Chunk<'_> =
            serde_json::from_str(&body).map_err(|error| Failure::no_reply(body.as_bytes(), &error))?;
        self.take(chunk, &body, out)?;
        self.close(out)
    }

    pub(super) fn end(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        match self.finish {
            Some(_) => self.close(out),
            None => Err(cut("the reply ended without a finish reason")),
        }
    }

    fn take(&mut self, chunk: Chunk<'_>, data: &str, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if let Some(error) = chunk.error {
            return Err(Failure::in_reply(error.get()));
        }
        if chunk.object.as_str() == "error" {
            return Err(Failure::in_reply(data));
        }
        let mut usage = chunk.usage;
        for choice in chunk.choices.into_iter().flatten() {
            // We ask for one; a second would be another reply.
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            for piece in [choice.delta, choice.message].into_iter().flatten() {
                self.piece(piece, out);
            }
            usage = usage.or(choice.usage);
            self.finish_reason(choice.finish_reason.as_str())?;
        }
        if let Some(usage) = usage.map(|usage| usage.normal())
            && usage != self.usage
        {
            self.usage = usage;
            out.push(Delta::Usage(usage));
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece<'_>, out: &mut Vec<Delta>) {
        self.reasoning.text("reasoning_content", piece.reasoning_content.as_str(), out);
        self.reasoning.text("reasoning", piece.reasoning.as_str(), out);
        if let Some(details) = piece.reasoning_details {
            self.reasoning.details(details, out);
        }
        if let Some(extra) = piece.extra_content {
            self.reasoning.extra(extra);
        }
        if !piece.refusal.is_empty() {
            self.refused = true;
            self.spoke = true;
            out.push(Delta::Text(piece.refusal.into_owned()));
        }
        if !piece.content.is_empty() {
            self.spoke = true;
            self.words.push(piece.content.as_str(), out);
        }
        if let Some(parts) = piece.tool_calls {
            self.calls.push(parts, out);
        }
    }

    fn finish_reason(&mut self, reason: &str) -> Result<(), Failure> {
        let finish = match reason.to_ascii_lowercase().as_str() {
            "" | "null" => return Ok(()),
            "stop" | "tool_calls" | "function_call" | "eos" | "end_turn" | "stop_sequence" => Finish::Done,
            "length" | "max_tokens" | "model_length" => Finish::Length,
            "content_filter" | "safety" | "sensitive" => Finish::Filtered,
            // DeepSeek: its servers ran out in the middle of the reply.
            "insufficient_system_resource" => {
                return Err(Failure::new(ModelErrorKind::Overloaded, format!("the reply ended early: {reason}")));
            }
            // OpenRouter and vLLM: the error itself came before or not at all.
            "error" | "abort" => return Err(cut("the server broke off the reply")),
            _ => Finish::Unknown,
        };
        // A later word of a chunk that repeats the end must not make a cut reply whole.
        self.finish.get_or_insert(finish);
        Ok(())
    }

    /// The reply is over: what was held back, then why it ended.
    fn close(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        // `[DONE]` alone is an end too, if nothing speaks against it.
        if self.finish.is_none() && !(self.calls.are_complete() && (self.spoke || !self.calls.is_empty())) {
            return Err(cut("the reply ended without a finish reason"));
        }
        self.done = true;
        let has_calls = !self.calls.is_empty();
        let written = self.words.finish(!has_calls, out);
        let tool = has_calls || !written.is_empty();
        self.reasoning.finish(&self.name, out);
        self.calls.finish(self.finish == Some(Finish::Length), &self.name, out);
        for (at, call) in written.into_iter().enumerate() {
            out.push(Delta::Call(ToolCall::new(format!("call_{}", at + 1), call.name, call.args)));
        }
        let stop = match self.finish {
            Some(Finish::Length) => StopKind::Length,
            Some(Finish::Filtered) => StopKind::Filtered,
            Some(Finish::Done | Finish::Unknown) | None if tool => StopKind::Tool,
            Some(Finish::Done) | None if self.refused => StopKind::Refusal,
            Some(Finish::Done) | None => StopKind::End,
            // Not known to be a good end: better asked to go on than taken for an answer.
            Some(Finish::Unknown) => StopKind::StreamCut,
        };
        out.push(Delta::Stop(stop));
        Ok(())
    }
}

fn cut(message: &str) -> Failure {
    Failure::new(ModelErrorKind::Cut, message)
}
