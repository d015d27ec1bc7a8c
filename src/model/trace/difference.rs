//! Where two requests differ first.
//!
//! Works on any JSON: what a cassette holds, what went over the wire. Objects are compared key by key, whatever their
//! order; lists in theirs. Pure.

use crate::text::plural;
use serde_json::Value;
use std::fmt;

/// Characters shown on either side of the first that differs.
const AROUND: usize = 40;

/// The first difference between two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where: `message 4, block 0, text`. Counted from 0, as in the JSON.
    pub place: String,
    /// What the one says there, around the first character that differs.
    pub left: String,
    /// What the other says.
    pub right: String,
    /// Parts on the way that were the same: messages, blocks, tools. The more, the nearer the two are.
    pub same: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} and {}", self.place, self.left, self.right)
    }
}

/// The first difference between two values; `None` when they are the same.
pub fn first_difference(left: &Value, right: &Value) -> Option<Difference> {
    let mut walk = Walk { path: Vec::new(), same: 0 };
    let (left, right) = walk.compare(Some(left), Some(right))?;
    Some(Difference { place: words(&walk.path), left, right, same: walk.same })
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

struct Walk {
    /// To the difference, once there is one.
    path: Vec<Step>,
    same: usize,
}

impl Walk {
    fn compare(&mut self, left: Option<&Value>, right: Option<&Value>) -> Option<(String, String)> {
        match (left, right) {
            (Some(Value::Object(left)), Some(Value::Object(right))) => {
                let only_right = right.keys().filter(|key| !left.contains_key(*key));
                left.keys()
                    .chain(only_right)
                    .find_map(|key| self.step(Step::Key(key.clone()), left.get(key), right.get(key)))
            }
            (Some(Value::Array(left)), Some(Value::Array(right))) => (0..left.len().max(right.len())).find_map(|at| {
                let found = self.step(Step::Index(at), left.get(at), right.get(at));
                self.same += usize::from(found.is_none());
                found
            }),
            (Some(Value::String(left)), Some(Value::String(right))) => (left != right).then(|| around(left, right)),
            (left, right) if left == right => None,
            (left, right) => Some((shown(left), shown(right))),
        }
    }

    fn step(&mut self, step: Step, left: Option<&Value>, right: Option<&Value>) -> Option<(String, String)> {
        self.path.push(step);
        let found = self.compare(left, right);
        if found.is_none() {
            self.path.pop();
        }
        found
    }
}

/// `message 4, block 0, text` of `messages`, 4, `blocks`, 0, `text`.
fn words(path: &[Step]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut steps = path.iter().peekable();
    while let Some(step) = steps.next() {
        match (step, steps.peek()) {
            (Step::Key(list), Some(Step::Index(at))) => {
                let one = match list.as_str() {
                    "messages" => "message",
                    "input" => "item",
                    "blocks" | "content" => "block",
                    "tools" => "tool",
                    other => other,
                };
                words.push(format!("{one} {at}"));
                steps.next();
            }
            (Step::Key(key), _) => words.push(key.clone()),
            (Step::Index(at), _) => words.push(at.to_string()),
        }
    }
    if words.is_empty() { "the whole".to_string() } else { words.join(", ") }
}

/// Both texts around their first difference.
fn around(left: &str, right: &str) -> (String, String) {
    let same = left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
    (excerpt(left, same), excerpt(right, same))
}

fn excerpt(text: &str, at: usize) -> String {
    let from = at.saturating_sub(AROUND);
    let kept: String = text.chars().skip(from).take(at - from + AROUND).collect();
    let all = text.chars().count();
    let before = if from > 0 { "…" } else { "" };
    let after = if at + AROUND < all { "…" } else { "" };
    if all == at {
        // It ends where the other goes on.
        return format!("`{before}{}` and no more", printable(&kept));
    }
    format!("`{before}{}{after}`", printable(&kept))
}

/// What is not text: short, and as JSON.
fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_string(),
        Some(value) => match value {
            Value::Array(list) if !list.is_empty() => plural(list.len(), "element"),
            Value::Object(_) | Value::String(_) => {
                let text = value.to_string();
                let cut: String = text.chars().take(2 * AROUND).collect();
                let more = if cut.len() < text.len() { "…" } else { "" };
                format!("`{}{more}`", printable(&cut))
            }
            Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        },
    }
}

/// On one line, each character to be seen: a line end may be what differs.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' | '\r' => out.extend(character.escape_default()),
            character if character.is_control() => out.extend(character.escape_unicode()),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(left: &Value, right: &Value, expected: &str) {
        let found = first_difference(left, right);
        assert_eq!(found.map(|found| found.to_string()).as_deref().unwrap_or("none"), expected);
    }

    #[test]
    fn the_first_difference_is_named_in_words_with_both_sides() {
        let text = |text: &str| json!({ "messages": [{ "blocks": [{ "text": "same" }, { "text": text }] }] });
        check(&text("a"), &text("a"), "none");
        check(&text("aXc"), &text("aYc"), "message 0, block 1, text: `aXc` and `aYc`");
        check(&text("ab"), &text("a"), "message 0, block 1, text: `ab` and `a` and no more");
        check(&text("a b"), &text("a\nb"), "message 0, block 1, text: `a b` and `a\\nb`");
        let long = |middle: &str| text(&format!("{}{middle}{}", "ä".repeat(100), "中".repeat(100)));
        let side = |middle: &str| format!("`…{}{middle}{}…`", "ä".repeat(40), "中".repeat(39));
        check(&long("1"), &long("2"), &format!("message 0, block 1, text: {} and {}", side("1"), side("2")));
    }

    #[test]
    fn whatever_is_compared_has_words() {
        check(&json!({ "a": 1, "b": 2 }), &json!({ "b": 2, "a": 1 }), "none");
        check(&json!({ "a": 1 }), &json!({ "a": 1, "b": null }), "b: nothing and `null`");
        check(&json!({ "a": 1 }), &json!({}), "a: `1` and nothing");
        check(&json!({ "stop": ["a"] }), &json!({ "stop": ["a", "b"] }), "stop 1: nothing and `\"b\"`");
        check(&json!([1, [2]]), &json!([1, [3]]), "1, 0: `2` and `3`");
        check(&json!(1), &json!({ "x": 2 }), "the whole: `1` and `{\"x\":2}`");
        check(&json!({ "tools": [] }), &json!({ "tools": [1, 2] }), "tool 0: nothing and `1`");
        check(&json!({ "content": "a" }), &json!({ "content": [1] }), "content: `\"a\"` and 1 element");
        check(&json!("\u{1b}[2J"), &json!("x"), "the whole: `\\u{1b}[2J` and `x`");
    }

    #[test]
    fn the_nearer_two_are_the_more_of_them_is_the_same() {
        let of = |messages: &[&str]| json!({ "tools": [1, 2], "messages": messages });
        let same = |a: &[&str], b: &[&str]| first_difference(&of(a), &of(b)).unwrap().same;
        assert_eq!(same(&["a", "b", "c"], &["a", "b", "d"]), 4);
        assert_eq!(same(&["a", "b", "c"], &["x", "b", "c"]), 2);
    }
}
