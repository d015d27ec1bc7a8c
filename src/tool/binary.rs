//! Telling text from what is not.

use bstr::ByteSlice;

/// Bytes at the start of a file that decide.
pub(super) const HEAD: usize = 8 * 1024;

/// First bytes that give a kind away. Longer ones stand before their prefixes.
const MAGIC: [(&[u8], &str); 19] = [
    (b"PK\x03\x04", "zip archive or office document"),
    (b"PK\x05\x06", "empty zip archive"),
    (b"\x1F\x8B", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xFD7zXZ\0", "xz data"),
    (b"\x28\xB5\x2F\xFD", "zstd data"),
    (b"7z\xBC\xAF\x27\x1C", "7z archive"),
    (b"Rar!\x1A\x07", "rar archive"),
    (b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "office document"),
    (b"%PDF-", "PDF document"),
    (b"\x89PNG\r\n", "PNG image"),
    (b"\xFF\xD8\xFF", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"\x7FELF", "ELF program or library"),
    (b"\0asm", "WebAssembly module"),
    (b"\xCA\xFE\xBA\xBE", "Java class or Mach-O program"),
    (b"!<arch>\n", "static library"),
    (b"SQLite format 3\0", "SQLite database"),
];

/// The kind that the first bytes of a file give away.
pub(super) fn magic(head: &[u8]) -> Option<&'static str> {
    MAGIC.iter().find(|(bytes, _)| head.starts_with(bytes)).map(|(_, kind)| *kind)
}

/// What kind of binary file starts like this; `None` for text.
pub(super) fn kind(head: &[u8]) -> Option<&'static str> {
    if let Some(kind) = magic(head) {
        return Some(kind);
    }
    head.find_byte(0).map(|_| match head {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "UTF-16 text, which `search_code` can search",
        _ if head.get(257..262) == Some(b"ustar") => "tar archive",
        _ => "it holds NUL bytes",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        assert_eq!(kind(b"fn main() {}\n"), None);
        assert_eq!(kind("é 中\n".as_bytes()), None);
        assert_eq!(kind(b""), None);
        assert_eq!(kind(b"PK\x03\x04 ... token"), Some("zip archive or office document"));
        assert_eq!(kind(b"a\0b"), Some("it holds NUL bytes"));
        assert_eq!(kind(b"\xFF\xFEa\0"), Some("UTF-16 text, which `search_code` can search"));
    }
}
