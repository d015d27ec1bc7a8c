//! What failed calls mean: kinds, messages, waits, for all protocols.

use sortie::model::ModelErrorKind::{self, *};
use sortie::model::wire::{Failure, Protocol, RateState};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sun, 06 Nov 1994 08:49:37 GMT.
const NOW: Duration = Duration::from_secs(784_111_777);

/// Names and values.
type Headers<'h> = &'h [(&'h str, &'h str)];

fn read(status: u16, headers: Headers<'_>, body: &str) -> Failure {
    let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
    Failure::read(Protocol::OpenaiChat, status, |name| headers.get(name).copied(), body.as_bytes(), NOW)
}

/// `{"error": {"message": …}}`
fn said(message: &str) -> String {
    serde_json::json!({ "error": { "message": message } }).to_string()
}

#[test]
fn kinds_by_status_code_and_words() {
    let overflow = [
        "prompt is too long: 5 > 4",
        "This model's maximum context length (4) is exceeded",
        "input length and max_tokens exceed context limit",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "the request exceeds the available context size, try increasing it",
        "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "Trying to keep the first 5000 tokens when context the overflows. However, the tokens to keep from the initial prompt is greater than the context length",
        "prompt token count of 5 exceeds the limit of 4",
        "invalid params, context window exceeds limit",
        "Invalid request: Your request exceeded model token limit: 4 (requested: 5)",
        "Prompt contains 5 tokens, too large for model with 4 maximum context length",
        "Input is too long for requested model.",
        "Range of input length should be [1, 30720]",
        "prompt too long; exceeded max context length by 5 tokens",
    ];
    for words in overflow {
        for status in [400, 422, 500] {
            assert_eq!(read(status, &[], &said(words)).kind, ContextFull, "{status} {words}");
        }
        assert_eq!(read(429, &[], &said(words)).kind, RateLimit, "{words}");
    }
    let no_tools = [
        "Unsupported param: tools",
        "tools param requires --jinja flag",
        "registry.ollama.ai/library/gemma:2b does not support tools",
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        "No endpoints found that support tool use. To learn more about provider routing, visit: …",
        "`tools` is not supported with this model",
        "Function calling is not enabled for this model",
    ];
    for words in no_tools {
        for status in [400, 404, 422, 500, 501] {
            assert_eq!(read(status, &[], &said(words)).kind, NoTools, "{status} {words}");
        }
    }
    let table: &[(u16, &str, ModelErrorKind)] = &[
        // Anthropic
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: field required"}}"#,
            InvalidRequest,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-01-01."}}"#,
            Quota,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
            Quota,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 9 > 5, which is the maximum allowed number of output tokens for x"}}"#,
            InvalidRequest,
        ),
        (401, r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#, Auth),
        (402, r#"{"type":"error","error":{"type":"billing_error","message":"pay"}}"#, Quota),
        (403, r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#, Auth),
        (404, r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-nope"}}"#, NotFound),
        (409, r#"{"type":"error","error":{"type":"conflict_error","message":"again"}}"#, Server),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            ContextFull,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 5 tokens per minute"}}"#,
            RateLimit,
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"no","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            Quota,
        ),
        (500, r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#, Server),
        (504, r#"{"type":"error","error":{"type":"timeout_error","message":"late"}}"#, Server),
        (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded),
        (500, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded),
        // OpenAI and relatives
        (
            400,
            r#"{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ContextFull,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"no room","type":"exceed_context_size_error","n_prompt_tokens":5,"n_ctx":4}}"#,
            ContextFull,
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-a***b.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            Auth,
        ),
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}"#,
            NotFound,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Quota,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached for gpt-x on tokens per min (TPM): Limit 5, Used 5.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            RateLimit,
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 5, Requested 9.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ContextFull,
        ),
        (
            413,
            r#"{"error":{"message":"Request too large for model `x`","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ContextFull,
        ),
        (503, r#"{"error":{"message":"The engine is currently overloaded, please try again later"}}"#, Overloaded),
        (
            429,
            r#"{"error":{"message":"The engine is currently overloaded","type":"engine_overloaded_error"}}"#,
            Overloaded,
        ),
        (429, r#"{"error":{"message":"Your account is suspended","type":"exceeded_current_quota_error"}}"#, Quota),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
            Quota,
        ),
        (400, r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}"#, NotFound),
        (400, r#"{"error":{"message":"x/y is not a valid model ID","code":400}}"#, NotFound),
        (
            403,
            r#"{"error":{"message":"x requires moderation on Y. Your input was flagged for \"violence\".","code":403}}"#,
            InvalidRequest,
        ),
        (
            502,
            r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream down","provider_name":"Y"}}}"#,
            Server,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
            Auth,
        ),
        (
            429,
            r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 34.07s.","status":"RESOURCE_EXHAUSTED"}}]"#,
            RateLimit,
        ),
        (400, r#"{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}"#, InvalidRequest),
        (404, r#"{"error":"model 'x' not found"}"#, NotFound),
        (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, InvalidRequest),
        (
            400,
            r#"{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing.","request_id":"r"}"#,
            Quota,
        ),
        (503, r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, Overloaded),
        (408, "{}", Server),
        (405, "{}", NotFound),
        (418, "{}", InvalidRequest),
        (200, "{}", Protocol),
    ];
    for (status, body, kind) in table {
        assert_eq!(read(*status, &[], body).kind, *kind, "{status} {body}");
    }
}

#[test]
fn messages_say_what_the_server_said_or_what_it_should_have() {
    let long = "x".repeat(5_000);
    let table: Vec<(u16, String, &str)> = vec![
        (400, said("line one\nline two\u{1b}[31m\t!"), "line one line two !"),
        (400, r#"{"error":"plain"}"#.into(), "plain"),
        (401, r#"{"error":"Unauthorized","message":"token expired"}"#.into(), "Unauthorized: token expired"),
        (
            422,
            r#"{"detail":[{"loc":["body"],"msg":"field required"},{"msg":"too short"}]}"#.into(),
            "field required; too short",
        ),
        (
            502,
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"m\":1}"}}}"#.into(),
            r#"Provider returned error: {"m":1}"#,
        ),
        (404, "404 page not found".into(), "404 page not found"),
        (404, "{}".into(), "has nothing at `chat/completions`: is the base URL right?"),
        (404, String::new(), "has nothing at `chat/completions`: is the base URL right?"),
        (500, String::new(), "answered 500 and did not say why"),
        (418, "null".into(), "answered 418 and did not say why"),
        (
            404,
            "<!doctype html><html><title>Not\nFound</title>".into(),
            "answered with HTML (`Not Found`) instead of JSON: is the base URL right?",
        ),
        (200, "  <HTML><body>hi".into(), "answered with HTML instead of JSON: is the base URL right?"),
        (
            502,
            "<html>\r\n<head><title>502 Bad Gateway</title></head>".into(),
            "answered with HTML (`502 Bad Gateway`) instead of JSON",
        ),
        (200, String::new(), "answered with nothing"),
        (502, "upstream connect error".into(), "upstream connect error"),
    ];
    for (status, body, message) in table {
        let failure = read(status, &[], &body);
        assert_eq!(failure.message, message, "{status} {body}");
        assert_eq!(failure.status, Some(status));
    }
    let cut = read(400, &[], &said(&long)).message;
    assert!(cut.chars().count() == 400 && cut.ends_with('…'), "{cut}");
    let page = read(200, &[], &format!("<html>{long}")).message;
    assert!(page.len() < 100, "{page}");
    let moved = read(301, &[("location", "https://b.example/v1?key=secret")], "");
    assert_eq!((moved.kind, moved.message.as_str()), (NotFound, "redirects to `https://b.example/v1`"));
}

#[test]
fn request_ids_are_kept() {
    let body = r#"{"error":{"message":"x"},"request_id":"body"}"#;
    let table: [(Headers<'_>, Option<&str>); 4] = [
        (&[("request-id", "a"), ("x-request-id", "b")], Some("a")),
        (&[("request-id", " "), ("x-request-id", "b")], Some("b")),
        (&[], Some("body")),
        (&[("x-request-id", "a\u{1b}[2Jb")], Some("ab")),
    ];
    for (headers, id) in table {
        assert_eq!(read(500, headers, body).request_id.as_deref(), id);
    }
    assert_eq!(read(500, &[], "{}").request_id, None);
}

#[test]
fn an_output_limit_that_is_too_high_comes_with_the_one_that_fits() {
    let body = said("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000");
    let failure = read(400, &[], &body);
    assert_eq!((failure.kind, failure.fits_output), (ContextFull, Some(11_760)));
    assert_eq!(read(413, &[], "{}").fits_output, None);
}

#[test]
fn waits_are_what_the_server_asked_for() {
    let ms = |ms: u64| Some(Duration::from_millis(ms));
    let table: [(Headers<'_>, Option<Duration>); 24] = [
        (&[("retry-after", "2")], ms(2_000)),
        (&[("retry-after", "1.5")], ms(1_500)),
        (&[("retry-after", "0")], ms(0)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")], ms(3_000)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT")], ms(0)),
        (&[("retry-after", "Sun, 6 Nov 1994 08:49:40 GMT")], ms(3_000)),
        (&[("retry-after", "abc")], None),
        (&[("retry-after", "")], None),
        (&[("retry-after", "-1")], None),
        (&[("retry-after", "NaN")], None),
        (&[("retry-after", "Sun, 99 Xxx 1994 08:49:40 GMT")], None),
        (&[("retry-after", "86400")], ms(86_400_000)),
        (&[("retry-after", "1e300")], Some(Duration::MAX)),
        (&[("retry-after-ms", "1500"), ("retry-after", "9")], ms(1_500)),
        (&[("retry-after-ms", "x"), ("retry-after", "9")], ms(9_000)),
        (
            &[
                ("anthropic-ratelimit-tokens-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "1994-11-06T08:50:07Z"),
            ],
            ms(30_000),
        ),
        (
            &[
                ("anthropic-ratelimit-tokens-remaining", "5"),
                ("anthropic-ratelimit-tokens-reset", "1994-11-06T08:50:07Z"),
            ],
            None,
        ),
        (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0s")], ms(360_000)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "20ms")], ms(20)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1h2m3.5s")], ms(3_723_500)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "soon")], None),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1784111777000")], ms(1_000_000_000_000)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1784111777")], ms(1_000_000_000_000)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7.5")], ms(7_500)),
    ];
    for (headers, after) in table {
        assert_eq!(read(429, headers, "{}").retry.after, after, "{headers:?}");
    }
    let told = r#"[{"error":{"code":429,"details":[{"@type":"RetryInfo","retryDelay":"34.5s"}]}}]"#;
    assert_eq!(read(429, &[], told).retry.after, ms(34_500));
    for (value, should) in [("true", Some(true)), ("false", Some(false)), ("maybe", None)] {
        assert_eq!(read(500, &[("x-should-retry", value)], "{}").retry.should, should);
    }
}

#[test]
fn what_is_left_is_read_from_any_answer() {
    let headers: BTreeMap<&str, &str> = [
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-tokens-remaining", "8000"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "1994-11-06T08:49:38Z"),
        ("anthropic-ratelimit-output-tokens-remaining", "0"),
        ("anthropic-ratelimit-output-tokens-reset", "1994-11-06T08:49:39Z"),
    ]
    .into();
    let state = RateState::read(|name| headers.get(name).copied(), NOW);
    let expected =
        RateState { remaining_requests: Some(49), remaining_tokens: Some(0), reset: Some(Duration::from_secs(2)) };
    assert_eq!(state, expected);
    assert_eq!(RateState::read(|_| None, NOW), RateState::default());
}

#[test]
fn a_key_that_the_server_echoes_is_not_shown() {
    let key = "sk-ant-0123456789abcdef";
    let mut failure = read(401, &[("request-id", key)], &said(&format!("no such key: {key}, {key}")));
    failure.redact(key);
    assert_eq!(failure.message, "no such key: ***, ***");
    assert_eq!(failure.request_id.as_deref(), Some("***"));
    for fill in 360..420 {
        let mut failure = read(401, &[], &said(&format!("{} {key} tail", "x".repeat(fill))));
        failure.redact(key);
        assert!(!failure.message.contains("sk-ant"), "{fill}: {}", failure.message);
    }
    let mut untouched = read(400, &[], &said("a message"));
    untouched.redact("");
    assert_eq!(untouched.message, "a message");
}
