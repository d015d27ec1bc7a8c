//! What a trace holds, and what it does not.

use super::*;
use serde_json::json;
use std::time::Duration;

const KEY: &str = "sk-ant-0123456789";
const OTHER: &str = "another-secret";

fn about(try_number: u32) -> About {
    About {
        conversation: "part[1]".into(),
        attempt: 1,
        turn: 3,
        try_number,
        provider: "anthropic".into(),
        model: "anthropic/m".into(),
        protocol: Protocol::Anthropic,
    }
}

fn trace() -> (tempfile::TempDir, std::path::PathBuf, Arc<HttpTrace>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(TRACE_FILE);
    let trace = HttpTrace::to_file(&path, Redactor::new([OTHER])).unwrap();
    (folder, path, trace)
}

#[tokio::test(start_paused = true)]
async fn an_exchange_is_two_lines_that_come_back_as_they_were() {
    let (_folder, path, trace) = trace();
    // Key order and numbers are those of the wire.
    let body = json!({ "model": "m", "max_tokens": 1_000, "b": 1, "a": [0.1, "\u{2028}ä\n"] });
    let mut exchange =
        trace.request(&about(2), "https://h/v1/messages", &[("content-type", "application/json")], &body);
    let second = trace.request(&about(3), "https://h/v1/messages", &[], &json!({}));
    tokio::time::advance(Duration::from_millis(250)).await;
    exchange.answered(200, [("Retry-After", "3"), ("x-a", "1"), ("x-a", "2")], Some("req_1"));
    exchange.chunk(b"data: \xe4\xb8");
    tokio::time::advance(Duration::from_millis(750)).await;
    exchange.chunk(b"\xad\n\n");
    exchange.end(None);
    second.end(Some("connection refused"));
    drop(trace.request(&about(4), "https://h/v1/messages", &[], &json!({})));
    assert_eq!(trace.finish(), None);

    let (read, warnings) = read_trace(&path, |request| request.turn == 3).unwrap();
    assert_eq!((read.len(), warnings.len()), (3, 0));
    let first = &read[0];
    assert_eq!((first.request.try_number, first.request.protocol), (2, Protocol::Anthropic));
    assert_eq!(first.request.body.get(), body.to_string());
    let response = first.response.as_ref().unwrap();
    assert_eq!((response.status, response.request_id.as_deref()), (Some(200), Some("req_1")));
    assert_eq!((response.body.as_str(), response.bytes, response.left_out), ("data: 中\n\n", 11, 0));
    assert_eq!((response.ms, response.first_byte_ms, &response.problem), (1_000, Some(250), &None));
    assert_eq!(json!(response.headers), json!({ "Retry-After": "3", "x-a": "1, 2" }));
    let problems: Vec<_> = read[1..].iter().map(|traced| traced.response.clone().unwrap().problem.unwrap()).collect();
    assert_eq!(problems, ["connection refused", "cancelled"]);
    let line = std::fs::read_to_string(&path).unwrap();
    let line = line.lines().next().unwrap().to_string();
    let begins = r#"{"type":"request","id":"1","at":""#;
    let goes_on = r#""conversation":"part[1]","attempt":1,"turn":3,"try":2,"provider":"anthropic","model":"anthropic/m","protocol":"anthropic","url":"https://h/v1/messages""#;
    assert!(line.starts_with(begins) && line.contains(goes_on), "{line}");
}

#[test]
fn no_key_is_in_a_trace_wherever_it_was() {
    for place in ["authorization", "Authorization", "x-api-key", "api-key", "cookie", "proxy-authorization", "x-mine"] {
        let value = if place.eq_ignore_ascii_case("authorization") { format!("Bearer {KEY}") } else { KEY.to_string() };
        let (_folder, path, trace) = trace();
        let body = json!({ "prompt": format!("is {KEY} the key?"), KEY: [OTHER] });
        let url = format!("https://user:word@h/{KEY}?api_key=abcdef&x={OTHER}");
        let headers = [(place, value.as_str()), ("user-agent", OTHER), ("anthropic-version", "2023-06-01")];
        let mut exchange = trace.request(&about(1), &url, &headers, &body);
        let answer = [("set-cookie", "session=1234"), ("x-echo", value.as_str()), ("request-id", "r")];
        exchange.answered(401, answer, Some(KEY));
        let echo = format!(r#"{{"error":"wrong key {KEY}, or {OTHER}"}}"#);
        let (one, two) = echo.as_bytes().split_at(echo.find(KEY).unwrap() + 5);
        exchange.chunk(one);
        exchange.chunk(two);
        exchange.chunk(&KEY.as_bytes()[..9]);
        exchange.end(Some(&format!("refused {KEY}")));
        trace.finish();
        let file = std::fs::read_to_string(&path).unwrap();
        for secret in ["0123456789", "sk-ant-01", OTHER, "word@", "abcdef", "session=1234"] {
            assert!(!file.contains(secret), "{place}: `{secret}` is in {file}");
        }
        for kept in ["is *** the key?", "2023-06-01", "wrong key ***, or ***", "refused ***", r#""request-id":"r""#] {
            assert!(file.contains(kept), "{place}: `{kept}` is not in {file}");
        }
    }
}

#[test]
fn a_key_of_digits_cannot_break_a_line() {
    let (_folder, path, trace) = trace();
    trace.request(&about(1), "https://h", &[("x-api-key", "1234567890")], &json!({ "n": 1_234_567_890_u64 })).end(None);
    trace.finish();
    let (read, warnings) = read_trace(&path, |_| true).unwrap();
    assert_eq!((read.len(), warnings.len()), (1, 0));
    assert_eq!(read[0].request.body.get(), r#""left out: without its secrets it is no JSON""#);
}

#[test]
fn a_damaged_trace_is_read_as_far_as_it_can_be() {
    let (_folder, path, trace) = trace();
    for _ in 0..2 {
        trace.request(&about(1), "https://h", &[], &json!({})).end(None);
    }
    trace.finish();
    let file = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    let damaged = [lines[0], "{}", r#"{"type":"later"}"#, lines[1], lines[2], &lines[3][..20]].join("\n");
    std::fs::write(&path, damaged).unwrap();
    let (read, warnings) = read_trace(&path, |_| true).unwrap();
    assert_eq!(read.iter().map(|traced| traced.response.is_some()).collect::<Vec<_>>(), [true, false]);
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"
    line 2: no line of a trace (missing field `type`); left out
    line 6: the last line was cut off; it is left out
    ");
}
