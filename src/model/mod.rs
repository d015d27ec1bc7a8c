//! The `Model` seam: what a conversation sends and what comes back, in a form that belongs to no provider.
//!
//! A message is an ordered list of blocks. A reply is a stream of [`Delta`]s that ends in [`Delta::Stop`]; an end
//! without it is an error. Two models are built in and need no key and no network: [`Scout`] (rules, not a
//! language model) and [`Scripted`] (replies from a file). What belongs to one provider stays in its file.

mod models;
mod reply;
mod scout;
mod scripted;

pub use models::Models;
pub(crate) use reply::receive;
pub use reply::{Reply, collect};
pub use scout::Scout;
pub use scripted::Scripted;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The harness: prompts, notes, tool results.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub speaker: Speaker,
    /// In order; never empty in a valid request.
    pub blocks: Vec<Block>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words. Never blank in a valid request.
    Text {
        /// The words.
        text: String,
    },
    /// What the provider wants back unchanged with the next request: opaque to us.
    Thinking {
        /// The provider's own block.
        blob: Value,
    },
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// What the tool gave.
    ToolResult(ToolResult),
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text { text: text.into() }
    }
}

/// A tool call as the model made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in its conversation.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments; an object in a valid call.
    pub args: Value,
}

/// The one result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// What the model reads.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments, type object.
    pub schema: Value,
}

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

/// A piece of a reply as it streams.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// More words.
    Text(String),
    /// A complete provider blob to send back.
    Thinking(Value),
    /// A complete tool call.
    Call(ToolCall),
    /// What the call has cost so far; the last one counts.
    Usage(Usage),
    /// The reply is complete. Nothing follows.
    Stop(StopKind),
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// The model was done.
    End,
    /// It waits for tool results.
    Tool,
    /// Its output limit cut it.
    Length,
    /// It declined.
    Refusal,
    /// The server paused a long turn; send the same again to go on.
    Paused,
    /// The context window is full.
    ContextFull,
    /// A content filter cut it.
    Filtered,
    /// The stream ended without its terminal event.
    StreamCut,
}

/// Tokens of model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were not read from a cache.
    pub input: u64,
    /// Input tokens read from a prompt cache.
    pub cache_read: u64,
    /// Input tokens written to a prompt cache.
    pub cache_write: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Of the output, reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input + self.cache_read + self.cache_write + self.output
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input += other.input;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.reasoning += other.reasoning;
    }
}

/// What kind of thing went wrong with a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// No such model or provider.
    NotFound,
    /// The key is missing or refused.
    Auth,
    /// Too many requests.
    RateLimit,
    /// The server is overloaded or broke.
    Server,
    /// The connection failed or the stream was cut.
    Network,
    /// The request was not accepted.
    InvalidRequest,
    /// The conversation does not fit the model's window.
    ContextFull,
    /// A script does not match what it was asked.
    Script,
}

/// A model call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind.
    pub kind: ModelErrorKind,
    /// A lower-case fragment with the model's name in it.
    pub message: String,
}

impl ModelError {
    /// An error of this kind.
    pub fn new(kind: ModelErrorKind, message: impl fmt::Display) -> Self {
        ModelError { kind, message: message.to_string() }
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

    /// What users must be told about this model before they trust an answer, if anything.
    fn disclosure(&self) -> Option<&str> {
        None
    }

    /// Starts one call. Errors before the first delta come from here, later ones from the stream.
    async fn stream(&self, request: Request) -> Result<Deltas, ModelError>;

    /// What is wrong now that the run has ended by itself: an unused reply of a script. Empty for most models.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}
