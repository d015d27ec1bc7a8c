//! A provider as it is configured: where it is, how it is spoken to, with which key and how fast.

use crate::model::wire::Protocol;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A provider of models.
#[derive(Clone, Debug)]
pub struct Provider {
    /// As in `provider/model`.
    pub name: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// As the user wrote it: with or without slash and version.
    pub base_url: String,
    /// How we say who we are.
    pub auth: Auth,
    /// Further headers.
    pub headers: Vec<(String, Secret)>,
    /// Streams that may be open at once.
    pub streams: usize,
    /// Requests per minute, where the user limits them.
    pub rpm: Option<u32>,
    /// Tokens per minute, where the user limits them.
    pub tpm: Option<u64>,
    /// How long a stream may go without content, where it is not the run's.
    pub idle_timeout: Option<Duration>,
    /// How tools are offered.
    pub tool_mode: ToolMode,
}

/// How we say who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Not at all: a local server.
    None,
    /// With a key.
    Key {
        /// The key, trimmed.
        key: Secret,
        /// Where it goes.
        header: AuthHeader,
        /// The variable that it came from, for messages.
        variable: String,
    },
}

/// Where a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthHeader {
    /// `x-api-key: KEY`.
    ApiKey,
    /// `authorization: Bearer KEY`.
    Bearer,
}

/// How tools are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolMode {
    /// By the protocol; by JSON Schema once the backend has refused tools.
    #[default]
    Auto,
    /// Only by the protocol.
    Native,
    /// The reply is a JSON object that holds either tool calls or the final answer.
    JsonSchema,
}

/// Text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Hides this text from `Debug`. Blanks and line ends around it are taken off: they come from files and shells.
    pub fn new(text: &str) -> Self {
        Secret(text.trim().into())
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
