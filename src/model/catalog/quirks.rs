//! What is special about a model or its server, where the protocol leaves room or is not kept.

use serde::Deserialize;

/// What is special about a model or its server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// How an Anthropic model is told how hard to think.
    pub thinking: ThinkingStyle,
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
    /// The server does not know encrypted reasoning (Responses): asked for it, it answers 400.
    pub no_encrypted_reasoning: bool,
    /// Whether the model can be given tools (Chat Completions).
    pub chat_tools: ChatTools,
}

/// How an Anthropic model is told how hard to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingStyle {
    /// It cannot be told, or nobody knows how.
    #[default]
    None,
    /// With a budget in tokens: `thinking: {type: enabled}`.
    Budget,
    /// It decides by itself, guided by `effort`: `thinking: {type: adaptive}`.
    Adaptive,
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

/// Whether a model can be given tools over Chat Completions. OpenAI ties its newer models' tools to Responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatTools {
    /// Yes.
    #[default]
    Yes,
    /// If no effort is asked for (GPT-5.4, 5.5).
    WithoutEffort,
    /// If it is told not to reason at all (GPT-5.6 and those of GPT-6 that accept that).
    WithoutReasoning,
    /// No: tools need Responses.
    No,
}
