//! Puts tool calls together from their fragments.
//!
//! By the standard the first fragment of a call has `index`, `id` and `name`, and later ones only `index` and more
//! arguments. Servers leave out each of these, repeat it or send it empty, number all calls 0, make a new id for every
//! fragment, or send arguments as an object. What is sure whatever they do: a call has one name, and its arguments are
//! one JSON object.

use super::super::openai::parse_arguments;
use super::chunk::CallPart;
use crate::model::{Delta, Opaque, ToolCall};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::sync::Arc;

/// The calls of one reply, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<Open>,
}

#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: String,
    name: String,
    args: String,
    extra: Option<Value>,
}

impl Open {
    /// Whether the arguments are a whole JSON value: nothing of the same call can follow.
    fn is_complete(&self) -> bool {
        !self.args.trim().is_empty() && serde_json::from_str::<IgnoredAny>(&self.args).is_ok()
    }
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.open.iter().all(Open::is_blank)
    }

    /// Takes in the fragments of one chunk.
    pub(super) fn push(&mut self, parts: Vec<CallPart<'_>>, out: &mut Vec<Delta>) {
        for (position, part) in parts.into_iter().enumerate() {
            let name = part.function.as_ref().map_or("", |function| function.name.as_str().trim());
            let args = part.function.as_ref().and_then(|function| function.arguments).map(argument_text);
            let args = args.as_deref().unwrap_or("");
            let at = self.place(&part, position, name, args);
            let Some(open) = self.open.get_mut(at) else { continue };
            if open.id.is_empty() && !part.id.is_empty() {
                open.id = part.id.as_str().to_string();
            }
            if open.name.is_empty() {
                open.name = name.to_string();
            }
            if let Some(extra) = part.extra_content {
                open.extra = serde_json::from_str(extra.get()).ok();
            }
            if !args.is_empty() {
                open.args.push_str(args);
                out.push(Delta::Partial(args.to_string()));
            }
        }
    }

    /// Which call a fragment belongs to; opens one where it is a new one's.
    fn place(&mut self, part: &CallPart<'_>, position: usize, name: &str, args: &str) -> usize {
        let same_id = |open: &Open| !part.id.is_empty() && open.id == part.id.as_str();
        let found = match part.index {
            // The last with this index: where all calls have the same, that is the open one.
            Some(_) => self.open.iter().rposition(|open| open.index == part.index),
            // A server that numbers nothing sends no two fragments of one call in the same chunk.
            None if position > 0 && !name.is_empty() => None,
            None => self.open.iter().rposition(same_id).or(self.open.len().checked_sub(1)),
        };
        match found.and_then(|at| self.open.get(at).map(|open| (at, open))) {
            Some((at, open)) if !open.is_followed_by(part.id.as_str(), name, args) => at,
            Some(_) | None => {
                self.open.push(Open { index: part.index, ..Open::default() });
                self.open.len() - 1
            }
        }
    }

    /// Emits the calls. `cut`: the output limit ended the reply, so that the last call may lack its end.
    pub(super) fn finish(&mut self, cut: bool, model: &Arc<str>, out: &mut Vec<Delta>) {
        let mut calls: Vec<Open> = std::mem::take(&mut self.open);
        calls.retain(|open| !open.is_blank());
        let last = calls.len().saturating_sub(1);
        let mut ids = HashSet::new();
        for (at, open) in calls.into_iter().enumerate() {
            let mut id = open.id;
            if id.is_empty() || !ids.insert(id.clone()) {
                id = format!("call_{}", at + 1);
                ids.insert(id.clone());
            }
            let args = parse_arguments(&open.args, cut && at == last);
            let opaque = open.extra.map(|value| Opaque { model: model.to_string(), value });
            out.push(Delta::Call(ToolCall { id, name: open.name, args, opaque }));
        }
    }

    /// Whether every call is whole.
    pub(super) fn are_complete(&self) -> bool {
        self.open.iter().all(|open| open.is_blank() || open.args.trim().is_empty() || open.is_complete())
    }
}

impl Open {
    /// Nothing but a number and perhaps a signature: no call.
    fn is_blank(&self) -> bool {
        self.name.is_empty() && self.args.is_empty()
    }

    /// Whether a fragment with this call's place begins another call.
    fn is_followed_by(&self, id: &str, name: &str, args: &str) -> bool {
        // A later fragment repeats a name or has none; a first one has one.
        if name.is_empty() || self.name.is_empty() {
            return false;
        }
        let other_id = !id.is_empty() && !self.id.is_empty() && id != self.id;
        if other_id {
            // The same name under a new id in the middle of the arguments: a server that makes ids as it goes.
            return self.args.is_empty() || name != self.name || self.is_complete();
        }
        let nameless = id.is_empty() || self.id.is_empty();
        (nameless && name != self.name) || (args.trim_start().starts_with('{') && self.is_complete())
    }
}

/// Arguments as JSON text: what the string holds, or the object as it stands.
fn argument_text(raw: &RawValue) -> std::borrow::Cow<'_, str> {
    if raw.get().starts_with('"')
        && let Ok(text) = serde_json::from_str::<String>(raw.get())
    {
        return text.into();
    }
    raw.get().into()
}
