//! What a conversation has been shown: files with line ranges, and searches. The runtime's own facts.

use dashmap::DashMap;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines of a file that an attempt was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRead {
    /// Relative to the workspace.
    pub path: String,
    /// Disjoint, ascending, 1-based and inclusive.
    pub lines: Vec<(u64, u64)>,
}

/// A search that an attempt made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searched {
    /// The pattern.
    pub pattern: String,
    /// Where, relative to the workspace; `.` for all of it.
    pub path: String,
    /// Files with a match.
    pub files: u64,
}

/// Files and ranges read and searches made by one conversation. Tool calls of one turn write to it at once.
#[derive(Debug, Default)]
pub struct Ledger {
    read: DashMap<String, Vec<(u64, u64)>>,
    searched: DashMap<u64, Searched>,
    searches: AtomicU64,
}

impl Ledger {
    /// Lines `first` to `last` (1-based, inclusive) of the file at `path` (relative to the workspace, or `artifact:…`)
    /// were shown. An empty file counts as read with `last` 0.
    pub fn note_read(&self, path: &str, first: u64, last: u64) {
        self.read.entry(path.to_string()).or_default().push((first, last));
    }

    /// A search was made.
    pub fn note_search(&self, search: Searched) {
        let at = self.searches.fetch_add(1, Ordering::Relaxed);
        self.searched.insert(at, search);
    }

    /// Files read with their ranges merged, sorted by path.
    pub fn read(&self) -> Vec<FileRead> {
        let mut files: Vec<FileRead> = self
            .read
            .iter()
            .map(|entry| FileRead { path: entry.key().clone(), lines: merge_ranges(entry.value()) })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// Searches made, sorted, without repeats: calls of one turn run at once, so their order means nothing.
    pub fn searched(&self) -> Vec<Searched> {
        let mut searches: Vec<Searched> = self.searched.iter().map(|entry| entry.value().clone()).collect();
        searches.sort_by(|a, b| (&a.path, &a.pattern).cmp(&(&b.path, &b.pattern)));
        searches.dedup();
        searches
    }
}

/// Sorts ranges and joins those that touch or overlap.
fn merge_ranges(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (first, last) in sorted {
        match merged.last_mut() {
            Some(previous) if first <= previous.1 + 1 => previous.1 = previous.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let ledger = Ledger::default();
        for (first, last) in [(10, 20), (1, 5), (6, 8), (15, 30)] {
            ledger.note_read("b.rs", first, last);
        }
        ledger.note_read("a.rs", 1, 1);
        let read = ledger.read();
        assert_eq!(read[0].path, "a.rs");
        assert_eq!(read[1].lines, vec![(1, 8), (10, 30)]);
    }
}
