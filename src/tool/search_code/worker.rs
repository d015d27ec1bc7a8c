//! One thread of a search: a searcher, a buffer, and what it found.

use super::hits::{self, FileHits, Found, LineKind};
use super::{Mode, Query};
use crate::tool::binary;
use crate::workspace::{Place, open_no_wait};
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Files up to this size are read whole into a buffer that is used again, and searched as a slice.
const BUFFER: usize = 256 * 1024;
/// A longer line than this ends the search of its file.
const MAX_LINE_HEAP: usize = 64 << 20;

/// One thread's state.
pub(super) struct Worker<'q> {
    query: &'q Query,
    stop: &'q (dyn Fn() -> bool + Sync),
    matcher: RegexMatcher,
    searcher: Searcher,
    /// For files of which no line will be shown: knows no line numbers, no context.
    counter: Searcher,
    buffer: Vec<u8>,
    /// Matching lines kept of one file.
    room: usize,
    pub(super) found: Found,
}

impl<'q> Worker<'q> {
    /// `named`: the one file that is searched was named, so a NUL byte in it does not end the search.
    pub(super) fn new(query: &'q Query, named: bool, stop: &'q (dyn Fn() -> bool + Sync)) -> Self {
        let content = query.mode == Mode::Content;
        let context = if content { query.context } else { 0 };
        let mut builder = SearcherBuilder::new();
        builder
            .line_terminator(query.line_end)
            .line_number(false)
            .heap_limit(Some(MAX_LINE_HEAP))
            .binary_detection(if named { BinaryDetection::convert(0) } else { BinaryDetection::quit(0) });
        let counter = builder.build();
        let searcher = builder.line_number(content).before_context(context).after_context(context).build();
        // A clone has scratch memory of its own; threads that share one wait for each other.
        let matcher = query.matcher.clone();
        let room = if named { query.max } else { query.max.min(hits::PER_FILE) };
        Worker { query, stop, matcher, searcher, counter, buffer: vec![0; BUFFER], room, found: Found::default() }
    }

    /// Searches one file. What cannot be searched is counted, never an error of the whole search.
    pub(super) fn search(&mut self, path: &Path, base: &Place) {
        let name = || base.shown_below(path);
        let shows = self.query.mode == Mode::Content && (!self.found.is_full() || self.found.wants(&name()));
        let searcher = if shows { &mut self.searcher } else { &mut self.counter };
        let mut collector = Collector {
            stop_at_first: self.query.mode == Mode::Files,
            room: if shows { self.room } else { 0 },
            matcher: &self.matcher,
            hits: FileHits::default(),
            skipped: false,
            binary: false,
        };
        let result = open_no_wait(path).and_then(|file| {
            let (head, whole) = read_head(&file, &mut self.buffer)?;
            if binary::magic(head).is_some() {
                collector.skipped = true;
                return Ok(());
            }
            if whole {
                return searcher.search_slice(&self.matcher, head, &mut collector);
            }
            let rest = UntilStopped { file: &file, stop: self.stop };
            searcher.search_reader(&self.matcher, head.chain(rest), &mut collector)
        });
        let Collector { mut hits, skipped, binary, .. } = collector;
        self.found.searched += 1;
        match result {
            // The searcher's own complaint is that a line does not fit in what it may hold.
            Err(error) if error.kind() == io::ErrorKind::Other => self.found.too_long.add(name()),
            Err(_) => self.found.unreadable.add(name()),
            Ok(()) if skipped || (binary && hits.matches == 0) => self.found.binary.add(name()),
            Ok(()) if binary => self.found.half_searched.add(name()),
            Ok(()) => {}
        }
        if hits.matches > 0 {
            hits.path = name();
            self.found.add(hits, self.query);
        }
    }
}

/// Fills the buffer from the file; says whether that was all of it.
fn read_head<'b>(mut file: &File, buffer: &'b mut [u8]) -> io::Result<(&'b [u8], bool)> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => return Ok((&buffer[..filled], true)),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((buffer, false))
}

/// A file that ends when the call is cancelled.
struct UntilStopped<'f> {
    file: &'f File,
    stop: &'f (dyn Fn() -> bool + Sync),
}

impl Read for UntilStopped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() { Ok(0) } else { self.file.read(buffer) }
    }
}

/// Takes down what the searcher finds in one file.
struct Collector<'q> {
    /// One match is enough.
    stop_at_first: bool,
    /// Matching lines that are kept.
    room: usize,
    matcher: &'q RegexMatcher,
    hits: FileHits,
    /// Not searched: its first bytes say that it is no text.
    skipped: bool,
    /// A NUL byte was met.
    binary: bool,
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.hits.matches += 1;
        if self.hits.has_room(self.room) {
            let number = found.line_number().unwrap_or_default();
            let at = |line: &[u8]| self.matcher.find(line).ok().flatten().map_or(0, |at| at.start());
            self.hits.push(LineKind::Match, number, found.bytes(), at);
        } else {
            self.hits.close();
        }
        Ok(!self.stop_at_first)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let kind = match context.kind() {
            SinkContextKind::Before => LineKind::Before,
            SinkContextKind::After | SinkContextKind::Other => LineKind::After,
        };
        self.hits.push_context(kind, context.line_number().unwrap_or_default(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.hits.push_context(LineKind::Break, 0, b"");
        Ok(true)
    }

    fn binary_data(&mut self, searcher: &Searcher, _: u64) -> io::Result<bool> {
        // Where NUL bytes are read as line ends, the search goes on and nothing is missed.
        self.binary = searcher.binary_detection().quit_byte().is_some();
        Ok(true)
    }
}
