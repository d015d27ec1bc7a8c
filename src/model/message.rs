//! The normal form of a conversation: messages of ordered blocks that belong to no provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Reasoning that the provider wants back unchanged with the next request.
    Thinking(Opaque),
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
    /// The arguments: an object in a valid call; the text as it came when that is no JSON.
    pub args: Value,
    /// What the provider wants back with the call (a thought signature), if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Opaque>,
}

impl ToolCall {
    /// A call that carries nothing of its provider.
    pub fn new(id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        ToolCall { id: id.into(), name: name.into(), args, opaque: None }
    }
}

/// A provider's own data, not to be read or altered by us. It goes back only to the model that it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// `provider/model` that made it.
    pub model: String,
    /// As it came.
    pub value: Value,
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
