//! What a server said went wrong, and when to come back.
//!
//! For all three protocols and their relatives at once: the forms of error bodies are mixed anyway, since gateways hand
//! on what others said. `body` finds type, code and words in a body, `kind` judges them, `retry` reads the headers,
//! `fits` the numbers of a request that was too long.

mod body;
mod fits;
mod kind;
mod retry;

pub use retry::RateState;

use super::Protocol;
use crate::model::ModelErrorKind;
use crate::redact::SHORTEST;
use crate::text;
use body::Told;
use serde_json::Value;
use serde_json::error::Category;
use std::time::Duration;

/// Columns of a server's words that are kept.
const WORDS: usize = 400;
/// Letters of a request id that are kept.
const REQUEST_ID: usize = 120;
/// Bytes of a body that are looked at: an error has said what it has to say by then.
const LOOKED_AT: usize = 256 << 10;
/// Letters of a key that do not show what it is.
const HARMLESS: usize = 5;

/// A call that failed, as the provider told it. Not yet in the user's words: those need its name, key and address.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What kind.
    pub kind: ModelErrorKind,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// The server's words or ours, a bounded fragment on one line, without control characters.
    pub message: String,
    /// What to do, where that is known from the failure itself; may be empty.
    pub hint: String,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// What the server wants of a next try.
    pub retry: RetryHint,
    /// Output tokens that would have been taken, where the server's numbers tell: worth one more try with these.
    pub fits_output: Option<u32>,
}

/// What a server wants of a next try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryHint {
    /// `retry-after-ms`, `retry-after` or a rate-limit header's reset: not before this much time. As the server said
    /// it, however long.
    pub after: Option<Duration>,
    /// `x-should-retry`.
    pub should: Option<bool>,
}

impl Failure {
    /// A failure that no server spoke of.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Failure {
            kind,
            status: None,
            message: message.into(),
            hint: String::new(),
            request_id: None,
            retry: RetryHint::default(),
            fits_output: None,
        }
    }

    /// Reads an answer that is no reply: a status other than 2xx, or a 2xx whose body is of another sort.
    ///
    /// `header` gives a header's value by its name in small letters; `now` is the time since the Unix epoch.
    pub fn read<'h>(
        protocol: Protocol,
        status: u16,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
        now: Duration,
    ) -> Self {
        let body = &body[..body.len().min(LOOKED_AT)];
        let mut failure = match serde_json::from_slice::<Value>(body) {
            Ok(body) => Failure::told(Some(status), &Told::read(&body)),
            Err(_) => Failure::not_json(Some(status), body),
        };
        if (300..400).contains(&status) {
            let place = header("location").map(|place| place.split(['?', '#']).next().unwrap_or_default());
            let place = text::one_line(place.unwrap_or("elsewhere"), WORDS);
            failure.kind = ModelErrorKind::NotFound;
            failure.message = format!("redirects to `{place}`");
        }
        if status == 404 && failure.message.is_empty() {
            failure.message = format!("has nothing at `{}`: is the base URL right?", protocol.path());
        } else if failure.message.is_empty() {
            failure.message = format!("answered {status} and did not say why");
        }
        let id = ["request-id", "x-request-id"].into_iter().find_map(header_of(&header));
        failure.request_id = id.map(request_id).or(failure.request_id);
        failure.retry = retry::hint(failure.retry, status, &header, now);
        failure
    }

    /// Reads an error that came after the status 200: the event's data or the `error` in it, JSON or words alone.
    pub fn in_reply(error: &str) -> Self {
        let told = match serde_json::from_str::<Value>(error) {
            Ok(body) => Told::read(&body),
            Err(_) => Told::plain(body::title_or_words(error)),
        };
        let mut failure = Failure::told(told.status(), &told);
        if failure.message.is_empty() {
            failure.message = "the reply told of an error and did not say which".to_string();
        }
        // Nothing went wrong with the HTTP.
        failure.status = None;
        failure
    }

    /// A piece of a reply that is not what the protocol says; `what` it should be, with its article.
    pub(super) fn not_protocol(what: &str, data: &str, error: &serde_json::Error) -> Self {
        if body::is_html(data) {
            return Failure::not_json(None, data.as_bytes());
        }
        let start = text::one_line(&data[..text::floor_boundary(data, 1024)], 80);
        Failure::new(ModelErrorKind::Protocol, format!("sent {what} that cannot be read ({error}): `{start}`"))
    }

    /// A whole reply that is not what the protocol says.
    pub(super) fn no_reply(body: &[u8], error: &serde_json::Error) -> Self {
        match error.classify() {
            Category::Data => Failure::not_protocol("a reply", &String::from_utf8_lossy(body), error),
            Category::Syntax | Category::Eof | Category::Io => Failure::not_json(None, body),
        }
    }

    /// A body that is no JSON: a proxy's page, a wrong address, a plain sentence.
    fn not_json(status: Option<u16>, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(&body[..body.len().min(4096)]);
        let told = Told::plain(body::title_or_words(&body));
        let mut failure = Failure::told(status, &told);
        let success = status.is_none_or(|status| (200..300).contains(&status));
        if body::is_html(&body) {
            let page = if told.message.is_empty() { String::new() } else { format!(" (`{}`)", failure.message) };
            failure.message = format!("answered with HTML{page} instead of JSON");
            // A gateway's page about a server that is down says nothing about the address.
            if status.is_none_or(|status| status < 500) {
                failure.message.push_str(": is the base URL right?");
            }
        } else if success && !told.message.is_empty() {
            failure.message = format!("answered with something that is not JSON: `{}`", failure.message);
        } else if success {
            failure.message = "answered with nothing".to_string();
        }
        if success {
            failure.kind = ModelErrorKind::Protocol;
        }
        failure
    }

    fn told(status: Option<u16>, told: &Told) -> Self {
        Failure {
            kind: kind::of(status, told),
            status,
            message: text::one_line(told.message.trim(), WORDS),
            hint: String::new(),
            request_id: told.request_id.as_deref().map(request_id),
            retry: RetryHint { after: told.retry_after, should: None },
            fits_output: fits::output(&told.message),
        }
    }

    /// Takes this secret out of what is shown, also where the end of a shortened message cuts it.
    pub fn redact(&mut self, secret: &str) {
        for shown in [Some(&mut self.message), self.request_id.as_mut()].into_iter().flatten() {
            redact(shown, secret);
        }
    }
}

fn redact(shown: &mut String, secret: &str) {
    // A word such as `x` or `ollama`, given because some key has to be: hiding it would garble the message.
    if secret.len() < SHORTEST {
        return;
    }
    if shown.contains(secret) {
        *shown = shown.replace(secret, "***");
    }
    let Some(kept) = shown.strip_suffix('…') else { return };
    let starts = secret.char_indices().map(|(at, _)| &secret[..at]).rev();
    if let Some(start) = starts.take_while(|start| start.len() > HARMLESS).find(|start| kept.ends_with(start)) {
        shown.truncate(kept.len() - start.len());
        shown.push_str("***…");
    }
}

fn request_id(id: &str) -> String {
    text::one_line(id.trim(), REQUEST_ID)
}

fn header_of<'h>(header: &impl Fn(&str) -> Option<&'h str>) -> impl Fn(&str) -> Option<&'h str> {
    move |name| header(name).filter(|value| !value.trim().is_empty())
}
