//! One reply over a socket: cut at every byte, stopped, dropped, spoilt, endless.

use super::kit::{Frozen, KEY, answer, ask, model, model_of, provider, settle, words};
use super::say::{self, PROTOCOLS, Say};
use super::server::{Plan, Server};
use futures_util::StreamExt;
use serde_json::json;
use sortie::model::wire::Protocol;
use sortie::model::{Block, Delta, Model, ModelError, ModelErrorKind, Reply, StopKind};
use std::time::Duration;

fn short() -> Say {
    say::text("né 你👩‍💻.").call("read", json!({ "p": "ä" }))
}

async fn whole_reply(protocol: Protocol) -> Reply {
    let server = Server::directed(move |_| Plan::stream(short().events(protocol))).await.unwrap();
    answer(model(&server, protocol).as_ref(), "look").await.unwrap()
}

#[tokio::test]
async fn a_reply_says_what_was_sent_in_every_protocol() {
    for protocol in PROTOCOLS {
        let reply = whole_reply(protocol).await;
        assert_eq!(reply.stop, StopKind::Tool, "{protocol:?}");
        assert_eq!((reply.usage.input, reply.usage.output), (100, 20), "{protocol:?}");
        let [Block::Text { text }, Block::ToolCall(call)] = &*reply.blocks else { panic!("{:?}", reply.blocks) };
        assert_eq!(text, "né 你👩‍💻.");
        assert_eq!((&*call.name, &call.args), ("read", &json!({ "p": "ä" })));
    }
}

#[tokio::test]
async fn the_key_goes_where_the_protocol_wants_it_and_nowhere_else() {
    for protocol in PROTOCOLS {
        let server = Server::directed(move |_| Plan::stream(say::text("Done.").events(protocol))).await.unwrap();
        answer(model(&server, protocol).as_ref(), "look").await.unwrap();
        let received = &server.received()[0];
        let bearer = format!("Bearer {KEY}");
        let (path, header, value) = match protocol {
            Protocol::Anthropic => ("/v1/messages", "x-api-key", KEY),
            Protocol::OpenaiChat => ("/v1/chat/completions", "authorization", &*bearer),
            Protocol::OpenaiResponses => ("/v1/responses", "authorization", &*bearer),
        };
        assert_eq!(received.path, path);
        assert_eq!(received.headers.get(header).map(String::as_str), Some(value));
        assert_eq!(received.headers.values().filter(|value| value.contains(KEY)).count(), 1, "{protocol:?}");
        assert_eq!(received.headers.contains_key("anthropic-version"), protocol == Protocol::Anthropic);
        assert!(!received.says(KEY));
    }
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_its_bytes_are_cut() {
    for protocol in PROTOCOLS {
        let whole = whole_reply(protocol).await;
        let text = short().events(protocol).concat();
        let every = (0..text.len()).collect();
        // Of lines that end in two bytes only the cut between these is new.
        let long_ends = text.replace('\n', "\r\n");
        let inside = long_ends.match_indices('\n').map(|(at, _)| at).collect();
        for (text, cuts) in [(text, every), (long_ends, inside)] {
            let cuts: Vec<usize> = cuts;
            let (bytes, places) = (text.into_bytes(), cuts.clone());
            let server = Server::directed(move |received| {
                let (first, second) = bytes.split_at(places[received.number]);
                Plan::stream([first, second])
            });
            let server = server.await.unwrap();
            let model = model(&server, protocol);
            for cut in cuts {
                assert_eq!(
                    answer(model.as_ref(), "look").await.as_ref(),
                    Ok(&whole),
                    "{protocol:?} cut after {cut} bytes"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_reply_may_come_byte_by_byte() {
    for protocol in PROTOCOLS {
        let bytes = short().events(protocol).concat().into_bytes();
        let server = Server::directed(move |_| Plan::stream(bytes.iter().map(|byte| [*byte]))).await.unwrap();
        let reply = answer(model(&server, protocol).as_ref(), "look").await;
        assert_eq!(reply, Ok(whole_reply(protocol).await), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    for protocol in PROTOCOLS {
        let body = short().whole(protocol).to_string();
        let server = Server::directed(move |_| Plan::whole(200, "application/json; charset=utf-8", body.clone()));
        let reply = answer(model(&server.await.unwrap(), protocol).as_ref(), "look").await;
        assert_eq!(reply, Ok(whole_reply(protocol).await), "{protocol:?}");
    }
}

#[tokio::test]
async fn dropping_a_reply_in_the_middle_of_a_delta_closes_its_connection_at_once() {
    for protocol in PROTOCOLS {
        let mut server = Server::gated().await.unwrap();
        let model = model(&server, protocol);
        let events = say::text("Half of it, and more.").events(protocol);
        let mut deltas = model.stream(ask("look")).await.unwrap();
        let first_words = async {
            loop {
                if let Delta::Text(text) = deltas.next().await.unwrap().unwrap() {
                    break text;
                }
            }
        };
        let serve = async {
            let mut exchange = server.next().await;
            exchange.start().await.unwrap();
            // Head, first words, and half of the next event.
            let at = events.iter().position(|event| event.contains("Half of")).unwrap();
            exchange.chunk(events[..=at].concat()).await.unwrap();
            exchange.chunk(&events[at + 1][..events[at + 1].len() / 2]).await.unwrap();
            exchange
        };
        let (text, mut exchange) = tokio::join!(first_words, serve);
        assert_eq!(text, "Half of");
        drop(deltas);
        exchange.left().await;
        assert!(!server.has_next(), "nothing is sent again");
    }
}

#[tokio::test]
async fn what_breaks_after_the_first_words_ends_the_call_and_is_not_asked_again() {
    for protocol in PROTOCOLS {
        let words = say::text("Half of it.").cut(protocol);
        let mut error = words.clone();
        error.push(say::error(protocol, "overloaded_error", "too much to do"));
        for (plan, kind) in [
            (Plan::stream(words.clone()), ModelErrorKind::Cut),
            (Plan::stream(words).then_hang_up(), ModelErrorKind::Cut),
            (Plan::stream(error), ModelErrorKind::Overloaded),
        ] {
            let server = Server::directed(move |_| plan.clone()).await.unwrap();
            let mut said = String::new();
            let mut deltas = model(&server, protocol).stream(ask("look")).await.unwrap();
            let problem = loop {
                match deltas.next().await.unwrap() {
                    Ok(Delta::Text(text)) => said += &text,
                    Ok(Delta::Stop(_)) => panic!("{protocol:?}: this is no end"),
                    Ok(_) => {}
                    Err(problem) => break problem,
                }
            };
            assert_eq!(said, "Half of it.", "{protocol:?}");
            assert_eq!(problem.kind, kind, "{protocol:?}: {problem}");
            assert!(deltas.next().await.is_none(), "{protocol:?}: the error is the last");
            assert_eq!(server.received().len(), 1, "{protocol:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_meanwhile_costs_nothing() {
    for protocol in PROTOCOLS {
        let mut server = Server::gated().await.unwrap();
        let model = model(&server, protocol);
        for round in 0..3 {
            let serve = async {
                let mut exchange = server.next().await;
                exchange.start().await.unwrap();
                exchange.chunk(say::text("Done.").events(protocol).concat()).await.unwrap();
                exchange.end_and_close().await.unwrap();
            };
            let (reply, ()) = tokio::join!(answer(model.as_ref(), "look"), serve);
            assert_eq!(words(&reply.unwrap()), "Done.", "{protocol:?}, round {round}");
        }
    }
}

#[tokio::test]
async fn a_server_that_keeps_the_connection_open_after_the_end_is_not_waited_for() {
    for protocol in PROTOCOLS {
        let server = Server::directed(move |_| Plan::stream(say::text("Done.").events(protocol)).then_stall());
        let server = server.await.unwrap();
        assert_eq!(words(&answer(model(&server, protocol).as_ref(), "look").await.unwrap()), "Done.", "{protocol:?}");
    }
}

/// 60 MB in pieces of one MB.
fn flood(piece: String) -> Vec<String> {
    vec![piece; 60]
}

#[tokio::test]
async fn a_reply_of_fifty_megabytes_is_refused_and_read_no_further() {
    for protocol in PROTOCOLS {
        let mut events = say::text("x").cut(protocol);
        let delta = events.iter().rposition(|event| event.contains("\"x\"")).unwrap();
        let large = events[delta].replacen("\"x\"", &format!("\"{}\"", "x".repeat(1_000_000)), 1);
        events.truncate(delta);
        events.extend(flood(large));
        let one_line = std::iter::once("data: ".to_string()).chain(flood("x".repeat(1_000_000))).collect();
        for pieces in [events, one_line] {
            let mut server = Server::gated().await.unwrap();
            let model = model(&server, protocol);
            let serve = async {
                let mut exchange = server.next().await;
                exchange.start().await.unwrap();
                for (sent, piece) in pieces.iter().enumerate() {
                    if exchange.chunk(piece).await.is_err() {
                        return sent;
                    }
                }
                pieces.len()
            };
            let (reply, sent) = tokio::join!(answer(model.as_ref(), "look"), serve);
            let problem = reply.unwrap_err();
            assert_eq!(problem.kind, ModelErrorKind::Protocol, "{problem}");
            assert!(problem.message.contains("MiB"), "{problem}");
            assert!(sent < 60, "{protocol:?}: {sent} MB were taken");
            assert!(!server.has_next(), "{protocol:?}: nor asked for again");
        }
    }
}

/// What it says of a server that is none, and how often it asks.
async fn misfit(url: &str, protocol: Protocol) -> ModelError {
    let time = Frozen::new();
    let model = model_of(provider(url, protocol));
    let call = tokio::spawn(async move { answer(model.as_ref(), "look").await });
    time.until(Duration::from_millis(500), || call.is_finished()).await;
    drop(time);
    tokio::time::resume();
    call.await.unwrap().unwrap_err()
}

#[tokio::test]
async fn what_is_no_model_server_is_told_by_name_within_bounds() {
    for protocol in PROTOCOLS {
        let page = "<!doctype html><html><head><title>Sign in</title></head></html>";
        let server = Server::directed(move |_| Plan::whole(200, "text/html", page)).await.unwrap();
        let error = misfit(server.url(), protocol).await;
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{protocol:?}: {error}");
        assert!(error.message.contains("`fixture`") && error.message.contains("HTML"), "{protocol:?}: {error}");
        assert_eq!(server.received().len(), 1, "{protocol:?}: a page does not become a stream by asking again");

        let error = misfit(&server.url().replace("http://", "https://"), protocol).await;
        assert!(error.message.contains("TLS") || error.message.contains("http://"), "{protocol:?}: {error}");

        let nobody = server.url().to_string();
        drop(server);
        settle().await;
        let error = misfit(&nobody, protocol).await;
        assert_eq!(error.kind, ModelErrorKind::Network, "{protocol:?}: {error}");
        assert!(!error.to_string().contains(KEY));
    }
}
