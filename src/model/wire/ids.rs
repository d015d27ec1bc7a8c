//! Ids of tool calls and names of tools, in the letters that every protocol takes.
//!
//! A history may come from another provider, whose ids hold dots or colons (`functions.read_file:0`), and models call
//! tools by names that nobody gave.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Letters that ids and names may have at most. Anthropic takes more of an id, OpenAI does not.
const LONGEST: usize = 64;

/// The ids of one request as they are sent. What an id becomes depends only on the ids before it, so it stays the same
/// in all later requests of the conversation.
#[derive(Default)]
pub(super) struct Ids<'r> {
    sent: HashMap<&'r str, String>,
    taken: HashSet<String>,
}

impl<'r> Ids<'r> {
    /// The id to send for this one; two ids never become the same.
    pub(super) fn safe(&mut self, id: &'r str) -> &str {
        let taken = &mut self.taken;
        self.sent.entry(id).or_insert_with(|| {
            let base = safe(id, LONGEST - 4, "call");
            let mut unique = base.to_string();
            let mut copy = 1;
            while !taken.insert(unique.clone()) {
                copy += 1;
                unique = format!("{base}_{copy}");
            }
            unique
        })
    }
}

/// The name of a tool, as a protocol takes it. Those of our own tools stay as they are.
pub(super) fn name(name: &str) -> Cow<'_, str> {
    safe(name, LONGEST, "unknown")
}

/// `[A-Za-z0-9_-]`, at least one and at most `longest` of them.
fn safe<'t>(text: &'t str, longest: usize, without: &'static str) -> Cow<'t, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match text {
        "" => Cow::Borrowed(without),
        _ if text.len() <= longest && text.chars().all(fits) => Cow::Borrowed(text),
        _ => text.chars().take(longest).map(|c| if fits(c) { c } else { '_' }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_safe_letters_and_stay_apart() {
        let long = "x".repeat(100);
        let mut ids = Ids::default();
        let table = [
            ("toolu_01D7F-x", "toolu_01D7F-x"),
            ("functions.read_file:0", "functions_read_file_0"),
            ("functions_read_file_0", "functions_read_file_0_2"),
            ("functions.read_file.0", "functions_read_file_0_3"),
            ("functions.read_file:0", "functions_read_file_0"),
            ("", "call"),
            ("é", "_"),
            (&long, &long[..60]),
        ];
        for (id, sent) in table {
            assert_eq!(ids.safe(id), sent, "{id}");
        }
    }

    #[test]
    fn names_are_cut_and_never_empty() {
        let long = "n".repeat(65);
        let table = [("read_file", "read_file"), ("", "unknown"), ("a.b c", "a_b_c"), (&long, &long[..64])];
        for (called, sent) in table {
            assert_eq!(name(called), sent);
        }
    }
}
