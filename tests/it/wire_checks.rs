//! What the strictest server of each protocol refuses, written down apart from the code that has to keep to it.

use serde_json::Value;
use std::collections::HashSet;

/// What is wrong with a body for Anthropic's Messages: pairing and order, blank text, marks, letters of ids.
///
/// # Errors
/// The first rule that is broken, and where.
pub(crate) fn check_anthropic(body: &Value) -> Result<(), String> {
    if body["model"].as_str().is_none_or(str::is_empty) || body["stream"] != true {
        return Err("no model, or not a stream".into());
    }
    let max_tokens = body["max_tokens"].as_u64().filter(|most| *most > 0).ok_or("`max_tokens` is missing")?;
    if let Some(budget) = body["thinking"]["budget_tokens"].as_u64()
        && !(1024..max_tokens).contains(&budget)
    {
        return Err(format!("a budget of {budget} with `max_tokens` {max_tokens}"));
    }
    let mut marks = 0;
    for tool in list(&body["tools"]) {
        safe(&tool["name"])?;
        if tool["input_schema"]["type"] != "object" {
            return Err(format!("the schema of {} is of no object", tool["name"]));
        }
        marks += usize::from(tool.get("cache_control").is_some());
    }
    for block in list(&body["system"]) {
        marks += check_block(block, "system")?;
    }
    let mut ids = HashSet::new();
    let mut asked: Vec<&str> = Vec::new();
    let messages = list(&body["messages"]);
    for (number, message) in messages.iter().enumerate() {
        let at = |what: &str| format!("message {number}: {what}");
        let (blocks, role) = (list(&message["content"]), message["role"].as_str().unwrap_or_default());
        if role != ["user", "assistant"][number % 2] || blocks.is_empty() {
            return Err(at(&format!("{role} speaks, or says nothing")));
        }
        let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap_or_default()).collect();
        let answered: Vec<&str> = blocks.iter().filter_map(|block| block["tool_use_id"].as_str()).collect();
        if answered != asked {
            return Err(at(&format!("answers {answered:?}, asked was {asked:?}")));
        }
        if kinds.iter().rposition(|kind| *kind == "tool_result").is_some_and(|last| last >= answered.len()) {
            return Err(at("something stands before a result"));
        }
        asked.clear();
        for block in blocks {
            marks += check_block(block, role).map_err(|what| at(&what))?;
            if block["type"] == "tool_use" {
                let id = safe(&block["id"]).map_err(|what| at(&what))?;
                safe(&block["name"]).map_err(|what| at(&what))?;
                if !ids.insert(id) || !block["input"].is_object() {
                    return Err(at(&format!("the call {id} has an id that is used, or no object as input")));
                }
                asked.push(id);
            }
        }
        if role == "assistant" && kinds.last().is_some_and(|kind| kind.contains("thinking")) {
            return Err(at("ends in reasoning"));
        }
    }
    if !asked.is_empty() || messages.is_empty() {
        return Err("calls are left open, or there is no message".into());
    }
    if marks > 4 {
        return Err(format!("{marks} marks"));
    }
    Ok(())
}

/// Checks a block by itself. Returns how many marks it bears.
fn check_block(block: &Value, role: &str) -> Result<usize, String> {
    let kind = block["type"].as_str().unwrap_or_default();
    let empty = match (role, kind) {
        ("user" | "assistant" | "system", "text")
            if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) =>
        {
            return Err("blank text".into());
        }
        ("user" | "assistant" | "system", "text") | ("assistant", "tool_use") => false,
        ("user", "tool_result") => {
            let empty = block["content"].as_str().is_none_or(|text| text.trim().is_empty());
            if empty && (block["is_error"] == true || block.get("content").is_some()) {
                return Err("a result with blank content".into());
            }
            empty
        }
        ("assistant", "thinking") if block["signature"].is_string() && block["thinking"].is_string() => true,
        ("assistant", "redacted_thinking") if block["data"].is_string() => true,
        _ => return Err(format!("{role} says a `{kind}`")),
    };
    match block.get("cache_control") {
        Some(_) if empty => Err(format!("a mark on an empty or unmarkable `{kind}`")),
        mark => Ok(usize::from(mark.is_some())),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Letters that every protocol takes in ids and names.
fn safe(value: &Value) -> Result<&str, String> {
    let text = value.as_str().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        Ok(text)
    } else {
        Err(format!("{value} has letters that are not taken"))
    }
}
