//! Requests and replies in words, whichever protocol they were spoken in.
//!
//! Works on the JSON itself: what a server was really sent is shown, not what we meant to send.

use serde_json::Value;
use sortie::model::{StopKind, Usage};
use sortie::text::{clip_middle, one_line, printable};
use sortie::ui::quantity;

/// Bytes of a piece of text that are shown, unless all is.
const PIECE: usize = 2_000;
/// Columns of a line that names something.
const LINE: usize = 160;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Long pieces lose their middle.
    Long,
    /// Nothing is cut.
    Nothing,
}

/// A request, taken apart.
pub(super) struct Frame<'v> {
    pub(super) system: String,
    pub(super) tools: &'v [Value],
    pub(super) messages: Vec<&'v Value>,
    /// All else.
    pub(super) settings: Vec<(&'v str, String)>,
}

impl<'v> Frame<'v> {
    pub(super) fn of(request: &'v Value) -> Self {
        let list = |key: &str| request.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut messages: Vec<&Value> = list("messages").iter().chain(list("input")).collect();
        if let Some(words) = request.get("input").filter(|input| input.is_string()) {
            messages.push(words);
        }
        let mut system = ["system", "instructions"].map(|key| text_of(request.get(key))).concat();
        // Chat Completions say it as a message.
        while let Some(first) = messages.first().filter(|first| matches!(role(first), "system" | "developer")) {
            system.push_str(&text_of(first.get("content")));
            messages.remove(0);
        }
        let shown_elsewhere = ["messages", "input", "system", "instructions", "tools"];
        let rest = request.as_object().into_iter().flatten();
        let settings = rest
            .filter(|(key, _)| !shown_elsewhere.contains(&key.as_str()))
            .map(|(key, value)| (key.as_str(), value.to_string()))
            .collect();
        Frame { system, tools: list("tools"), messages, settings }
    }

    /// `read_file, report`.
    pub(super) fn tool_names(&self) -> String {
        let name = |tool: &Value| {
            let own = tool.get("name").or_else(|| tool.get("function").and_then(|function| function.get("name")));
            own.and_then(Value::as_str).unwrap_or("?").to_string()
        };
        self.tools.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// Whether the model itself said this.
pub(super) fn is_own(message: &Value) -> bool {
    role(message) == "assistant" || matches!(kind(message), "function_call" | "reasoning")
}

fn role(message: &Value) -> &str {
    let role = message.get("role").or_else(|| message.get("speaker"));
    role.and_then(Value::as_str).unwrap_or_default()
}

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// A message, each of its pieces under a line that says what it is.
pub(super) fn message(out: &mut String, message: &Value, cut: Cut) {
    let who = match (role(message), kind(message)) {
        ("", _) => "",
        (role, _) => role,
    };
    // Items of Responses are no messages but blocks.
    let Some(content) = message.get("content").or_else(|| message.get("blocks")) else {
        return block(out, who, message, cut);
    };
    match content {
        Value::Array(blocks) => blocks.iter().for_each(|part| block(out, who, part, cut)),
        Value::String(_) if role(message) == "tool" => section(out, "result", &text_of(Some(content)), cut),
        Value::Null => {}
        content => section(out, who, &text_of(Some(content)), cut),
    }
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    calls.for_each(|call| block(out, who, call, cut));
}

/// One block of any protocol, or of the normal form.
pub(super) fn block(out: &mut String, who: &str, block: &Value, cut: Cut) {
    let text = |key: &str| text_of(block.get(key));
    match kind(block) {
        "text" | "input_text" | "output_text" => section(out, who, &text("text"), cut),
        "thinking" | "redacted_thinking" | "reasoning" => {
            let words = ["thinking", "summary", "text"].map(text).concat();
            let shown = if words.is_empty() { "(not readable)" } else { words.as_str() };
            section(out, "thinking", shown, cut);
        }
        "tool_use" => section(out, &format!("call {}", text("name")), &json_of(block.get("input")), cut),
        "tool_call" => section(out, &format!("call {}", text("name")), &json_of(block.get("args")), cut),
        "function_call" => section(out, &format!("call {}", text("name")), &text("arguments"), cut),
        "function" => {
            let function = block.get("function").unwrap_or(block);
            let name = text_of(function.get("name"));
            section(out, &format!("call {name}"), &text_of(function.get("arguments")), cut);
        }
        "tool_result" | "function_call_output" => {
            let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            let title = if failed { "result (failed)" } else { "result" };
            let said = ["content", "text", "output"].map(text).concat();
            section(out, title, &said, cut);
        }
        _ if block.is_string() => section(out, who, &text_of(Some(block)), cut),
        other => section(out, if other.is_empty() { who } else { other }, &block.to_string(), cut),
    }
}

/// A title, and the text below it, indented.
pub(super) fn section(out: &mut String, title: &str, text: &str, cut: Cut) {
    let text = match cut {
        Cut::Long => clip_middle(text, PIECE),
        Cut::Nothing => text.into(),
    };
    let title = if title.is_empty() { "text" } else { title };
    out.push_str(&format!("{}:\n", one_line(title, LINE)));
    for line in printable(text.trim_end()).lines() {
        out.push_str(format!("  {line}").trim_end());
        out.push('\n');
    }
}

/// `tool · 1.2k tokens in (1.0k from a cache), 34 out`.
pub(super) fn ending(stop: Option<StopKind>, usage: &Usage) -> String {
    // A unit variant: its JSON form is a word.
    let word = stop.and_then(|stop| Some(serde_json::to_value(stop).ok()?.as_str()?.replace('_', " ")));
    let mut out = word.unwrap_or_else(|| "without an end mark".to_string());
    if *usage != Usage::default() {
        let input = usage.input + usage.cache_read + usage.cache_write;
        out.push_str(&format!(" · {} tokens in", quantity(input)));
        if usage.cache_read > 0 {
            out.push_str(&format!(" ({} from a cache)", quantity(usage.cache_read)));
        }
        out.push_str(&format!(", {} out", quantity(usage.output)));
    }
    out
}

/// A text, the texts of a list of blocks, or nothing.
fn text_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| text_of(part.get("text").or(Some(part)));
            parts.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        Some(other) => other.to_string(),
    }
}

fn json_of(value: Option<&Value>) -> String {
    value.map(Value::to_string).unwrap_or_default()
}

/// The same without what marks a place for the provider's cache: marks move on with every turn.
pub(super) fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.iter().filter(|(key, _)| *key != "cache_control");
            Value::Object(kept.map(|(key, value)| (key.clone(), without_marks(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_marks).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
