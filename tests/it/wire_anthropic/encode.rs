//! Requests in Anthropic's Messages: whatever happened in a conversation, what is sent keeps the rules.

use crate::wire_checks::check_anthropic;
use proptest::prelude::*;
use serde_json::{Value, json};
use sortie::agent::history::History;
use sortie::model::catalog::{Quirks, ThinkingStyle};
use sortie::model::wire::{Effort, Protocol, Target};
use sortie::model::{Block, Message, Opaque, Request, Speaker, StopKind, ToolCall, ToolResult, ToolSpec};
use std::sync::Arc;

const OURS: &str = "anthropic/a";

fn target() -> Target {
    Target {
        name: OURS.into(),
        model: "claude-test".into(),
        max_output: 4096,
        quirks: Quirks::default(),
        effort: None,
        cache_marks: true,
    }
}

fn tools() -> Arc<[ToolSpec]> {
    ["read_file", "list_files"]
        .map(|name| ToolSpec { name: name.into(), description: "d".into(), schema: json!({ "type": "object" }) })
        .into()
}

fn request(messages: Vec<Arc<Message>>) -> Request {
    Request {
        conversation: "a".into(),
        attempt: 1,
        turn: 1,
        system: "You look.".into(),
        tools: tools(),
        messages,
        max_output: 4096,
        format: None,
    }
}

fn message(speaker: Speaker, blocks: Vec<Block>) -> Arc<Message> {
    Arc::new(Message { speaker, blocks })
}

fn user(blocks: Vec<Block>) -> Arc<Message> {
    message(Speaker::User, blocks)
}

fn model(blocks: Vec<Block>) -> Arc<Message> {
    message(Speaker::Assistant, blocks)
}

fn call(id: &str, args: Value) -> Block {
    Block::ToolCall(ToolCall::new(id, "read_file", args))
}

fn result(id: &str, text: &str) -> Block {
    Block::ToolResult(ToolResult { id: id.into(), text: text.into(), is_error: false })
}

fn thinking(of: &str, signature: &str) -> Block {
    Block::Thinking(Opaque {
        model: of.into(),
        value: json!({ "type": "thinking", "thinking": "long", "signature": signature }),
    })
}

fn encode(messages: Vec<Arc<Message>>, target: &Target) -> Value {
    Protocol::Anthropic.encode(&request(messages), target)
}

/// The content of message `number`, marks taken off.
fn content(body: &Value, number: usize) -> Value {
    without_marks(&body["messages"][number]["content"])
}

fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "cache_control")
            .map(|(key, value)| (key.clone(), without_marks(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_marks).collect(),
        other => other.clone(),
    }
}

#[test]
fn a_request_in_full() {
    let history = vec![
        user(vec![Block::text("look at a.rs")]),
        model(vec![
            thinking(OURS, "S"),
            Block::text("I look."),
            call("toolu_1", json!({ "file_path": "a.rs" })),
            call("toolu_2", json!({})),
        ]),
        user(vec![
            result("toolu_1", "fn main() {}"),
            Block::ToolResult(ToolResult { id: "toolu_2".into(), text: "no".into(), is_error: true }),
            Block::text("a note"),
        ]),
    ];
    let mut request = request(history);
    request.format = Some(Arc::new(json!({ "type": "object" })));
    let body = Protocol::Anthropic.encode(&request, &target());
    let mark = json!({ "type": "ephemeral" });
    let expected = json!({
        "model": "claude-test",
        "max_tokens": 4096,
        "stream": true,
        "output_config": { "format": { "type": "json_schema", "schema": { "type": "object" } } },
        "tools": [
            { "name": "read_file", "description": "d", "input_schema": { "type": "object" } },
            { "name": "list_files", "description": "d", "input_schema": { "type": "object" }, "cache_control": mark },
        ],
        "system": [{ "type": "text", "text": "You look.", "cache_control": mark }],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "look at a.rs", "cache_control": mark }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "long", "signature": "S" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "toolu_1", "name": "read_file", "input": { "file_path": "a.rs" } },
                { "type": "tool_use", "id": "toolu_2", "name": "read_file", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": "fn main() {}" },
                { "type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": true },
                { "type": "text", "text": "a note", "cache_control": mark },
            ] },
        ],
    });
    assert_eq!(body.to_string(), expected.to_string());
    assert_eq!(check_anthropic(&body), Ok(()));
    assert_eq!(without_marks(&body), Protocol::Anthropic.encode(&request, &Target { cache_marks: false, ..target() }));
}

#[test]
fn reasoning_goes_back_unaltered_to_the_model_that_made_it_and_to_no_other() {
    let redacted = Block::Thinking(Opaque {
        model: OURS.into(),
        value: json!({ "type": "redacted_thinking", "data": "x", "extra": 1 }),
    });
    let history = || {
        vec![
            user(vec![Block::text("go")]),
            model(vec![
                thinking(OURS, "S1"),
                redacted.clone(),
                Block::text("a"),
                thinking("openai/b", "S2"),
                call("1", json!({})),
            ]),
            user(vec![result("1", "r")]),
            model(vec![thinking("openai/b", "S3")]),
            user(vec![Block::text("more")]),
        ]
    };
    let body = encode(history(), &target());
    assert_eq!(
        content(&body, 1),
        json!([
            { "type": "thinking", "thinking": "long", "signature": "S1" },
            { "type": "redacted_thinking", "data": "x", "extra": 1 },
            { "type": "text", "text": "a" },
            { "type": "tool_use", "id": "1", "name": "read_file", "input": {} },
        ])
    );
    assert_eq!(
        content(&body, 2).as_array().unwrap().len(),
        2,
        "a message that had only that is gone, its neighbours are one"
    );
    assert_eq!(check_anthropic(&body), Ok(()));
    let other = encode(history(), &Target { name: "openai/b".into(), ..target() });
    assert_eq!(
        other.to_string().matches("signature").count(),
        1,
        "the one at the end of a message may not be sent: {other}"
    );
    let third = encode(history(), &Target { name: "anthropic/c".into(), ..target() });
    assert!(!third.to_string().contains("thinking"), "{third}");
    for body in [other, third] {
        assert_eq!(check_anthropic(&body), Ok(()));
    }
}

#[test]
fn histories_that_break_rules_are_sent_by_the_rules() {
    // hist-05, 07, 09: blank blocks, speakers twice, text before results.
    let history = vec![
        user(vec![Block::text("a")]),
        user(vec![Block::text(" \n"), Block::text("b")]),
        model(vec![Block::text(""), Block::text("c"), call("x", json!({})), call("y", json!({}))]),
        user(vec![Block::text("before"), result("x", ""), result("y", "r")]),
        user(vec![Block::text("after")]),
        model(vec![Block::text("  ")]),
        user(vec![Block::text("last")]),
    ];
    let body = encode(history, &target());
    assert_eq!(check_anthropic(&body), Ok(()));
    let kinds: Vec<Vec<String>> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            message["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(|block| block["text"].as_str().or(block["type"].as_str()).unwrap().to_string())
                .collect()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            vec!["a", "b"],
            vec!["c", "tool_use", "tool_use"],
            vec!["tool_result", "tool_result", "before", "after", "last"]
        ]
    );
    assert_eq!(content(&body, 2)[0], json!({ "type": "tool_result", "tool_use_id": "x" }), "no blank content");
}

#[test]
fn malformed_arguments_and_odd_ids_are_sent_in_a_form_that_is_taken() {
    let history = vec![
        user(vec![Block::text("go")]),
        model(vec![call("f.read:0", json!("{\"a\": \"b")), call("f_read_0", json!([1])), call("", Value::Null)]),
        user(vec![
            result("f.read:0", "1"),
            result("f_read_0", "2"),
            Block::ToolResult(ToolResult { id: String::new(), text: " ".into(), is_error: true }),
        ]),
    ];
    let body = encode(history, &target());
    assert_eq!(check_anthropic(&body), Ok(()));
    let calls: Vec<(String, Value)> = content(&body, 1)
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (call["id"].as_str().unwrap().to_string(), call["input"]["unparsed"].clone()))
        .collect();
    assert_eq!(
        calls,
        [
            ("f_read_0".to_string(), json!("{\"a\": \"b")),
            ("f_read_0_2".to_string(), json!([1])),
            ("call".to_string(), Value::Null),
        ]
    );
    assert_eq!(
        content(&body, 2)[2],
        json!({ "type": "tool_result", "tool_use_id": "call", "content": "failed", "is_error": true })
    );
}

#[test]
fn a_paused_reply_is_the_end_of_what_is_sent() {
    let body = encode(vec![user(vec![Block::text("go")]), model(vec![Block::text("so far")])], &target());
    assert_eq!(content(&body, 1), json!([{ "type": "text", "text": "so far" }]));
}

#[test]
fn a_mark_stands_where_the_last_request_ended_however_much_a_turn_adds() {
    let mut history = vec![user(vec![Block::text("go")])];
    let before = encode(history.clone(), &target());
    let ids: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    history.push(model(ids.iter().map(|id| call(id, json!({}))).collect()));
    history.push(user(ids.iter().map(|id| result(id, "r")).collect()));
    let after = encode(history, &target());
    let marked = |body: &Value, number: usize, block: usize| {
        body["messages"][number]["content"][block].get("cache_control").is_some()
    };
    assert!(marked(&before, 0, 0) && marked(&after, 0, 0) && marked(&after, 2, 39));
    assert_eq!(after.to_string().matches("cache_control").count(), 4);
}

#[test]
fn effort_is_told_in_the_models_own_way() {
    let told = |style: ThinkingStyle, effort: Option<Effort>, max_output: u32, history: Vec<Arc<Message>>| {
        let target = Target { quirks: Quirks { thinking: style, ..Quirks::default() }, effort, max_output, ..target() };
        let body = encode(history, &target);
        assert_eq!(check_anthropic(&body), Ok(()));
        (body["thinking"].clone(), body["output_config"].clone())
    };
    let fresh = || vec![user(vec![Block::text("go")])];
    let budget = |tokens: u32| json!({ "type": "enabled", "budget_tokens": tokens });
    let table = [
        (ThinkingStyle::None, Some(Effort::High), 64_000, Value::Null, Value::Null),
        (ThinkingStyle::Budget, None, 64_000, Value::Null, Value::Null),
        (ThinkingStyle::Budget, Some(Effort::None), 64_000, json!({ "type": "disabled" }), Value::Null),
        (ThinkingStyle::Budget, Some(Effort::Low), 64_000, budget(2_048), Value::Null),
        (ThinkingStyle::Budget, Some(Effort::Max), 64_000, budget(32_768), Value::Null),
        (ThinkingStyle::Budget, Some(Effort::Max), 4_096, budget(3_072), Value::Null),
        (ThinkingStyle::Budget, Some(Effort::Max), 1_000, Value::Null, Value::Null),
        (ThinkingStyle::Adaptive, None, 64_000, Value::Null, Value::Null),
        (ThinkingStyle::Adaptive, Some(Effort::None), 64_000, json!({ "type": "disabled" }), Value::Null),
        (
            ThinkingStyle::Adaptive,
            Some(Effort::Medium),
            64_000,
            json!({ "type": "adaptive", "display": "summarized" }),
            json!({ "effort": "medium" }),
        ),
    ];
    for (style, effort, max_output, thinking, config) in table {
        assert_eq!(told(style, effort, max_output, fresh()), (thinking, config), "{style:?} {effort:?} {max_output}");
    }

    // A budget is refused where the turn that results continue does not begin with this model's reasoning.
    let turn = |first: Vec<Block>| {
        vec![
            user(vec![Block::text("go")]),
            model([first, vec![call("1", json!({}))]].concat()),
            user(vec![result("1", "r")]),
            model(vec![call("2", json!({}))]),
            user(vec![result("2", "r")]),
        ]
    };
    let with = |history| told(ThinkingStyle::Budget, Some(Effort::Low), 64_000, history).0;
    assert_eq!(with(turn(vec![thinking(OURS, "S")])), budget(2_048));
    assert_eq!(with(turn(vec![thinking("openai/b", "S")])), Value::Null);
    assert_eq!(with(turn(vec![])), Value::Null);
    let next = [turn(vec![]), vec![model(vec![Block::text("done")]), user(vec![Block::text("and?")])]].concat();
    assert_eq!(with(next), budget(2_048));
}

/// What can happen in a conversation.
#[derive(Clone, Debug)]
enum Step {
    Say(String),
    Reply(Vec<Block>, StopKind),
    Resolve(prop::sample::Index, String, bool),
    Cancel,
}

fn any_words() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", " ", "\n", "hello", "a\u{0}b", "你好", "<tag>"]).prop_map(str::to_string)
}

fn any_block() -> impl Strategy<Value = Block> {
    let id = prop::sample::select(vec!["a", "a.b", "a_b", "call_0", "", "functions.x:1", "é"]);
    let name = prop::sample::select(vec!["read_file", "no such tool!", ""]);
    let args =
        prop::sample::select(vec![json!({}), json!({ "x": [1] }), json!("{\"cut"), json!(null), json!([]), json!(1)]);
    let opaque = prop::sample::select(vec![
        json!({ "type": "thinking", "thinking": "t", "signature": "s" }),
        json!({ "type": "redacted_thinking", "data": "d" }),
        json!({ "reasoning_content": "of another protocol" }),
    ]);
    let of = prop::sample::select(vec![OURS, "openai/b"]);
    prop_oneof![
        any_words().prop_map(Block::text),
        (id, name, args).prop_map(|(id, name, args)| Block::ToolCall(ToolCall::new(id, name, args))),
        (of, opaque).prop_map(|(of, value)| Block::Thinking(Opaque { model: of.into(), value })),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let stop = prop::sample::select(vec![StopKind::End, StopKind::Tool, StopKind::Paused]);
    prop_oneof![
        2 => any_words().prop_map(Step::Say),
        4 => (prop::collection::vec(any_block(), 0..6), stop).prop_map(|(blocks, stop)| Step::Reply(blocks, stop)),
        6 => (any::<prop::sample::Index>(), any_words(), any::<bool>()).prop_map(|(which, text, error)| Step::Resolve(which, text, error)),
        1 => Just(Step::Cancel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_history_at_any_moment_is_a_request_that_is_taken_and_begins_like_the_one_before(
        steps in prop::collection::vec(any_step(), 0..40),
        style in prop::sample::select(vec![ThinkingStyle::None, ThinkingStyle::Budget, ThinkingStyle::Adaptive]),
        effort in prop::option::of(prop::sample::select(vec![Effort::None, Effort::Low, Effort::Max])),
        ours in any::<bool>(),
    ) {
        let target = Target {
            name: if ours { OURS.into() } else { "anthropic/other".into() },
            quirks: Quirks { thinking: style, ..Quirks::default() },
            effort,
            ..target()
        };
        let mut history = History::new();
        history.say("the task");
        let mut before: Option<Value> = None;
        for step in steps {
            match step {
                Step::Say(text) => history.say(&text),
                Step::Reply(blocks, stop) => drop(history.reply(blocks, stop)),
                Step::Resolve(which, text, is_error) => {
                    let open = history.open_calls();
                    if !open.is_empty() {
                        history.resolve(ToolResult { id: which.get(&open).clone(), text, is_error });
                    }
                }
                Step::Cancel => drop(history.close_open(|_| "cancelled".to_string())),
            }
            let body = encode(history.messages(), &target);
            prop_assert_eq!(check_anthropic(&body), Ok(()), "{}", body);
            // What `messages` fills in for open calls, or says to go on, is made up for that one request;
            // a paused reply still grows.
            let messages = history.messages();
            let made_up = messages.last().and_then(|last| last.blocks.last()) == Some(&Block::text("Go on."));
            let users_last = messages.len() % 2 == 1;
            if history.open_calls().is_empty() && users_last && !made_up {
                let body = without_marks(&body);
                if let Some(before) = before.replace(body.clone()) {
                    prop_assert!(begins_with(&body, &before), "{}\n{}", before, body);
                }
            }
        }
    }
}

/// Whether all blocks of `before` are sent again, byte for byte, before anything else. Only the last message may have
/// got more of them.
fn begins_with(after: &Value, before: &Value) -> bool {
    let parts = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        let blocks = messages.flat_map(|message| {
            message["content"].as_array().unwrap().iter().map(|block| format!("{} {block}", message["role"]))
        });
        [&body["tools"], &body["system"]].into_iter().map(Value::to_string).chain(blocks).collect()
    };
    parts(after).starts_with(&parts(before))
}
