//! What a history looks like when it is sent over Chat Completions.

use super::super::{Effort, Target};
use super::encode;
use crate::model::catalog::{ChatTools, EffortStyle, OutputLimit, Quirks, ReasoningEcho};
use crate::model::{Block, Message, Opaque, Request, Speaker, ToolCall, ToolResult, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;

fn target() -> Target {
    Target {
        name: "p/m".into(),
        model: "m".into(),
        max_output: 1000,
        quirks: Quirks::default(),
        effort: None,
        cache_marks: false,
    }
}

fn request(messages: Vec<Message>) -> Request {
    let schema = json!({ "type": "object", "properties": {} });
    Request {
        conversation: "a".into(),
        attempt: 1,
        turn: 1,
        system: "be brief".into(),
        tools: vec![ToolSpec { name: "f".into(), description: "does".into(), schema }].into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output: 1000,
        format: None,
    }
}

fn user(blocks: Vec<Block>) -> Message {
    Message { speaker: Speaker::User, blocks }
}

fn assistant(blocks: Vec<Block>) -> Message {
    Message { speaker: Speaker::Assistant, blocks }
}

fn call(id: &str, args: Value) -> Block {
    Block::ToolCall(ToolCall::new(id, "f", args))
}

fn result(id: &str, text: &str, is_error: bool) -> Block {
    Block::ToolResult(ToolResult { id: id.into(), text: text.into(), is_error })
}

fn thinking(model: &str, value: Value) -> Block {
    Block::Thinking(Opaque { model: model.into(), value })
}

#[test]
fn a_request_is_written_as_the_protocol_wants_it() {
    let history = vec![
        user(vec![Block::text("task"), Block::text(" \n"), Block::text("note")]),
        assistant(vec![
            Block::text("  "),
            Block::text("looking"),
            call("a", json!({"x": 1})),
            call("b", json!("{\"x")),
        ]),
        user(vec![result("a", "one", false), result("b", "bad", true), Block::text("go on")]),
        assistant(vec![call("c", json!({}))]),
        user(vec![result("c", " ", false)]),
    ];
    assert_eq!(
        encode(&request(history), &target()),
        json!({
            "model": "m",
            "messages": [
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "task\n\nnote" },
                { "role": "assistant", "content": "looking", "tool_calls": [
                    { "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } },
                    { "id": "b", "type": "function",
                      "function": { "name": "f", "arguments": "{\"unparsed\":\"{\\\"x\"}" } }
                ] },
                { "role": "tool", "tool_call_id": "a", "content": "one" },
                { "role": "tool", "tool_call_id": "b", "content": "Error: bad" },
                { "role": "user", "content": "go on" },
                { "role": "assistant", "content": "", "tool_calls": [
                    { "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }
                ] },
                { "role": "tool", "tool_call_id": "c", "content": "(no output)" }
            ],
            "tools": [{ "type": "function", "function": {
                "name": "f", "description": "does", "parameters": { "type": "object", "properties": {} }
            } }],
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_tokens": 1000
        })
    );
}

#[test]
fn quirks_change_what_they_name_and_nothing_else() {
    let history = || vec![user(vec![Block::text("task")]), assistant(vec![call("a", json!({}))])];
    let mut target = target();
    target.quirks.output_limit = OutputLimit::MaxCompletionTokens;
    target.quirks.no_stream_options = true;
    target.quirks.null_content = true;
    let mut request = request(history());
    request.tools = Vec::new().into();
    request.format = Some(Arc::new(json!({ "type": "object" })));
    let body = encode(&request, &target);
    let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["model", "messages", "stream", "max_completion_tokens", "response_format"]);
    assert_eq!(body["messages"][2]["content"], Value::Null);
    assert_eq!(
        body["response_format"],
        json!({ "type": "json_schema", "json_schema": { "name": "reply", "schema": { "type": "object" } } })
    );
}

#[test]
fn effort_is_asked_for_in_the_servers_own_way_and_in_one_way() {
    use EffortStyle::{EnableThinking, Reasoning, ReasoningEffort, Thinking, ThinkingAndEffort, ThinkingKept};
    for (style, effort, wanted) in [
        (ReasoningEffort, None, json!({})),
        (ReasoningEffort, Some(Effort::None), json!({ "reasoning_effort": "none" })),
        (ReasoningEffort, Some(Effort::Max), json!({ "reasoning_effort": "xhigh" })),
        (Reasoning, Some(Effort::Low), json!({ "reasoning": { "effort": "low" } })),
        (ThinkingAndEffort, Some(Effort::None), json!({ "thinking": { "type": "disabled" } })),
        (ThinkingAndEffort, Some(Effort::Max), json!({ "thinking": { "type": "enabled" }, "reasoning_effort": "max" })),
        (Thinking, None, json!({})),
        (Thinking, Some(Effort::High), json!({ "thinking": { "type": "enabled" } })),
        (ThinkingKept, None, json!({ "thinking": { "type": "enabled", "keep": "all" } })),
        (ThinkingKept, Some(Effort::Low), json!({ "thinking": { "type": "enabled", "keep": "all" } })),
        (ThinkingKept, Some(Effort::None), json!({ "thinking": { "type": "disabled" } })),
        (EnableThinking, Some(Effort::None), json!({ "enable_thinking": false })),
        (EnableThinking, Some(Effort::Medium), json!({ "enable_thinking": true })),
        (EffortStyle::None, Some(Effort::Medium), json!({})),
    ] {
        let mut target = target();
        target.quirks.effort = style;
        target.effort = effort;
        let mut body = encode(&request(vec![user(vec![Block::text("task")])]), &target);
        let body = body.as_object_mut().unwrap();
        for key in ["model", "messages", "tools", "stream", "stream_options", "max_tokens"] {
            body.shift_remove(key);
        }
        assert_eq!(Value::Object(body.clone()), wanted, "{style:?} {effort:?}");
    }
}

#[test]
fn a_model_whose_tools_forbid_reasoning_is_told_not_to_reason() {
    for (chat_tools, effort, with_tools, without) in [
        (ChatTools::Yes, Some(Effort::High), Some("high"), Some("high")),
        (ChatTools::WithoutEffort, Some(Effort::High), None, Some("high")),
        (ChatTools::WithoutReasoning, None, Some("none"), None),
        (ChatTools::WithoutReasoning, Some(Effort::High), Some("none"), Some("high")),
    ] {
        let mut target = target();
        target.quirks.chat_tools = chat_tools;
        target.effort = effort;
        let mut request = request(vec![user(vec![Block::text("task")])]);
        let sent = |request: &Request| encode(request, &target).get("reasoning_effort").cloned();
        assert_eq!(sent(&request), with_tools.map(Value::from), "{chat_tools:?}");
        request.tools = Vec::new().into();
        assert_eq!(sent(&request), without.map(Value::from), "{chat_tools:?}");
    }
}

#[test]
fn reasoning_goes_back_to_the_model_that_made_it_and_to_no_other() {
    let with_call = |block: Block| assistant(vec![block, call("a", json!({}))]);
    let own = || thinking("p/m", json!({ "reasoning_content": "r" }));
    let other = || thinking("q/n", json!({ "reasoning_content": "r" }));
    let said = || assistant(vec![own(), Block::text("hi")]);
    for (echo, message, wanted) in [
        (ReasoningEcho::WithCalls, with_call(own()), Some("r")),
        (ReasoningEcho::WithCalls, with_call(other()), None),
        (ReasoningEcho::WithCalls, said(), None),
        (ReasoningEcho::Required, with_call(own()), Some("r")),
        (ReasoningEcho::Required, with_call(other()), Some(".")),
        (ReasoningEcho::Required, assistant(vec![Block::text("x"), call("a", json!({}))]), Some(".")),
        (ReasoningEcho::Required, said(), None),
        (ReasoningEcho::Always, said(), Some("r")),
        (ReasoningEcho::Never, with_call(own()), None),
    ] {
        let mut target = target();
        target.quirks.reasoning = echo;
        let body = encode(&request(vec![user(vec![Block::text("task")]), message]), &target);
        let sent = body["messages"][2].get("reasoning_content").and_then(Value::as_str);
        assert_eq!(sent, wanted, "{echo:?}: {}", body["messages"][2]);
    }
}

#[test]
fn several_pieces_of_reasoning_become_one_field_and_foreign_ones_are_left_out() {
    let message = assistant(vec![
        thinking("p/m", json!({ "reasoning": "a", "reasoning_details": [1] })),
        thinking("p/m", json!({ "reasoning": "b", "reasoning_details": [2], "type": "thinking", "role": "x" })),
        thinking("p/m", json!("no object")),
        call("a", json!({})),
    ]);
    let body = encode(&request(vec![user(vec![Block::text("task")]), message]), &target());
    let sent = &body["messages"][2];
    assert_eq!((&sent["reasoning"], &sent["reasoning_details"]), (&json!("ab"), &json!([1, 2])));
    let keys: Vec<&str> = sent.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["role", "content", "reasoning", "reasoning_details", "tool_calls"]);
}

#[test]
fn a_thought_signature_goes_back_on_its_call() {
    let mut own = ToolCall::new("a", "f", json!({}));
    own.opaque = Some(Opaque { model: "p/m".into(), value: json!({ "google": { "thought_signature": "S" } }) });
    let mut foreign = ToolCall::new("b", "f", json!({}));
    foreign.opaque = Some(Opaque { model: "q/n".into(), value: json!({ "google": {} }) });
    let message = assistant(vec![Block::ToolCall(own), Block::ToolCall(foreign)]);
    let body = encode(&request(vec![user(vec![Block::text("task")]), message]), &target());
    let calls = &body["messages"][2]["tool_calls"];
    assert_eq!(calls[0]["extra_content"], json!({ "google": { "thought_signature": "S" } }));
    assert_eq!(calls[1].get("extra_content"), None);
}
