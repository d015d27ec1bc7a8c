//! What is sent to OpenAI's protocols is valid for any history: replies of any shape, ids and names of any kind, cut off
//! at any point. The checkers are as strict as the strictest server that is known, and other tests may use them.

use proptest::prelude::*;
use serde_json::{Value, json};
use sortie::agent::history::History;
use sortie::model::catalog::{ChatTools, EffortStyle, OutputLimit, Quirks, ReasoningEcho};
use sortie::model::wire::{Effort, Protocol, Target};
use sortie::model::{Block, Opaque, Request, StopKind, ToolCall, ToolResult, ToolSpec};
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

#[derive(Clone, Debug)]
enum Step {
    Say(String),
    Reply(Vec<Block>),
    /// Gives the nth open call its result.
    Resolve(usize, String, bool),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just("  \n".to_string()), "[a-z\\PC]{1,12}", Just("你好 👩‍💻".to_string())]
}

fn arguments() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({ "file_path": "a", "n": [1, { "x": null }] })),
        Just(json!("{\"cut")),
        Just(json!([1])),
        Just(json!(null)),
        text().prop_map(Value::String),
    ]
}

fn opaque() -> impl Strategy<Value = Opaque> {
    let model = prop_oneof![Just("p/m"), Just("q/n")];
    let value = prop_oneof![
        Just(json!({ "reasoning_content": "r" })),
        Just(json!({ "reasoning": "r", "reasoning_details": [{ "type": "reasoning.text", "text": "r" }] })),
        Just(json!({ "type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E" })),
        Just(json!({ "type": "reasoning", "id": "rs", "summary": [] })),
        Just(json!({ "type": "thinking", "thinking": "t", "signature": "S" })),
        Just(json!("nothing known")),
    ];
    (model, value).prop_map(|(model, value)| Opaque { model: model.into(), value })
}

fn block() -> impl Strategy<Value = Block> {
    let id = prop_oneof![Just("call_0".to_string()), Just(String::new()), "[a-zA-Z0-9_.:é-]{1,90}"];
    let called = prop_oneof![Just("read_file".to_string()), Just(String::new()), "[a-z. é]{1,70}"];
    let call = (id, called, arguments(), proptest::option::of(opaque()));
    prop_oneof![
        2 => text().prop_map(Block::text),
        1 => opaque().prop_map(Block::Thinking),
        3 => call.prop_map(|(id, name, args, opaque)| Block::ToolCall(ToolCall { id, name, args, opaque })),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => text().prop_map(Step::Say),
        3 => proptest::collection::vec(block(), 0..5).prop_map(Step::Reply),
        4 => (0_usize..4, text(), any::<bool>()).prop_map(|(nth, text, failed)| Step::Resolve(nth, text, failed)),
    ];
    proptest::collection::vec(step, 0..16)
}

fn quirks() -> impl Strategy<Value = Quirks> {
    let effort = prop_oneof![
        Just(EffortStyle::ReasoningEffort),
        Just(EffortStyle::Thinking),
        Just(EffortStyle::ThinkingKept),
        Just(EffortStyle::EnableThinking),
        Just(EffortStyle::Reasoning),
    ];
    let echo = prop_oneof![
        Just(ReasoningEcho::WithCalls),
        Just(ReasoningEcho::Required),
        Just(ReasoningEcho::Always),
        Just(ReasoningEcho::Never),
    ];
    let tools = prop_oneof![Just(ChatTools::Yes), Just(ChatTools::WithoutReasoning)];
    (effort, echo, tools, any::<[bool; 3]>()).prop_map(|(effort, reasoning, chat_tools, [one, two, three])| Quirks {
        effort,
        reasoning,
        chat_tools,
        null_content: one,
        no_stream_options: two,
        output_limit: if three { OutputLimit::MaxTokens } else { OutputLimit::MaxCompletionTokens },
        ..Quirks::default()
    })
}

fn request(history: &History) -> Request {
    let schema = json!({ "type": "object", "properties": {} });
    let tool = ToolSpec { name: "read_file".into(), description: "Reads.".into(), schema };
    Request {
        conversation: "a".into(),
        attempt: 1,
        turn: 1,
        system: "You read.".into(),
        tools: vec![tool].into(),
        messages: history.messages(),
        max_output: 100,
        format: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_sent_as_a_valid_request(
        steps in steps(),
        quirks in quirks(),
        effort in proptest::option::of(prop_oneof![Just(Effort::None), Just(Effort::High)]),
    ) {
        let target =
            Target { name: "p/m".into(), model: "m".into(), max_output: 100, quirks, effort, cache_marks: false };
        let mut history = History::new();
        history.say("the task");
        for step in steps {
            match step {
                Step::Say(text) => history.say(&text),
                Step::Reply(blocks) => drop(history.reply(blocks, StopKind::Tool)),
                Step::Resolve(nth, text, is_error) => {
                    if let Some(id) = history.open_calls().into_iter().nth(nth) {
                        history.resolve(ToolResult { id, text, is_error });
                    }
                }
            }
            // A cancel or a crash may come here.
            let request = request(&history);
            let chat = Protocol::OpenaiChat.encode(&request, &target);
            prop_assert_eq!(check_openai_chat(&chat), Ok(()), "{}", chat);
            let responses = Protocol::OpenaiResponses.encode(&request, &target);
            prop_assert_eq!(check_openai_responses(&responses), Ok(()), "{}", responses);
            prop_assert_eq!(chat, Protocol::OpenaiChat.encode(&request, &target), "the same request, the same bytes");
        }
    }
}

#[test]
fn the_checkers_see_what_servers_refuse() {
    let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let user = json!({ "role": "user", "content": "task" });
    let asks = |ids: &[&str]| {
        let calls: Vec<Value> = ids.iter().map(|id| call(id)).collect();
        json!({ "role": "assistant", "content": null, "tool_calls": calls })
    };
    let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "ok" });
    for (messages, complaint) in [
        (vec![user.clone(), asks(&["a", "b"]), result("a"), user.clone()], "have no result yet"),
        (vec![user.clone(), asks(&["a", "b"]), result("b"), result("a")], "does not answer a"),
        (vec![user.clone(), result("a")], "answers no call"),
        (vec![user.clone(), asks(&["a", "a"]), result("a")], "used twice"),
        (vec![user.clone(), asks(&["a"])], "have no result"),
        (vec![json!({ "role": "user", "content": " " })], "blank"),
        (vec![user.clone(), user.clone()], "two users"),
        (vec![user.clone(), json!({ "role": "assistant", "content": "" })], "says nothing"),
        (vec![user.clone(), json!({ "role": "assistant", "content": "bye" })], "last message"),
    ] {
        let body = json!({ "model": "m", "messages": messages, "stream": true, "max_tokens": 1 });
        let found = check_openai_chat(&body).unwrap_err();
        assert!(found.contains(complaint), "{found}\n{body}");
    }
    let asks = json!({ "type": "function_call", "call_id": "a", "name": "f", "arguments": "{}" });
    let thinks = json!({ "type": "reasoning", "id": "r", "summary": [], "encrypted_content": "E" });
    let says = json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "x" }] });
    let output = json!({ "type": "function_call_output", "call_id": "a", "output": "ok" });
    for (input, complaint) in [
        (vec![asks.clone()], "have no output"),
        (vec![asks.clone(), says.clone(), output.clone()], "have no output yet"),
        (vec![output.clone()], "answers no call"),
        (vec![says.clone(), thinks.clone()], "leads to nothing"),
        (vec![thinks, says], "does not follow from reasoning"),
    ] {
        let body = json!({ "model": "m", "input": input, "stream": true, "store": false, "max_output_tokens": 1 });
        let found = check_openai_responses(&body).unwrap_err();
        assert!(found.contains(complaint), "{found}\n{body}");
    }
    let good = json!({ "model": "m", "input": [asks, output], "stream": true, "store": false, "max_output_tokens": 1 });
    assert_eq!(check_openai_responses(&good), Ok(()));
}
