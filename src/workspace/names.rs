//! How file names are shown, and how a shown name is read back.
//!
//! A name is bytes; models and screens read text. Control characters, bytes that are not UTF-8 and the backslash
//! itself are written as `\n`, `\xE9`, `\\`, so two names never look the same, none can break a line or drive a
//! terminal, and what was shown can be given back as a path.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The text of a path.
pub(crate) fn shown(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) if !text.chars().any(|c| c.is_control() || c == '\\') => Cow::Borrowed(text),
        _ => Cow::Owned(escape(path.as_os_str().as_bytes(), true)),
    }
}

/// The path that [`shown`] would show as this text; `None` if nothing in it is an escape or an escape is unknown.
pub(crate) fn read_back(text: &str) -> Option<PathBuf> {
    if !text.contains('\\') {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'\\' => bytes.push(b'\\'),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'x' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            _ => return None,
        }
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// A line of a file as text: bytes that are not UTF-8 and control characters other than tab become `\xNN`.
///
/// A backslash stays as it is: this is for reading, not for giving back.
pub(crate) fn line_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\t') => Cow::Borrowed(text),
        _ => Cow::Owned(escape(bytes, false)),
    }
}

/// `name` appended to a path that is already shown; `.` and the empty text stand for the root.
pub(crate) fn join_shown(folder: &str, name: &str) -> String {
    if name.is_empty() {
        folder.to_string()
    } else if folder.is_empty() || folder == "." {
        name.to_string()
    } else {
        format!("{folder}/{name}")
    }
}

/// Whether a file name is hidden.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.')
}

fn escape(bytes: &[u8], for_path: bool) -> String {
    let mut out = String::with_capacity(bytes.len() + 8);
    let hex = |out: &mut String, bytes: &[u8]| bytes.iter().for_each(|b| out.push_str(&format!("\\x{b:02X}")));
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' if for_path => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' if for_path => out.push_str("\\t"),
                '\t' => out.push('\t'),
                c if c.is_control() => hex(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        hex(&mut out, chunk.invalid());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_given_back_as_it_is_shown() {
        let names: [&[u8]; 7] =
            [b"a\nb", b"caf\xE9", b"back\\slash", b"tab\t", b"\x1b[2J", "中 (é)".as_bytes(), b"x\\n"];
        for name in names {
            let path = Path::new(OsStr::from_bytes(name));
            let text = shown(path).into_owned();
            assert!(!text.chars().any(char::is_control), "{text:?}");
            let back = read_back(&text).unwrap_or_else(|| PathBuf::from(&text));
            assert_eq!(back, path, "{text}");
        }
        assert_ne!(shown(Path::new("x\\n")), shown(Path::new("x\n")));
        assert_eq!(read_back("a\\q"), None);
        assert_eq!(read_back("a\\x4"), None);
    }

    #[test]
    fn a_line_has_neither_nul_nor_replacement_characters() {
        assert_eq!(line_text(b"caf\xE9\0\tx\\n"), "caf\\xE9\\x00\tx\\n");
        assert_eq!(line_text("é".as_bytes()), "é");
    }
}
