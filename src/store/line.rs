//! A record as one physical line, whatever its text holds.

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::io::{self, Write};

/// Appends `record` to `buffer` as one line of JSON that ends in a newline.
///
/// JSON escapes control characters by itself; the three characters beyond ASCII that other programs take for line
/// ends (U+0085, U+2028, U+2029) are escaped too.
///
/// # Errors
/// When the record cannot be JSON (a map whose keys are no strings); the buffer is as before then.
pub fn push_line(buffer: &mut Vec<u8>, record: &impl Serialize) -> serde_json::Result<()> {
    let before = buffer.len();
    match record.serialize(&mut Serializer::with_formatter(&mut *buffer, OneLine)) {
        Ok(()) => buffer.push(b'\n'),
        Err(error) => {
            buffer.truncate(before);
            return Err(error);
        }
    }
    Ok(())
}

struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // ASCII needs no second look; most text is.
        if fragment.is_ascii() {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut from = 0;
        for (at, found) in fragment.match_indices(['\u{85}', '\u{2028}', '\u{2029}']) {
            writer.write_all(&fragment.as_bytes()[from..at])?;
            for character in found.chars() {
                write!(writer, "\\u{:04x}", u32::from(character))?;
            }
            from = at + found.len();
        }
        writer.write_all(&fragment.as_bytes()[from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_record_is_one_physical_line_and_comes_back_exact() {
        let text = "a\nb\r\nc\u{2028}d\u{2029}e\u{85}f\0g\u{b}h\u{c}i\\ud800 \u{1f600} \"quoted\"";
        let mut buffer = Vec::new();
        push_line(&mut buffer, &json!({ text: [text] })).unwrap();
        let line = String::from_utf8(buffer).unwrap();
        let ends = ['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}', '\0'];
        assert_eq!(line.trim_end_matches('\n').find(ends), None, "{line}");
        let back: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back, json!({ text: [text] }));
    }
}
