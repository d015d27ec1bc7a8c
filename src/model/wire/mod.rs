//! From the normal form to what goes over the wire and back, for three protocols. Pure: bytes and values, no sockets,
//! no clock.
//!
//! ```text
//! Request ── Protocol::encode ──> JSON body                      (one place per protocol that renders a history)
//! bytes ── sse::Parser ──> sse::Event ── Decoder::event ──> Delta…  ── Decoder::end ──> an error without a terminal event
//! status, headers, body ── Failure::read ──> what went wrong, and when to come back
//! ```

mod anthropic;
mod failure;
mod ids;
mod loose;
mod openai;
mod openai_chat;
mod openai_responses;
pub mod sse;

pub use failure::{Failure, RateState, RetryHint};

use super::catalog::Quirks;
use super::{Delta, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions and its many relatives.
    OpenaiChat,
    /// OpenAI's Responses.
    OpenaiResponses,
}

/// How hard a reasoning model should think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all, where that can be said.
    None,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as it can.
    Max,
}

/// The model that a body is written for.
#[derive(Clone, Debug)]
pub struct Target {
    /// `provider/model`: whose opaque blocks may go along.
    pub name: Arc<str>,
    /// As the provider knows it.
    pub model: String,
    /// Tokens that the reply may have: clamped to the model and to what its window leaves.
    pub max_output: u32,
    /// What is special about it.
    pub quirks: Quirks,
    /// How hard to think; `None` leaves it to the model.
    pub effort: Option<Effort>,
    /// Whether to mark what the provider should cache (Anthropic).
    pub cache_marks: bool,
}

impl Protocol {
    /// Where requests go, after the base URL with its version.
    pub fn path(self) -> &'static str {
        match self {
            Protocol::Anthropic => "messages",
            Protocol::OpenaiChat => "chat/completions",
            Protocol::OpenaiResponses => "responses",
        }
    }

    /// The body of a streaming request. The same request and target give the same bytes.
    pub fn encode(self, request: &Request, target: &Target) -> Value {
        match self {
            Protocol::Anthropic => anthropic::encode(request, target),
            Protocol::OpenaiChat => openai_chat::encode(request, target),
            Protocol::OpenaiResponses => openai_responses::encode(request, target),
        }
    }

    /// What reads the reply; `name` is the model that its opaque blocks belong to.
    pub fn decoder(self, name: Arc<str>) -> Decoder {
        match self {
            Protocol::Anthropic => Decoder::Anthropic(anthropic::Decoder::new(name)),
            Protocol::OpenaiChat => Decoder::OpenaiChat(Box::new(openai_chat::Decoder::new(name))),
            Protocol::OpenaiResponses => Decoder::OpenaiResponses(openai_responses::Decoder::new(name)),
        }
    }
}

/// Reads one reply.
#[derive(Debug)]
pub enum Decoder {
    /// Messages.
    Anthropic(anthropic::Decoder),
    /// Chat Completions.
    OpenaiChat(Box<openai_chat::Decoder>),
    /// Responses.
    OpenaiResponses(openai_responses::Decoder),
}

impl Decoder {
    /// Takes in one event of the stream. Deltas go to `out`; after [`Delta::Stop`] nothing more is to be handed in.
    ///
    /// # Errors
    /// An error that the server sent in its 200, or data that is not the protocol.
    pub fn event(&mut self, event: &sse::Event<'_>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match self {
            Decoder::Anthropic(decoder) => decoder.event(event, out),
            Decoder::OpenaiChat(decoder) => decoder.event(event, out),
            Decoder::OpenaiResponses(decoder) => decoder.event(event, out),
        }
    }

    /// Takes in a whole reply: what servers send that do not stream.
    ///
    /// # Errors
    /// As [`Decoder::event`].
    pub fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        match self {
            Decoder::Anthropic(decoder) => decoder.whole(body, out),
            Decoder::OpenaiChat(decoder) => decoder.whole(body, out),
            Decoder::OpenaiResponses(decoder) => decoder.whole(body, out),
        }
    }

    /// The stream has ended: what was held back until now, or why this is no end.
    ///
    /// # Errors
    /// [`ModelErrorKind::Cut`](super::ModelErrorKind::Cut) when there was no terminal event.
    pub fn end(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match self {
            Decoder::Anthropic(decoder) => decoder.end(out),
            Decoder::OpenaiChat(decoder) => decoder.end(out),
            Decoder::OpenaiResponses(decoder) => decoder.end(out),
        }
    }
}
