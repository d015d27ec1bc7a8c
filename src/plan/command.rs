//! Values in command lines: each is filled in as words of the shell, so that no value can become a command.
//!
//! A text is one word, a list is a word per item, anything else is one word of JSON. Quoting is done here, which only
//! works where the shell reads plain words: a plan that puts `{{ … }}` into quotes, backquotes or a here-document is
//! refused when it is checked.

use serde_json::Value;
use std::ops::Range;

/// A value as words of a POSIX shell.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(" "),
        Value::String(text) => word(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => word(&value.to_string()),
    }
}

/// One text as one word: inside single quotes nothing has a meaning.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What a `{{ … }}` stands in where quoting would not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Quotes,
    Backquotes,
    HereDocument,
}

/// The first `{{ … }}` that stands where its value would not be read as plain words, by bytes of the template.
pub(super) fn misplaced(template: &str) -> Option<(Range<usize>, Inside)> {
    let bytes = template.as_bytes();
    let mut quote: Option<u8> = None;
    let mut here_document = false;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &template[at..];
        if rest.starts_with("{{") {
            let end = at + rest.find("}}").map_or(rest.len(), |end| end + 2);
            let inside = match quote {
                Some(b'`') => Some(Inside::Backquotes),
                Some(_) => Some(Inside::Quotes),
                None if here_document => Some(Inside::HereDocument),
                None => None,
            };
            if let Some(inside) = inside {
                return Some((at..end, inside));
            }
            at = end;
            continue;
        }
        if let Some(close) =
            [("{%", "%}"), ("{#", "#}")].iter().find_map(|(open, close)| rest.starts_with(open).then_some(close))
        {
            at += rest.find(close).map_or(rest.len(), |end| end + 2);
            continue;
        }
        match (bytes[at], quote) {
            // A backslash takes the next byte along, except inside single quotes.
            (b'\\', None | Some(b'"' | b'`')) => at += 1,
            (byte @ (b'\'' | b'"' | b'`'), None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            (b'#', None) if at == 0 || bytes[at - 1].is_ascii_whitespace() => {
                // A comment: quotes in it mean nothing, values in it cannot leave it but by a line break.
                let line = rest.find('\n').unwrap_or(rest.len());
                match rest[..line].find("{{") {
                    Some(open) => at += open - 1,
                    None => at += line.saturating_sub(1),
                }
            }
            (b'<', None) if rest.starts_with("<<<") => at += 2,
            (b'<', None) if rest.starts_with("<<") => here_document = true,
            _ => {}
        }
        at += 1;
        while at < bytes.len() && !template.is_char_boundary(at) {
            at += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_words_and_never_more() {
        for (value, expected) in [
            (json!("src/lib.rs"), "src/lib.rs"),
            (json!(""), "''"),
            (json!("a b"), "'a b'"),
            (json!("$(rm -rf .); `x`\n&"), "'$(rm -rf .); `x`\n&'"),
            (json!("it's"), r"'it'\''s'"),
            (json!(["a", "b c"]), "a 'b c'"),
            (json!(7), "7"),
            (json!({"a": 1}), "'{\"a\":1}'"),
            (json!("~/x"), "'~/x'"),
        ] {
            assert_eq!(words(&value), expected);
        }
    }

    #[test]
    fn a_value_stands_where_the_shell_reads_words() {
        for (template, inside) in [
            ("grep -n {{ x }} {{ y }}", None),
            ("echo 'it''s' {{ x }} \"q\" $(wc -l {{ y }})", None),
            ("echo \\\" {{ x }}", None),
            ("wc -l {{ x }} # don't worry", None),
            ("cat <<< {{ x }}", None),
            ("echo '{% if a %}{% endif %}' {{ x }}", None),
            ("echo \"{{ x }}\"", Some(Inside::Quotes)),
            ("echo '{{ x }}'", Some(Inside::Quotes)),
            ("echo \"é $(ls {{ x }})\"", Some(Inside::Quotes)),
            ("echo `ls {{ x }}`", Some(Inside::Backquotes)),
            ("cat <<E\n{{ x }}\nE", Some(Inside::HereDocument)),
        ] {
            assert_eq!(misplaced(template).map(|(_, inside)| inside), inside, "{template}");
        }
    }
}
