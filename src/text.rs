//! Cutting and cleaning text, in one place.
//!
//! Everything that shortens text for a model, a log line or a screen goes through here: cuts fall on
//! character boundaries (or on grapheme boundaries where width is counted) and say how much is missing.
//! Knows nothing of the rest of the crate.

use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The largest index `<= at` that is a character boundary of `text`.
pub fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    let mut index = at;
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// The smallest index `>= at` that is a character boundary of `text`.
pub fn ceil_boundary(text: &str, at: usize) -> usize {
    let mut index = at.min(text.len());
    while !text.is_char_boundary(index) {
        index += 1;
    }
    index
}

/// The first `max` characters; longer text ends in `… [N more characters]`, counted apart from `max`.
pub fn clip(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => Cow::Borrowed(text),
        Some((at, _)) => {
            let rest = text[at..].chars().count();
            Cow::Owned(format!("{}… [{}]", &text[..at], plural(rest, "more character")))
        }
    }
}

/// At most about `max` bytes: the head and the tail, with a line between them that says what was left out.
///
/// Two thirds of the room go to the head. Cuts fall on line ends where one is near.
pub fn clip_middle(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let head_room = max / 3 * 2;
    let mut head = floor_boundary(text, head_room);
    if let Some(newline) = text[..head].rfind('\n')
        && head - newline < max / 8
    {
        head = newline + 1;
    }
    let mut tail = ceil_boundary(text, text.len() - (max - head_room));
    if let Some(newline) = text[tail..].find('\n')
        && newline < max / 8
    {
        tail += newline + 1;
    }
    let omitted = &text[head..tail];
    let lines = omitted.matches('\n').count();
    let gap = if text[..head].ends_with('\n') { "" } else { "\n" };
    Cow::Owned(format!(
        "{}{gap}[… {} ({}) left out …]\n{}",
        &text[..head],
        plural(omitted.len(), "byte"),
        plural(lines, "line"),
        &text[tail..]
    ))
}

/// `1 file`, `2 files`: a count with its noun, the regular plural.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A number of bytes as people read it: `512 B`, `1.5 KiB`, `96 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024 belongs to the next unit.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

/// One line, at most `columns` wide on a terminal, control characters and escape sequences removed.
///
/// Cuts between graphemes and ends in `…` when something was cut (if a column is there for it).
pub fn one_line(text: &str, columns: usize) -> String {
    let clean = printable(text).replace(['\n', '\t'], " ");
    if clean.width() <= columns {
        return clean;
    }
    let room = columns.saturating_sub(1);
    let mut out = String::new();
    let mut used = 0;
    for grapheme in clean.graphemes(true) {
        let width = grapheme.width();
        if used + width > room {
            break;
        }
        used += width;
        out.push_str(grapheme);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Text that cannot drive a terminal: escape sequences (CSI, OSC and other string sequences, two-byte
/// escapes) and control characters other than newline and tab are dropped.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                // A control sequence ends at its first byte in `@..=~`.
                Some('[') => {
                    for c in chars.by_ref() {
                        if ('@'..='~').contains(&c) {
                            break;
                        }
                    }
                }
                // Operating-system and other string sequences end at BEL or ESC \.
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' {
                            break;
                        }
                        if c == '\u{1b}' && chars.peek() == Some(&'\\') {
                            chars.next();
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Tokens that `text` probably costs: one per four bytes, rounded up.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_falls_on_a_character_boundary_and_says_what_is_missing() {
        let text = "中".repeat(40_000);
        assert_eq!(clip(&text, 39_999), format!("{}… [1 more character]", "中".repeat(39_999)));
        let cut = clip_middle(&text, 30_001);
        assert!(cut.len() < 30_200 && cut.contains("left out"), "{}", cut.len());
        assert_eq!(clip("é", 1), "é");
        assert_eq!(clip("", 0), "");
    }

    #[test]
    fn the_middle_is_cut_at_line_ends_where_one_is_near() {
        let text: String = (0..1000).map(|i| format!("line {i}\n")).collect();
        let cut = clip_middle(&text, 600);
        assert!(cut.starts_with("line 0\n") && cut.ends_with("line 999\n"), "{cut}");
        assert!(cut.lines().all(|l| l.starts_with("line ") || l.starts_with("[… ")), "{cut}");
    }

    #[test]
    fn width_is_counted_in_columns_not_characters() {
        let line = "你好👩‍💻 e\u{301}";
        for columns in 0..=10 {
            let cut = one_line(line, columns);
            assert!(cut.width() <= columns, "{columns}: {cut:?}");
        }
        assert_eq!(one_line("plain", 10), "plain");
    }

    #[test]
    fn sizes_have_at_most_four_digits() {
        let table = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (96 << 10, "96 KiB"), ((1 << 20) - 1, "1.0 MiB")];
        for (bytes, shown) in table {
            assert_eq!(size(bytes), shown);
        }
        assert_eq!(size(u64::MAX), "16777216 TiB");
    }

    #[test]
    fn escape_sequences_do_not_survive() {
        let hostile = "\u{1b}]0;X\u{7}\u{1b}[2J\u{1b}[31mhi\u{1b}[0m \u{1b}]8;;u\u{1b}\\l\u{8}";
        assert_eq!(printable(hostile), "hi l");
        assert_eq!(printable("a\r\nb\tc"), "a\nb\tc");
    }
}
