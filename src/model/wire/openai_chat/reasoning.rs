//! Reasoning in Chat Completions: three fields that no standard names, and how they go back.
//!
//! What a model reasoned is kept as the message's fields, as they came: `reasoning_content` (DeepSeek, Kimi, Qwen),
//! `reasoning` (vLLM, Ollama, OpenRouter), `reasoning_details` (OpenRouter: signed pieces that must come back whole)
//! and a message's `extra_content` (Gemini's signature of a text).

use crate::model::{Block, Delta, Message, Opaque};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

const FIELDS: [&str; 4] = ["reasoning_content", "reasoning", "reasoning_details", "extra_content"];

/// Reasoning of one reply as it streams.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// The field that the text comes in.
    field: &'static str,
    text: String,
    details: Vec<Value>,
    extra: Option<Value>,
}

impl Reasoning {
    /// More text. Some servers send the same in both fields: the first that speaks is the one that counts.
    pub(super) fn text(&mut self, field: &'static str, text: &str, out: &mut Vec<Delta>) {
        if text.is_empty() || !(self.field.is_empty() || self.field == field) {
            return;
        }
        self.field = field;
        self.text.push_str(text);
        out.push(Delta::Partial(text.to_string()));
    }

    /// More pieces. Text and signature of a piece come in several, told apart by `index`; encrypted pieces come whole.
    pub(super) fn details(&mut self, raw: &RawValue, out: &mut Vec<Delta>) {
        let Ok(pieces) = serde_json::from_str::<Vec<Map<String, Value>>>(raw.get()) else { return };
        for piece in pieces {
            // OpenRouter sends the words beside in `reasoning`; without that they show here that the model is at work.
            if self.field.is_empty()
                && let Some(Value::String(text)) = piece.get("text").or_else(|| piece.get("summary"))
                && !text.is_empty()
            {
                out.push(Delta::Partial(text.clone()));
            }
            match self.details.last_mut() {
                Some(Value::Object(last)) if continues(last, &piece) => join(last, piece),
                Some(_) | None => self.details.push(Value::Object(piece)),
            }
        }
    }

    /// The message's own extra content; the last one counts.
    pub(super) fn extra(&mut self, raw: &RawValue) {
        if let Ok(value) = serde_json::from_str(raw.get()) {
            self.extra = Some(value);
        }
    }

    /// The block to keep, if there is any.
    pub(super) fn finish(&mut self, model: &Arc<str>, out: &mut Vec<Delta>) {
        let mut fields = Map::new();
        if !self.details.is_empty() {
            fields.insert("reasoning_details".into(), std::mem::take(&mut self.details).into());
        } else if !self.text.is_empty() {
            fields.insert(self.field.into(), std::mem::take(&mut self.text).into());
        }
        if let Some(extra) = self.extra.take() {
            fields.insert("extra_content".into(), extra);
        }
        if !fields.is_empty() {
            out.push(Delta::Thinking(Opaque { model: model.to_string(), value: Value::Object(fields) }));
        }
    }
}

/// Whether a piece carries on the one before it.
fn continues(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let same = |key: &str| last.get(key) == piece.get(key);
    let encrypted = piece.get("type").and_then(Value::as_str) == Some("reasoning.encrypted");
    same("type") && same("index") && !encrypted
}

fn join(last: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (key, value) in piece {
        match (key.as_str(), last.get_mut(&key), value) {
            (_, _, Value::Null) => {}
            ("text" | "summary", Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
            (_, _, value) => {
                last.insert(key, value);
            }
        }
    }
}

/// Puts the reasoning that `model` made in this message back into its fields.
pub(super) fn echo(message: &Message, model: &str, out: &mut Map<String, Value>) {
    for block in &message.blocks {
        let Block::Thinking(opaque) = block else { continue };
        if opaque.model != model {
            continue;
        }
        for field in FIELDS {
            let Some(value) = opaque.value.get(field) else { continue };
            match (out.get_mut(field), value) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                (Some(Value::Array(list)), Value::Array(more)) => list.extend(more.iter().cloned()),
                (_, value) => {
                    out.insert(field.into(), value.clone());
                }
            }
        }
    }
}
