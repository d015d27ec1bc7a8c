//! `read_file`: numbered lines of one file.
//!
//! The file is streamed: memory is bounded by what is shown, time by byte budgets, whatever the file's size or the
//! length of its lines. What is left out is said in a last line in square brackets.

use super::{Effect, MAX_RESULT, Tool, ToolContext, ToolError, binary, blocking};
use crate::text::{self, plural};
use crate::workspace::{Opened, Place};
use bstr::ByteSlice;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use tokio_util::sync::CancellationToken;

/// Lines shown unless `limit` says otherwise.
const DEFAULT_LIMIT: u64 = 2_000;
/// Characters of a line that are shown.
const MAX_LINE: usize = 2_000;
/// Bytes kept free for the last line in brackets.
const FOOTER: usize = 600;
/// Bytes that are read to reach `offset`.
const SKIP_BUDGET: u64 = 1 << 30;
/// Bytes that are read from there on, for what is shown and for counting the rest.
const READ_BUDGET: u64 = 64 << 20;

/// Reads a file of the workspace.
pub struct ReadFile;

/// What to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path of the file: relative to the workspace root, absolute inside it, or `artifact:NODE/report.md`.
    file_path: String,
    /// First line to show, counted from 1. Default 1.
    #[serde(default)]
    offset: Option<u64>,
    /// Number of lines to show. Default 2000.
    #[serde(default)]
    limit: Option<u64>,
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Reads a text file. Each line comes as its number, a tab and its text. \
        One result holds at most 2000 lines and 30000 bytes; lines over 2000 characters are cut. When something is \
        left out, the last line, in square brackets, says what, and with which `offset` to go on. \
        Use `search_code` first to find the lines worth reading in a long file. Binary files are not shown.";
    const EFFECT: Effect = Effect::Read;
    type Args = Args;

    async fn call(&self, args: Args, context: &ToolContext) -> Result<String, ToolError> {
        let offset = args.offset.unwrap_or(1);
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
        if offset == 0 {
            return Err(ToolError::told("`offset` is 0, but lines are counted from 1"));
        }
        if limit == 0 {
            return Err(ToolError::told("`limit` is 0; leave it out to read up to 2000 lines"));
        }
        let places = context.places.clone();
        let cancel = context.cancel.clone();
        let (place, page) = blocking(&context.cancel, move || {
            let place = places.resolve(&args.file_path)?;
            let page = read(&place, offset, limit, &cancel)?;
            Ok((place, page))
        })
        .await?;
        if let Some((first, last)) = page.shown {
            context.ledger.note_read(&place.shown, first, last);
        }
        Ok(page.text)
    }
}

/// What the model gets, and the lines in it. An empty file has `Some((1, 0))`.
struct Page {
    text: String,
    shown: Option<(u64, u64)>,
}

fn read(place: &Place, offset: u64, limit: u64, cancel: &CancellationToken) -> Result<Page, ToolError> {
    let name = text::clip(&place.shown, 200).into_owned();
    let told = |message: String| Err(ToolError::Told(message));
    let broken = |error: io::Error| ToolError::Told(format!("`{name}` cannot be read: {error}"));
    let (file, size) = match place.open().map_err(broken)? {
        Opened::File(file, size) => (file, size),
        Opened::Folder => return told(format!("`{name}` is a folder; `list_files` shows what is in it")),
        Opened::Special(kind) => return told(format!("`{name}` is a {kind}; only regular files can be read")),
    };
    let mut lines = Lines::new(file, cancel);
    let head = lines.head().map_err(broken)?;
    if let Some(kind) = binary::kind(head) {
        return told(format!("`{name}` is a binary file of {} ({kind}); it is not shown", text::size(size)));
    }
    if head.is_empty() {
        return Ok(Page { text: "[the file is empty]".to_string(), shown: Some((1, 0)) });
    }
    lines.skip(offset - 1, SKIP_BUDGET).map_err(broken)?;
    let mut pager = Pager::default();
    if lines.number == offset - 1 && !lines.inside {
        pager.fill(&mut lines, offset, limit).map_err(broken)?;
    }
    lines.skip(u64::MAX, READ_BUDGET).map_err(broken)?;
    if pager.shown == 0 {
        let has = plural(lines.number as usize, "line");
        return told(if lines.ended {
            format!("`{name}` has {has}, but `offset` is {offset}")
        } else {
            format!("line {offset} is too far into `{name}` ({}); `search_code` looks further", text::size(size))
        });
    }
    let last = offset + pager.shown - 1;
    let footer = pager.footer(offset, last, &lines);
    Ok(Page { text: pager.out + &footer, shown: Some((offset, last)) })
}

/// Collects numbered lines while they fit.
#[derive(Default)]
struct Pager {
    out: String,
    shown: u64,
    /// Lines longer than [`MAX_LINE`].
    cut: u64,
    /// Lines that are not UTF-8.
    invalid: u64,
    /// Lines that end in a carriage return.
    crlf: u64,
}

impl Pager {
    fn fill(&mut self, lines: &mut Lines<'_>, offset: u64, limit: u64) -> io::Result<()> {
        let end = lines.consumed.saturating_add(READ_BUDGET);
        while self.shown < limit {
            let Some(mut line) = lines.next(end)? else { break };
            let crlf = line.rest == 0 && line.held.last() == Some(&b'\r');
            if crlf {
                line.held.pop();
            }
            // A character that was cut where the held bytes end is no fault of the file.
            let invalid = line.held.to_str().is_err_and(|error| line.rest == 0 || error.error_len().is_some());
            let text = line.held.to_str_lossy();
            let (shown, dropped) = match text.char_indices().nth(MAX_LINE) {
                Some((at, _)) => (&text[..at], text[at..].chars().count() as u64 + line.rest),
                None => (&*text, line.rest),
            };
            let mut row = format!("{:>6}\t{}", offset + self.shown, shown.replace('\0', "\\x00"));
            if dropped > 0 {
                row.push_str(&format!("… [{}]", plural(dropped as usize, "more character")));
            }
            row.push('\n');
            if self.out.len() + row.len() > MAX_RESULT - FOOTER {
                break;
            }
            self.out.push_str(&row);
            self.shown += 1;
            self.cut += u64::from(dropped > 0);
            self.invalid += u64::from(invalid);
            self.crlf += u64::from(crlf);
        }
        Ok(())
    }

    /// The last line, in brackets; empty when nothing was left out and nothing is to be said.
    fn footer(&self, first: u64, last: u64, lines: &Lines<'_>) -> String {
        let mut notes = Vec::new();
        let more_below = last < lines.number || !lines.ended;
        if first > 1 || more_below {
            let at_least = if lines.ended { "" } else { "at least " };
            notes.push(format!("lines {first}-{last} of {at_least}{}", lines.number));
        }
        if more_below {
            notes.push(format!("go on with offset={}", last + 1));
        }
        if self.cut > 0 {
            let cut = plural(self.cut as usize, "long line");
            notes.push(format!("{cut} cut at {MAX_LINE} characters; `search_code` shows the text around a match"));
        }
        if self.invalid > 0 {
            notes.push(format!(
                "{} not valid UTF-8, such bytes shown as \u{FFFD}",
                plural(self.invalid as usize, "line")
            ));
        }
        if self.crlf > 0 {
            notes.push(match self.crlf {
                all if all == self.shown => "lines end in CRLF".to_string(),
                1 => "1 line ends in CRLF".to_string(),
                some => format!("{some} lines end in CRLF"),
            });
        }
        if notes.is_empty() { String::new() } else { format!("[{}]", notes.join("; ")) }
    }
}

/// A line without its line feed.
#[derive(Default)]
struct Line {
    /// Its first bytes, enough for [`MAX_LINE`] characters.
    held: Vec<u8>,
    /// Characters after these.
    rest: u64,
}

/// Goes through a file's lines with bounded memory.
struct Lines<'c> {
    reader: BufReader<File>,
    cancel: &'c CancellationToken,
    /// Lines begun so far.
    number: u64,
    /// Bytes read so far.
    consumed: u64,
    /// The last byte read was not a line feed.
    inside: bool,
    /// The file's end was reached.
    ended: bool,
}

impl<'c> Lines<'c> {
    fn new(file: File, cancel: &'c CancellationToken) -> Self {
        let reader = BufReader::with_capacity(64 * 1024, file);
        Lines { reader, cancel, number: 0, consumed: 0, inside: false, ended: false }
    }

    /// The file's first bytes, which stay unread.
    fn head(&mut self) -> io::Result<&[u8]> {
        let head = self.reader.fill_buf()?;
        Ok(&head[..head.len().min(binary::HEAD)])
    }

    /// Goes over `count` lines, or to the end, or until `budget` bytes are read.
    fn skip(&mut self, count: u64, budget: u64) -> io::Result<()> {
        let last = self.number.saturating_add(count);
        let end = self.consumed.saturating_add(budget);
        while (self.inside || self.number < last) && self.consumed < end {
            let (mut number, mut inside, mut taken) = (self.number, self.inside, 0);
            let Some(chunk) = self.chunk()? else { break };
            while taken < chunk.len() && (inside || number < last) {
                number += u64::from(!inside);
                let feed = chunk[taken..].find_byte(b'\n');
                taken = feed.map_or(chunk.len(), |at| taken + at + 1);
                inside = feed.is_none();
            }
            (self.number, self.inside) = (number, inside);
            self.take(taken);
        }
        Ok(())
    }

    /// The next line. `None` at the file's end, or when `end` bytes have been read in all; a line in which that
    /// happens is given as far as it was read.
    fn next(&mut self, end: u64) -> io::Result<Option<Line>> {
        let mut line: Option<Line> = None;
        while self.consumed < end {
            let Some(chunk) = self.chunk()? else { break };
            let feed = chunk.find_byte(b'\n');
            let part = &chunk[..feed.unwrap_or(chunk.len())];
            let begun = line.is_some();
            let line = line.get_or_insert_with(Line::default);
            let (held, rest) = part.split_at(part.len().min(MAX_LINE * 4 - line.held.len()));
            line.held.extend_from_slice(held);
            // Characters are counted by their first bytes.
            line.rest += rest.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
            let taken = part.len() + usize::from(feed.is_some());
            self.take(taken);
            self.number += u64::from(!begun);
            self.inside = feed.is_none();
            if feed.is_some() {
                break;
            }
        }
        Ok(line)
    }

    /// What is buffered, filled anew when empty; `None` at the end.
    fn chunk(&mut self) -> io::Result<Option<&[u8]>> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("interrupted"));
        }
        let chunk = self.reader.fill_buf()?;
        self.ended = chunk.is_empty();
        Ok((!self.ended).then_some(chunk))
    }

    fn take(&mut self, bytes: usize) {
        self.reader.consume(bytes);
        self.consumed += bytes as u64;
    }
}
