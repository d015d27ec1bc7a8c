//! Content that is not only words: reasoning in `<think>` tags, and tool calls that the server's parser missed.
//!
//! Both are looked for at the beginning of the content alone. In the middle of a text they are what the model says,
//! for instance about such tags.

use super::super::openai::parse_arguments;
use crate::model::Delta;
use serde::Deserialize;
use serde_json::Value;

const THINK: &str = "<think>";
const THINK_END: &str = "</think>";
const CALL: &str = "<tool_call>";
const CALL_END: &str = "</tool_call>";

/// Content as it streams.
#[derive(Debug)]
pub(super) struct Words {
    state: State,
    /// Reasoning came before: the line ends after it are not the text's.
    thought: bool,
}

#[derive(Debug)]
enum State {
    /// What has come could still become one of the tags.
    Start(String),
    /// Within `<think>`; the end of what has come could still become the closing tag.
    Thinking(String),
    /// Begins with `<tool_call>`: all of it is needed to say what it is.
    Held(String),
    /// Words.
    Plain,
}

/// A call that stood in the content.
#[derive(Debug, PartialEq)]
pub(super) struct WrittenCall {
    pub(super) name: String,
    pub(super) args: Value,
}

impl Default for Words {
    fn default() -> Self {
        Words { state: State::Start(String::new()), thought: false }
    }
}

impl Words {
    /// More content.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        match &mut self.state {
            State::Plain => out.push(Delta::Text(text.to_string())),
            State::Held(held) => {
                held.push_str(text);
                out.push(Delta::Partial(text.to_string()));
            }
            State::Start(held) => {
                held.push_str(text);
                self.start(out);
            }
            State::Thinking(tail) => {
                tail.push_str(text);
                self.think(out);
            }
        }
    }

    fn start(&mut self, out: &mut Vec<Delta>) {
        let State::Start(held) = &mut self.state else { return };
        let begin = held.trim_start();
        if let Some(rest) = begin.strip_prefix(THINK) {
            self.state = State::Thinking(rest.to_string());
            self.think(out);
        } else if begin.starts_with(CALL) {
            let held = std::mem::take(held);
            out.push(Delta::Partial(held.clone()));
            self.state = State::Held(held);
        } else if !THINK.starts_with(begin) && !CALL.starts_with(begin) {
            let words = if self.thought { begin.to_string() } else { std::mem::take(held) };
            out.push(Delta::Text(words));
            self.state = State::Plain;
        }
    }

    fn think(&mut self, out: &mut Vec<Delta>) {
        let State::Thinking(tail) = &mut self.state else { return };
        if let Some((thought, rest)) = tail.split_once(THINK_END) {
            out.push(Delta::Partial(thought.to_string()));
            self.thought = true;
            self.state = State::Start(rest.to_string());
            self.start(out);
        } else {
            // Keep only what may be the beginning of the closing tag.
            let keep = (1..THINK_END.len()).rev().find(|n| tail.ends_with(&THINK_END[..*n])).unwrap_or(0);
            let rest = tail.split_off(tail.len() - keep);
            let thought = std::mem::replace(tail, rest);
            if !thought.is_empty() {
                out.push(Delta::Partial(thought));
            }
        }
    }

    /// The content is complete. Gives the calls that it consists of, if it is nothing else and `calls_missing`: the
    /// server gave no calls of its own. What was held back otherwise becomes words.
    pub(super) fn finish(&mut self, calls_missing: bool, out: &mut Vec<Delta>) -> Vec<WrittenCall> {
        match std::mem::replace(&mut self.state, State::Plain) {
            State::Plain | State::Thinking(_) => Vec::new(),
            State::Start(held) => {
                if !held.trim().is_empty() {
                    out.push(Delta::Text(held));
                }
                Vec::new()
            }
            State::Held(held) => match written_calls(&held) {
                Some(calls) if calls_missing => calls,
                Some(_) | None => {
                    out.push(Delta::Text(held));
                    Vec::new()
                }
            },
        }
    }
}

/// The calls of a text that is nothing but `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once or more.
fn written_calls(text: &str) -> Option<Vec<WrittenCall>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        name: String,
        #[serde(default, alias = "parameters")]
        arguments: Value,
    }
    let mut calls = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (call, after) = rest.strip_prefix(CALL)?.split_once(CALL_END)?;
        let Written { name, arguments } = serde_json::from_str(call).ok()?;
        let args = match arguments {
            Value::Null => parse_arguments("", false),
            Value::String(text) => parse_arguments(&text, false),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => arguments,
        };
        if name.trim().is_empty() || !args.is_object() {
            return None;
        }
        calls.push(WrittenCall { name, args });
        rest = after.trim_start();
    }
    (!calls.is_empty()).then_some(calls)
}
