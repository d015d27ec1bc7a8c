//! What a server said went wrong, and when to come back.

use crate::model::ModelErrorKind;
use std::time::Duration;

/// A call that failed, as the provider told it. Not yet in the user's words: those need its name, key and address.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What kind.
    pub kind: ModelErrorKind,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// The server's words or ours, a bounded fragment on one line, without control characters.
    pub message: String,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// What the server wants of a next try.
    pub retry: RetryHint,
}

/// What a server wants of a next try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryHint {
    /// `retry-after-ms`, `retry-after` or a rate-limit header's reset: not before this much time.
    pub after: Option<Duration>,
    /// `x-should-retry`.
    pub should: Option<bool>,
}

/// What the rate-limit headers of an answer say is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateState {
    /// Requests that may still be made.
    pub remaining_requests: Option<u64>,
    /// Tokens that may still be used.
    pub remaining_tokens: Option<u64>,
    /// Time until there is more of what is used up.
    pub reset: Option<Duration>,
}

impl Failure {
    /// A failure that no server spoke of.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Failure { kind, status: None, message: message.into(), request_id: None, retry: RetryHint::default() }
    }
}
