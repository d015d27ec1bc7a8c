//! Reading a trace back.

use super::{RequestLine, ResponseLine};
use crate::store::{LogWarning, StoreError, in_short, scan_lines};
use indexmap::IndexMap;
use serde::Deserialize;
use std::path::Path;

/// A request with what came back.
#[derive(Clone, Debug)]
pub struct Traced {
    /// As it went out.
    pub request: RequestLine,
    /// As it came; `None` when the trace ends before.
    pub response: Option<ResponseLine>,
}

/// Reads the exchanges of the trace at `path` whose request is wanted, in the order of the requests. What could not be
/// read is left out and told. No more than these and one line is held.
///
/// # Errors
/// When the file cannot be read.
pub fn read_trace(
    path: &Path,
    wanted: impl Fn(&RequestLine) -> bool,
) -> Result<(Vec<Traced>, Vec<LogWarning>), StoreError> {
    let mut found: IndexMap<String, Traced> = IndexMap::new();
    let warnings = scan_lines(path, parse, |line| match line {
        Line::Request(request) if wanted(&request) => {
            found.insert(request.id.clone(), Traced { request: *request, response: None });
        }
        Line::Response(response) => {
            if let Some(traced) = found.get_mut(&response.id) {
                traced.response = Some(*response);
            }
        }
        Line::Request(_) | Line::Other => {}
    })?;
    Ok((found.into_values().collect(), warnings))
}

enum Line {
    Request(Box<RequestLine>),
    Response(Box<ResponseLine>),
    /// Of a kind that another version writes.
    Other,
}

fn parse(line: &[u8]) -> Result<Line, String> {
    // A body that is kept as it came rules out an enum of both.
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type")]
        kind: std::borrow::Cow<'a, str>,
    }
    let broken = |error: serde_json::Error| format!("no line of a trace ({}); left out", in_short(&error));
    match serde_json::from_slice::<Kind<'_>>(line).map_err(broken)?.kind.as_ref() {
        "request" => serde_json::from_slice(line).map(|line| Line::Request(Box::new(line))).map_err(broken),
        "response" => serde_json::from_slice(line).map(|line| Line::Response(Box::new(line))).map_err(broken),
        _ => Ok(Line::Other),
    }
}
