//! What a search found: everything is counted, the first by path is kept.

use super::{Mode, Query};
use crate::workspace::names;
use crate::workspace::walk::Few;

/// Bytes of a line that are shown; a longer one becomes a snippet around its match.
const MAX_LINE: usize = 400;
/// Of a snippet, bytes before the match.
const LEAD: usize = 120;
/// Matching lines kept of one file among others, so that one file cannot fill the result.
pub(super) const PER_FILE: usize = 50;

/// Why a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// It matches.
    Match,
    /// It stands before a match.
    Before,
    /// It stands after one.
    After,
    /// No line: a gap between groups.
    Break,
}

/// One line to show.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) kind: LineKind,
    pub(super) number: u64,
    pub(super) text: String,
}

/// The matches of one file.
#[derive(Debug, Default)]
pub(super) struct FileHits {
    pub(super) path: String,
    /// Lines that match.
    pub(super) matches: u64,
    /// Those kept, with their context.
    pub(super) lines: Vec<Line>,
    kept: usize,
    closed: bool,
}

impl FileHits {
    /// Whether another match may be kept.
    pub(super) fn has_room(&self, room: usize) -> bool {
        !self.closed && self.kept < room
    }

    /// Keeps a line; `at` finds where the match begins in it, and is asked only when that matters.
    pub(super) fn push(&mut self, kind: LineKind, number: u64, line: &[u8], at: impl FnOnce(&[u8]) -> usize) {
        self.kept += usize::from(kind == LineKind::Match);
        self.lines.push(Line { kind, number, text: snippet(line, at) });
    }

    /// Keeps a line of context, unless nothing more is kept of this file.
    pub(super) fn push_context(&mut self, kind: LineKind, number: u64, line: &[u8]) {
        if !self.closed {
            self.push(kind, number, line, |_| 0);
        }
    }

    /// Keeps nothing more; context of a match that is not kept goes.
    pub(super) fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            while self.lines.last().is_some_and(|line| matches!(line.kind, LineKind::Before | LineKind::Break)) {
                self.lines.pop();
            }
        }
    }
}

/// All that a search found, or one thread's part of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files looked at.
    pub(super) searched: u64,
    /// Files with a match.
    pub(super) files: u64,
    /// Lines that match, shown or not. In mode `files` one per file.
    pub(super) matches: u64,
    /// Files with what is kept of them.
    pub(super) hits: Vec<FileHits>,
    /// Not searched: not text.
    pub(super) binary: Few,
    /// Searched up to a NUL byte; what stands before it was found.
    pub(super) half_searched: Few,
    pub(super) unreadable: Few,
    /// Searched up to a line that is too long to hold in memory.
    pub(super) too_long: Few,
    kept: usize,
    /// In mode `content`: lines of files after this path will not be shown, whatever is still found.
    last: Option<String>,
}

impl Found {
    /// Whether lines of the file at this path may still be shown.
    pub(super) fn wants(&self, path: &str) -> bool {
        self.last.as_deref().is_none_or(|last| path <= last)
    }

    /// Whether some files need not be asked about.
    pub(super) fn is_full(&self) -> bool {
        self.last.is_some()
    }

    /// One more file.
    pub(super) fn add(&mut self, hits: FileHits, query: &Query) {
        self.files += 1;
        self.matches += hits.matches;
        if self.wants(&hits.path) {
            self.kept += hits.kept;
            self.hits.push(hits);
            // Twice the room, so that sorting stays rare.
            if self.kept >= query.max * 2 {
                self.prune(query);
            }
        }
    }

    /// Another thread's part.
    pub(super) fn absorb(&mut self, other: Found) {
        self.searched += other.searched;
        self.files += other.files;
        self.matches += other.matches;
        self.kept += other.kept;
        self.hits.extend(other.hits);
        self.binary.absorb(other.binary);
        self.half_searched.absorb(other.half_searched);
        self.unreadable.absorb(other.unreadable);
        self.too_long.absorb(other.too_long);
    }

    /// Puts what is kept into the order in which it is shown.
    pub(super) fn finish(&mut self, query: &Query) {
        match query.mode {
            Mode::Content => self.prune(query),
            Mode::Files => self.hits.sort_unstable_by(|a, b| a.path.cmp(&b.path)),
            Mode::Count => {
                self.hits.sort_unstable_by(|a, b| b.matches.cmp(&a.matches).then_with(|| a.path.cmp(&b.path)))
            }
        }
    }

    /// Drops what cannot be shown whatever is still found: files after the first `max` kept lines, by path.
    fn prune(&mut self, query: &Query) {
        self.hits.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut lines = 0;
        let full = self.hits.iter().position(|hits| {
            lines += hits.kept;
            lines >= query.max
        });
        if let Some(last) = full {
            self.hits.truncate(last + 1);
            self.kept = lines;
            self.last = self.hits.last().map(|hits| hits.path.clone());
        }
    }
}

/// A line as it is shown: whole when short, else a part around `at`, cut between characters.
fn snippet(line: &[u8], at: impl FnOnce(&[u8]) -> usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE {
        return names::line_text(line).into_owned();
    }
    let inside = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let mut start = at(line).min(line.len()).saturating_sub(LEAD);
    let mut end = (start + MAX_LINE).min(line.len());
    start = start.min(end.saturating_sub(MAX_LINE));
    // At most three bytes of a character follow its first.
    start = (start..start + 4).find(|at| !inside(at)).unwrap_or(start);
    end = (end.saturating_sub(3)..=end).rev().find(|at| !inside(at)).unwrap_or(end);
    let lead = if start > 0 { "…" } else { "" };
    let tail = if end < line.len() { "…" } else { "" };
    let text = names::line_text(line.get(start..end).unwrap_or_default());
    format!("{lead}{text}{tail} [of {} bytes]", line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_becomes_a_snippet_around_its_match() {
        let mut line = "é".repeat(1000);
        let at = line.len();
        line.push_str("KEY");
        line.push_str(&"中".repeat(1000));
        for shift in 0..4 {
            let line = format!("{}{line}\n", "x".repeat(shift));
            let text = snippet(line.as_bytes(), |_| at + shift);
            assert!(text.contains("éKEY中") && text.starts_with('…') && text.ends_with(" bytes]"), "{text}");
            assert!(text.len() < 450 && !text.contains("\\x"), "{text}");
        }
        assert_eq!(snippet(b"short\r\n", |_| 0), "short");
        assert!(snippet(&[b'a'; 401], |_| 400).starts_with("…aaa"));
    }
}
