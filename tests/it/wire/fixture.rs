//! The fixture itself, by hand: what the other tests rely on.

use super::kit::Frozen;
use super::say::{self, PROTOCOLS};
use super::server::{Plan, Server};
use serde_json::{Value, json};
use sortie::model::wire::Protocol;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap()
}

async fn post(socket: &mut TcpStream, body: &str) {
    let head = format!("POST /anywhere HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all((head + body).as_bytes()).await.unwrap();
}

/// Reads until this stands at the end of what has come.
async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_gated_reply_comes_piece_by_piece_and_the_connection_is_used_again() {
    let mut server = Server::gated().await.unwrap();
    let mut socket = connect(&server).await;
    post(&mut socket, r#"{"a":1}"#).await;
    let mut exchange = server.next().await;
    assert_eq!((&*exchange.received.method, &*exchange.received.path), ("POST", "/anywhere"));
    assert_eq!(exchange.received.json(), json!({ "a": 1 }));
    exchange.start().await.unwrap();
    exchange.chunk("one").await.unwrap();
    let head = read_until(&mut socket, "3\r\none\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
    exchange.end().await.unwrap();
    read_until(&mut socket, "0\r\n\r\n").await;
    post(&mut socket, "second").await;
    let exchange = server.next().await;
    assert_eq!((exchange.received.number, &*exchange.received.body), (1, &b"second"[..]));
    exchange.hang_up();
    assert!(matches!(socket.read(&mut [0]).await, Ok(0) | Err(_)), "dropped");
    assert_eq!(server.most_open(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let mut server = Server::gated().await.unwrap();
    let mut socket = connect(&server).await;
    post(&mut socket, "{}").await;
    let mut exchange = server.next().await;
    drop(socket);
    exchange.left().await;
}

#[tokio::test]
async fn a_directed_server_answers_by_itself() {
    let server = Server::directed(|received| match received.number {
        0 => Plan::whole(429, "text/plain", "busy").header("retry-after", "1"),
        _ => Plan::stream(["a", "b"]).then_hang_up(),
    });
    let server = server.await.unwrap();
    let mut socket = connect(&server).await;
    post(&mut socket, "{}").await;
    let reply = read_until(&mut socket, "0\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 429 ") && reply.contains("retry-after: 1") && reply.contains("busy"));
    post(&mut socket, "{}").await;
    read_until(&mut socket, "1\r\nb\r\n").await;
    assert!(!matches!(socket.read(&mut [0]).await, Ok(1..)), "there is no end");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn a_paced_reply_keeps_its_pace_from_the_arrival_on() {
    let time = Frozen::new();
    let (first, gap) = (Duration::from_millis(200), Duration::from_millis(20));
    let server = Server::directed(move |_| Plan::stream(["a", "b"]).paced(first, gap)).await.unwrap();
    let mut socket = connect(&server).await;
    post(&mut socket, "{}").await;
    time.until(gap, || socket.try_read(&mut [0; 4096]).is_ok()).await;
    let after = server.received()[0].at.elapsed();
    assert!(after >= first && after < first + 2 * gap, "{after:?}");
    time.pass(gap).await;
    read_until(&mut socket, "0\r\n\r\n").await;
}

/// The data of each event but the last of a chat stream, which is no JSON.
fn data(events: &[String]) -> Vec<Value> {
    let data = events.iter().filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn what_is_said_is_in_the_events_of_every_protocol() {
    let reply = say::text("I look at naïve 你好 👩‍💻 things.").call("read_file", json!({ "file_path": "a.rs" }));
    for protocol in PROTOCOLS {
        assert_eq!(reply.parts(protocol).len(), 4);
        let (mut words, mut args) = (String::new(), String::new());
        for data in data(&reply.events(protocol)) {
            let (text, piece) = match protocol {
                Protocol::Anthropic => (&data["delta"]["text"], &data["delta"]["partial_json"]),
                Protocol::OpenaiChat => {
                    let delta = &data["choices"][0]["delta"];
                    (&delta["content"], &delta["tool_calls"][0]["function"]["arguments"])
                }
                Protocol::OpenaiResponses => match data["type"].as_str() {
                    Some("response.output_text.delta") => (&data["delta"], &Value::Null),
                    Some("response.function_call_arguments.delta") => (&Value::Null, &data["delta"]),
                    Some(_) | None => (&Value::Null, &Value::Null),
                },
            };
            words += text.as_str().unwrap_or_default();
            args += piece.as_str().unwrap_or_default();
        }
        assert_eq!(words, "I look at naïve 你好 👩‍💻 things.", "{protocol:?}");
        assert_eq!(args, r#"{"file_path":"a.rs"}"#, "{protocol:?}");
    }
}
