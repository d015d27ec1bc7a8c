//! What is known about models: a data file, and what users say in their config.

use serde::Deserialize;

/// What is special about a model or its server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// How an Anthropic model is told how hard to think.
    pub thinking: ThinkingStyle,
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
