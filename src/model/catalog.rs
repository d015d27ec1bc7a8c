//! What is known about models: a data file, and what users say in their config.

use serde::Deserialize;

/// What is special about a model or its server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// How the output limit is called (Chat Completions).
    pub output_limit: OutputLimit,
    /// How effort is asked for (Chat Completions).
    pub effort: EffortStyle,
    /// When reasoning goes back to the model that made it (Chat Completions).
    pub reasoning: ReasoningEcho,
    /// The content of a message that has only calls is null, not an empty string (Chat Completions).
    pub null_content: bool,
    /// The server does not know `stream_options`; usage then comes by itself or not at all.
    pub no_stream_options: bool,
}

/// How Chat Completions calls the limit of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    /// What every server but OpenAI's knows.
    #[default]
    MaxTokens,
    /// What OpenAI's reasoning models insist on.
    MaxCompletionTokens,
}

/// How Chat Completions is asked for effort. Nothing is sent where the user says nothing, except where noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortStyle {
    /// `reasoning_effort: "low"`.
    #[default]
    ReasoningEffort,
    /// `reasoning: {"effort": "low"}` (OpenRouter).
    Reasoning,
    /// `thinking: {"type": "enabled" | "disabled"}` and, when enabled, `reasoning_effort` (DeepSeek).
    ThinkingAndEffort,
    /// `thinking: {"type": "enabled" | "disabled"}` alone (Moonshot: with `reasoning_effort` beside it, 400).
    Thinking,
    /// The same, with `keep: "all"` always sent unless disabled, so that reasoning of earlier turns is read (Kimi K2.6).
    ThinkingKept,
    /// `enable_thinking: true | false` (Qwen).
    EnableThinking,
    /// There is nothing to ask for.
    None,
}

/// When reasoning goes back to the model that made it (Chat Completions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEcho {
    /// With the calls that it led to.
    #[default]
    WithCalls,
    /// With the calls, and a stand-in where a message with calls has none: without the field, 400 (DeepSeek, Kimi).
    Required,
    /// With every message (OpenRouter, Gemini).
    Always,
    /// Never: the server refuses it.
    Never,
}
