//! What OpenAI's two protocols share: ids, arguments, results and efforts as both want them.

use super::Effort;
use crate::model::{Request, Speaker, ToolResult};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Arguments as the JSON text of an object, whatever the model made of them: a server answers anything else in a
/// history with 400, and the model should see what it wrote.
pub(super) fn arguments(args: &Value) -> String {
    match args {
        Value::Object(_) => args.to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            json!({ "unparsed": args }).to_string()
        }
    }
}

/// What a call's arguments are: the object that the text holds, the value where it is JSON of another kind, the text
/// as it came where it is no JSON. A call without any text has no arguments, unless the reply was cut there.
pub(super) fn parse_arguments(text: &str, cut: bool) -> Value {
    if text.trim().is_empty() && !cut {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()))
}

/// A call's id in at most `max` bytes (at least 17), its letters as they are: Kimi wants its own back. Servers make ids
/// that others refuse, which shows when the model changes in the middle of a conversation. The same id always becomes
/// the same one.
pub(super) fn call_id(id: &str, max: usize) -> Cow<'_, str> {
    if id.len() <= max {
        return Cow::Borrowed(id);
    }
    // FNV-1a: what matters is only that two ids of a conversation stay two.
    let hash = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let head = crate::text::floor_boundary(id, max.saturating_sub(17));
    Cow::Owned(format!("{}_{hash:016x}", &id[..head]))
}

/// What the model reads of a result. The protocols have no mark for a failed call, so the text says it; an empty text
/// reads as a fault.
pub(super) fn result_text(result: &ToolResult) -> Cow<'_, str> {
    match (result.is_error, result.text.trim().is_empty()) {
        (false, false) => Cow::Borrowed(&result.text),
        (false, true) => Cow::Borrowed("(no output)"),
        (true, _) => Cow::Owned(format!("Error: {}", result.text)),
    }
}

/// The words for an effort: OpenAI's.
pub(super) fn effort(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "none",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "xhigh",
    }
}

/// What the user says after a reply that another protocol's server paused: here a request ends with the user's words.
pub(super) const GO_ON: &str = "Go on.";

/// Whether the request ends with a reply that is to go on.
pub(super) fn is_paused(request: &Request) -> bool {
    request.messages.last().is_some_and(|message| message.speaker == Speaker::Assistant)
}

/// The name under which a reply's schema is sent.
pub(super) const FORMAT: &str = "reply";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_always_the_text_of_an_object() {
        for (args, wanted) in [
            (json!({"a": 1}), r#"{"a":1}"#),
            (json!("{\"a"), r#"{"unparsed":"{\"a"}"#),
            (json!([1]), r#"{"unparsed":[1]}"#),
            (json!(null), r#"{"unparsed":null}"#),
        ] {
            assert_eq!(arguments(&args), wanted);
        }
    }

    #[test]
    fn only_a_whole_reply_may_leave_arguments_out() {
        for (text, cut, wanted) in [
            ("", false, json!({})),
            (" \n", false, json!({})),
            ("", true, json!("")),
            (r#"{"a":1}"#, true, json!({"a": 1})),
            (r#"{"a": "b"#, false, json!(r#"{"a": "b"#)),
            ("[1]", false, json!([1])),
            ("null", false, json!(null)),
        ] {
            assert_eq!(parse_arguments(text, cut), wanted, "{text:?}");
        }
    }

    #[test]
    fn ids_fit_the_strictest_server() {
        assert_eq!(call_id("call_1", 40), "call_1");
        let long = format!("chatcmpl-tool-{}", "0".repeat(32));
        let other = format!("chatcmpl-tool-{}1", "0".repeat(31));
        assert_eq!(call_id(&long, 40).len(), 40);
        assert_ne!(call_id(&long, 40), call_id(&other, 40));
        assert!(call_id(&"é".repeat(40), 40).len() <= 40);
    }
}
