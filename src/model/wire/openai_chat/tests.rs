//! What servers do to Chat Completions, one case each: chunks in, what came of them out.

use super::*;
use crate::model::Delta;
use serde_json::json;

/// Reads chunks (`[DONE]` as it is; a bare delta is wrapped), then the end of the stream, and writes down what came:
/// text joined, one line for anything else, what only shows life left out.
fn read(chunks: &[&str]) -> String {
    let mut decoder = Decoder::new("p/m".into());
    let mut out = Vec::new();
    let mut failure = None;
    for chunk in chunks {
        let wrapped = match chunk.starts_with("{\"choices\"") || !chunk.starts_with("{\"d\"") {
            true => chunk.to_string(),
            false => format!("{{\"choices\":[{{\"index\":0,\"delta\":{}}}]}}", &chunk[5..chunk.len() - 1]),
        };
        if let Err(error) = decoder.event(&sse::Event { name: "", data: &wrapped }, &mut out) {
            failure = Some(error);
            break;
        }
    }
    if failure.is_none() {
        failure = decoder.end(&mut out).err();
    }
    show(&out, failure)
}

fn show(deltas: &[Delta], failure: Option<Failure>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut text = String::new();
    for delta in deltas {
        if let Delta::Text(more) = delta {
            text.push_str(more);
            continue;
        }
        if !text.is_empty() && !matches!(delta, Delta::Partial(_)) {
            lines.push(format!("text {:?}", std::mem::take(&mut text)));
        }
        match delta {
            Delta::Call(call) => {
                let opaque = call.opaque.as_ref().map(|opaque| format!(" +{}", opaque.value)).unwrap_or_default();
                lines.push(format!("call {} {} {}{opaque}", call.id, call.name, call.args));
            }
            Delta::Thinking(opaque) => lines.push(format!("thinking {}", opaque.value)),
            Delta::Usage(u) => {
                let counts = [u.input, u.cache_read, u.cache_write, u.output, u.reasoning];
                lines.push(format!("usage {}", counts.map(|n| n.to_string()).join(" ")));
            }
            Delta::Stop(stop) => lines.push(format!("stop {stop:?}")),
            Delta::Text(_) | Delta::Partial(_) => {}
            Delta::Waiting(_) | Delta::Sent | Delta::Switched(_) | Delta::Cost(_) => panic!("{delta:?}"),
        }
    }
    if !text.is_empty() {
        lines.push(format!("text {text:?}"));
    }
    lines.extend(failure.map(|failure| format!("failure {:?}: {}", failure.kind, failure.message)));
    lines.join("\n")
}

pub(super) const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
pub(super) const CALLS: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
pub(super) const LENGTH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;
pub(super) const DONE: &str = "[DONE]";

pub(super) fn check(cases: &[(&str, &[&str], &str)]) {
    for (name, chunks, wanted) in cases {
        let wanted: Vec<&str> = wanted.trim().lines().map(str::trim).collect();
        assert_eq!(read(chunks), wanted.join("\n"), "{name}");
    }
}

#[test]
fn calls_are_put_together_whatever_servers_leave_out_or_repeat() {
    check(&[
        (
            "by the standard",
            &[
                r#"{"d":{"role":"assistant","content":null}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call c1 read {"p":1}
            stop Tool"#,
        ),
        (
            "no arguments at all",
            &[r#"{"d":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"run","arguments":""}}]}}"#, CALLS, DONE],
            "call c1 run {}\nstop Tool",
        ),
        (
            "all calls have index 0",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\":1}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":"{\"p\":2}"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call a read {"p":1}
            call b read {"p":2}
            stop Tool"#,
        ),
        (
            "all calls have index 0 and stream, later fragments with an empty id",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":""}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"","function":{"name":null,"arguments":"{\"p\":1}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":""}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"","function":{"name":null,"arguments":"{\"p\":2}"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call a read {"p":1}
            call b read {"p":2}
            stop Tool"#,
        ),
        (
            "all calls have index 0 and no id",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\"p\":1}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"{\"p\":2}"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call call_1 read {"p":1}
            call call_2 read {"p":2}
            stop Tool"#,
        ),
        (
            "fragments of two calls interleave",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\""}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":":2}"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call a f {"x":1}
            call b g {"y":2}
            stop Tool"#,
        ),
        (
            "indices begin at 1 and have a gap",
            &[
                r#"{"d":{"tool_calls":[{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":4,"id":"b","function":{"name":"g","arguments":"{}"}}]}}"#,
                CALLS,
                DONE,
            ],
            "call a f {}\ncall b g {}\nstop Tool",
        ),
        (
            "later fragments have id and name empty",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"run","arguments":""}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"{}"}}]}}"#,
                CALLS,
                DONE,
            ],
            "call c1 run {}\nstop Tool",
        ),
        (
            "no id",
            &[r#"{"d":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}}"#, CALLS, DONE],
            "call call_1 f {}\nstop Tool",
        ),
        (
            "the same id for two calls",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":1,"id":"x","function":{"name":"g","arguments":"{}"}}]}}"#,
                CALLS,
                DONE,
            ],
            "call x f {}\ncall call_2 g {}\nstop Tool",
        ),
        (
            "no index, whole calls in one chunk and in two",
            &[
                r#"{"d":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"f","arguments":"{}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}}"#,
                STOP,
                DONE,
            ],
            "call a f {}\ncall b f {}\ncall c f {}\nstop Tool",
        ),
        (
            "neither index nor id",
            &[
                r#"{"d":{"tool_calls":[{"function":{"name":"f","arguments":""}},{"function":{"name":"g","arguments":"{\"a\""}}]}}"#,
                r#"{"d":{"tool_calls":[{"function":{"arguments":":1}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"function":{"name":"g","arguments":"{\"a\":2}"}}]}}"#,
                STOP,
                DONE,
            ],
            r#"call call_1 f {}
            call call_2 g {"a":1}
            call call_3 g {"a":2}
            stop Tool"#,
        ),
        (
            "name and id in every fragment",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"b\":1}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call a f {"a":{"b":1}}
            stop Tool"#,
        ),
        (
            "another id for every fragment",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"1"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"}"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call a f {"a":1}
            stop Tool"#,
        ),
        (
            "arguments as an object, the id a number",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":7,"function":{"name":"f","arguments":{"a": [1]}}}]}}"#,
                STOP,
                DONE,
            ],
            r#"call 7 f {"a":[1]}
            stop Tool"#,
        ),
        (
            "the last arguments and the finish reason in one chunk",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":"}}]}}"#,
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}"#,
                DONE,
            ],
            r#"call a f {"a":1}
            stop Tool"#,
        ),
        (
            "`stop` though there are calls",
            &[r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}"#, STOP, DONE],
            "call a f {}\nstop Tool",
        ),
    ]);
}

#[test]
fn arguments_that_are_cut_or_no_object_are_kept_as_they_came() {
    check(&[
        (
            "cut by the output limit",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":1,"id":"b","function":{"name":"write_file","arguments":"{\"content\":\"abc"}}]}}"#,
                LENGTH,
                DONE,
            ],
            r#"call a read {}
            call b write_file "{\"content\":\"abc"
            stop Length"#,
        ),
        (
            "cut before the first argument: not taken for a call without arguments",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write_file","arguments":""}}]}}"#,
                LENGTH,
                DONE,
            ],
            "call a write_file \"\"\nstop Length",
        ),
        (
            "cut, but called a tool call",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write_file","arguments":"{\"a\": \"b"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call a write_file "{\"a\": \"b"
            stop Tool"#,
        ),
        (
            "no object",
            &[
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"\"x\""}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"[1]"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":2,"id":"c","function":{"name":"f","arguments":"null"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":3,"id":"d","function":{"name":"f","arguments":"{\"ok\":1}"}}]}}"#,
                CALLS,
                DONE,
            ],
            r#"call a f "x"
            call b f [1]
            call c f null
            call d f {"ok":1}
            stop Tool"#,
        ),
    ]);
}

#[test]
fn usage_is_found_wherever_it_is() {
    let text = r#"{"d":{"content":"hi"}}"#;
    check(&[
        (
            "in a chunk of its own without choices",
            &[text, STOP, r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#, DONE],
            "text \"hi\"\nusage 7 0 0 3 0\nstop End",
        ),
        (
            "in a chunk whose choices are null, nulls before it",
            &[
                r#"{"choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}"#,
                STOP,
                r#"{"choices":null,"usage":{"prompt_tokens":7,"completion_tokens":3}}"#,
                DONE,
            ],
            "text \"hi\"\nusage 7 0 0 3 0\nstop End",
        ),
        (
            "without `choices`, after which the stream ends",
            &[text, STOP, r#"{"usage":{"prompt_tokens":7,"completion_tokens":3}}"#],
            "text \"hi\"\nusage 7 0 0 3 0\nstop End",
        ),
        (
            "in the choice",
            &[
                text,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":3,"cached_tokens":2}}]}"#,
                DONE,
            ],
            "text \"hi\"\nusage 5 2 0 3 0\nstop End",
        ),
        (
            "in every chunk: the last one counts, the same is told once",
            &[
                r#"{"choices":[{"index":0,"delta":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#,
                DONE,
            ],
            "text \"hi\"\nusage 7 0 0 1 0\nusage 7 0 0 3 0\nstop End",
        ),
        (
            "with details",
            &[
                text,
                STOP,
                r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":20}}}"#,
                DONE,
            ],
            "text \"hi\"\nusage 30 60 10 30 20\nstop End",
        ),
        (
            "as DeepSeek tells the cache, details null",
            &[
                text,
                STOP,
                r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"prompt_tokens_details":null,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}}"#,
                DONE,
            ],
            "text \"hi\"\nusage 36 64 0 30 0\nstop End",
        ),
        (
            "with reasoning only in the total",
            &[
                text,
                STOP,
                r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":180}}"#,
                DONE,
            ],
            "text \"hi\"\nusage 100 0 0 80 0\nstop End",
        ),
    ]);
}

#[test]
fn an_end_is_an_end_only_with_its_mark() {
    let text = r#"{"d":{"content":"hi"}}"#;
    let half = r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"q"}}]}}"#;
    check(&[
        ("no [DONE]", &[text, STOP], "text \"hi\"\nstop End"),
        ("nothing at all", &[], "failure Cut: the reply ended without a finish reason"),
        ("[DONE] alone", &[DONE], "failure Cut: the reply ended without a finish reason"),
        ("no mark", &[text], "text \"hi\"\nfailure Cut: the reply ended without a finish reason"),
        ("half a call, no mark", &[text, half], "text \"hi\"\nfailure Cut: the reply ended without a finish reason"),
        ("half a call, [DONE]", &[half, DONE], "failure Cut: the reply ended without a finish reason"),
        ("[DONE] after words", &[text, DONE], "text \"hi\"\nstop End"),
        (
            "what comes after [DONE] is not read",
            &[text, STOP, DONE, r#"{"d":{"content":"more"}}"#],
            "text \"hi\"\nstop End",
        ),
        (
            "filtered",
            &[text, r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#, DONE],
            "text \"hi\"\nstop Filtered",
        ),
        ("refused", &[r#"{"d":{"refusal":"no"}}"#, STOP, DONE], "text \"no\"\nstop Refusal"),
        (
            "a reason that nobody knows",
            &[text, r#"{"choices":[{"delta":{},"finish_reason":"brand_new"}]}"#, DONE],
            "text \"hi\"\nstop StreamCut",
        ),
        (
            "the server broke it off",
            &[text, r#"{"choices":[{"delta":{},"finish_reason":"abort"}]}"#, DONE],
            "text \"hi\"\nfailure Cut: the server broke off the reply",
        ),
        (
            "a second choice is another reply",
            &[text, r#"{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"stop"}]}"#, STOP],
            "text \"hi\"\nstop End",
        ),
    ]);
}

#[test]
fn an_error_in_the_stream_is_one() {
    let text = r#"{"d":{"content":"hi"}}"#;
    check(&[
        (
            "as OpenRouter sends it",
            &[
                text,
                r#"{"id":"x","error":{"code":502,"message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
            ],
            "text \"hi\"\nfailure Server: Provider disconnected",
        ),
        (
            "as vLLM sends it",
            &[r#"{"object":"error","message":"bad\nthing","type":"BadRequestError","code":400}"#],
            "failure InvalidRequest: bad thing",
        ),
        ("as text", &[r#"{"error":"out of memory"}"#], "failure Server: out of memory"),
        (
            "by its code",
            &[r#"{"error":{"code":"insufficient_quota","message":"pay","type":"insufficient_quota"}}"#],
            "failure Quota: pay",
        ),
    ]);
    let no_json = read(&[text, "Bad Gateway"]);
    assert!(no_json.contains("failure Protocol: sent a chunk that cannot be read"), "{no_json}");
    let page = read(&[text, "<html>Bad Gateway"]);
    assert!(page.contains("failure Protocol: answered with HTML instead of JSON"), "{page}");
    let mut decoder = Decoder::new("p/m".into());
    let event = sse::Event { name: "error", data: r#"{"message":"broken"}"# };
    assert_eq!(decoder.event(&event, &mut Vec::new()).unwrap_err().message, "broken");
}

#[test]
fn a_whole_reply_reads_like_its_stream() {
    let body = json!({
        "object": "chat.completion",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": "hi", "reasoning_content": "r",
                "tool_calls": [{ "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } }]
            },
            "finish_reason": "tool_calls"
        }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 }
    });
    let whole = |body: &str| {
        let mut out = Vec::new();
        let failure = Decoder::new("p/m".into()).whole(body.as_bytes(), &mut out).err();
        show(&out, failure)
    };
    assert_eq!(
        whole(&body.to_string()),
        "text \"hi\"\nusage 7 0 0 3 0\nthinking {\"reasoning_content\":\"r\"}\ncall a f {\"a\":1}\nstop Tool"
    );
    let html = whole("<!DOCTYPE html><title>Welcome</title>");
    assert!(html.starts_with("failure Protocol: answered with HTML (`Welcome`) instead of JSON"), "{html}");
    let other = whole(r#"{"choices":"none"}"#);
    assert!(other.starts_with("failure Protocol: sent a reply that cannot be read"), "{other}");
    assert_eq!(whole(r#"{"error":{"message":"no"}}"#), "failure Server: no");
}
