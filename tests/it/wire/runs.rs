//! Whole runs over sockets: what starts while a reply still streams, what a stop, a silence or a cut leaves behind.

use super::kit::{Frozen, KEY, ONE, model, model_of, play, provider};
use super::say::{self, PROTOCOLS, Say};
use super::server::{Plan, Server};
use crate::kit::{NoArgs, Played};
use serde_json::{Value, json};
use sortie::agent::history::{self, History, Record};
use sortie::cancel::CancelReason;
use sortie::coordinator::RunStatus;
use sortie::event::EventKind;
use sortie::model::wire::Protocol;
use sortie::plan::{CauseKind, Outcome};
use sortie::tool::{Effect, Tool, ToolContext, ToolError};
use std::time::Duration;

/// A tool that changes things, as far as anybody can tell.
struct Mark;

impl Tool for Mark {
    const NAME: &'static str = "mark";
    const DESCRIPTION: &'static str = "Marks the place.";
    const EFFECT: Effect = Effect::Edit;
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, _: &ToolContext) -> Result<String, ToolError> {
        Ok("marked".into())
    }
}

fn starts(tool: &str) -> impl Fn(&EventKind) -> bool {
    move |event| matches!(event, EventKind::ToolStarted { tool: started, .. } if started == tool)
}

fn read(file: &str) -> Value {
    json!({ "file_path": file })
}

/// Results of tool calls in a request's body, by the call's id.
fn results(body: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut look = |id: &Value, content: &Value| {
        let text = match content {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        found.push((id.as_str().unwrap().to_string(), text));
    };
    for message in body["messages"].as_array().into_iter().flatten() {
        if message["role"] == "tool" {
            look(&message["tool_call_id"], &message["content"]);
        }
        for block in message["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                look(&block["tool_use_id"], &block["content"]);
            }
        }
    }
    for item in body["input"].as_array().into_iter().flatten() {
        if item["type"] == "function_call_output" {
            look(&item["call_id"], &item["output"]);
        }
    }
    found
}

/// Protocols that say when a call is complete. In Chat Completions only the end of the reply does.
const WITH_BLOCKS: [Protocol; 2] = [Protocol::Anthropic, Protocol::OpenaiResponses];

#[tokio::test]
async fn a_read_starts_when_its_block_is_complete_and_its_result_is_sent_once() {
    for protocol in WITH_BLOCKS {
        let mut server = Server::gated().await.unwrap();
        let (play, mut told) = play(model(&server, protocol));
        let play = play.plan(ONE);
        let first = say::call("read_file", read("a.rs")).text("And the other.").call("read_file", read("b.rs"));
        let serve = async {
            let mut exchange = server.next().await;
            exchange.start().await.unwrap();
            let parts = first.parts(protocol);
            exchange.chunk(parts[..2].concat().concat()).await.unwrap();
            told.until(starts("read_file")).await;
            told.until(|event| matches!(event, EventKind::ToolFinished { is_error: false, .. })).await;
            // Only now is the rest of it sent.
            exchange.chunk(parts[2..].concat().concat()).await.unwrap();
            exchange.end().await.unwrap();
            told.until(starts("read_file")).await;
            let exchange = server.next().await;
            let body = exchange.received.json();
            exchange.stream(&say::report("Read.").events(protocol)).await.unwrap();
            body
        };
        let (played, body) = tokio::join!(play.run(), serve);
        assert_eq!(played.outcome("a"), Outcome::Succeeded, "{protocol:?}: {:?}", played.end_of("a"));
        let results = results(&body);
        assert_eq!(results.len(), 2, "{protocol:?}: {results:?}");
        assert!(results[0].1.contains("fn a()") && results[1].1.contains("fn b()"), "in the order of the calls");
    }
}

#[tokio::test]
async fn an_edit_does_not_start_before_the_message_is_complete() {
    for protocol in PROTOCOLS {
        let mut server = Server::gated().await.unwrap();
        let (mut play, mut told) = play(model(&server, protocol));
        play.harness.registry.add(Mark).unwrap();
        play.harness.roles[0].tools.push("mark".into());
        let play = play.plan(ONE);
        let first = say::call("mark", json!({})).text("Words that come after it.");
        let serve = async {
            let mut exchange = server.next().await;
            exchange.start().await.unwrap();
            let [head, call, words, end] = <[Vec<String>; 4]>::try_from(first.parts(protocol)).unwrap();
            exchange.chunk(head.concat() + &call.concat() + &words.concat()).await.unwrap();
            // These words were read after the call.
            let before =
                told.until(|event| matches!(event, EventKind::Words { text, .. } if text.contains("it."))).await;
            assert!(!before.iter().any(starts("mark")), "{protocol:?}: it has started");
            exchange.chunk(end.concat()).await.unwrap();
            exchange.end().await.unwrap();
            told.until(starts("mark")).await;
            server.next().await.stream(&say::report("Marked.").events(protocol)).await.unwrap();
        };
        let (played, ()) = tokio::join!(play.run(), serve);
        assert_eq!(played.outcome("a"), Outcome::Succeeded, "{protocol:?}: {:?}", played.end_of("a"));
    }
}

/// Every prefix of what was recorded is a valid conversation, and what was cut is told in one result per call.
fn check_transcript(played: &Played) -> Vec<Record> {
    let transcript = played.store.transcript_of("a", 1);
    let records: Vec<Record> = transcript.into_iter().map(|record| serde_json::from_value(record).unwrap()).collect();
    for cut in 2..=records.len() {
        assert_eq!(history::check(&History::replay(&records[..cut]).messages()), Ok(()), "cut after {cut}");
    }
    records
}

#[tokio::test]
async fn a_cut_after_an_early_read_leaves_one_result_per_call() {
    for protocol in WITH_BLOCKS {
        let mut server = Server::gated().await.unwrap();
        let (play, mut told) = play(model(&server, protocol));
        let play = play.plan(ONE);
        let first = say::call("read_file", read("a.rs")).text("Then.").call("read_file", read("b.rs"));
        let serve = async {
            let mut exchange = server.next().await;
            exchange.start().await.unwrap();
            let parts = first.parts(protocol);
            exchange.chunk(parts[..3].concat().concat()).await.unwrap();
            told.until(starts("read_file")).await;
            // Half of the second call, then nothing more ever.
            let half = parts[3].len() / 2;
            exchange.chunk(parts[3][..half].concat()).await.unwrap();
            exchange.hang_up();
            let exchange = server.next().await;
            let body = exchange.received.json();
            exchange.stream(&say::report("Read.").events(protocol)).await.unwrap();
            body
        };
        let (played, body) = tokio::join!(play.run(), serve);
        assert_eq!(played.outcome("a"), Outcome::Succeeded, "{protocol:?}: {:?}", played.end_of("a"));
        let results = results(&body);
        assert_eq!(results.len(), 1, "{protocol:?}: what was cut is no call: {results:?}");
        assert!(results[0].1.contains("fn a()"), "{protocol:?}: {results:?}");
        let reads = played.events.iter().filter(|event| starts("read_file")(&event.kind)).count();
        assert_eq!(reads, 1, "{protocol:?}: it is not read again, and the half call never runs");
        check_transcript(&played);
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_delta_drops_the_request_at_once_and_keeps_the_words() {
    for protocol in PROTOCOLS {
        let mut server = Server::gated().await.unwrap();
        let (play, mut told) = play(model(&server, protocol));
        let play = play.plan(ONE);
        let cancel = play.cancel.clone();
        let serve = async {
            let mut exchange = server.next().await;
            exchange.start().await.unwrap();
            let events = say::text("Half of it is found, I think.").cut(protocol);
            let half = events.len() - 2;
            exchange.chunk(events[..half].concat()).await.unwrap();
            exchange.chunk(&events[half][..20]).await.unwrap();
            told.until(|event| matches!(event, EventKind::Words { .. })).await;
            cancel.request(CancelReason::Interrupt);
            exchange.left().await;
        };
        let (played, ()) = tokio::join!(play.run(), serve);
        assert_eq!(played.end.status, RunStatus::Interrupted);
        assert_eq!(played.outcome("a"), Outcome::Cancelled);
        assert!(played.end.answer.contains("Half of"), "{protocol:?}: {}", played.end.answer);
        assert_eq!(server.received().len(), 1);
        check_transcript(&played);
    }
}

#[tokio::test]
async fn a_stop_ends_the_wait_for_a_provider_that_asked_for_minutes() {
    let server = Server::directed(|_| Plan::whole(429, "application/json", "{}").header("retry-after", "300"));
    let server = server.await.unwrap();
    let (play, mut told) = play(model(&server, Protocol::Anthropic));
    let play = play.plan(ONE);
    let cancel = play.cancel.clone();
    let stop = async {
        told.until(|event| matches!(event, EventKind::ModelWaiting { .. })).await;
        cancel.request(CancelReason::Interrupt);
    };
    let (played, ()) = tokio::join!(play.run(), stop);
    assert_eq!(played.end.status, RunStatus::Interrupted);
    assert_eq!(server.received().len(), 1);
}

/// What only keeps a connection open, in each protocol.
fn keep_alive(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
        Protocol::OpenaiChat => ": OPENROUTER PROCESSING\n\n",
        Protocol::OpenaiResponses => ": keep-alive\n\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n",
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_on_whatever_keeps_the_connection_open() {
    for protocol in PROTOCOLS {
        for (name, begins, pings) in
            [("never answers", false, false), ("stalls", true, false), ("only pings", true, true)]
        {
            let time = Frozen::new();
            let mut server = Server::gated().await.unwrap();
            let mut quiet = provider(server.url(), protocol);
            quiet.idle_timeout = Some(Duration::from_secs(30));
            let (play, _told) = play(model_of(quiet));
            let mut play = play.plan("[[node]]\nid = \"a\"\nprompt = \"Look.\"\nturns = 2\n");
            play.config.idle_timeout = Duration::from_secs(3600);
            let serve = async {
                let mut open = Vec::new();
                loop {
                    time.pass(Duration::from_secs(3)).await;
                    while server.has_next() {
                        let mut exchange = server.next().await;
                        if begins {
                            exchange.start().await.unwrap();
                        }
                        open.push(exchange);
                    }
                    for exchange in &mut open {
                        if pings {
                            // An error here is a client that has given up.
                            let _ = exchange.chunk(keep_alive(protocol)).await;
                        }
                    }
                }
            };
            let played = tokio::select! {
                played = play.run() => played,
                () = serve => unreachable!(),
            };
            let end = played.end_of("a");
            assert_eq!(end.outcome, Outcome::Failed, "{protocol:?}, {name}: {end:?}");
            let cause = end.cause.unwrap();
            assert_eq!(cause.kind, CauseKind::Model, "{protocol:?}, {name}: {cause}");
            assert!(cause.detail.contains("nothing") && cause.detail.contains("30s"), "{protocol:?}, {name}: {cause}");
            assert_eq!(played.end.status.exit_code(), 4, "{protocol:?}, {name}");
            drop(time);
            tokio::time::resume();
        }
    }
}

/// A node's conversation, by what it has been told so far.
fn node(body: &Value) -> Say {
    match results(body).len() {
        0 => say::text("Looking.").call("read_file", read("a.rs")).call("list_files", json!({})),
        2 => say::call("search_code", json!({ "pattern": "fn" })),
        _ => say::report("It is fine."),
    }
}

#[tokio::test]
async fn thirty_two_agents_finish_whatever_the_provider_does_between() {
    for protocol in PROTOCOLS {
        let time = Frozen::new();
        let server = Server::directed(move |received| {
            let plan = Plan::stream(node(&received.json()).events(protocol));
            match received.number % 5 {
                1 => Plan::whole(429, "application/json", "{}").header("retry-after-ms", "150"),
                3 => Plan::whole(529, "application/json", "{}"),
                _ => plan,
            }
        });
        let server = server.await.unwrap();
        let (play, _told) = play(model(&server, protocol));
        let items: Vec<String> = (0..32).map(|item| item.to_string()).collect();
        let nodes = format!("[[node]]\nid = \"n\"\nforeach = [{}]\nprompt = \"{{{{ item }}}}\"\n", items.join(", "));
        let mut play = play.plan(&nodes);
        play.config.jobs = 32;
        let pass = async {
            loop {
                time.pass(Duration::from_millis(200)).await;
            }
        };
        let played = tokio::select! {
            played = play.run() => played,
            () = pass => unreachable!(),
        };
        assert_eq!(played.end.status, RunStatus::Succeeded, "{protocol:?}: {:?}", played.end.problem);
        assert_eq!(played.outcomes().iter().filter(|(_, outcome)| *outcome == Outcome::Succeeded).count(), 33);
        let good = server.received().iter().filter(|received| !matches!(received.number % 5, 1 | 3)).count();
        assert_eq!(good, 3 * 32, "{protocol:?}: nothing is asked twice");
        for received in server.received() {
            assert!(!received.says(KEY), "the key is in a header, never in a body");
        }
        drop(time);
        tokio::time::resume();
    }
}
