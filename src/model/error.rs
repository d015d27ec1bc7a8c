//! What can go wrong with a model call.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of thing went wrong with a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// No such model, provider or address.
    NotFound,
    /// The key is missing or refused.
    Auth,
    /// Money or quota is used up; waiting does not help.
    Quota,
    /// Too many requests.
    RateLimit,
    /// The server has too much to do for everybody.
    Overloaded,
    /// The server broke.
    Server,
    /// The connection failed.
    Network,
    /// Nothing came for too long.
    Silent,
    /// The stream broke after the model had begun to speak.
    Cut,
    /// The request was not accepted.
    InvalidRequest,
    /// The backend has no tool calling.
    NoTools,
    /// What came is not what the protocol says.
    Protocol,
    /// The conversation does not fit the model's window.
    ContextFull,
    /// sortie's own settings forbid the connection.
    Egress,
    /// A script or cassette does not match what it was asked.
    Script,
}

/// A model call that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelError {
    /// What kind.
    pub kind: ModelErrorKind,
    /// A lower-case fragment with the provider's or model's name in it; never holds a key.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
    /// The provider's own id of the request, for its support.
    pub request_id: Option<String>,
}

impl ModelError {
    /// An error of this kind.
    pub fn new(kind: ModelErrorKind, message: impl fmt::Display) -> Self {
        ModelError { kind, message: message.to_string(), hint: String::new(), request_id: None }
    }

    /// The same with a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The same with the provider's id of the request.
    #[must_use]
    pub fn request(mut self, id: Option<String>) -> Self {
        self.request_id = id;
        self
    }
}

impl fmt::Display for ModelError {
    /// All of it on one line: message, request id, next step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(id) = &self.request_id {
            write!(f, " (request {id})")?;
        }
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for ModelError {}
