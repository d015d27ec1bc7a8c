//! A request as Responses wants it: one flat list of items, nothing kept by the server.
//!
//! ```text
//! system text      -> instructions
//! user text        -> message with one input_text per block (so that a longer message begins with the shorter one)
//! results          -> function_call_output, first of their message
//! assistant text   -> message
//! reasoning        -> the item as it came, directly before what it led to
//! calls            -> function_call
//! ```

use super::super::openai::{self, FORMAT};
use super::super::{Target, ids};
use crate::model::{Block, Message, Request, Speaker, ToolSpec};
use serde_json::{Map, Value, json};

/// OpenAI refuses longer ids of calls.
const MAX_ID: usize = 64;

pub(in super::super) fn encode(request: &Request, target: &Target) -> Value {
    let mut input = Vec::new();
    for message in &request.messages {
        match message.speaker {
            Speaker::User => user(message, &mut input),
            Speaker::Assistant => assistant(message, target, &mut input),
        }
    }
    if openai::is_paused(request) {
        let go_on = json!({ "type": "input_text", "text": openai::GO_ON });
        input.push(json!({ "type": "message", "role": "user", "content": [go_on] }));
    }
    let mut body = Map::new();
    body.insert("model".into(), target.model.as_str().into());
    if !request.system.trim().is_empty() {
        body.insert("instructions".into(), (&*request.system).into());
    }
    body.insert("input".into(), input.into());
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    body.insert("stream".into(), true.into());
    body.insert("store".into(), false.into());
    // Without this the reasoning of an unstored reply could not be sent back.
    if !target.quirks.no_encrypted_reasoning {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("max_output_tokens".into(), target.max_output.into());
    if let Some(effort) = target.effort {
        body.insert("reasoning".into(), json!({ "effort": openai::effort(effort) }));
    }
    if let Some(schema) = &request.format {
        body.insert("text".into(), json!({ "format": { "type": "json_schema", "name": FORMAT, "schema": &**schema } }));
    }
    Value::Object(body)
}

/// `strict` is on where it is not sent, and refuses schemas with optional fields.
fn tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
        "strict": false,
    })
}

fn user(message: &Message, input: &mut Vec<Value>) {
    let mut parts: Vec<Value> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolResult(result) => input.push(json!({
                "type": "function_call_output",
                "call_id": openai::call_id(&result.id, MAX_ID),
                "output": openai::result_text(result),
            })),
            Block::Text { text } if !text.trim().is_empty() => {
                parts.push(json!({ "type": "input_text", "text": text }));
            }
            Block::Text { .. } | Block::Thinking(_) | Block::ToolCall(_) => {}
        }
    }
    if !parts.is_empty() {
        input.push(json!({ "type": "message", "role": "user", "content": parts }));
    }
}

fn assistant(message: &Message, target: &Target, input: &mut Vec<Value>) {
    // Reasoning that nothing follows is refused, so it waits for what it led to.
    let mut reasoning: Vec<Value> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Thinking(opaque) if opaque.model == *target.name && can_be_replayed(&opaque.value) => {
                reasoning.push(opaque.value.clone());
            }
            Block::Text { text } if !text.trim().is_empty() => {
                input.append(&mut reasoning);
                input.push(json!({ "type": "message", "role": "assistant", "content": text }));
            }
            Block::ToolCall(call) => {
                input.append(&mut reasoning);
                input.push(json!({
                    "type": "function_call",
                    "call_id": openai::call_id(&call.id, MAX_ID),
                    "name": ids::name(&call.name),
                    "arguments": openai::arguments(&call.args),
                }));
            }
            Block::Text { .. } | Block::Thinking(_) | Block::ToolResult(_) => {}
        }
    }
}

/// Whether a blob is a reasoning item that holds its reasoning itself. One that only names it is looked up on the
/// server, which has not kept it.
fn can_be_replayed(item: &Value) -> bool {
    let encrypted = item.get("encrypted_content").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let open = item.get("content").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty());
    item.get("type").and_then(Value::as_str) == Some("reasoning") && (encrypted || open)
}
