//! What is sent to OpenAI's protocols is valid for any history: replies of any shape, ids and names of any kind, cut off
//! at any point.

use crate::wire_checks_openai::{check_openai_chat, check_openai_responses};
use proptest::prelude::*;
use serde_json::{Value, json};
use sortie::agent::history::History;
use sortie::model::catalog::{ChatTools, EffortStyle, OutputLimit, Quirks, ReasoningEcho};
use sortie::model::wire::{Effort, Protocol, Target};
use sortie::model::{Block, Opaque, Request, StopKind, ToolCall, ToolResult, ToolSpec};

#[derive(Clone, Debug)]
enum Step {
    Say(String),
    Reply(Vec<Block>, StopKind),
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
    // A pause comes from a model of another protocol, before a fallback.
    let stop = prop_oneof![Just(StopKind::Tool), Just(StopKind::Paused)];
    let step = prop_oneof![
        1 => text().prop_map(Step::Say),
        3 => (proptest::collection::vec(block(), 0..5), stop).prop_map(|(blocks, stop)| Step::Reply(blocks, stop)),
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
                Step::Reply(blocks, stop) => drop(history.reply(blocks, stop)),
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
