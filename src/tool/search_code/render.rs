//! What a search found, as the model reads it.

use super::hits::{FileHits, Found, LineKind};
use super::{Mode, Query};
use crate::text::{self, plural};
use crate::tool::MAX_RESULT;
use crate::workspace::Place;
use crate::workspace::walk::Few;

/// Bytes kept free for the last line in brackets.
const FOOTER: usize = 2_500;
/// Entries that the rules leave out which are named when nothing was found.
const MAX_NAMED: usize = 6;
/// What makes a pattern more than text.
const OPERATORS: &str = "()[]{}*+?|^$\\";

/// All that there is to say.
pub(super) struct Outcome<'s> {
    pub(super) found: Found,
    pub(super) base: &'s Place,
    pub(super) links: Few,
    /// Entries that are hidden or ignored; only filled when nothing was found.
    pub(super) left_out: Vec<String>,
    /// The path itself is hidden or ignored.
    pub(super) rules_lifted: bool,
}

/// The result's text.
pub(super) fn render(query: &Query, outcome: &Outcome<'_>) -> String {
    let mut page = Page { out: String::new(), matches: 0, files: 0 };
    for hits in &outcome.found.hits {
        let fits = match query.mode {
            Mode::Content => page.group(hits, query.max),
            Mode::Files => page.files < query.max && page.file(&hits.path),
            Mode::Count => page.files < query.max && page.file(&format!("{}: {}", hits.path, hits.matches)),
        };
        if !fits {
            break;
        }
    }
    let notes = if outcome.found.files == 0 { nothing(query, outcome) } else { page.summary(query, &outcome.found) };
    let notes = [notes, left_out(query, outcome)].concat();
    page.out + &format!("[{}]", notes.join("; "))
}

/// Text that grows by whole lines and never over its bound.
struct Page {
    out: String,
    matches: u64,
    files: usize,
}

impl Page {
    fn row(&mut self, row: &str) -> bool {
        let fits = self.out.len() + row.len() + 1 + FOOTER <= MAX_RESULT;
        if fits {
            self.out.push_str(row);
            self.out.push('\n');
        }
        fits
    }

    /// One file in one row.
    fn file(&mut self, row: &str) -> bool {
        let fits = self.row(row);
        self.files += usize::from(fits);
        fits
    }

    /// One file: its path, its lines, a blank line. Says whether there is room for another.
    fn group(&mut self, hits: &FileHits, max: usize) -> bool {
        let start = self.out.len();
        let mut shown = 0;
        let mut room = self.row(&hits.path);
        let mut rows = String::new();
        for line in &hits.lines {
            if !room || (line.kind == LineKind::Match && self.matches as usize + shown >= max) {
                room = false;
                break;
            }
            let row = match line.kind {
                LineKind::Match => format!("{}:{}", line.number, line.text),
                LineKind::Before | LineKind::After => format!("{}-{}", line.number, line.text),
                LineKind::Break => "--".to_string(),
            };
            // Lines before a match wait for it: without it they say nothing.
            rows.push_str(&row);
            match line.kind {
                LineKind::Before | LineKind::Break => rows.push('\n'),
                LineKind::Match | LineKind::After => {
                    room = self.row(&rows);
                    rows.clear();
                    shown += usize::from(room && line.kind == LineKind::Match);
                }
            }
        }
        if shown == 0 {
            self.out.truncate(start);
            return false;
        }
        self.files += 1;
        self.matches += shown as u64;
        let more = hits.matches - shown as u64;
        if more > 0 {
            // Room for this and the blank line is part of what is kept for the footer.
            self.out.push_str(&format!("[{more} more in this file]\n"));
        }
        self.out.push('\n');
        room
    }

    /// How much there is, and how much of it was shown.
    fn summary(&self, query: &Query, found: &Found) -> Vec<String> {
        let files = plural(found.files as usize, "file");
        match query.mode {
            Mode::Content => {
                let total = format!("{} in {files}", matches(found.matches));
                if self.matches == found.matches {
                    return vec![total];
                }
                vec![
                    format!("{total}; {} shown, from the first {}", self.matches, plural(self.files, "file")),
                    "mode `count` shows where they are; narrow `pattern`, `path` or `file_glob`".to_string(),
                ]
            }
            Mode::Files | Mode::Count => {
                let mut notes = vec![match query.mode {
                    Mode::Count => format!("{} in {files}", matches(found.matches)),
                    Mode::Files | Mode::Content => files,
                }];
                if (self.files as u64) < found.files {
                    notes.push(format!("{} shown; narrow `pattern`, `path` or `file_glob`", self.files));
                }
                notes
            }
        }
    }
}

fn matches(count: u64) -> String {
    if count == 1 { "1 match".to_string() } else { format!("{count} matches") }
}

/// Nothing was found: in how many files, and what may be the reason.
fn nothing(query: &Query, outcome: &Outcome<'_>) -> Vec<String> {
    let searched = outcome.found.searched;
    let place = text::clip(&outcome.base.shown, 200);
    let mut notes = Vec::new();
    if searched > 0 {
        notes.push(format!("no matches in {} under `{place}`", plural(searched as usize, "file")));
    } else if query.glob.is_some() {
        notes.push(format!("no file under `{place}` matches `file_glob`, so nothing was searched"));
    } else {
        notes.push(format!("`{place}` has no files to search"));
    }
    if searched > 0 && !query.literal && query.pattern.contains(|c| OPERATORS.contains(c)) {
        notes.push("`pattern` was read as a regular expression; `literal: true` takes it as it stands".to_string());
    }
    notes
}

/// What was not searched, and why.
fn left_out(query: &Query, outcome: &Outcome<'_>) -> Vec<String> {
    let found = &outcome.found;
    let mut notes = Vec::new();
    let mut note = |few: &Few, one: &str, many: &str| {
        if few.count > 0 {
            notes.push(format!("{} {}: {}", few.count, if few.count == 1 { one } else { many }, few.names()));
        }
    };
    note(&found.binary, "binary file not searched", "binary files not searched");
    note(&found.half_searched, "file searched up to a NUL byte", "files searched up to a NUL byte");
    note(&found.unreadable, "entry not readable", "entries not readable");
    note(&found.too_long, "file searched up to a line over 64 MiB", "files searched up to a line over 64 MiB");
    if query.glob.is_none() {
        note(&outcome.links, "link not followed", "links not followed");
    }
    if outcome.rules_lifted {
        notes.push(format!("`{}` is hidden or ignored, so everything in it was searched", outcome.base.shown));
    }
    if !outcome.left_out.is_empty() {
        let named: Vec<String> =
            outcome.left_out.iter().take(MAX_NAMED).map(|name| format!("`{}`", text::clip(name, 120))).collect();
        let more = if outcome.left_out.len() > MAX_NAMED { ", …" } else { "" };
        notes.push(format!("hidden or ignored, so not searched: {}{more}", named.join(", ")));
    }
    notes
}
