//! A request as Chat Completions wants it.
//!
//! ```text
//! system text                        -> system message
//! user: results, then text           -> one tool message per result in order, then one user message
//! assistant: thinking, text, calls   -> one assistant message: content, reasoning fields, tool_calls
//! ```
//! Blank text is never sent.

use super::super::openai::{self, FORMAT};
use super::super::{Effort, Target, ids};
use super::reasoning;
use crate::model::catalog::{ChatTools, EffortStyle, OutputLimit, ReasoningEcho};
use crate::model::{Block, Message, Request, Speaker, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

/// OpenAI refuses longer ids of calls.
const MAX_ID: usize = 40;

pub(in super::super) fn encode(request: &Request, target: &Target) -> Value {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.trim().is_empty() {
        messages.push(json!({ "role": "system", "content": &*request.system }));
    }
    for message in &request.messages {
        match message.speaker {
            Speaker::User => user(message, &mut messages),
            Speaker::Assistant => messages.extend(assistant(message, target)),
        }
    }
    if openai::is_paused(request) {
        messages.push(json!({ "role": "user", "content": openai::GO_ON }));
    }
    let mut body = Map::new();
    body.insert("model".into(), target.model.as_str().into());
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    body.insert("stream".into(), true.into());
    if !target.quirks.no_stream_options {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    let limit = match target.quirks.output_limit {
        OutputLimit::MaxTokens => "max_tokens",
        OutputLimit::MaxCompletionTokens => "max_completion_tokens",
    };
    body.insert(limit.into(), target.max_output.into());
    if let Some(schema) = &request.format {
        let format = json!({ "name": FORMAT, "schema": &**schema });
        body.insert("response_format".into(), json!({ "type": "json_schema", "json_schema": format }));
    }
    think(target, !request.tools.is_empty(), &mut body);
    Value::Object(body)
}

fn tool(spec: &ToolSpec) -> Value {
    let function = json!({ "name": spec.name, "description": spec.description, "parameters": spec.schema });
    json!({ "type": "function", "function": function })
}

/// Results directly after the calls they answer, then what else there is to say.
fn user(message: &Message, messages: &mut Vec<Value>) {
    for block in &message.blocks {
        match block {
            Block::ToolResult(result) => messages.push(json!({
                "role": "tool",
                "tool_call_id": openai::call_id(&result.id, MAX_ID),
                "content": openai::result_text(result),
            })),
            Block::Text { .. } | Block::Thinking(_) | Block::ToolCall(_) => {}
        }
    }
    if let Some(text) = words(message) {
        messages.push(json!({ "role": "user", "content": text }));
    }
}

/// `None` for a message with nothing that can be sent: reasoning alone is refused.
fn assistant(message: &Message, target: &Target) -> Option<Value> {
    let mut calls: Vec<Value> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolCall(call) => calls.push(tool_call(call, target)),
            Block::Text { .. } | Block::Thinking(_) | Block::ToolResult(_) => {}
        }
    }
    let content = match words(message) {
        Some(text) => Value::String(text),
        None if calls.is_empty() => return None,
        // OpenAI's form is null; LM Studio refuses that (lmstudio-bug-tracker #261), chat templates behind vLLM print
        // `None` (vllm #54368) or fail, and hosted servers accept the empty string.
        None if target.quirks.null_content => Value::Null,
        None => Value::String(String::new()),
    };
    let mut out = Map::new();
    out.insert("role".into(), "assistant".into());
    out.insert("content".into(), content);
    let echo = match target.quirks.reasoning {
        ReasoningEcho::WithCalls | ReasoningEcho::Required => !calls.is_empty(),
        ReasoningEcho::Always => true,
        ReasoningEcho::Never => false,
    };
    if echo {
        reasoning::echo(message, &target.name, &mut out);
    }
    if echo && target.quirks.reasoning == ReasoningEcho::Required {
        // Calls of another model, or made without reasoning. Moonshot refuses an empty text here.
        out.entry("reasoning_content").or_insert_with(|| ".".into());
    }
    if !calls.is_empty() {
        out.insert("tool_calls".into(), calls.into());
    }
    Some(Value::Object(out))
}

fn tool_call(call: &ToolCall, target: &Target) -> Value {
    let function = json!({ "name": ids::name(&call.name), "arguments": openai::arguments(&call.args) });
    let mut out = json!({ "id": openai::call_id(&call.id, MAX_ID), "type": "function", "function": function });
    if let Some(opaque) = &call.opaque
        && opaque.model == *target.name
    {
        out["extra_content"] = opaque.value.clone();
    }
    out
}

/// All text of a message, as paragraphs.
fn words(message: &Message) -> Option<String> {
    let mut all = String::new();
    for block in &message.blocks {
        match block {
            Block::Text { text } if !text.trim().is_empty() => {
                if !all.is_empty() {
                    all.push_str("\n\n");
                }
                all.push_str(text);
            }
            Block::Text { .. } | Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => {}
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Says how hard to think. No server gets two ways of saying it, but DeepSeek's, whose two say different things.
fn think(target: &Target, tools: bool, body: &mut Map<String, Value>) {
    let style = target.quirks.effort;
    let effort = match target.quirks.chat_tools {
        ChatTools::WithoutEffort if tools => None,
        ChatTools::WithoutReasoning if tools => Some(Effort::None),
        ChatTools::Yes | ChatTools::WithoutEffort | ChatTools::WithoutReasoning | ChatTools::No => target.effort,
    };
    let Some(effort) = effort else {
        if style == EffortStyle::ThinkingKept {
            body.insert("thinking".into(), json!({ "type": "enabled", "keep": "all" }));
        }
        return;
    };
    let on = effort != Effort::None;
    let switch = if on { "enabled" } else { "disabled" };
    match style {
        EffortStyle::ReasoningEffort => {
            body.insert("reasoning_effort".into(), openai::effort(effort).into());
        }
        EffortStyle::Reasoning => {
            body.insert("reasoning".into(), json!({ "effort": openai::effort(effort) }));
        }
        EffortStyle::ThinkingAndEffort => {
            body.insert("thinking".into(), json!({ "type": switch }));
            if on {
                let word = if effort == Effort::Max { "max" } else { openai::effort(effort) };
                body.insert("reasoning_effort".into(), word.into());
            }
        }
        EffortStyle::ThinkingKept if on => {
            body.insert("thinking".into(), json!({ "type": switch, "keep": "all" }));
        }
        EffortStyle::Thinking | EffortStyle::ThinkingKept => {
            body.insert("thinking".into(), json!({ "type": switch }));
        }
        EffortStyle::EnableThinking => {
            body.insert("enable_thinking".into(), on.into());
        }
        EffortStyle::None => {}
    }
}
