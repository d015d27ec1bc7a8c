//! A chunk of Chat Completions, and the whole reply, as far as we read them.

use super::super::loose::{Text, count};
use crate::model;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A chunk of the stream, or the whole reply: there the choices have a `message` instead of a `delta`.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    /// Null in vLLM's usage chunk, empty in OpenAI's.
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    /// An error after the 200.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// `error` where the chunk itself is the error (vLLM).
    #[serde(borrow, default)]
    pub(super) object: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default, deserialize_with = "count")]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Piece<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Piece<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
    /// Moonshot's place for it.
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

/// What a chunk adds to the message, or the message.
#[derive(Debug, Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(borrow, default)]
    pub(super) content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) extra_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallPart<'a>>>,
}

/// A fragment of a tool call.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CallPart<'a> {
    #[serde(default, deserialize_with = "count")]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
    /// Gemini's thought signature.
    #[serde(borrow, default)]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// A string with JSON in it; from some servers the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// Tokens, with the fields of everyone who reports cached ones elsewhere.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default, deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    total_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek.
    #[serde(default, deserialize_with = "count")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot.
    #[serde(default, deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "count")]
    cached_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_write_tokens: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "count")]
    reasoning_tokens: Option<u64>,
}

impl Usage {
    /// In the normal form. `prompt_tokens` holds the cached ones too. Gemini leaves reasoning out of
    /// `completion_tokens` but not out of the total.
    pub(super) fn normal(&self) -> model::Usage {
        let prompt = self.prompt_tokens.unwrap_or(0);
        let details = self.prompt_tokens_details.as_ref();
        let cache_read = details
            .and_then(|details| details.cached_tokens)
            .or(self.prompt_cache_hit_tokens)
            .or(self.cached_tokens)
            .unwrap_or(0);
        let cache_write = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
        let beyond_prompt = self.total_tokens.unwrap_or(0).saturating_sub(prompt);
        let reasoning = self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        model::Usage {
            input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
            cache_read,
            cache_write,
            output: self.completion_tokens.unwrap_or(0).max(beyond_prompt),
            reasoning: reasoning.unwrap_or(0),
        }
    }
}
