//! One model call over HTTP, against servers on loopback that answer by what they are asked.

use crate::command::PATIENCE;
use futures_util::future::join_all;
use sortie::model::catalog::Catalog;
use sortie::model::http::{
    Auth, Egress, HttpModel, NetSettings, Options, Provider, Secret, Server, ToolMode, http_client,
};
use sortie::model::wire::Protocol;
use sortie::model::{Block, Message, Model, ModelError, ModelErrorKind, Reply, Request, Speaker, collect};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// What a server writes for a request's body; `nth` counts from 0.
type Answer = dyn Fn(&str, usize) -> String + Send + Sync;

/// A server on loopback, one thread per connection; gives its base URL and the number of requests it has had.
fn serve(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static, closes: bool) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (answer, count): (Arc<Answer>, _) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, seen) = (stream.unwrap(), Arc::clone(&answer), Arc::clone(&seen));
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let Some(body) = body(&mut stream) else { return };
                let text = answer(&body, seen.fetch_add(1, Ordering::SeqCst));
                stream.write_all(text.as_bytes()).unwrap();
                if !closes {
                    // Until the other side closes.
                    let _ = stream.read(&mut [0]);
                }
            });
        }
    });
    (base_url, count)
}

/// The body of a request; `None` for a connection on which none comes.
fn body(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).unwrap())
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}")
}

/// A stream of Chat Completions with these words.
fn says(words: &str) -> String {
    let chunk = |delta: serde_json::Value, end: serde_json::Value| {
        let choice = serde_json::json!({ "index": 0, "delta": delta, "finish_reason": end });
        format!("data: {}\n\n", serde_json::json!({ "choices": [choice] }))
    };
    let words = chunk(serde_json::json!({ "content": words }), serde_json::Value::Null);
    let end = chunk(serde_json::json!({}), "stop".into());
    answer("200 OK", "content-type: text/event-stream\r\n", &format!("{words}{end}data: [DONE]\n\n"))
}

fn provider(base_url: &str) -> Provider {
    Provider {
        name: "acme".into(),
        protocol: Protocol::OpenaiChat,
        base_url: base_url.into(),
        auth: Auth::None,
        headers: Vec::new(),
        streams: 8,
        rpm: None,
        tpm: None,
        idle_timeout: None,
        tool_mode: ToolMode::Native,
        ca_file: None,
    }
}

fn server(provider: Provider, net: &NetSettings) -> Arc<Server> {
    Server::new(provider, http_client(net, None).unwrap(), 1, None).unwrap()
}

fn model(provider: Provider) -> HttpModel {
    open(server(provider, &NetSettings::default()))
}

fn open(server: Arc<Server>) -> HttpModel {
    let info = Catalog::built_in().info("acme", "m");
    HttpModel::new(server, "acme/m", "m", info, Options::default())
}

async fn call(model: &HttpModel) -> Result<Reply, ModelError> {
    let message = Message { speaker: Speaker::User, blocks: vec![Block::text("Say: ok")] };
    let request = Request {
        conversation: "a".into(),
        attempt: 1,
        turn: 1,
        system: "Be brief.".into(),
        tools: Vec::new().into(),
        messages: vec![Arc::new(message)],
        max_output: 100,
        format: None,
    };
    let reply = async { collect(model.stream(request).await?, |_| {}).await };
    tokio::time::timeout(PATIENCE, reply).await.expect("it ends")
}

#[tokio::test]
async fn siblings_that_are_refused_for_stream_options_together_all_go_on_without() {
    let both = Barrier::new(2);
    let refused = r#"{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error"}}"#;
    let (base_url, count) = serve(
        move |body, _| {
            if body.contains("stream_options") {
                both.wait();
                return answer("400 Bad Request", "content-type: application/json\r\n", refused);
            }
            says("ok")
        },
        true,
    );
    let model = model(provider(&base_url));
    for reply in join_all([call(&model), call(&model)]).await {
        assert_eq!(reply.unwrap().blocks, [Block::text("ok")]);
    }
    assert_eq!(count.load(Ordering::SeqCst), 4);
    call(&model).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 5, "what was refused is remembered");
}

#[tokio::test]
async fn a_reply_that_breaks_after_blanks_alone_is_tried_again() {
    let (base_url, count) = serve(
        |_, nth| match nth {
            // Cut off in the middle of its body.
            0 => says("<think>\n").split("data: {\"choices\":[{\"index\":0,\"delta\":{}").next().unwrap().to_string(),
            _ => says("ok"),
        },
        true,
    );
    let reply = call(&model(provider(&base_url))).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
    let [Block::Text { text }] = reply.blocks.as_slice() else { panic!("{reply:?}") };
    assert_eq!(text.trim(), "ok");
}

#[tokio::test]
async fn a_compressed_answer_that_nobody_asked_for_is_named_at_once() {
    let headers = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
    let (base_url, count) = serve(move |_, _| answer("200 OK", headers, "\u{1f}\u{8b}..."), true);
    let error = call(&model(provider(&base_url))).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Protocol, "{error}");
    assert!(error.message.contains("`gzip`"), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 1, "it would be so again");
}

#[tokio::test(start_paused = true)]
async fn what_the_settings_forbid_is_refused_without_a_wait_at_the_gate() {
    let mut provider = provider("http://127.0.0.1:9/v1");
    provider.rpm = Some(1);
    let net = NetSettings { egress: Egress::Offline, ..NetSettings::default() };
    let model = open(server(provider, &net));
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(call(&model).await.unwrap_err().kind, ModelErrorKind::Egress);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_key_in_a_header_or_in_the_query_of_the_base_url_is_in_no_error() {
    const KEY: &str = "hush-0123456789";
    for (status, says) in [
        ("404 Not Found", "no such model"),
        ("400 Bad Request", "bad credentials: hush-0123456789"),
        ("200 OK", "not of this protocol, hush-0123456789"),
    ] {
        let (base_url, _) = serve(move |_, _| answer(status, "content-type: application/json\r\n", says), true);
        let mut provider = provider(&format!("{base_url}?api_key={KEY}&version=2"));
        // A scheme before the key, as in the variables that people fill for this header.
        provider.headers = vec![("authorization".into(), Secret::new(&format!("Bearer {KEY}")))];
        let error = call(&model(provider)).await.unwrap_err().to_string();
        assert!(!error.contains(KEY), "{error}");
        let shown = format!("{base_url}/chat/completions?api_key=***&version=2");
        assert_eq!(error.contains(&shown), status != "400 Bad Request", "{error}");
    }
}

#[tokio::test]
async fn a_whole_answer_counts_also_when_the_server_never_closes() {
    let (base_url, _) = serve(|_, _| says("ok"), false);
    let server = server(provider(&base_url), &NetSettings::default());
    let begun = Instant::now();
    let body = serde_json::json!({ "model": "m", "messages": [] });
    let answer = server.send_by_hand(&body, Duration::from_millis(200)).await.unwrap();
    assert!(begun.elapsed() < PATIENCE);
    let (reply, problem) = sortie::model::trace::reply_of(Protocol::OpenaiChat, "acme/m", &answer);
    assert_eq!((reply.blocks.as_slice(), problem), (&[Block::text("ok")][..], None));
}
