//! What goes over the wire, as it went: one line of JSON per request and one per response, without secrets.
//!
//! ```text
//! HttpTrace::request ──> Exchange ── answered ── chunk … ── end      (dropped before: the call was given up)
//!        │                                                   │
//!        └── {"type":"request", …}                           └── {"type":"response", …}     one writer thread
//! ```
//!
//! Writing blocks nobody and its failure ends nothing: [`HttpTrace::finish`] tells it once. [`read_trace`] reads the file
//! back. What differs between two requests is [`first_difference`]'s to say.

mod difference;
mod exchange;
mod read;
mod reply;

pub use difference::{Difference, first_difference};
pub use exchange::Exchange;
pub use read::{Traced, read_trace};
pub use reply::reply_of;

use super::lines::{Access, Lines};
use super::wire::Protocol;
use crate::event::Timestamp;
use crate::redact::{HIDDEN, Redactor};
use crate::store::push_line;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The trace's name in a run directory.
pub const TRACE_FILE: &str = "http.jsonl";

/// Bytes of lines that may wait for the disk.
const ROOM: usize = 64 << 20;

/// Request headers whose value is shown. All others may be a key: providers and gateways have many names for theirs.
const SHOWN: [&str; 9] = [
    "accept",
    "accept-encoding",
    "anthropic-beta",
    "anthropic-version",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "user-agent",
];

/// Response headers whose value is hidden. All others help to find out what happened.
const HIDDEN_ANSWERS: [&str; 7] =
    ["api-key", "authorization", "cookie", "proxy-authorization", "set-cookie", "set-cookie2", "x-api-key"];

/// Whose request it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// A node's full name, or `coordinator`.
    pub conversation: String,
    /// Which attempt of the node.
    pub attempt: u32,
    /// Which model call of the conversation, from 1.
    pub turn: u32,
    /// Which try of the call, from 1.
    pub try_number: u32,
    /// The provider's name.
    pub provider: String,
    /// `provider/model`.
    pub model: String,
    /// How the provider is spoken to.
    pub protocol: Protocol,
}

/// Headers in order. One that comes twice has its values joined by a comma.
pub type Headers = IndexMap<String, String>;

/// A request as it went out. A line of the trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename = "request")]
pub struct RequestLine {
    /// Unique in the file.
    pub id: String,
    /// When it went out.
    pub at: Timestamp,
    /// A node's full name, or `coordinator`.
    pub conversation: String,
    /// Which attempt of the node.
    pub attempt: u32,
    /// Which model call of the conversation, from 1.
    pub turn: u32,
    /// Which try of the call, from 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    /// The provider's name.
    pub provider: String,
    /// `provider/model`.
    pub model: String,
    /// How the provider is spoken to.
    pub protocol: Protocol,
    /// Where it went.
    pub url: String,
    /// Secrets are `***`.
    pub headers: Headers,
    /// Byte for byte as it went out, secrets aside.
    pub body: Box<RawValue>,
}

/// What came back. A line of the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "response")]
pub struct ResponseLine {
    /// The request's.
    pub id: String,
    /// When it was over.
    pub at: Timestamp,
    /// HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// The provider's own id of the request.
    pub request_id: Option<String>,
    /// Secrets are `***`.
    pub headers: Headers,
    /// As text; of a long one the beginning and the end, with a line between them that says so.
    pub body: String,
    /// Bytes of the body as they came.
    pub bytes: u64,
    /// Of these, how many are left out.
    pub left_out: u64,
    /// From the request to the end, in milliseconds.
    pub ms: u64,
    /// From the request to the first byte of the body.
    pub first_byte_ms: Option<u64>,
    /// Why there is no whole answer.
    pub problem: Option<String>,
}

/// Where the trace of a run goes.
#[derive(Debug)]
pub struct HttpTrace {
    lines: Lines,
    hidden: Redactor,
    requests: AtomicU64,
}

impl HttpTrace {
    /// Traces into this file, which must not exist; only its owner may read it. `hidden` holds the secrets that are known
    /// beforehand; what a request itself carries as a secret is hidden in it and its response anyway.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub fn to_file(path: &Path, hidden: Redactor) -> io::Result<Arc<Self>> {
        let lines = Lines::create(path, Access::Owner, ROOM)?;
        Ok(Arc::new(HttpTrace { lines, hidden, requests: AtomicU64::new(0) }))
    }

    /// A request goes out, with exactly these headers and this body.
    pub fn request(self: &Arc<Self>, about: &About, url: &str, headers: &[(&str, &str)], body: &Value) -> Exchange {
        let id = (self.requests.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        let shown = |name: &str| SHOWN.contains(&name.to_ascii_lowercase().as_str());
        let secrets = headers.iter().filter(|(name, _)| !shown(name)).flat_map(|(_, value)| in_header(value));
        let hidden = self.hidden.and(secrets);
        let line = RequestLine {
            id: id.clone(),
            at: now(),
            conversation: about.conversation.clone(),
            attempt: about.attempt,
            turn: about.turn,
            try_number: about.try_number,
            provider: about.provider.clone(),
            model: about.model.clone(),
            protocol: about.protocol,
            url: hidden.url(url),
            headers: show_headers(headers.iter().copied(), &hidden, shown),
            body: without_secrets(body, &hidden),
        };
        self.write(&line);
        Exchange::new(Arc::clone(self), id, hidden)
    }

    /// Waits until all lines are on disk, a few seconds at most. What is missing, if anything.
    pub fn finish(&self) -> Option<String> {
        self.lines.finish()
    }

    fn write(&self, line: &impl Serialize) {
        let mut bytes = Vec::new();
        // Plain data: it always has a JSON form.
        if push_line(&mut bytes, line).is_ok() {
            self.lines.push(bytes);
        }
    }
}

/// The value of a header, and each word of it: a key may come after `Bearer`.
fn in_header(value: &str) -> impl Iterator<Item = &str> {
    std::iter::once(value).chain(value.split_whitespace())
}

fn show_headers<'h>(
    headers: impl Iterator<Item = (&'h str, &'h str)>,
    hidden: &Redactor,
    shown: impl Fn(&str) -> bool,
) -> Headers {
    let mut out = Headers::new();
    for (name, value) in headers {
        let value = if shown(name) { hidden.text(value).into_owned() } else { HIDDEN.to_string() };
        match out.get_mut(name) {
            Some(earlier) => earlier.extend([", ", &value]),
            None => {
                out.insert(name.to_string(), value);
            }
        }
    }
    out
}

fn without_secrets(body: &Value, hidden: &Redactor) -> Box<RawValue> {
    let text = hidden.text(&body.to_string()).into_owned();
    // A key of digits alone may stand for a number, and the rest is no JSON then.
    let broken = |_| to_raw_value("left out: without its secrets it is no JSON");
    RawValue::from_string(text).or_else(broken).unwrap_or_default()
}

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

#[cfg(test)]
mod tests;
