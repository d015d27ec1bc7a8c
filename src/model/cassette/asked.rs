//! What a call asks, in a form that is the same on every machine and in every run.

use crate::model::Request;
use crate::redact::Redactor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;

/// Names a part by its content: FNV-1a with 128 bits. Stable in every build, wide enough that two texts of one tape never
/// share it by chance; whoever wants to forge a tape can write any answer into it anyway.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Hash(u128);

impl Hash {
    /// Of a value in canonical form.
    pub(super) fn of(canonical: &Value) -> Self {
        const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = (1 << 88) + 0x13b;
        let bytes = canonical.to_string().into_bytes();
        Hash(bytes.iter().fold(START, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Hash).map_err(serde::de::Error::custom)
    }
}

/// All that decides about an answer. Parts are named by their hash: conversations repeat them with every turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) system: Hash,
    pub(super) tools: Hash,
    pub(super) messages: Vec<Hash>,
    pub(super) max_output: u32,
    pub(super) format: Option<Hash>,
}

/// The parts that hashes name, in canonical form.
pub(super) type Parts = HashMap<Hash, Value>;

impl Asked {
    /// What this request asks of the model, without secrets; its parts go to `part`.
    pub(super) fn of(model: &str, request: &Request, hidden: &Redactor, mut part: impl FnMut(Hash, Value)) -> Self {
        let mut hash = |value: Value| {
            let value = canonical(value, hidden);
            let hash = Hash::of(&value);
            part(hash, value);
            hash
        };
        Asked {
            model: model.to_string(),
            system: hash(json!(&*request.system)),
            tools: hash(json!(&*request.tools)),
            messages: request.messages.iter().map(|message| hash(json!(&**message))).collect(),
            max_output: request.max_output,
            format: request.format.as_ref().map(|format| hash((**format).clone())),
        }
    }

    /// The whole request as one value, to be compared with another.
    pub(super) fn value(&self, parts: &Parts) -> Value {
        let part = |hash: &Hash| parts.get(hash).cloned().unwrap_or_default();
        json!({
            "model": self.model,
            "system": part(&self.system),
            "tools": part(&self.tools),
            "messages": self.messages.iter().map(part).collect::<Vec<_>>(),
            "max_output": self.max_output,
            "format": self.format.as_ref().map(part),
        })
    }

    /// All hashes.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Hash> {
        [&self.system, &self.tools].into_iter().chain(&self.messages).chain(&self.format)
    }

    /// How much of the beginning is the same: more is nearer.
    pub(super) fn shared(&self, other: &Asked) -> usize {
        let same = self.messages.iter().zip(&other.messages).take_while(|(a, b)| a == b).count();
        let frame = [self.model == other.model, self.system == other.system, self.tools == other.tools];
        frame.into_iter().filter(|same| *same).count() + same
    }
}

/// Object keys sorted, secrets hidden in every text.
fn canonical(mut value: Value, hidden: &Redactor) -> Value {
    value.sort_all_objects();
    hide(&mut value, hidden);
    value
}

/// Hides secrets in every text of a value, keys of objects included.
pub(super) fn hide(value: &mut Value, hidden: &Redactor) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(clean) = hidden.text(text) {
                *text = clean;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| hide(value, hidden)),
        Value::Object(object) => {
            if object.keys().any(|key| matches!(hidden.text(key), std::borrow::Cow::Owned(_))) {
                let entries = std::mem::take(object).into_iter();
                *object = entries.map(|(key, value)| (hidden.text(&key).into_owned(), value)).collect();
            }
            object.values_mut().for_each(|value| hide(value, hidden));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
