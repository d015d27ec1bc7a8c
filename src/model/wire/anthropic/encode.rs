//! One request, from the normal form to a body.

use super::super::ids::{self, Ids};
use super::super::{Effort, Target};
use crate::model::catalog::ThinkingStyle;
use crate::model::{Block, Message, Request, Speaker, ToolResult, ToolSpec};
use serde_json::{Map, Value, json};

/// The smallest `budget_tokens` that is taken.
const SMALLEST_BUDGET: u32 = 1024;

/// The body. Whatever a history holds, what comes out keeps the protocol's rules: results first and all in one message,
/// no blank text, speakers that alternate, reasoning only for the model that made it and then unaltered.
///
/// The same blocks always give the same bytes, so that those of one request are a prefix of those of the next; only the
/// cache marks move.
pub(in super::super) fn encode(request: &Request, target: &Target) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), target.model.clone().into());
    body.insert("max_tokens".into(), target.max_output.into());
    body.insert("stream".into(), true.into());
    if let Some(thinking) = thinking(request, target) {
        body.insert("thinking".into(), thinking);
    }
    if let Some(config) = output_config(request, target) {
        body.insert("output_config".into(), config);
    }
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let mut system: Vec<Value> =
        if request.system.trim().is_empty() { Vec::new() } else { vec![text(&request.system)] };
    let mut messages = messages(&request.messages, target);
    if target.cache_marks {
        mark(&mut tools, &mut system, &mut messages);
    }
    for (key, list) in [("tools", tools), ("system", system)] {
        if !list.is_empty() {
            body.insert(key.into(), list.into());
        }
    }
    let messages: Vec<Value> =
        messages.into_iter().map(|(speaker, content)| json!({ "role": role(speaker), "content": content })).collect();
    body.insert("messages".into(), messages.into());
    Value::Object(body)
}

fn role(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn tool(tool: &ToolSpec) -> Value {
    let mut schema = tool.schema.clone();
    if let Some(schema) = schema.as_object_mut()
        && !schema.contains_key("type")
    {
        schema.insert("type".into(), "object".into());
    }
    json!({ "name": ids::name(&tool.name), "description": tool.description, "input_schema": schema })
}

/// Messages as speaker and blocks.
fn messages(history: &[impl AsRef<Message>], target: &Target) -> Vec<(Speaker, Vec<Value>)> {
    let mut ids = Ids::default();
    let mut messages: Vec<(Speaker, Vec<Value>)> = Vec::new();
    for message in history {
        let message = message.as_ref();
        let mut blocks: Vec<Value> =
            message.blocks.iter().filter_map(|block| self::block(block, target, &mut ids)).collect();
        if message.speaker == Speaker::Assistant {
            // "The final block in an assistant message cannot be `thinking`": what came after it was cut off.
            let end = blocks.iter().rposition(|block| !is_thinking(block)).map_or(0, |last| last + 1);
            blocks.truncate(end);
        }
        match messages.last_mut() {
            // The message between them had nothing to send, or the history did not alternate.
            Some((speaker, before)) if *speaker == message.speaker => before.append(&mut blocks),
            _ if blocks.is_empty() => {}
            _ => messages.push((message.speaker, blocks)),
        }
    }
    for (_, blocks) in messages.iter_mut().filter(|(speaker, _)| *speaker == Speaker::User) {
        // Text before a result is refused. The sort is stable.
        blocks.sort_by_key(|block| kind(block) != "tool_result");
    }
    messages
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_thinking(block: &Value) -> bool {
    matches!(kind(block), "thinking" | "redacted_thinking")
}

/// A block, unless there is nothing of it to send.
fn block<'r>(block: &'r Block, target: &Target, ids: &mut Ids<'r>) -> Option<Value> {
    match block {
        Block::Text { text: words } => (!words.trim().is_empty()).then(|| text(words)),
        // Its signature belongs to the model that made it: unaltered, or not at all.
        Block::Thinking(opaque) => {
            (*opaque.model == *target.name && is_thinking(&opaque.value)).then(|| opaque.value.clone())
        }
        Block::ToolCall(call) => {
            let input = match &call.args {
                Value::Object(args) => Value::Object(args.clone()),
                // A malformed call stays readable to the model, in the only form that is taken.
                other => json!({ "unparsed": other }),
            };
            let (id, name) = (ids.safe(&call.id), ids::name(&call.name));
            Some(json!({ "type": "tool_use", "id": id, "name": name, "input": input }))
        }
        Block::ToolResult(result) => Some(tool_result(result, ids.safe(&result.id))),
    }
}

fn tool_result(result: &ToolResult, id: &str) -> Value {
    let mut block = json!({ "type": "tool_result", "tool_use_id": id });
    if !result.text.trim().is_empty() {
        block["content"] = result.text.as_str().into();
    }
    if result.is_error {
        block["is_error"] = true.into();
        // "content cannot be empty if is_error is true"
        if block.get("content").is_none() {
            block["content"] = "failed".into();
        }
    }
    block
}

/// Tells how hard to think, where the model can be told.
fn thinking(request: &Request, target: &Target) -> Option<Value> {
    let effort = target.effort?;
    match (target.quirks.thinking, effort) {
        (ThinkingStyle::None, _) => None,
        (ThinkingStyle::Budget | ThinkingStyle::Adaptive, Effort::None) => Some(json!({ "type": "disabled" })),
        // Without `display` the newest models stream nothing while they think, and we could not tell that from a stall.
        (ThinkingStyle::Adaptive, Effort::Low | Effort::Medium | Effort::High | Effort::Max) => {
            Some(json!({ "type": "adaptive", "display": "summarized" }))
        }
        (ThinkingStyle::Budget, Effort::Low | Effort::Medium | Effort::High | Effort::Max) => {
            let wanted = match effort {
                Effort::None => return None,
                Effort::Low => 2_048,
                Effort::Medium => 8_192,
                Effort::High => 16_384,
                Effort::Max => 32_768,
            };
            // The budget is part of `max_tokens`, and words must fit too.
            let budget = wanted.min(target.max_output / 4 * 3);
            let fits = budget >= SMALLEST_BUDGET && loop_allows_thinking(&request.messages, target);
            fits.then(|| json!({ "type": "enabled", "budget_tokens": budget }))
        }
    }
}

/// Whether a thinking budget may be set: the assistant's turn that tool results continue must then begin with its
/// reasoning. It does not when another model began it, and a setting must not change within a turn.
fn loop_allows_thinking(history: &[impl AsRef<Message>], target: &Target) -> bool {
    let mut first_of_loop = None;
    for pair in history.windows(2).rev() {
        let [reply, results] = pair else { continue };
        match (reply.as_ref().speaker, results.as_ref().speaker) {
            (Speaker::Assistant, Speaker::User) => {
                if !results.as_ref().blocks.iter().any(|block| matches!(block, Block::ToolResult(_))) {
                    break;
                }
                first_of_loop = Some(reply.as_ref());
            }
            (Speaker::User, _) | (Speaker::Assistant, Speaker::Assistant) => {}
        }
    }
    first_of_loop.is_none_or(
        |reply| matches!(reply.blocks.first(), Some(Block::Thinking(opaque)) if *opaque.model == *target.name),
    )
}

fn output_config(request: &Request, target: &Target) -> Option<Value> {
    let mut config = Map::new();
    let effort = match (target.quirks.thinking, target.effort) {
        (ThinkingStyle::None | ThinkingStyle::Budget, _) | (ThinkingStyle::Adaptive, None | Some(Effort::None)) => None,
        (ThinkingStyle::Adaptive, Some(Effort::Low)) => Some("low"),
        (ThinkingStyle::Adaptive, Some(Effort::Medium)) => Some("medium"),
        (ThinkingStyle::Adaptive, Some(Effort::High)) => Some("high"),
        (ThinkingStyle::Adaptive, Some(Effort::Max)) => Some("max"),
    };
    if let Some(effort) = effort {
        config.insert("effort".into(), effort.into());
    }
    if let Some(schema) = &request.format {
        config.insert("format".into(), json!({ "type": "json_schema", "schema": **schema }));
    }
    (!config.is_empty()).then_some(Value::Object(config))
}

/// Marks where the provider should cache: at most four places are taken.
///
/// 1. The last tool and 2. the system text: what siblings of one role share, though their prompts differ.
/// 3. The end of the last user message: all of this request, for the next one to read.
/// 4. The end of the user message before it: where the last request of this conversation put its third mark. The
///    provider looks back about twenty blocks from a mark, and one turn with many parallel calls adds more; a mark on
///    the very place that was written is found whatever came after it.
fn mark(tools: &mut [Value], system: &mut [Value], messages: &mut [(Speaker, Vec<Value>)]) {
    let set = |block: &mut Value| block["cache_control"] = json!({ "type": "ephemeral" });
    tools.last_mut().map(set);
    system.last_mut().map(set);
    let users = messages.iter_mut().rev().filter(|(speaker, _)| *speaker == Speaker::User);
    for (_, blocks) in users.take(2) {
        // A result without words is as empty as blank text; a mark on nothing is refused.
        blocks.iter_mut().rfind(|block| kind(block) == "text" || block.get("content").is_some()).map(set);
    }
}
