//! Reading a log that may have been cut, damaged or written by another version.
//!
//! What can be read is read; what cannot is left out and told, with its line number. Never more than one line of at
//! most [`MAX_LINE`] bytes is held beside the events.

use super::StoreError;
use crate::event::{Event, LOG_VERSION};
use crate::text;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Bytes of the longest line that is read; longer ones are left out.
pub const MAX_LINE: usize = 10 * 1024 * 1024;

/// A log as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// In the order of the log.
    pub events: Vec<Event>,
    /// What was left out.
    pub warnings: Vec<LogWarning>,
}

/// Lines of a log that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWarning {
    /// First line, from 1.
    pub first: u64,
    /// Last line.
    pub last: u64,
    /// Why.
    pub problem: String,
}

impl fmt::Display for LogWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogWarning { first, last, problem } = self;
        if first == last {
            write!(f, "line {first}: {problem}")
        } else {
            write!(f, "lines {first} to {last}: {problem}")
        }
    }
}

/// Reads the whole log at `path`.
///
/// # Errors
/// When the file cannot be read. Damage inside it is a warning.
pub fn read_log(path: &Path) -> Result<Log, StoreError> {
    let mut events = Vec::new();
    let warnings = scan_log(path, |event| events.push(event))?;
    Ok(Log { events, warnings })
}

/// Hands the events of the log at `path` to `visit`, one by one, and returns what was left out.
///
/// # Errors
/// When the file cannot be read. Damage inside it is a warning.
pub fn scan_log(path: &Path, visit: impl FnMut(Event)) -> Result<Vec<LogWarning>, StoreError> {
    scan_lines(path, parse, visit)
}

/// Reads the records of a transcript: values of any kind.
///
/// # Errors
/// When the file cannot be read. Damage inside it is a warning.
pub fn read_transcript(path: &Path) -> Result<(Vec<Value>, Vec<LogWarning>), StoreError> {
    let mut records = Vec::new();
    let parse = |line: &[u8]| serde_json::from_slice(line).map_err(|_| "not a record; left out".to_string());
    let warnings = scan_lines(path, parse, |record| records.push(record))?;
    Ok((records, warnings))
}

/// Hands what `parse` makes of each line of the file at `path` to `visit`, and returns what was left out.
pub(crate) fn scan_lines<T>(
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T, String>,
    visit: impl FnMut(T),
) -> Result<Vec<LogWarning>, StoreError> {
    let file = File::open(path).map(|file| BufReader::with_capacity(64 * 1024, file));
    file.and_then(|file| scan(file, MAX_LINE, parse, visit)).map_err(|error| StoreError::read(path, &error))
}

/// A line without its end.
enum Line {
    Whole,
    /// No newline follows: the writer was stopped in the middle, or is still writing.
    Torn,
    TooLong,
    End,
}

fn scan<T>(
    mut log: impl BufRead,
    max_line: usize,
    parse: impl Fn(&[u8]) -> Result<T, String>,
    mut visit: impl FnMut(T),
) -> io::Result<Vec<LogWarning>> {
    let mut warnings = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        let read = match next_line(&mut log, &mut line, max_line)? {
            Line::End => break,
            Line::Whole if line.is_empty() => continue,
            Line::Whole => parse(&line),
            // A last line that only lacks its newline is whole all the same.
            Line::Torn => parse(&line).map_err(|_| "the last line was cut off; it is left out".to_string()),
            Line::TooLong => Err(format!("longer than {max_line} bytes; left out")),
        };
        match read {
            Ok(record) => visit(record),
            Err(problem) => warn(&mut warnings, number, problem),
        }
    }
    Ok(warnings)
}

/// Neighbouring lines with the same problem share a warning.
fn warn(warnings: &mut Vec<LogWarning>, number: u64, problem: String) {
    match warnings.last_mut() {
        Some(previous) if previous.last + 1 == number && previous.problem == problem => previous.last = number,
        _ => warnings.push(LogWarning { first: number, last: number, problem }),
    }
}

fn next_line(log: &mut impl BufRead, line: &mut Vec<u8>, max: usize) -> io::Result<Line> {
    line.clear();
    let (mut any, mut too_long) = (false, false);
    loop {
        let chunk = match log.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            return Ok(match (any, too_long) {
                (false, _) => Line::End,
                (true, true) => Line::TooLong,
                (true, false) => Line::Torn,
            });
        }
        any = true;
        let end = bstr::ByteSlice::find_byte(chunk, b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        too_long = too_long || line.len() + part.len() > max;
        if !too_long {
            line.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        log.consume(used);
        if end.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Whole });
        }
    }
}

fn parse(line: &[u8]) -> Result<Event, String> {
    /// Enough of a line to say why the rest of it is not understood.
    #[derive(Deserialize)]
    struct Envelope<'a> {
        v: u32,
        #[serde(rename = "type")]
        kind: std::borrow::Cow<'a, str>,
    }
    if line.iter().all(|byte| *byte == 0) {
        return Err("a run of NUL bytes; left out".to_string());
    }
    match serde_json::from_slice::<Event>(line) {
        Ok(event) if event.v > LOG_VERSION => Err(newer(event.v)),
        Ok(event) => Ok(event),
        Err(error) => match serde_json::from_slice::<Envelope<'_>>(line) {
            Ok(Envelope { v, .. }) if v > LOG_VERSION => Err(newer(v)),
            Ok(Envelope { kind, .. }) => Err(format!(
                "an event `{}` that this version does not read ({}); left out",
                text::one_line(&kind, 60),
                text::one_line(&in_short(&error), 200)
            )),
            Err(_) => Err("not an event; left out".to_string()),
        },
    }
}

fn newer(version: u32) -> String {
    format!("version {version} of the log; this sortie reads up to {LOG_VERSION}; left out")
}

/// serde's words without `at line 1 column 9` (the line is ours to name) and without the list of what would do.
pub(crate) fn in_short(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = [text.find(", expected"), text.rfind(" at line ")].into_iter().flatten().min();
    text[..end.unwrap_or(text.len())].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Timestamp};
    use crate::store::push_line;

    fn notice(seq: u64, message: &str) -> Vec<u8> {
        let kind = EventKind::Notice { message: message.to_string() };
        let mut line = Vec::new();
        push_line(&mut line, &Event { v: LOG_VERSION, seq, at: Timestamp(1_000 * seq), kind }).unwrap();
        line
    }

    fn read(bytes: &[u8], max_line: usize) -> (Vec<u64>, Vec<String>) {
        let mut seqs = Vec::new();
        let warnings = scan(bytes, max_line, parse, |event| seqs.push(event.seq)).unwrap();
        (seqs, warnings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_log_cut_at_any_byte_loses_only_the_line_that_was_cut() {
        let lines: Vec<Vec<u8>> = ["one", "zwölf \u{2028} 你好", "three"]
            .iter()
            .zip(1..)
            .map(|(message, seq)| notice(seq, message))
            .collect();
        let log = lines.concat();
        for cut in 0..=log.len() {
            let (seqs, warnings) = read(&log[..cut], MAX_LINE);
            let mut end = 0;
            // A line is whole once all but its newline is there.
            let whole = lines
                .iter()
                .take_while(|line| {
                    end += line.len();
                    end - 1 <= cut
                })
                .count();
            assert_eq!(seqs, (1..=whole as u64).collect::<Vec<_>>(), "cut at {cut}");
            let clean = cut == 0 || log[cut - 1] == b'\n' || log.get(cut) == Some(&b'\n');
            assert_eq!(warnings.len(), usize::from(!clean), "cut at {cut}: {warnings:?}");
        }
    }

    #[test]
    fn bad_lines_in_the_middle_are_named_and_the_rest_is_read() {
        let nuls = [[0; 300].as_slice(), b"\n"].concat();
        let log = [notice(1, "a"), nuls, notice(3, "c"), b"{\"a\":\n".to_vec(), notice(5, "e")].concat();
        let (seqs, warnings) = read(&log, MAX_LINE);
        assert_eq!(seqs, [1, 3, 5]);
        assert_eq!(warnings, ["line 2: a run of NUL bytes; left out", "line 4: not an event; left out"]);
    }

    #[test]
    fn lines_of_other_versions_are_told_apart_from_damage() {
        let log = br#"{"v":2,"seq":1,"at":"2026-01-01T00:00:00Z","type":"notice","message":"x"}
{"v":3,"seq":1,"something":"else","type":"odd"}
{"v":1,"seq":2,"at":"2026-01-01T00:00:00Z","type":"shaken","how":"well"}
{"v":1,"seq":3,"at":"2026-01-01T00:00:00Z","type":"notice"}
{"v":1,"seq":4,"at":"2026-01-01T00:00:00Z","type":"node_finished","node":"a","attempt":1,"outcome":"succeeded","duration_ms":3}
"#;
        let (seqs, warnings) = read(log, MAX_LINE);
        assert_eq!(seqs, [4], "what newer versions add has defaults");
        insta::assert_snapshot!(warnings.join("\n"), @"
        line 1: version 2 of the log; this sortie reads up to 1; left out
        line 2: version 3 of the log; this sortie reads up to 1; left out
        line 3: an event `shaken` that this version does not read (unknown variant `shaken`); left out
        line 4: an event `notice` that this version does not read (missing field `message`); left out
        ");
    }

    #[test]
    fn a_line_over_the_cap_is_left_out_and_told() {
        let log = [notice(1, "a"), notice(2, &"x".repeat(500)), notice(3, "c")].concat();
        let (seqs, warnings) = read(&log, 300);
        assert_eq!((seqs, warnings), (vec![1, 3], vec!["line 2: longer than 300 bytes; left out".to_string()]));
    }

    #[test]
    fn a_lone_surrogate_is_damage_of_its_line_only() {
        let broken = br#"{"v":1,"seq":2,"at":"2026-01-01T00:00:00Z","type":"notice","message":"\ud800"}"#;
        let log = [notice(1, "\\ud800"), [broken.as_slice(), b"\n"].concat(), notice(3, "c")].concat();
        let (seqs, warnings) = read(&log, MAX_LINE);
        assert_eq!(seqs, [1, 3]);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("line 2: ") && warnings[0].ends_with("; left out"), "{warnings:?}");
    }
}
