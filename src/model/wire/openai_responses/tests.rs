//! Responses: events in and what came of them, histories and how they are sent.

use super::super::{Effort, Target};
use super::*;
use crate::model::catalog::Quirks;
use crate::model::{Block, Message, Request, Speaker, ToolResult, ToolSpec, Usage};
use serde_json::json;

fn read_events(events: &[Value]) -> (Vec<Delta>, Option<Failure>) {
    let mut decoder = Decoder::new("p/m".into());
    let mut out = Vec::new();
    for event in events {
        let data = event.to_string();
        if let Err(failure) = decoder.event(&sse::Event { name: "", data: &data }, &mut out) {
            return (out, Some(failure));
        }
    }
    let failure = decoder.end(&mut out).err();
    (out, failure)
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn partial(text: &str) -> Delta {
    Delta::Partial(text.into())
}

fn completed(output: Value) -> Value {
    json!({ "type": "response.completed", "response": { "status": "completed", "output": output } })
}

#[test]
fn a_whole_stream_becomes_blocks_in_order_and_a_call_comes_before_the_end() {
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E" });
    let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}",
        "status": "completed" });
    let message = json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": "hi", "annotations": [] }] });
    let events = [
        json!({ "type": "response.created", "sequence_number": 0, "response": { "status": "in_progress", "output": [] } }),
        json!({ "type": "response.in_progress", "response": { "status": "in_progress" } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "reasoning" } }),
        json!({ "type": "response.reasoning_summary_text.delta", "delta": "s" }),
        json!({ "type": "response.reasoning_text.delta", "delta": "t" }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": reasoning }),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": { "type": "message" } }),
        json!({ "type": "response.content_part.added", "part": { "type": "output_text", "text": "" } }),
        json!({ "type": "response.output_text.delta", "delta": "h" }),
        json!({ "type": "response.output_text.delta", "delta": "i" }),
        json!({ "type": "response.output_text.done", "text": "hi" }),
        json!({ "type": "response.content_part.done", "part": { "type": "output_text", "text": "hi" } }),
        json!({ "type": "response.output_item.done", "output_index": 1, "item": message }),
        json!({ "type": "response.output_item.added", "output_index": 2, "item": { "type": "function_call" } }),
        json!({ "type": "response.function_call_arguments.delta", "delta": "{\"a\":1}" }),
        json!({ "type": "response.function_call_arguments.done", "arguments": "{\"a\":1}" }),
        json!({ "type": "response.output_item.done", "output_index": 2, "item": call }),
        json!({ "type": "response.something.new", "delta": "?" }),
        json!({ "type": "response.completed", "response": { "status": "completed", "error": null,
            "incomplete_details": null, "output": [reasoning, message, call], "usage": {
            "input_tokens": 100, "input_tokens_details": { "cached_tokens": 60, "cache_write_tokens": 10 },
            "output_tokens": 30, "output_tokens_details": { "reasoning_tokens": 20 }, "total_tokens": 130 } } }),
        json!({ "type": "response.output_text.delta", "delta": "not read any more" }),
    ];
    let thinking = Delta::Thinking(Opaque { model: "p/m".into(), value: reasoning });
    let call = Delta::Call(ToolCall::new("c1", "f", json!({ "a": 1 })));
    let usage = Usage { input: 30, cache_read: 60, cache_write: 10, output: 30, reasoning: 20 };
    let wanted = vec![
        partial("s"),
        partial("t"),
        thinking,
        text("h"),
        text("i"),
        partial("{\"a\":1}"),
        call,
        Delta::Usage(usage),
        Delta::Stop(StopKind::Tool),
    ];
    assert_eq!(read_events(&events), (wanted, None));
    let (early, _) = read_events(&events[..17]);
    assert!(matches!(early.last(), Some(Delta::Call(_))), "the call is there before the reply has ended");
}

#[test]
fn what_had_no_event_of_its_own_is_taken_from_the_end() {
    let output = json!([
        { "type": "message", "content": [{ "type": "output_text", "text": "hi" }] },
        { "type": "function_call", "id": "fc_1", "name": "f", "arguments": "" },
        { "type": "function_call", "call_id": "fc_1", "name": "g", "arguments": "[1]" },
        { "type": "web_search_call", "id": "ws_1" }
    ]);
    let wanted = vec![
        text("hi"),
        Delta::Call(ToolCall::new("fc_1", "f", json!({}))),
        Delta::Call(ToolCall::new("call_3", "g", json!([1]))),
        Delta::Stop(StopKind::Tool),
    ];
    assert_eq!(read_events(&[completed(output.clone())]), (wanted.clone(), None));
    let body = json!({ "object": "response", "status": "completed", "output": output }).to_string();
    let mut out = Vec::new();
    Decoder::new("p/m".into()).whole(body.as_bytes(), &mut out).unwrap();
    assert_eq!(out, wanted, "a whole reply reads like its stream");
}

#[test]
fn words_that_streamed_are_not_said_twice() {
    let item = json!({ "type": "message", "content": [{ "type": "output_text", "text": "hi" }] });
    let delta = json!({ "type": "response.output_text.delta", "delta": "hi" });
    let (out, failure) = read_events(&[delta, completed(json!([item]))]);
    assert_eq!((out, failure), (vec![text("hi"), Delta::Stop(StopKind::End)], None));
}

#[test]
fn the_end_says_why() {
    let incomplete = |reason: &str| {
        json!({ "type": "response.incomplete", "response": { "status": "incomplete",
            "incomplete_details": { "reason": reason }, "output": [
                { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\": \"b", "status": "incomplete" },
                { "type": "function_call", "call_id": "d", "name": "f", "arguments": "", "status": "incomplete" }
            ] } })
    };
    for (reason, stop) in [
        ("max_output_tokens", StopKind::Length),
        ("content_filter", StopKind::Filtered),
        ("brand_new", StopKind::StreamCut),
    ] {
        let wanted = vec![
            Delta::Call(ToolCall::new("c", "f", json!("{\"a\": \"b"))),
            Delta::Call(ToolCall::new("d", "f", json!(""))),
            Delta::Stop(stop),
        ];
        assert_eq!(read_events(&[incomplete(reason)]), (wanted, None), "{reason}");
    }
    let refusal = json!({ "type": "response.refusal.delta", "delta": "no" });
    let (out, _) = read_events(&[refusal, completed(json!([{ "type": "message", "content": [] }]))]);
    assert_eq!(out, [text("no"), Delta::Stop(StopKind::Refusal)]);
}

#[test]
fn an_end_without_its_mark_and_an_error_are_failures() {
    let words = json!({ "type": "response.output_text.delta", "delta": "hi" });
    for (event, kind, message) in [
        (words, ModelErrorKind::Cut, "the stream ended before the response did"),
        (
            json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null }),
            ModelErrorKind::RateLimit,
            "slow down",
        ),
        (
            json!({ "type": "error", "error": { "type": "server_error", "message": "broken" } }),
            ModelErrorKind::Server,
            "broken",
        ),
        (json!({ "error": { "message": "no type" } }), ModelErrorKind::Server, "no type"),
        (
            json!({ "type": "response.failed", "response": { "status": "failed",
                "error": { "code": "server_error", "message": "broken" } } }),
            ModelErrorKind::Server,
            "broken",
        ),
        (
            json!({ "type": "response.failed", "response": { "status": "failed", "error": null } }),
            ModelErrorKind::Server,
            "the response failed without a reason",
        ),
        (
            json!({ "type": "response.cancelled", "response": { "status": "cancelled" } }),
            ModelErrorKind::Cut,
            "the response was cancelled on the server",
        ),
        (json!({ "type": "response.completed" }), ModelErrorKind::Protocol, "`response.completed` has no response"),
    ] {
        let (_, failure) = read_events(std::slice::from_ref(&event));
        let failure = failure.unwrap();
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message), "{event}");
    }
    for body in ["<html>", r#"{"choices":[]}"#] {
        let failure = Decoder::new("p/m".into()).whole(body.as_bytes(), &mut Vec::new()).unwrap_err();
        assert_eq!(failure.kind, ModelErrorKind::Protocol, "{body}");
    }
}

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

fn thinking(model: &str, value: Value) -> Block {
    Block::Thinking(Opaque { model: model.into(), value })
}

#[test]
fn a_request_is_written_as_the_protocol_wants_it() {
    let item = |id: &str| json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": "E" });
    let result = |id: &str, text: &str, is_error: bool| {
        Block::ToolResult(ToolResult { id: id.into(), text: text.into(), is_error })
    };
    let history = vec![
        user(vec![Block::text("task"), Block::text(" \n"), Block::text("note")]),
        assistant(vec![
            thinking("p/m", item("rs_1")),
            Block::text("looking"),
            thinking("p/m", item("rs_2")),
            thinking("q/n", item("rs_other")),
            thinking("p/m", json!({ "type": "reasoning", "id": "rs_not_kept", "summary": [] })),
            Block::ToolCall(ToolCall::new("a", "f", json!({ "x": 1 }))),
            Block::ToolCall(ToolCall::new("b", "no such tool", json!("{\"x"))),
            thinking("p/m", item("rs_without_anything_after")),
        ]),
        user(vec![result("a", "one", false), result("b", "bad", true), Block::text("go on")]),
    ];
    let mut target = target();
    target.effort = Some(Effort::Low);
    let mut request = request(history);
    request.format = Some(Arc::new(json!({ "type": "object" })));
    assert_eq!(
        encode(&request, &target),
        json!({
            "model": "m",
            "instructions": "be brief",
            "input": [
                { "type": "message", "role": "user", "content": [
                    { "type": "input_text", "text": "task" }, { "type": "input_text", "text": "note" } ] },
                item("rs_1"),
                { "type": "message", "role": "assistant", "content": "looking" },
                item("rs_2"),
                { "type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"x\":1}" },
                { "type": "function_call", "call_id": "b", "name": "no_such_tool",
                  "arguments": "{\"unparsed\":\"{\\\"x\"}" },
                { "type": "function_call_output", "call_id": "a", "output": "one" },
                { "type": "function_call_output", "call_id": "b", "output": "Error: bad" },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "go on" }] }
            ],
            "tools": [{ "type": "function", "name": "f", "description": "does",
                "parameters": { "type": "object", "properties": {} }, "strict": false }],
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 1000,
            "reasoning": { "effort": "low" },
            "text": { "format": { "type": "json_schema", "name": "reply", "schema": { "type": "object" } } }
        })
    );
}

#[test]
fn a_server_without_encrypted_reasoning_is_not_asked_for_it() {
    let mut target = target();
    target.quirks.no_encrypted_reasoning = true;
    assert_eq!(encode(&request(vec![user(vec![Block::text("task")])]), &target).get("include"), None);
}
