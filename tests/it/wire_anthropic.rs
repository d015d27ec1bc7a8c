//! Replies in Anthropic's Messages: what arrives as bytes, what is made of it.

mod encode;

use serde_json::{Value, json};
use sortie::model::wire::sse::Parser;
use sortie::model::wire::{Decoder, Failure, Protocol};
use sortie::model::{Delta, ModelErrorKind, Reply, StopKind};

const NAME: &str = "anthropic/test";

fn decoder() -> Decoder {
    Protocol::Anthropic.decoder(NAME.into())
}

/// All deltas of a stream that arrives in these chunks.
fn read<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> (Vec<Delta>, Result<(), Failure>) {
    let (mut parser, mut decoder, mut out) = (Parser::default(), decoder(), Vec::new());
    let done = chunks
        .into_iter()
        .try_for_each(|chunk| parser.push(chunk, |event| decoder.event(event, &mut out)))
        .and_then(|()| parser.finish(|event| decoder.event(event, &mut out)))
        .and_then(|()| decoder.end(&mut out));
    (out, done)
}

/// The events as a server frames them.
fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("?"))).collect()
}

/// One line per delta, pieces of blocks left out.
fn said(deltas: &[Delta]) -> Vec<String> {
    deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text(text) => Some(format!("text {text}")),
            Delta::Thinking(opaque) => Some(format!("thinking {} {}", opaque.model, opaque.value)),
            Delta::Call(call) => Some(format!("call {} {} {}", call.id, call.name, call.args)),
            Delta::Stop(stop) => Some(format!("stop {stop:?}")),
            Delta::Partial(_) | Delta::Usage(_) => None,
            Delta::Waiting(_) | Delta::Sent | Delta::Switched(_) | Delta::Cost(_) => panic!("not the decoder's"),
        })
        .collect()
}

fn start() -> Value {
    json!({ "type": "message_start", "message": { "id": "m", "content": [], "usage": { "input_tokens": 3, "output_tokens": 1 } } })
}

fn block(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn tool(index: u64, id: &str, name: &str) -> Value {
    block(index, json!({ "type": "tool_use", "id": id, "name": name, "input": {} }))
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn text(index: u64, text: &str) -> Value {
    delta(index, json!({ "type": "text_delta", "text": text }))
}

fn args(index: u64, json: &str) -> Value {
    delta(index, json!({ "type": "input_json_delta", "partial_json": json }))
}

fn over(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn reason(reason: &str) -> Value {
    json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": { "output_tokens": 9 } })
}

fn end() -> Value {
    json!({ "type": "message_stop" })
}

/// Everything that the protocol has, and some things that it may get.
fn long_reply() -> String {
    let events = [
        json!({ "type": "message_start", "message": { "id": "msg", "type": "message", "role": "assistant", "content": [],
            "usage": { "input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1, "service_tier": "standard" } } }),
        block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        json!({ "type": "ping" }),
        delta(0, json!({ "type": "thinking_delta", "thinking": "let me \"see\" 你" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "好" })),
        delta(0, json!({ "type": "signature_delta", "signature": "S1" })),
        over(0),
        block(1, json!({ "type": "redacted_thinking", "data": "xyz" })),
        over(1),
        block(2, json!({ "type": "text", "text": "" })),
        text(2, "Hé 👩‍💻"),
        delta(2, json!({ "type": "citations_delta", "citation": {} })),
        delta(2, json!({ "type": "sparkle_delta", "sparkle": 1 })),
        text(2, "\nllo"),
        over(2),
        json!({ "type": "brand_new_event", "text": { "a": [1] } }),
        block(3, json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} })),
        args(3, "{\"query\": 1}"),
        over(3),
        tool(4, "toolu_1", "read_file"),
        args(4, ""),
        args(4, "{\"file_path\": \"a"),
        json!({ "type": "ping" }),
        args(4, ".rs\"}"),
        over(4),
        tool(5, "toolu_2", "list_files"),
        over(5),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" },
            "usage": { "input_tokens": 12, "cache_read_input_tokens": 100, "output_tokens": 42, "output_tokens_details": { "thinking_tokens": 7 } } }),
        end(),
    ];
    stream(&events)
}

#[test]
fn a_reply_with_everything_is_the_same_however_it_is_cut_and_framed() {
    let body = long_reply();
    let (whole, done) = read([body.as_bytes()]);
    assert_eq!(done, Ok(()));
    assert_eq!(
        said(&whole),
        [
            r#"thinking anthropic/test {"type":"thinking","thinking":"let me \"see\" 你好","signature":"S1"}"#,
            r#"thinking anthropic/test {"type":"redacted_thinking","data":"xyz"}"#,
            "text Hé 👩‍💻",
            "text \nllo",
            r#"call toolu_1 read_file {"file_path":"a.rs"}"#,
            "call toolu_2 list_files {}",
            "stop Tool",
        ]
    );
    let partial: Vec<&str> =
        whole.iter().filter_map(|d| if let Delta::Partial(piece) = d { Some(piece.as_str()) } else { None }).collect();
    assert_eq!(partial, ["let me \"see\" 你", "好", "{\"file_path\": \"a", ".rs\"}"]);
    let mut reply = Reply::default();
    for delta in whole.clone() {
        reply.push(delta);
    }
    let usage = reply.usage;
    assert_eq!((usage.input, usage.cache_read, usage.cache_write), (12, 100, 5));
    assert_eq!((usage.output, usage.reasoning), (42, 7));

    let comments = body.replace("\n\n", "\n\n: keep-alive\n\n:\n\n");
    for framed in
        [body.clone(), body.replace('\n', "\r\n"), body.replace('\n', "\r"), body.replace(": ", ":"), comments]
    {
        // A blank may also stand in the data: the expectation is that of this framing in one piece.
        let expected = read([framed.as_bytes()]);
        assert_eq!((said(&expected.0).len(), &expected.1), (7, &Ok(())));
        for size in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(read(framed.as_bytes().chunks(size)), expected, "in chunks of {size}");
        }
    }
}

#[test]
fn an_end_without_the_terminal_event_is_none() {
    let body = long_reply();
    let (whole, _) = read([body.as_bytes()]);
    let terminal = body.find("event: message_stop").unwrap();
    for (cut, _) in body.char_indices().take_while(|(cut, _)| *cut <= terminal).step_by(3) {
        let (deltas, done) = read([&body.as_bytes()[..cut]]);
        assert_eq!(done.map_err(|failure| failure.kind), Err(ModelErrorKind::Cut), "cut after {cut}");
        assert!(whole.starts_with(&deltas), "cut after {cut}: {deltas:?}");
    }
    assert_eq!(read([body.trim_end().as_bytes()]), (whole, Ok(())), "the blank line at the end may be missing");
}

#[test]
fn stop_reasons_arguments_and_odd_orders() {
    let words = || [block(0, json!({ "type": "text", "text": "" })), text(0, "hi"), over(0)];
    let with_words = |rest: Vec<Value>| [vec![start()], words().to_vec(), rest].concat();
    let one_call = |fragments: &[&str], stop: &str| {
        let mut events = vec![start(), tool(0, "a", "f")];
        events.extend(fragments.iter().map(|fragment| args(0, fragment)));
        events.extend([over(0), reason(stop), end()]);
        events
    };
    let table: Vec<(&str, Vec<Value>, &[&str])> = vec![
        ("no parameters, an empty fragment", one_call(&[""], "tool_use"), &["call a f {}", "stop Tool"]),
        ("no parameters, no fragment", one_call(&[], "tool_use"), &["call a f {}", "stop Tool"]),
        ("blank fragments", one_call(&[" ", "\n"], "tool_use"), &["call a f {}", "stop Tool"]),
        ("cut arguments", one_call(&["{\"q"], "tool_use"), &[r#"call a f "{\"q""#, "stop Tool"]),
        (
            "a raw line end in a string",
            one_call(&["{\"a\": \"b\n"], "tool_use"),
            &[r#"call a f "{\"a\": \"b\n""#, "stop Tool"],
        ),
        ("a list", one_call(&["[1]"], "tool_use"), &["call a f [1]", "stop Tool"]),
        ("null", one_call(&["null"], "tool_use"), &["call a f null", "stop Tool"]),
        ("a string", one_call(&["\"x\""], "tool_use"), &[r#"call a f "x""#, "stop Tool"]),
        ("a call and `end_turn`", one_call(&["{}"], "end_turn"), &["call a f {}", "stop Tool"]),
        ("a call and an unknown reason", one_call(&["{}"], "brand_new"), &["call a f {}", "stop Tool"]),
        (
            "cut by the output limit",
            one_call(&["{\"content\":\"abc"], "max_tokens"),
            &[r#"call a f "{\"content\":\"abc""#, "stop Length"],
        ),
        ("cut before the arguments", one_call(&[], "max_tokens"), &[r#"call a f """#, "stop Length"]),
        (
            "cut before the arguments by the window",
            one_call(&[""], "model_context_window_exceeded"),
            &[r#"call a f """#, "stop ContextFull"],
        ),
        (
            "only the last call can have been cut before its arguments",
            vec![start(), tool(0, "a", "f"), over(0), tool(1, "b", "g"), over(1), reason("max_tokens"), end()],
            &["call a f {}", r#"call b g """#, "stop Length"],
        ),
        ("the end", with_words(vec![reason("end_turn"), end()]), &["text hi", "stop End"]),
        ("a stop sequence", with_words(vec![reason("stop_sequence"), end()]), &["text hi", "stop End"]),
        ("the limit", with_words(vec![reason("max_tokens"), end()]), &["text hi", "stop Length"]),
        ("a pause", with_words(vec![reason("pause_turn"), end()]), &["text hi", "stop Paused"]),
        (
            "the window",
            with_words(vec![reason("model_context_window_exceeded"), end()]),
            &["text hi", "stop ContextFull"],
        ),
        ("a refusal", with_words(vec![reason("refusal"), end()]), &["text hi", "stop Refusal"]),
        ("an unknown reason", with_words(vec![reason("brand_new"), end()]), &["text hi", "stop End"]),
        ("no reason", with_words(vec![end()]), &["text hi", "stop End"]),
        (
            "a reason that is null",
            with_words(vec![json!({ "type": "message_delta", "delta": { "stop_reason": null } }), end()]),
            &["text hi", "stop End"],
        ),
        ("`tool_use` without a call", with_words(vec![reason("tool_use"), end()]), &["text hi", "stop Tool"]),
        ("nothing at all", vec![start(), reason("end_turn"), end()], &["stop End"]),
        (
            "a refusal that says why",
            vec![
                start(),
                json!({ "type": "message_delta", "delta": { "stop_reason": "refusal", "stop_details": { "type": "refusal", "category": "bio", "explanation": "not this" } } }),
                end(),
            ],
            &["text not this", "stop Refusal"],
        ),
        (
            "no indices",
            vec![
                json!({ "type": "content_block_start", "content_block": { "type": "tool_use", "id": "a", "name": "f" } }),
                json!({ "type": "content_block_delta", "delta": { "type": "input_json_delta", "partial_json": "{\"x\":1}" } }),
                json!({ "type": "content_block_stop" }),
                json!({ "type": "content_block_start", "content_block": { "type": "tool_use", "id": "b", "name": "f", "input": { "y": 2 } } }),
                json!({ "type": "content_block_stop" }),
                reason("tool_use"),
                end(),
            ],
            &[r#"call a f {"x":1}"#, r#"call b f {"y":2}"#, "stop Tool"],
        ),
        (
            "one index for all, no stops, an id twice",
            vec![
                tool(0, "a", "f"),
                args(0, "{\"x\":1}"),
                tool(0, "a", "f"),
                args(0, "{\"x\":2}"),
                reason("tool_use"),
                end(),
            ],
            &[r#"call a f {"x":1}"#, r#"call a f {"x":2}"#, "stop Tool"],
        ),
        (
            "two blocks at once",
            vec![
                tool(0, "a", "f"),
                tool(1, "b", "g"),
                args(0, "{\"x\":"),
                args(1, "{\"y\":"),
                args(1, "2}"),
                args(0, "1}"),
                over(1),
                over(0),
                reason("tool_use"),
                end(),
            ],
            &[r#"call b g {"y":2}"#, r#"call a f {"x":1}"#, "stop Tool"],
        ),
        ("words without a start", vec![text(0, "hi"), reason("end_turn"), end()], &["text hi", "stop End"]),
        (
            "reasoning that never ends is not kept",
            vec![block(0, json!({ "type": "thinking", "thinking": "a" })), reason("max_tokens"), end()],
            &["stop Length"],
        ),
        (
            "more after the end",
            with_words(vec![reason("end_turn"), end(), text(0, "late"), end()]),
            &["text hi", "stop End"],
        ),
        (
            "fields of the wrong sort",
            vec![start(), block(0, json!("text")), over(0), over(7), args(3, "{"), reason("end_turn"), end()],
            &["stop End"],
        ),
    ];
    for (what, events, expected) in table {
        let (deltas, done) = read([stream(&events).as_bytes()]);
        assert_eq!((said(&deltas), done), (expected.iter().map(ToString::to_string).collect(), Ok(())), "{what}");
    }
}

#[test]
fn event_names_are_not_needed_and_other_endings_do_no_harm() {
    let events = [start(), text(0, "hi"), reason("end_turn"), end()];
    let unnamed: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (deltas, done) = read([format!("{unnamed}data: [DONE]\n\n").as_bytes()]);
    assert_eq!((said(&deltas), done), (vec!["text hi".to_string(), "stop End".to_string()], Ok(())));
    let untyped = "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\nevent: message_stop\ndata: {}\n\n";
    let (deltas, done) = read([untyped.as_bytes()]);
    assert_eq!((said(&deltas), done), (vec!["text hi".to_string(), "stop End".to_string()], Ok(())));
}

#[test]
fn an_error_in_the_stream_ends_it_with_its_kind() {
    let error = |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" });
    let table: Vec<(Value, ModelErrorKind, &str)> = vec![
        (error("overloaded_error", "Overloaded"), ModelErrorKind::Overloaded, "Overloaded"),
        (error("rate_limit_error", "slow"), ModelErrorKind::RateLimit, "slow"),
        (error("api_error", "Internal server error"), ModelErrorKind::Server, "Internal server error"),
        (error("invalid_request_error", "bad"), ModelErrorKind::InvalidRequest, "bad"),
        (
            error("invalid_request_error", "prompt is too long: 5 > 4"),
            ModelErrorKind::ContextFull,
            "prompt is too long: 5 > 4",
        ),
        (error("brand_new_error", "?"), ModelErrorKind::Server, "?"),
        (json!({ "error": { "message": "upstream", "code": 502 } }), ModelErrorKind::Server, "upstream"),
        (json!({ "type": "error", "message": "slow_down" }), ModelErrorKind::Server, "slow_down"),
        (json!({ "type": "error" }), ModelErrorKind::Server, "the reply told of an error and did not say which"),
    ];
    for (event, kind, message) in table {
        for before in [vec![], vec![start(), text(0, "half")]] {
            let (deltas, done) = read([stream(&[before.clone(), vec![event.clone()]].concat()).as_bytes()]);
            let failure = done.unwrap_err();
            assert_eq!((failure.kind, failure.message.as_str(), failure.status), (kind, message, None), "{event}");
            assert_eq!(failure.request_id.is_some(), event["request_id"].is_string());
            assert!(!deltas.iter().any(|delta| matches!(delta, Delta::Stop(_))));
            assert_eq!(said(&deltas).len(), before.len() / 2, "what was said stays");
        }
    }
    let (_, done) = read([b"event: error\ndata: upstream connect error\n\n".as_slice()]);
    let failure = done.unwrap_err();
    assert_eq!((failure.kind, failure.message.as_str()), (ModelErrorKind::Server, "upstream connect error"));
}

#[test]
fn what_is_not_the_protocol_says_so() {
    let table = [
        ("data: hello\n\n", ModelErrorKind::Protocol, "sent an event that cannot be read"),
        ("event: content_block_delta\ndata: {\"delta\": \"hi\"}\n\n", ModelErrorKind::Protocol, "cannot be read"),
        (
            "data: {\"id\":\"chatcmpl\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
            ModelErrorKind::Cut,
            "does the provider speak another one?",
        ),
        ("", ModelErrorKind::Cut, "without any event"),
    ];
    for (body, kind, part) in table {
        let failure = read([body.as_bytes()]).1.unwrap_err();
        assert_eq!(failure.kind, kind, "{body}");
        assert!(failure.message.contains(part), "{}", failure.message);
    }
}

#[test]
fn a_body_that_does_not_stream_gives_the_same_reply() {
    let read_whole = |body: &str| {
        let mut out = Vec::new();
        decoder().whole(body.as_bytes(), &mut out).map(|()| out)
    };
    let body = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": "S" },
            { "type": "text", "text": "hi" },
            { "type": "tool_use", "id": "a", "name": "f", "input": { "x": 1 } },
            { "type": "tool_use", "id": "b", "name": "g", "input": {} },
        ],
        "usage": { "input_tokens": 1, "output_tokens": 2 },
    });
    let deltas = read_whole(&body.to_string()).unwrap();
    assert_eq!(
        said(&deltas),
        [
            r#"thinking anthropic/test {"type":"thinking","thinking":"hm","signature":"S"}"#,
            "text hi",
            r#"call a f {"x":1}"#,
            "call b g {}",
            "stop Tool"
        ]
    );
    assert!(deltas.iter().any(|delta| matches!(delta, Delta::Usage(usage) if usage.output == 2)));
    let cut = json!({ "content": [{ "type": "tool_use", "id": "b", "name": "g", "input": {} }], "stop_reason": "max_tokens" });
    assert_eq!(said(&read_whole(&cut.to_string()).unwrap()), [r#"call b g """#, "stop Length"]);
    assert_eq!(said(&read_whole(r#"{"content":[]}"#).unwrap()), ["stop End"]);

    let table = [
        (
            "<!DOCTYPE html><html><head><title>Sign in</title>",
            ModelErrorKind::Protocol,
            "answered with HTML (`Sign in`) instead of JSON: is the base URL right?",
        ),
        ("", ModelErrorKind::Protocol, "answered with nothing"),
        ("hello", ModelErrorKind::Protocol, "answered with something that is not JSON: `hello`"),
        ("{}", ModelErrorKind::Protocol, "sent a reply without `content`"),
        (r#"{"content":5}"#, ModelErrorKind::Protocol, "cannot be read"),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ModelErrorKind::Overloaded,
            "Overloaded",
        ),
    ];
    for (body, kind, part) in table {
        let failure = read_whole(body).unwrap_err();
        assert_eq!(failure.kind, kind, "{body}");
        assert!(failure.message.contains(part), "{}", failure.message);
    }
}

#[test]
fn counts_are_the_largest_that_came() {
    let usage = |usage: Value| json!({ "type": "message_delta", "delta": {}, "usage": usage });
    let head = |usage: Value| json!({ "type": "message_start", "message": { "usage": usage } });
    let table = [
        (
            vec![
                head(json!({ "input_tokens": 5, "output_tokens": 1 })),
                usage(json!({ "input_tokens": 0, "output_tokens": 4 })),
            ],
            (5, 4),
        ),
        (
            vec![
                head(json!({ "input_tokens": 0, "output_tokens": 0 })),
                usage(json!({ "input_tokens": 7, "output_tokens": 4 })),
            ],
            (7, 4),
        ),
        (
            vec![
                head(Value::Null),
                usage(json!({ "input_tokens": null, "output_tokens": 4 })),
                usage(json!({ "output_tokens": 9 })),
            ],
            (0, 9),
        ),
        (vec![head(json!({}))], (0, 0)),
    ];
    for (mut events, expected) in table {
        events.push(end());
        let (deltas, done) = read([stream(&events).as_bytes()]);
        let mut reply = Reply::default();
        for delta in deltas {
            reply.push(delta);
        }
        assert_eq!((reply.usage.input, reply.usage.output), expected, "{events:?}");
        assert_eq!((reply.stop, done), (StopKind::End, Ok(())));
    }
}
