//! Does a conversation get anywhere? Compares each turn's calls and results with all that came before.
//!
//! Pure.

use crate::model::{ToolCall, ToolResult};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What has happened before, to see whether anything new happens.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    seen: HashSet<u64>,
    previous: Option<u64>,
    /// Turns in a row with the same calls and results.
    pub(super) repeats: u32,
    /// Turns in a row that brought nothing new.
    pub(super) idle: u32,
}

impl Progress {
    /// Takes in a turn's calls with their results.
    pub(super) fn note(&mut self, calls: &[(ToolCall, Option<ToolResult>)]) {
        let mut whole = DefaultHasher::new();
        let mut anything_new = false;
        for (call, result) in calls {
            let mut one = DefaultHasher::new();
            (&call.name, call.args.to_string()).hash(&mut one);
            let failed = result.as_ref().is_none_or(|result| {
                (&result.text, result.is_error).hash(&mut one);
                result.is_error
            });
            let fingerprint = one.finish();
            fingerprint.hash(&mut whole);
            anything_new |= self.seen.insert(fingerprint) && !failed;
        }
        let fingerprint = whole.finish();
        self.repeats = if self.previous == Some(fingerprint) { self.repeats + 1 } else { 1 };
        self.previous = Some(fingerprint);
        self.idle = if anything_new { 0 } else { self.idle + 1 };
    }
}
