//! The `Model` seam: what a conversation sends and what comes back, in a form that belongs to no provider.
//!
//! A message is an ordered list of blocks. A reply is a stream of [`Delta`]s that ends in [`Delta::Stop`]; an end
//! without it is an error. Two models are built in and need no key and no network: [`Scout`] (rules, not a
//! language model) and [`Scripted`] (replies from a file). What belongs to one provider stays in its file.

pub mod cassette;
pub mod catalog;
mod delta;
mod error;
mod fallback;
mod gate;
pub mod http;
mod json_tools;
mod lines;
mod message;
mod models;
mod reply;
mod scout;
mod scripted;
pub mod trace;
pub mod wire;

pub use delta::{Bill, Cost, Delta, StopKind, Switch, Usage, Wait, WaitCause};
pub use error::{ModelError, ModelErrorKind};
pub use fallback::Fallback;
pub use message::{Block, Message, Opaque, Speaker, ToolCall, ToolResult, ToolSpec};
pub use models::Models;
pub(crate) use models::Naming;
pub(crate) use reply::Incoming;
pub use reply::{Reply, collect};
pub use scout::Scout;
pub use scripted::Scripted;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// One model call.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which conversation asks: a node's full name, or `coordinator`. For scripts, logs and cassettes; not sent.
    pub conversation: String,
    /// Which attempt of the node, from 1; not sent.
    pub attempt: u32,
    /// Which model call of the conversation, from 1; not sent.
    pub turn: u32,
    /// Frozen for the life of the conversation.
    pub system: Arc<str>,
    /// Frozen for the life of the conversation.
    pub tools: Arc<[ToolSpec]>,
    /// Alternating speakers, the user first, every call followed by its results.
    pub messages: Vec<Arc<Message>>,
    /// Tokens that the reply may have at most.
    pub max_output: u32,
    /// The JSON Schema that the reply's text must fit, where the caller wants data instead of words.
    pub format: Option<Arc<Value>>,
}

impl Request {
    /// All text that the model would read, in order: system, then messages. For scripts and tests.
    pub fn text(&self) -> String {
        let mut out = String::from(&*self.system);
        for message in &self.messages {
            for block in &message.blocks {
                out.push('\n');
                match block {
                    Block::Text { text } => out.push_str(text),
                    Block::Thinking { .. } => {}
                    Block::ToolCall(call) => out.push_str(&format!("{} {}", call.name, call.args)),
                    Block::ToolResult(result) => out.push_str(&result.text),
                }
            }
        }
        out
    }
}

/// The stream of one reply.
pub type Deltas = BoxStream<'static, Result<Delta, ModelError>>;

/// Something that answers a conversation.
///
/// Dropping the returned stream cancels the call. A model holds no state of a conversation: everything it needs
/// is in the request.
#[async_trait]
pub trait Model: Send + Sync {
    /// `provider/model`, as the user wrote it.
    fn name(&self) -> &str;

    /// Tokens that a request and its reply may have together.
    fn context_window(&self) -> u64 {
        128_000
    }

    /// Tokens that a reply may have, where the model has a limit of its own.
    fn max_output(&self) -> Option<u32> {
        None
    }

    /// How long a reply may go without content, where it is not the run's to say.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// What users must be told about this model before they trust an answer, if anything.
    fn disclosure(&self) -> Option<&str> {
        None
    }

    /// Starts one call. An error ends it, whether it comes from here or from the stream: whatever can be tried again
    /// has been.
    async fn stream(&self, request: Request) -> Result<Deltas, ModelError>;

    /// What is wrong now that the run has ended by itself: an unused reply of a script. Empty for most models.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}
