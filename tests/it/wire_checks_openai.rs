//! What the strictest server of OpenAI's protocols refuses, written down apart from the code that has to keep to it.

use serde_json::{Value, json};
use std::collections::HashSet;

/// What is wrong with the body of a Chat Completions request.
///
/// # Errors
/// The first rule that is broken.
pub(crate) fn check_openai_chat(body: &Value) -> Result<(), String> {
    keys(
        body,
        &["model", "messages", "stream"],
        &[
            "tools",
            "stream_options",
            "max_tokens",
            "max_completion_tokens",
            "response_format",
            "reasoning_effort",
            "reasoning",
            "thinking",
            "enable_thinking",
        ],
    )?;
    said(&body["model"], "model")?;
    let limits = ["max_tokens", "max_completion_tokens"].map(|key| body.get(key).and_then(Value::as_u64));
    ensure(limits.iter().flatten().count() == 1 && limits.iter().flatten().all(|n| *n >= 1), || {
        format!("one limit from 1 on is wanted, not {limits:?}")
    })?;
    if let Some(options) = body.get("stream_options") {
        ensure(*options == json!({ "include_usage": true }), || format!("stream_options is {options}"))?;
    }
    for tool in list(body, "tools")? {
        keys(tool, &["type", "function"], &[])?;
        ensure(tool["type"] == "function", || format!("a tool of type {}", tool["type"]))?;
        keys(&tool["function"], &["name", "description", "parameters"], &[])?;
        name(&tool["function"]["name"])?;
    }
    if let Some(format) = body.get("response_format") {
        ensure(format["type"] == "json_schema", || format!("response_format of type {}", format["type"]))?;
        keys(&format["json_schema"], &["name", "schema"], &["strict"])?;
        name(&format["json_schema"]["name"])?;
    }
    chat_messages(list(body, "messages")?)
}

fn chat_messages(messages: &[Value]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        ensure(open.is_empty() || role == "tool", || format!("message {at}: {open:?} have no result yet"))?;
        match role {
            "system" => {
                keys(message, &["role", "content"], &[])?;
                ensure(at == 0, || format!("message {at}: a system message is not first"))?;
                said(&message["content"], "content")?;
            }
            "user" => {
                keys(message, &["role", "content"], &[])?;
                said(&message["content"], "content")?;
                let before = at.checked_sub(1).map(|before| &messages[before]["role"]);
                ensure(before.is_none_or(|role| role != "user"), || format!("message {at}: two users in a row"))?;
            }
            "assistant" => {
                let fields = ["tool_calls", "reasoning_content", "reasoning", "reasoning_details", "extra_content"];
                keys(message, &["role", "content"], &fields)?;
                let calls = list(message, "tool_calls")?;
                ensure(message.get("tool_calls").is_none() || !calls.is_empty(), || format!("message {at}: no calls"))?;
                let content = &message["content"];
                let is_empty = content.is_null() || *content == "";
                ensure(!is_empty || !calls.is_empty(), || format!("message {at} says nothing"))?;
                if !is_empty {
                    said(content, "content")?;
                }
                for call in calls {
                    keys(call, &["id", "type", "function"], &["extra_content"])?;
                    keys(&call["function"], &["name", "arguments"], &[])?;
                    open.push(id(&call["id"], 40, &mut ids)?);
                    name(&call["function"]["name"])?;
                    object_text(&call["function"]["arguments"])?;
                }
                open.reverse();
            }
            "tool" => {
                keys(message, &["role", "tool_call_id", "content"], &[])?;
                said(&message["content"], "content")?;
                let wanted = open.pop().ok_or_else(|| format!("message {at} answers no call"))?;
                ensure(message["tool_call_id"] == wanted, || format!("message {at} does not answer {wanted}"))?;
            }
            other => return Err(format!("message {at}: role `{other}`")),
        }
    }
    ensure(open.is_empty(), || format!("{open:?} have no result"))?;
    let last = messages.last().map(|message| &message["role"]);
    ensure(last.is_some_and(|role| role == "user" || role == "tool"), || format!("the last message is {last:?}"))
}

/// What is wrong with the body of a Responses request.
///
/// # Errors
/// The first rule that is broken.
pub(crate) fn check_openai_responses(body: &Value) -> Result<(), String> {
    keys(
        body,
        &["model", "input", "stream", "store", "max_output_tokens"],
        &["instructions", "tools", "include", "reasoning", "text"],
    )?;
    ensure(body["store"] == false, || "the server is asked to keep the reply".to_string())?;
    for tool in list(body, "tools")? {
        keys(tool, &["type", "name", "description", "parameters", "strict"], &[])?;
        name(&tool["name"])?;
    }
    if let Some(instructions) = body.get("instructions") {
        said(instructions, "instructions")?;
    }
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    let mut reasoned = false;
    for (at, item) in list(body, "input")?.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or_default();
        let speaks = kind == "function_call" || item["role"] == "assistant";
        ensure(!reasoned || speaks || kind == "reasoning", || format!("item {at} does not follow from reasoning"))?;
        reasoned = false;
        match kind {
            "message" => {
                keys(item, &["type", "role", "content"], &[])?;
                ensure(open.is_empty() || speaks, || format!("item {at}: {open:?} have no output yet"))?;
                match item["role"].as_str() {
                    Some("assistant") => said(&item["content"], "content")?,
                    Some("user") => {
                        let parts = list(item, "content")?;
                        ensure(!parts.is_empty(), || format!("item {at} is empty"))?;
                        for part in parts {
                            keys(part, &["type", "text"], &[])?;
                            ensure(part["type"] == "input_text", || format!("item {at}: {}", part["type"]))?;
                            said(&part["text"], "text")?;
                        }
                    }
                    other => return Err(format!("item {at}: role {other:?}")),
                }
            }
            "function_call" => {
                keys(item, &["type", "call_id", "name", "arguments"], &[])?;
                open.insert(0, id(&item["call_id"], 64, &mut ids)?);
                name(&item["name"])?;
                object_text(&item["arguments"])?;
            }
            "function_call_output" => {
                keys(item, &["type", "call_id", "output"], &[])?;
                said(&item["output"], "output")?;
                let wanted = open.pop().ok_or_else(|| format!("item {at} answers no call"))?;
                ensure(item["call_id"] == wanted, || format!("item {at} does not answer {wanted}"))?;
            }
            "reasoning" => {
                reasoned = true;
                ensure(item["encrypted_content"].is_string(), || format!("item {at} cannot be replayed"))?;
            }
            other => return Err(format!("item {at}: type `{other}`")),
        }
    }
    let last = list(body, "input")?.last();
    ensure(last.is_some_and(|item| item["role"] != "assistant"), || "the last message is the assistant's".into())?;
    ensure(open.is_empty() && !reasoned, || format!("{open:?} have no output, or reasoning leads to nothing"))
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn keys(value: &Value, required: &[&str], optional: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("{value} is no object"))?;
    for key in required {
        ensure(object.contains_key(*key), || format!("`{key}` is missing in {value}"))?;
    }
    match object.keys().find(|key| !required.contains(&key.as_str()) && !optional.contains(&key.as_str())) {
        Some(key) => Err(format!("`{key}` is not known in {value}")),
        None => Ok(()),
    }
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v [Value], String> {
    match value.get(key) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(format!("`{key}` is {other}")),
    }
}

fn said(value: &Value, what: &str) -> Result<(), String> {
    let text = value.as_str().ok_or_else(|| format!("{what} is {value}"))?;
    ensure(!text.trim().is_empty(), || format!("{what} is blank"))
}

fn name(value: &Value) -> Result<(), String> {
    let name = value.as_str().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    ensure((1..=64).contains(&name.len()) && name.chars().all(fits), || format!("the name {value}"))
}

fn id<'v>(value: &'v Value, longest: usize, ids: &mut HashSet<&'v str>) -> Result<&'v str, String> {
    let id = value.as_str().unwrap_or_default();
    ensure((1..=longest).contains(&id.len()), || format!("the id {value}"))?;
    ensure(ids.insert(id), || format!("the id {value} is used twice"))?;
    Ok(id)
}

fn object_text(value: &Value) -> Result<(), String> {
    let object = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    ensure(object.is_some_and(|object| object.is_object()), || format!("the arguments {value} are no object"))
}
