//! Server-sent events: from bytes as they arrive to events.
//!
//! What the `text/event-stream` format of the HTML standard says, apart from the end of a stream (see
//! [`Parser::finish`]). An event that lies within a chunk is lent as it stands there: its bytes are looked at, not
//! copied. Only what a chunk leaves unfinished is kept.

use super::Failure;
use crate::model::ModelErrorKind;
use crate::text;
use bstr::ByteSlice;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::mem;

/// Bytes that one event may have at most: a server must not fill our memory.
pub const MAX_EVENT: usize = 32 << 20;

/// Buffers larger than this are given back once their event is over.
const KEPT: usize = 8 << 10;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'b> {
    /// The `event:` field; empty without one.
    pub name: &'b str,
    /// The `data:` lines, joined by line feeds; never blank.
    pub data: &'b str,
}

/// Reads the events of one stream.
///
/// ```
/// # use sortie::model::wire::{Failure, sse::Parser};
/// let mut parser = Parser::default();
/// let mut seen = Vec::new();
/// for chunk in ["data: {\"a\"", ":1}\r", "\n\r\n"] {
///     parser.push(chunk.as_bytes(), |event| {
///         seen.push(event.data.to_string());
///         Ok(())
///     })?;
/// }
/// assert_eq!(seen, ["{\"a\":1}"]);
/// # Ok::<(), Failure>(())
/// ```
#[derive(Debug)]
pub struct Parser {
    /// A line whose end has not come.
    line: Vec<u8>,
    /// The fields of the event that is being read, as far as they are not lent by the current chunk.
    name: String,
    data: String,
    has_data: bool,
    /// The chunk ended in a carriage return; a line feed that follows belongs to it.
    after_return: bool,
    /// No line has been read: a byte order mark may stand here.
    at_start: bool,
    max_event: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Parser::with_max_event(MAX_EVENT)
    }
}

/// Fields of the event that is being read, lent by the current chunk.
#[derive(Default)]
struct Lent<'c> {
    name: Option<Cow<'c, str>>,
    data: Option<Cow<'c, str>>,
}

impl Parser {
    /// A parser that takes events of at most this many bytes.
    pub fn with_max_event(max_event: usize) -> Self {
        Parser {
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            has_data: false,
            after_return: false,
            at_start: true,
            max_event,
        }
    }

    /// Takes in what has come and hands each event that is complete by it to `each`.
    ///
    /// # Errors
    /// What `each` returns; [`ModelErrorKind::Protocol`] for an event that is too long. The stream is then of no use
    /// any more.
    pub fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(&Event<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rest = chunk;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        let mut lent = Lent::default();
        while let Some(end) = rest.find_byteset(b"\r\n") {
            let (line, ending) = rest.split_at(end);
            rest = match ending {
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
            if self.line.is_empty() {
                self.read(line, &mut lent, &mut each)?;
            } else {
                self.hold(line)?;
                self.read_held(&mut each)?;
            }
        }
        self.keep(lent)?;
        self.hold(rest)
    }

    /// The stream has ended. The standard drops an event without the blank line after it; but there are servers that
    /// leave that line out, or even the line feed before it. So a last event is taken if its data is whole: JSON that
    /// parses, or `[DONE]`. Anything else was cut off.
    ///
    /// # Errors
    /// As [`Parser::push`].
    pub fn finish(&mut self, mut each: impl FnMut(&Event<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        self.read_held(&mut each)?;
        let data = self.data.trim();
        let whole = data == "[DONE]" || serde_json::from_str::<IgnoredAny>(data).is_ok();
        if whole { self.dispatch(&mut Lent::default(), &mut each) } else { Ok(()) }
    }

    /// Reads the line that was kept from earlier chunks.
    fn read_held(&mut self, each: &mut impl FnMut(&Event<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let line = mem::take(&mut self.line);
        if line.is_empty() {
            return Ok(());
        }
        let mut lent = Lent::default();
        self.read(&line, &mut lent, each)?;
        self.keep(lent)?;
        self.line = line;
        self.line.clear();
        self.line.shrink_to(KEPT);
        Ok(())
    }

    /// Reads a line without its end.
    fn read<'c>(
        &mut self,
        line: &'c [u8],
        lent: &mut Lent<'c>,
        each: &mut impl FnMut(&Event<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut line = line;
        if mem::take(&mut self.at_start) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(lent, each);
        }
        // A comment is a field without a name.
        let (field, value) = match line.find_byte(b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.add_data(value, lent),
            b"event" => {
                lent.name = Some(decode(value));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_data<'c>(&mut self, value: &'c [u8], lent: &mut Lent<'c>) -> Result<(), Failure> {
        let value = decode(value);
        if !self.has_data && lent.data.is_none() {
            lent.data = Some(value);
            return Ok(());
        }
        self.keep(mem::take(lent))?;
        self.check(self.data.len() + 1 + value.len())?;
        self.data.push('\n');
        self.data.push_str(&value);
        Ok(())
    }

    /// An event is complete. One without data is none.
    fn dispatch(
        &mut self,
        lent: &mut Lent<'_>,
        each: &mut impl FnMut(&Event<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Lent { name, data } = mem::take(lent);
        let event = Event { name: name.as_deref().unwrap_or(&self.name), data: data.as_deref().unwrap_or(&self.data) };
        let done = if event.data.trim_ascii().is_empty() { Ok(()) } else { each(&event) };
        self.name.clear();
        self.data.clear();
        self.data.shrink_to(KEPT);
        self.has_data = false;
        done
    }

    /// Copies what the chunk lends, because the chunk or the line goes away.
    fn keep(&mut self, lent: Lent<'_>) -> Result<(), Failure> {
        if let Some(name) = lent.name {
            self.name.clear();
            self.name.push_str(&name);
        }
        if let Some(data) = lent.data {
            self.check(data.len())?;
            self.data.clear();
            self.data.push_str(&data);
            self.has_data = true;
        }
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.check(self.data.len() + self.line.len() + bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn check(&self, bytes: usize) -> Result<(), Failure> {
        if bytes <= self.max_event {
            return Ok(());
        }
        let most = text::size(self.max_event as u64);
        Err(Failure::new(ModelErrorKind::Protocol, format!("sent an event of more than {most}")))
    }
}

/// As the standard wants it: what is no UTF-8 is replaced. A whole line never cuts a character.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    // `from_utf8_lossy` alone is several times slower on valid text.
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Events as name and data.
    type Seen = Vec<(String, String)>;

    fn read(chunks: &[&[u8]]) -> Seen {
        let mut parser = Parser::default();
        let mut seen = Vec::new();
        let mut each = |event: &Event<'_>| {
            seen.push((event.name.to_string(), event.data.to_string()));
            Ok(())
        };
        for chunk in chunks {
            parser.push(chunk, &mut each).unwrap();
        }
        parser.finish(&mut each).unwrap();
        seen
    }

    /// Every way to cut a stream in two, and all single bytes.
    fn read_in_all_splits(stream: &[u8]) -> Seen {
        let whole = read(&[stream]);
        for cut in 0..=stream.len() {
            assert_eq!(read(&[&stream[..cut], &[], &stream[cut..]]), whole, "cut after {cut} bytes");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes), whole, "byte by byte");
        whole
    }

    /// The data alone.
    fn data(stream: &str) -> Vec<String> {
        read_in_all_splits(stream.as_bytes()).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn lines_end_in_any_of_the_three_ways_wherever_the_chunk_is_cut() {
        let plain = "event: a\ndata: 1\n\nevent: b\ndata:{\"x\": \"y\"}\n\ndata: [DONE]\n\n";
        let expected: Seen =
            [("a", "1"), ("b", "{\"x\": \"y\"}"), ("", "[DONE]")].map(|(n, d)| (n.to_string(), d.to_string())).into();
        for ending in ["\n", "\r\n", "\r"] {
            let stream = plain.replace('\n', ending);
            assert_eq!(read_in_all_splits(stream.as_bytes()), expected, "{ending:?}");
        }
    }

    #[test]
    fn comments_unknown_fields_and_events_without_data_are_passed_over() {
        let stream = ":\n\n: ping\n\n:data: no\nid: 3\nretry: 100\nno colon\ndata: 1\n\nevent: ping\n\nevent:x\ndata:\n\ndata\n\n\n\ndata:  \n\ndata: 2\n\n";
        assert_eq!(data(stream), ["1", "2"]);
        let named = read(&[b"event: ping\n\ndata: 1\n\n"]);
        assert_eq!(named, [(String::new(), "1".to_string())], "the name of an event without data is forgotten");
    }

    #[test]
    fn data_lines_are_joined_and_keep_all_blanks_but_the_first() {
        assert_eq!(data("data: a\ndata:\ndata:  b \nevent: late\n\n"), ["a\n\n b "]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line_only() {
        assert_eq!(data("\u{feff}data: 1\n\n\u{feff}data: 2\n\ndata: 3\n\n"), ["1", "3"]);
    }

    #[test]
    fn characters_that_a_chunk_cuts_stay_whole() {
        assert_eq!(data("data: 你 👩‍💻 é\n\n"), ["你 👩‍💻 é"]);
        assert_eq!(read_in_all_splits(b"data: a\xffb\n\n")[0].1, "a\u{fffd}b");
    }

    #[test]
    fn a_last_event_without_its_blank_line_counts_if_its_data_is_whole() {
        for end in ["", "\n", "\r", "\r\n", "\n\n"] {
            assert_eq!(data(&format!("data: {{\"a\":1}}{end}")), ["{\"a\":1}"], "{end:?}");
            assert_eq!(data(&format!("data: 1\n\ndata: [DONE]{end}")), ["1", "[DONE]"], "{end:?}");
        }
        assert_eq!(data("data: {\"a\":1"), [""; 0]);
        assert_eq!(data("data: {\"a\":\ndata: "), [""; 0]);
        assert_eq!(data("event: x"), [""; 0]);
    }

    #[test]
    fn an_event_that_is_too_long_is_an_error_however_it_comes() {
        let long_line = [b"data: ".as_slice(), &[b'a'; 100]].concat();
        let many_lines = b"data: aaaaaaaa\n".repeat(10);
        let comment = [b": ".as_slice(), &[b'a'; 100]].concat();
        for stream in [&long_line, &many_lines, &comment] {
            for size in [1, 7, 1000] {
                let mut parser = Parser::with_max_event(64);
                let result = stream.chunks(size).try_for_each(|chunk| parser.push(chunk, |_| Ok(())));
                let failure = result.unwrap_err();
                assert_eq!(failure.message, "sent an event of more than 64 B", "{size}");
            }
        }
        let mut parser = Parser::with_max_event(64);
        for _ in 0..100 {
            parser.push(b": keep-alive\n\ndata: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\n\n", |_| Ok(())).unwrap();
        }
    }

    #[test]
    fn what_the_caller_says_of_an_event_ends_the_reading() {
        let mut parser = Parser::default();
        let mut seen = 0;
        let result = parser.push(b"data: 1\n\ndata: 2\n\n", |_| {
            seen += 1;
            Err(Failure::new(ModelErrorKind::Server, "broken"))
        });
        assert_eq!((result.unwrap_err().message.as_str(), seen), ("broken", 1));
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_where_chunks_end(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "data: ", "data:", "data", "event: x", ":", "\n", "\n", "\r", "\r\n", "é", "你", "{\"a\": 1}", " ", "\u{feff}", "[DONE]",
            ]), 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let stream = pieces.concat().into_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            places.extend([0, stream.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&chunks), read(&[&stream]));
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(read(&bytes), read(&[&stream]));
        }
    }
}
