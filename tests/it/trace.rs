//! `sortie trace`: what was sent, as users see it.

use crate::command::{Said, Sandbox, finish};
use serde_json::{Value, json};
use sortie::event::EventKind;
use sortie::store::{FileStore, RunHeader, Store};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use crate::sample;

const HOST: &str = "https://api.example.com";

/// A run directory with two nodes that started, and the trace of these exchanges: a request and its response, or none.
fn record(sandbox: &Sandbox, id: &str, exchanges: &[(Value, Option<Value>)]) {
    let dir = sandbox.workspace().join(".sortie/runs").join(id);
    let store = FileStore::create(&dir, &RunHeader::new(id, &sandbox.workspace())).unwrap();
    let kinds = vec![sample::run_started(None), sample::plan(1, &["map", "part"]), sample::started("map")];
    let ends = [EventKind::Notice { message: "x".into() }, sample::run_finished("succeeded", 0)];
    sample::events(kinds.into_iter().chain(ends)).into_iter().for_each(|event| store.append(Arc::new(event)));
    drop(store);
    let mut lines = String::new();
    for (request, response) in exchanges {
        lines.push_str(&format!("{request}\n"));
        response.iter().for_each(|response| lines.push_str(&format!("{response}\n")));
    }
    std::fs::write(dir.join("http.jsonl"), lines).unwrap();
}

/// Number `n` of a trace: each begins five seconds after the one before.
fn request(n: u32, place: (&str, u32, u32), protocol: &str, url: &str, body: Value) -> Value {
    let (conversation, turn, tries) = place;
    json!({
        "type": "request", "id": n.to_string(), "at": format!("2026-01-01T00:00:{:02}.000Z", n * 5),
        "conversation": conversation, "attempt": 1, "turn": turn, "try": tries,
        "provider": "anthropic", "model": "anthropic/m", "protocol": protocol, "url": url,
        "headers": { "content-type": "application/json", "x-api-key": "***" }, "body": body,
    })
}

fn response(n: u32, status: u16, kind: &str, body: &str) -> Option<Value> {
    Some(json!({
        "type": "response", "id": n.to_string(), "at": format!("2026-01-01T00:00:{:02}.500Z", n * 5 + 1),
        "status": status, "request_id": format!("req_{n}"), "headers": { "content-type": kind }, "body": body,
        "bytes": body.len(), "left_out": 0, "ms": 1_500, "first_byte_ms": 400, "problem": null,
    }))
}

fn events(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x"))).collect()
}

/// A reply of Anthropic's with words and a call.
fn reads() -> String {
    events(&[
        json!({ "type": "message_start", "message": { "id": "m", "usage": { "input_tokens": 900, "cache_read_input_tokens": 800, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "I look \u{1b}[2Jat it." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "tool_use", "id": "c1", "name": "read_file", "input": {} } }),
        json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": "{\"file_path\":\"a.rs\"}" } }),
        json!({ "type": "content_block_stop", "index": 1 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 34 } }),
        json!({ "type": "message_stop" }),
    ])
}

fn anthropic_body(messages: Value) -> Value {
    json!({
        "model": "m", "max_tokens": 16_000, "stream": true,
        "system": [{ "type": "text", "text": "You explore.\nYou report.", "cache_control": { "type": "ephemeral" } }],
        "tools": [{ "name": "read_file", "description": "Reads.", "input_schema": { "type": "object" } }, { "name": "report" }],
        "messages": messages,
    })
}

/// Two turns of `map`: the first needs two tries, the second has a longer history and no end.
fn anthropic() -> Vec<(Value, Option<Value>)> {
    let url = format!("{HOST}/v1/messages");
    let task = |mark: bool| {
        let mut block = json!({ "type": "text", "text": format!("Where is it? {}", "long ".repeat(600)) });
        if mark {
            block["cache_control"] = json!({ "type": "ephemeral" });
        }
        json!({ "role": "user", "content": [block] })
    };
    let later = json!([
        task(false),
        { "role": "assistant", "content": [{ "type": "text", "text": "I look at it." }, { "type": "tool_use", "id": "c1", "name": "read_file", "input": { "file_path": "a.rs" } }] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "c1", "content": "fn a() {}", "is_error": false },
            { "type": "text", "text": "Go on." },
        ] },
    ]);
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let mut second = anthropic_body(later);
    second["max_tokens"] = json!(8_000);
    vec![
        (
            request(1, ("map", 1, 1), "anthropic", &url, anthropic_body(json!([task(true)]))),
            response(1, 529, "application/json", overloaded),
        ),
        (
            request(2, ("map", 1, 2), "anthropic", &url, anthropic_body(json!([task(true)]))),
            response(2, 200, "text/event-stream", &reads()),
        ),
        (request(3, ("map", 2, 1), "anthropic", &url, second), None),
    ]
}

fn chat() -> Vec<(Value, Option<Value>)> {
    let url = format!("{HOST}/v1/chat/completions");
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "read_file", "arguments": "{\"file_path\":\"a.rs\"}" } });
    let first = json!([{ "role": "system", "content": "You explore." }, { "role": "user", "content": "Where is it?" }]);
    let mut second = first.clone();
    second.as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
        json!({ "role": "tool", "tool_call_id": "c1", "content": "fn a() {}" }),
    ]);
    let body = |messages: &Value| {
        let tool = json!({ "type": "function", "function": { "name": "read_file", "parameters": {} } });
        json!({ "model": "m", "messages": messages, "tools": [tool], "stream": true })
    };
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"It is \"}}]}\n\n\
                data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"there.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3}}\n\n\
                data: [DONE]\n\n";
    vec![
        (
            request(1, ("map", 1, 1), "openai-chat", &url, body(&first)),
            response(1, 200, "text/event-stream", &said[..70]),
        ),
        (request(2, ("map", 2, 1), "openai-chat", &url, body(&second)), response(2, 200, "text/event-stream", said)),
    ]
}

fn responses() -> Vec<(Value, Option<Value>)> {
    let input = json!([
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Where is it?" }] },
        { "type": "reasoning", "id": "r", "summary": [], "encrypted_content": "xyz" },
        { "type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c1", "output": "fn a() {}" },
    ]);
    let body = json!({ "model": "m", "instructions": "You explore.", "input": input, "tools": [{ "type": "function", "name": "read_file" }], "store": false });
    let error = "<html><title>502 Bad Gateway</title></html>";
    vec![(
        request(1, ("map", 1, 1), "openai-responses", &format!("{HOST}/v1/responses"), body),
        response(1, 502, "text/html", error),
    )]
}

fn told(said: &Said) -> String {
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stdout.find(|c: char| c.is_control() && c != '\n'), None, "{:?}", said.stdout);
    format!("{}{}", said.stdout, said.stderr)
}

#[test]
fn show_tells_a_conversation_turn_by_turn_in_each_protocol() {
    for (name, exchanges) in [("anthropic", anthropic()), ("chat", chat()), ("responses", responses())] {
        let sandbox = Sandbox::new();
        record(&sandbox, "0198-one", &exchanges);
        let said = sandbox.run(&["trace", "show", "last", "map", "-Cworkspace"]);
        insta::assert_snapshot!(format!("show_{name}"), told(&said));
    }
}

#[test]
fn show_lists_cuts_and_gives_the_lines_as_they_stand() {
    let sandbox = Sandbox::new();
    let exchanges = anthropic();
    record(&sandbox, "0198-one", &exchanges);
    let show = |args: &[&str]| told(&sandbox.run(&[&["trace", "show", "last", "-Cworkspace"], args].concat()));
    insta::assert_snapshot!(show(&[]), @"
    conversation  attempt  turns  tries  model
    map                 1      2      3  anthropic/m
    ");
    let turn = show(&["map", "--turn=2"]);
    assert!(turn.contains("== turn 2") && !turn.contains("== turn 1") && turn.contains("Go on."), "{turn}");
    let full = show(&["map", "--full"]);
    assert!(full.contains(&"long ".repeat(599)) && full.contains("\"description\": \"Reads.\""), "{full}");
    let raw = show(&["map", "--raw", "--turn=1"]);
    let raw: Vec<Value> = raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected: Vec<Value> =
        exchanges[..2].iter().flat_map(|(request, response)| [request.clone(), response.clone().unwrap()]).collect();
    assert_eq!(raw, expected);
}

#[test]
fn a_run_without_a_trace_is_shown_from_its_transcripts() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/a.rs", "/// Cancels a job.\nfn cancel() {}\n");
    sandbox.file("plan.toml", "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\nprompt = \"Look.\"\n");
    sandbox.file("s.toml", scripted("Cancels"));
    assert_eq!(sandbox.run(&["run", "-Cworkspace", "--plan=plan.toml", "--model=script/s.toml"]).code, 0);
    let show = |args: &[&str]| {
        let said = sandbox.run(&[&["trace", "show", "last", "-Cworkspace"], args].concat());
        assert!(said.stderr.contains("has no http.jsonl, which --trace-http writes"), "{}", said.stderr);
        assert_eq!(said.code, 0);
        said.stdout
    };
    insta::assert_snapshot!(show(&[]), @"
    conversation  attempt  turns  tries  model
    a                   1      2         script/s.toml
    ");
    let text = show(&["a"]);
    let text = text.split("== turn 2\n").nth(1).unwrap();
    insta::assert_snapshot!(text, @r#"
    (its reply, sent back)
    result:
           1	/// Cancels a job.
           2	fn cancel() {}
    call report:
      {"status":"done","summary":"Cancels"}
    stop: tool · 439 tokens in, 10 out
    "#);
}

/// A reader of `a.rs` that then reports this.
fn scripted(summary: &str) -> String {
    format!(
        "[[reply]]\nnode = \"a\"\nturn = 1\ntext = \"I read.\"\ncalls = [{{ name = \"read_file\", args = {{ file_path = \"a.rs\" }} }}]\n\
         [[reply]]\nnode = \"a\"\nturn = 2\ncalls = [{{ name = \"report\", args = {{ status = \"done\", summary = \"{summary}\" }} }}]\n\
         [[reply]]\nnode = \"b\"\noptional = true\ncalls = [{{ name = \"report\", args = {{ status = \"done\", summary = \"b\" }} }}]\n"
    )
}

#[test]
fn diff_names_the_first_difference_of_any_two_runs() {
    let sandbox = Sandbox::new();
    let one = "[[node]]\nid = \"a\"\nprompt = \"Look.\"\n";
    let two = "[[node]]\nid = \"b\"\nneeds = [\"a\"]\nprompt = \"Look too.\"\n";
    let run = |nodes: &str, summary: &str, file: &str| {
        sandbox.file("workspace/a.rs", file);
        sandbox.file("plan.toml", format!("version = 1\nname = \"p\"\n{nodes}"));
        sandbox.file("s.toml", scripted(summary));
        let said = sandbox.run(&["run", "-Cworkspace", "--plan=plan.toml", "--model=script/s.toml", "--output=json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        serde_json::from_str::<Value>(&said.stdout).unwrap()["run"].as_str().unwrap().to_string()
    };
    let runs = [
        run(one, "x", "fn a() {}\n"),
        run(one, "x", "fn a() {}\n"),
        run(one, "x", "fn b() {}\n"),
        run(one, "y", "fn a() {}\n"),
        run(&format!("{one}{two}"), "x", "fn a() {}\n"),
    ];
    let mut shown = String::new();
    for other in &runs[1..] {
        let said = sandbox.run(&["trace", "diff", &runs[0], other, "-Cworkspace"]);
        assert_eq!(said.code, i32::from(other != &runs[1]), "{}{}", said.stdout, said.stderr);
        let short = |id: &str| id[id.len() - 8..].to_string();
        shown.push_str(&said.stdout.replace(&short(&runs[0]), "ONE").replace(&short(other), "OTHER"));
        shown.push('\n');
    }
    insta::assert_snapshot!(shown);
    let said = sandbox.run(&["trace", "diff", &runs[0], &runs[4], "a", "-Cworkspace"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "identical: 1 conversation, 2 turns\n"));
}

#[test]
fn diff_compares_the_wire_and_not_what_providers_make_up() {
    let sandbox = Sandbox::new();
    let mut other = anthropic();
    let rename = |value: &Value| serde_json::from_str::<Value>(&value.to_string().replace("c1", "toolu_99")).unwrap();
    other = other.iter().map(|(request, response)| (rename(request), response.as_ref().map(rename))).collect();
    record(&sandbox, "0198-one", &anthropic());
    record(&sandbox, "0198-two", &other);
    other[2].0["body"]["max_tokens"] = json!(9_000);
    record(&sandbox, "0198-six", &other);
    let diff = |other: &str| sandbox.run(&["trace", "diff", "one", other, "-Cworkspace"]);
    assert_eq!(told(&diff("two")), "identical: 1 conversation, 2 turns\n");
    let said = diff("six");
    assert_eq!((said.code, said.stderr.as_str()), (1, ""));
    insta::assert_snapshot!(said.stdout, @"
    map  differs from turn 2 on: request: max_tokens

    first difference: map, turn 2, request: max_tokens
      0198-one  `8000`
      0198-six  `9000`
    ");
}

/// Answers as many requests as there are answers, one after the other, and gives their heads and bodies.
fn answering<const N: usize>(
    listener: TcpListener,
    answers: [(u16, &'static str, String); N],
) -> std::thread::JoinHandle<[(String, Value); N]> {
    std::thread::spawn(move || {
        answers.map(|(status, kind, body)| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
            let mut sent = vec![0; length];
            reader.read_exact(&mut sent).unwrap();
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nretry-after-ms: 1\r\n\
                 x-echo: sk-0123456789\r\nx-request-id: req_7\r\nconnection: close\r\n\r\n{body}"
            );
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            (head, serde_json::from_slice::<Value>(&sent).unwrap())
        })
    })
}

#[test]
fn a_run_over_http_is_traced_shown_and_replayed_without_key_or_server() {
    const REPORT: &str = r#"{\"status\":\"done\",\"summary\":\"all of it\"}"#;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let call = format!(r#"{{"index":0,"id":"c1","function":{{"name":"report","arguments":"{REPORT}"}}}}"#);
    let reply = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"Here.\",\"tool_calls\":[{call}]}},\"finish_reason\":\"tool_calls\"}}],\
         \"usage\":{{\"prompt_tokens\":70,\"completion_tokens\":9}}}}\n\ndata: [DONE]\n\n"
    );
    let busy = r#"{"error":{"message":"slow down, sk-0123456789"}}"#;
    let server = answering(listener, [(429, "application/json", busy.to_string()), (200, "text/event-stream", reply)]);

    let sandbox = Sandbox::new();
    sandbox.file("plan.toml", "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\nprompt = \"Look.\"\n");
    let run = |flags: &[&str], key: bool| {
        let mut command = sandbox.sortie();
        command.args(["run", "-Cworkspace", "--plan=plan.toml", "--output=json"]).args(flags);
        if key {
            command.env("OPENAI_API_KEY", "sk-0123456789").env("OPENAI_BASE_URL", &url);
        }
        let said = finish(command);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let mut result: Value = serde_json::from_str(&said.stdout).unwrap();
        result["nodes"][0]["duration_ms"] = Value::Null;
        let id = result["run"].take();
        (result, id.as_str().unwrap().to_string())
    };
    let (recorded, id) = run(&["--model=openai/m", "--trace-http", "--record=x.jsonl"], true);
    server.join().unwrap();
    assert_eq!(recorded["nodes"][0]["summary"], "all of it");
    let (replayed, _) = run(&["--cassette=x.jsonl"], false);
    assert_eq!(replayed, recorded);

    let trace = std::fs::read_to_string(sandbox.path().join("workspace/.sortie/runs").join(&id).join("http.jsonl"));
    let trace = trace.unwrap();
    assert_eq!((trace.lines().count(), trace.contains("0123456789")), (4, false), "{trace}");
    let shown = told(&sandbox.run(&["trace", "show", &id, "a", "-Cworkspace"]));
    for words in [
        "-> try 1: 429 after ",
        "request req_7: slow down, ***",
        "-> try 2: 200 after ",
        "call report:\n  {\"status\"",
        "stop: tool · 70 tokens in, 9 out",
    ] {
        assert!(shown.contains(words), "`{words}` is not in {shown}");
    }
}

#[test]
fn resend_prints_or_sends_one_request_with_changes_to_the_host_it_went_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let sandbox = Sandbox::new();
    let mut exchanges = anthropic();
    record(&sandbox, "0198-far", &exchanges);
    for (request, _) in &mut exchanges {
        request["url"] = json!(format!("http://{place}/v1/messages"));
    }
    record(&sandbox, "0198-near", &exchanges);
    let resend = |run: &str, args: &[&str]| {
        let mut command = sandbox.sortie();
        command.args(["trace", "resend", run, "map", "--turn=1", "-Cworkspace"]).args(args);
        command.env("ANTHROPIC_API_KEY", "sk-0123456789").env("ANTHROPIC_BASE_URL", format!("http://{place}"));
        finish(command)
    };
    let printed = resend("far", &["--set=temperature=0", "--set=stream=", "--model=other", "--print"]);
    let mut expected = exchanges[1].0["body"].clone();
    expected["temperature"] = json!(0);
    expected["model"] = json!("other");
    expected.as_object_mut().unwrap().shift_remove("stream");
    assert_eq!(serde_json::from_str::<Value>(&printed.stdout).unwrap(), expected);

    let refused = resend("far", &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(refused.stderr.replace(&place, "HERE"), @"
    error: it was sent to `api.example.com`, and `anthropic` is at `HERE` now

    hint: --to HERE sends it there
    ");

    let refused = r#"{"error":{"type":"authentication_error","message":"no such key: sk-0123456789"}}"#;
    let server =
        answering(listener, [(200, "text/event-stream", reads()), (401, "application/json", refused.to_string())]);
    let said = resend("near", &["--set=max_tokens=5"]);
    insta::assert_snapshot!(told(&said).lines().filter(|line| !line.contains(" after ")).collect::<Vec<_>>().join("\n"), @r#"
    reply:
      I look at it.
    call read_file:
      {"file_path":"a.rs"}
    stop: tool · 1.7k tokens in (800 from a cache), 34 out
    "#);
    let failed = resend("far", &[&format!("--to={place}")]);
    assert_eq!(failed.code, 4, "{}", failed.stderr);
    assert!(failed.stderr.contains("no such key: ***") && !failed.stderr.contains("0123456789"), "{}", failed.stderr);
    let [(head, body), _] = server.join().unwrap();
    assert!(head.starts_with("post /v1/messages ") && head.contains("x-api-key: sk-0123456789"), "{head}");
    assert_eq!(body["max_tokens"], 5);
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let sandbox = Sandbox::new();
    let mut told = String::new();
    record(&sandbox, "0198-one", &anthropic());
    record(&sandbox, "0198-plain", &[]);
    std::fs::remove_file(sandbox.path().join("workspace/.sortie/runs/0198-plain/http.jsonl")).unwrap();
    for args in [
        &["show", "one", "nobody"][..],
        &["show", "one", "part"],
        &["show", "one", "map", "--turn=9"],
        &["show", "one", "map", "--attempt=3"],
        &["show", "plain", "map", "--raw"],
        &["show", "missing"],
        &["diff", "one", "0198"],
        &["diff", "one", "one", "nobody"],
        &["resend", "plain", "map", "--turn=1"],
        &["resend", "one", "nobody", "--turn=1"],
        &["resend", "one", "map", "--turn=7"],
        &["resend", "one", "map", "--turn=1", "--set=model.x=1", "--print"],
        &["resend", "one", "map", "--turn=1", "--model=openai/gpt"],
        &["resend", "one", "map", "--turn=1"],
    ] {
        let said = sandbox.run(&[&["trace"], args, &["-Cworkspace"]].concat());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        told.push_str(&format!("$ sortie trace {}\n{}\n", args.join(" "), sandbox.without_path(&said.stderr)));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn help_teaches() {
    let sandbox = Sandbox::new();
    let help = |command: &str| told(&sandbox.run(&["trace", command, "--help"]));
    insta::assert_snapshot!("help_trace", ["show", "resend", "diff"].map(help).join("\n----\n\n"));
}
