//! Keys in files where none may be: found before anything of the file is shown.

/// Names that people give to keys. A config file takes the name of a variable instead.
pub(super) const NAMES: [&str; 10] =
    ["key", "api_key", "apikey", "api-key", "token", "api_token", "auth_token", "access_token", "secret", "password"];

/// The same text, as many bytes long, with `*` for whatever may be a key: values of [`NAMES`], words that begin with
/// `sk-`, users and passwords of addresses. For excerpts in messages; works on broken files too.
pub(super) fn mask(text: &str) -> String {
    let mut masked: Vec<u8> = text.bytes().collect();
    for (at, _) in text.match_indices('=') {
        let name = text[..at].trim_end().trim_end_matches(['"', '\'']);
        let start = name.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').map_or(0, |last| last + 1);
        // What is before the name is a character of any length.
        let name = name.get(start..).unwrap_or_default().to_ascii_lowercase();
        if NAMES.contains(&name.as_str()) {
            let value = at + 1..end_of_value(text, at + 1);
            hide(&mut masked, value);
        }
    }
    for (at, _) in text.match_indices("sk-") {
        let word = text[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        hide(&mut masked, at..word.map_or(text.len(), |len| at + len));
    }
    for (at, _) in text.match_indices("://") {
        let host = &text[at + 3..];
        let host = &host[..host.find(['/', '"', '\'', '\n']).unwrap_or(host.len())];
        if let Some(user) = host.rfind('@') {
            hide(&mut masked, at + 3..at + 3 + user);
        }
    }
    // Whole characters were replaced, each byte of them.
    String::from_utf8(masked).unwrap_or_default()
}

/// Up to the quote that closes the value; without one up to the end of the line.
fn end_of_value(text: &str, from: usize) -> usize {
    let line = text[from..].find('\n').map_or(text.len(), |len| from + len);
    let value = &text[from..line];
    let Some(open) = value.find(['"', '\'']) else { return line };
    let quote = if value[open..].starts_with('"') { '"' } else { '\'' };
    value[open + 1..].find(quote).map_or(line, |len| from + open + 1 + len + 1)
}

/// Replaces a range of bytes, white space apart.
pub(super) fn hide(text: &mut [u8], range: std::ops::Range<usize>) {
    if let Some(part) = text.get_mut(range) {
        part.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = b'*');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hidden_and_the_rest_keeps_its_place() {
        for (text, expected) in [
            ("key = \"abc\" # x", "key = ***** # x"),
            ("a.api_key='é'\nb = 1", "a.api_key=****\nb = 1"),
            ("{ token = \"a\", b = 'c' }", "{ token = ***, b = 'c' }"),
            ("\"key\" = \"unclosed\nnext = 1", "\"key\" = *********\nnext = 1"),
            ("key_env = \"ACME_KEY\"", "key_env = \"ACME_KEY\""),
            ("monkey = \"a\"", "monkey = \"a\""),
            ("model = \"sk-ant_1-2\"", "model = \"**********\""),
            ("url = \"http://me:pw@h/v1\"", "url = \"http://*****@h/v1\""),
            ("url = \"http://h/a@b\"", "url = \"http://h/a@b\""),
            ("é= 1\né.key = 2", "é= 1\né.key = *"),
            ("=", "="),
            ("key =", "key ="),
        ] {
            let masked = mask(text);
            assert_eq!(masked, expected);
            assert_eq!(masked.len(), text.len());
        }
    }
}
