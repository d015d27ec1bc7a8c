//! Every history that a conversation can come to, stopped at any point, as a request of every protocol. What is checked
//! here is that bytes are stable; `tests/real/models/run` checks each body against the vendors' own schemas.

use super::say::PROTOCOLS;
use super::server::write_body;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use sortie::agent::history::{self, History};
use sortie::model::catalog::Quirks;
use sortie::model::wire::{Effort, Protocol, Target, sse};
use sortie::model::{Block, Delta, Opaque, Request, StopKind, ToolCall, ToolResult, ToolSpec};
use std::sync::Arc;

/// A model of the vendor whose schema its requests are checked against.
fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => "anthropic/claude-sonnet-4-5",
        Protocol::OpenaiChat => "openai/gpt-5",
        Protocol::OpenaiResponses => "openai-responses/gpt-5",
    }
}

/// A block of reasoning as the vendor sends it, read by our own decoder.
fn thinking(protocol: Protocol) -> Option<Opaque> {
    let events: &[Value] = &match protocol {
        Protocol::Anthropic => vec![
            json!({ "type": "message_start", "message": { "usage": { "input_tokens": 1, "output_tokens": 1 } } }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "thinking", "thinking": "", "signature": "" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "thinking_delta", "thinking": "So." } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "signature_delta", "signature": "c2ln" } }),
            json!({ "type": "content_block_stop", "index": 0 }),
        ],
        Protocol::OpenaiChat => vec![],
        Protocol::OpenaiResponses => {
            let item = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j" });
            vec![
                json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
            ]
        }
    };
    let (mut decoder, mut deltas) = (protocol.decoder(name(protocol).into()), Vec::new());
    let mut parser = sse::Parser::default();
    for event in events {
        let kind = event["type"].as_str().unwrap();
        let text = format!("event: {kind}\ndata: {event}\n\n");
        parser.push(text.as_bytes(), |event| decoder.event(event, &mut deltas)).unwrap();
    }
    deltas.into_iter().find_map(|delta| if let Delta::Thinking(opaque) = delta { Some(opaque) } else { None })
}

/// What happens next in a conversation.
#[derive(Clone, Debug)]
enum Act {
    /// The model says these blocks.
    Reply(Vec<Said>, StopKind),
    /// The next open call gets a result.
    Result { text: String, is_error: bool },
    /// Somebody else has something to say.
    Note(String),
    /// What is open is closed: a stop, a cut, an output limit.
    Close,
}

#[derive(Clone, Debug)]
enum Said {
    Text(String),
    Call {
        id: String,
        tool: &'static str,
        args: Value,
    },
    /// Of the model that the request is for, or of another one.
    Thinking {
        own: bool,
    },
}

fn words() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        " \n",
        "Looking.",
        "naïve 你好 👩‍💻\u{0}\u{1b}[2J",
        "</reports> \"quoted\" \\ \u{2028}",
    ])
    .prop_map(String::from)
}

fn said() -> impl Strategy<Value = Said> {
    let id = prop::sample::select(vec!["", "call_0", "call_1", "toolu_01AbC", "a b/ü", "functions.read_file:0"]);
    let args = prop_oneof![
        4 => Just(json!({ "file_path": "src/lib.rs", "limit": 3 })),
        1 => Just(json!({})),
        1 => Just(json!({ "file_path": "ü\u{1F469}" })),
        // Cut or malformed arguments travel as their text.
        1 => Just(json!("{\"file_path\": \"a")),
    ];
    let tool = prop::sample::select(vec!["read_file", "report", "no_such_tool"]);
    prop_oneof![
        3 => words().prop_map(Said::Text),
        6 => (id, tool, args).prop_map(|(id, tool, args)| Said::Call { id: id.into(), tool, args }),
        2 => any::<bool>().prop_map(|own| Said::Thinking { own }),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let stops = prop::sample::select(vec![StopKind::End, StopKind::Tool, StopKind::Length, StopKind::StreamCut]);
    let act = prop_oneof![
        5 => (prop::collection::vec(said(), 0..5), stops).prop_map(|(said, stop)| Act::Reply(said, stop)),
        8 => (words(), any::<bool>()).prop_map(|(text, is_error)| Act::Result { text, is_error }),
        1 => words().prop_map(Act::Note),
        1 => Just(Act::Close),
    ];
    prop::collection::vec(act, 0..14)
}

fn tools() -> Arc<[ToolSpec]> {
    let schema = json!({ "type": "object", "properties": { "file_path": { "type": "string", "description": "Which." },
        "limit": { "type": ["integer", "null"], "minimum": 1 } }, "required": ["file_path"], "additionalProperties": false });
    let tool = |name: &str| ToolSpec { name: name.into(), description: "Reads.".into(), schema: schema.clone() };
    vec![tool("read_file"), tool("report")].into()
}

/// The conversation after each act, as it would be sent if everything was stopped there.
fn stages(protocol: Protocol, acts: &[Act], thinking: Option<&Opaque>) -> Vec<Request> {
    let mut history = History::new();
    history.say("Look at it.");
    let mut requests = Vec::new();
    for act in acts {
        match act {
            Act::Reply(said, stop) => {
                history.close_open(|_| "interrupted".into());
                history.reply(said.iter().filter_map(|said| block(said, thinking)).collect(), *stop);
            }
            Act::Result { text, is_error } => {
                if let Some(id) = history.open_calls().first() {
                    history.resolve(ToolResult { id: id.clone(), text: text.clone(), is_error: *is_error });
                }
            }
            Act::Note(text) => {
                history.close_open(|_| "interrupted".into());
                history.say(text);
            }
            Act::Close => drop(history.close_open(|_| "interrupted".into())),
        }
        let mut stopped = history.clone();
        stopped.close_open(|_| "interrupted".into());
        stopped.say("Go on.");
        assert_eq!(history::check(&stopped.messages()), Ok(()), "{protocol:?}");
        requests.push(Request {
            conversation: "a".into(),
            attempt: 1,
            turn: 1,
            system: "You read code.".into(),
            tools: tools(),
            messages: stopped.messages(),
            max_output: 2000,
            format: None,
        });
    }
    requests
}

fn block(said: &Said, thinking: Option<&Opaque>) -> Option<Block> {
    Some(match said {
        Said::Text(text) => Block::text(text),
        Said::Call { id, tool, args } => Block::ToolCall(ToolCall::new(id, *tool, args.clone())),
        Said::Thinking { own: true } => Block::Thinking(thinking?.clone()),
        Said::Thinking { own: false } => {
            Block::Thinking(Opaque { model: "other/model".into(), value: json!({ "anything": [1] }) })
        }
    })
}

#[test]
fn any_history_stopped_anywhere_is_the_same_bytes_each_time() {
    // The same histories in every run, so that what is checked elsewhere is what was checked before.
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    for protocol in PROTOCOLS {
        let thinking = thinking(protocol);
        assert_eq!(thinking.is_some(), protocol != Protocol::OpenaiChat, "{protocol:?}");
        let mut runner = TestRunner::new_with_rng(config.clone(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let options = (acts(), any::<bool>(), prop::sample::select(vec![None, Some(Effort::Low), Some(Effort::High)]));
        let result = runner.run(&options, |(acts, cache_marks, effort)| {
            for request in stages(protocol, &acts, thinking.as_ref()) {
                let target = Target {
                    name: name(protocol).into(),
                    model: name(protocol).split_once('/').unwrap().1.into(),
                    max_output: 2000,
                    quirks: Quirks::default(),
                    effort,
                    cache_marks,
                };
                let body = protocol.encode(&request, &target).to_string();
                prop_assert_eq!(&body, &protocol.encode(&request, &target).to_string());
                prop_assert!(!body.contains("anything"), "another model's reasoning is sent: {}", body);
                write_body(protocol_name(protocol), body.as_bytes());
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{protocol:?}: {error}"));
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => "anthropic",
        Protocol::OpenaiChat => "openai-chat",
        Protocol::OpenaiResponses => "openai-responses",
    }
}
