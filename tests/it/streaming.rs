//! Tools that run while a reply still streams: a model whose stream is released piece by piece, and every way in which
//! such a reply can end.

use crate::kit::{NoArgs, Play, Played, Stuck};
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde_json::json;
use sortie::agent::history::{self, History, Record};
use sortie::cancel::{Cancel, CancelReason};
use sortie::event::EventKind;
use sortie::model::{
    Delta, Deltas, Model, ModelError, ModelErrorKind, Models, Request, StopKind, Switch, ToolCall, Usage,
};
use sortie::plan::{CauseKind, Outcome};
use sortie::store::MemoryStore;
use sortie::tool::{Effect, Tool, ToolContext, ToolError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ONE: &str = "[[node]]\nid = \"a\"\nprompt = \"a\"\n";

/// What a stream does next.
#[derive(Clone)]
enum Piece {
    Says(Delta),
    /// Holds the stream until the log shows this many tool calls started and finished, for a minute at most.
    Until {
        started: usize,
        finished: usize,
    },
    Waits(u64),
    Breaks(ModelErrorKind),
    /// Interrupts the run and goes on with what comes next.
    Interrupts,
}

use Piece::{Breaks, Interrupts, Says, Until, Waits};

/// Answers each call with the next of these streams.
struct Gated {
    streams: Mutex<VecDeque<Vec<Piece>>>,
    store: Arc<MemoryStore>,
    requests: Arc<Mutex<Vec<Request>>>,
    most: Option<u32>,
    cancel: Cancel,
}

fn count(store: &MemoryStore) -> (usize, usize) {
    let events = store.events();
    let count = |fits: fn(&EventKind) -> bool| events.iter().filter(|event| fits(&event.kind)).count();
    (
        count(|kind| matches!(kind, EventKind::ToolStarted { .. })),
        count(|kind| matches!(kind, EventKind::ToolFinished { .. })),
    )
}

#[async_trait]
impl Model for Gated {
    fn name(&self) -> &str {
        "test/gated"
    }

    fn max_output(&self) -> Option<u32> {
        self.most
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        self.requests.lock().unwrap().push(request);
        let Some(pieces) = self.streams.lock().unwrap().pop_front() else {
            return Err(ModelError::new(ModelErrorKind::Script, "there is no further stream"));
        };
        let (store, cancel) = (Arc::clone(&self.store), self.cancel.clone());
        let play = move |piece| {
            let (store, cancel) = (Arc::clone(&store), cancel.clone());
            async move {
                match piece {
                    Says(delta) => Some(Ok(delta)),
                    Breaks(kind) => Some(Err(ModelError::new(kind, "`test/gated` broke"))),
                    Interrupts => {
                        cancel.request(CancelReason::Interrupt);
                        None
                    }
                    Waits(seconds) => {
                        tokio::time::sleep(Duration::from_secs(seconds)).await;
                        None
                    }
                    Until { started, finished } => {
                        let reached = async {
                            while count(&store) != (started, finished) {
                                tokio::time::sleep(Duration::from_millis(1)).await;
                            }
                        };
                        let late = tokio::time::timeout(Duration::from_secs(60), reached).await.is_err();
                        assert!(!late, "waited for {:?}, seen {:?}", (started, finished), count(&store));
                        None
                    }
                }
            }
        };
        Ok(stream::iter(pieces).then(play).filter_map(std::future::ready).boxed())
    }
}

/// Stands for a tool that writes: the store shows when it ran.
struct Writes;

impl Tool for Writes {
    const NAME: &'static str = "writes";
    const DESCRIPTION: &'static str = "Writes.";
    const EFFECT: Effect = Effect::Edit;
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, _: &ToolContext) -> Result<String, ToolError> {
        Ok("written".to_string())
    }
}

struct Fails;

impl Tool for Fails {
    const NAME: &'static str = "fails";
    const DESCRIPTION: &'static str = "Ends the node.";
    const EFFECT: Effect = Effect::Read;
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, _: &ToolContext) -> Result<String, ToolError> {
        Err(ToolError::Fatal("the disk is gone".to_string()))
    }
}

struct Setup {
    play: Play,
    store: Arc<MemoryStore>,
    requests: Arc<Mutex<Vec<Request>>>,
}

fn gated_with(most: Option<u32>, streams: impl IntoIterator<Item = Vec<Piece>>) -> Setup {
    let mut play = Play::new("").plan(ONE);
    let store = play.store();
    let requests = Arc::new(Mutex::new(Vec::new()));
    play.harness.models = Models::new(Arc::new(Gated {
        streams: Mutex::new(streams.into_iter().collect()),
        store: Arc::clone(&store),
        requests: Arc::clone(&requests),
        most,
        cancel: play.cancel.clone(),
    }));
    play.harness.registry.add(Writes).unwrap();
    play.harness.registry.add(Fails).unwrap();
    play.harness.registry.add(Stuck).unwrap();
    play.harness.roles[0].tools.extend(["writes", "fails", "stuck"].map(str::to_string));
    Setup { play, store, requests }
}

fn gated(streams: impl IntoIterator<Item = Vec<Piece>>) -> Setup {
    gated_with(None, streams)
}

fn call(id: &str, name: &str) -> Piece {
    let args = if name == "read_file" { json!({ "file_path": "a.rs" }) } else { json!({}) };
    Says(Delta::Call(ToolCall::new(id, name, args)))
}

fn text(text: &str) -> Piece {
    Says(Delta::Text(text.into()))
}

fn stop(kind: StopKind) -> Piece {
    Says(Delta::Stop(kind))
}

fn report() -> Vec<Piece> {
    let args = json!({ "status": "done", "summary": "done" });
    vec![Says(Delta::Call(ToolCall::new("r", "report", args))), stop(StopKind::Tool)]
}

impl Setup {
    /// Runs it, and checks what holds however it went: pairs of events and results, and valid requests.
    async fn run(self) -> (Played, Vec<Request>) {
        let played = tokio::time::timeout(Duration::from_secs(3_600), self.play.run()).await.expect("the run hangs");
        let requests = self.requests.lock().unwrap().clone();
        for request in &requests {
            assert_eq!(history::check(&request.messages), Ok(()), "turn {}", request.turn);
        }
        let records: Vec<Record> = self.store.transcript_of("a", 1).into_iter().map(from_json).collect();
        for cut in 2..=records.len() {
            assert_eq!(history::check(&History::replay(&records[..cut]).messages()), Ok(()), "cut after {cut}");
        }
        (played, requests)
    }
}

fn from_json(record: serde_json::Value) -> Record {
    serde_json::from_value(record).unwrap()
}

/// Results of the transcript by call, in the order in which they came.
fn results(played: &Played) -> Vec<(String, String)> {
    let transcript = played.store.transcript_of("a", 1);
    let results = transcript.iter().filter(|record| record["type"] == "tool_result");
    results.map(|r| (r["id"].as_str().unwrap().to_string(), r["text"].as_str().unwrap().to_string())).collect()
}

fn started(played: &Played) -> Vec<String> {
    let started = |event: &Arc<sortie::event::Event>| match &event.kind {
        EventKind::ToolStarted { call, .. } => Some(call.clone()),
        _ => None,
    };
    played.events.iter().filter_map(started).collect()
}

#[tokio::test(start_paused = true)]
async fn a_read_starts_before_the_next_piece_of_the_reply_and_what_acts_after_the_whole() {
    let streams = [
        vec![
            call("1", "read_file"),
            Until { started: 1, finished: 1 },
            text("more words"),
            call("2", "writes"),
            call("3", "read_file"),
            // Long enough for anything that were to start.
            Waits(30),
            Until { started: 1, finished: 1 },
            stop(StopKind::Tool),
        ],
        report(),
    ];
    let (played, requests) = gated(streams).run().await;
    assert_eq!(played.outcome("a"), Outcome::Succeeded, "{:?}", played.end.problem);
    assert_eq!(started(&played), ["1", "2", "3"], "a read after an edit sees what it did");
    let results = requests[1].messages.last().unwrap();
    let shown = serde_json::to_string(&results.blocks).unwrap();
    let places: Vec<usize> = ["fn a()", "written"].iter().map(|text| shown.find(text).unwrap()).collect();
    assert!(places[0] < places[1], "results keep call order: {shown}");
}

#[tokio::test(start_paused = true)]
async fn reads_of_one_reply_run_together_whatever_their_ids() {
    let streams = [
        vec![
            call("call_0", "read_file"),
            call("call_0", "stuck"),
            call("call_0", "read_file"),
            Until { started: 3, finished: 2 },
            stop(StopKind::Tool),
        ],
        report(),
    ];
    let mut setup = gated(streams);
    setup.play.config.node_timeout = Duration::from_secs(60);
    let (played, _) = setup.run().await;
    assert_eq!(started(&played), ["call_0", "call_0_2", "call_0_3"]);
    assert_eq!(played.outcome("a"), Outcome::TimedOut);
    let results = results(&played);
    assert!(results[2].0 == "call_0_2" && results[2].1.contains("may or may not"), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_after_an_early_read_keeps_its_result_and_goes_on() {
    for kind in [ModelErrorKind::Cut, ModelErrorKind::Network, ModelErrorKind::Overloaded, ModelErrorKind::Server] {
        let streams =
            [vec![text("let me see"), call("1", "read_file"), call("2", "writes"), Waits(1), Breaks(kind)], report()];
        let (played, requests) = gated(streams).run().await;
        assert_eq!(played.outcome("a"), Outcome::Succeeded, "{kind:?}: {:?}", played.end.problem);
        let results = results(&played);
        assert!(results[0].1.contains("fn a()"), "{results:?}");
        assert!(results[1].1.contains("cut in transit, so this call was not run"), "{results:?}");
        assert_eq!(started(&played), ["1"], "{kind:?}");
        assert!(requests[1].text().contains("let me see"));
        assert_eq!(played.end_of("a").tool_calls, 2, "the read and the report");
    }
}

#[tokio::test(start_paused = true)]
async fn an_early_read_that_still_runs_when_the_stream_breaks_is_waited_for() {
    let streams = [vec![call("1", "stuck"), Breaks(ModelErrorKind::Cut)], report()];
    let mut setup = gated(streams);
    setup.play.config.node_timeout = Duration::from_secs(60);
    let (played, requests) = setup.run().await;
    assert_eq!((played.outcome("a"), requests.len()), (Outcome::TimedOut, 1));
}

#[tokio::test(start_paused = true)]
async fn three_cuts_in_a_row_are_the_end_with_the_errors_words() {
    let cut = || vec![text("again "), Breaks(ModelErrorKind::Cut)];
    let (played, requests) = gated([cut(), cut(), cut(), report()]).run().await;
    let end = played.end_of("a");
    let cause = end.cause.unwrap();
    assert_eq!((cause.kind, cause.detail.as_str()), (CauseKind::Model, "`test/gated` broke"));
    assert_eq!(requests.len(), 3);
    assert_eq!(end.report.unwrap().summary, "again again again", "what was said is kept");
}

#[tokio::test(start_paused = true)]
async fn an_error_before_any_content_or_one_that_does_not_pass_is_the_end() {
    for pieces in [vec![Breaks(ModelErrorKind::Overloaded)], vec![text("x"), Breaks(ModelErrorKind::ContextFull)]] {
        let (played, requests) = gated([pieces, report()]).run().await;
        assert_eq!((played.outcome("a"), requests.len()), (Outcome::Failed, 1));
    }
    // With calls in it: each has its result.
    let pieces = vec![call("1", "stuck"), call("2", "writes"), Breaks(ModelErrorKind::Auth)];
    let (played, _) = gated([pieces]).run().await;
    let results = results(&played);
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results.iter().any(|(id, text)| id == "1" && text.contains("may or may not")), "{results:?}");
    assert!(results.iter().any(|(id, text)| id == "2" && text.starts_with("not run")), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn however_a_reply_with_an_early_read_ends_each_call_has_one_start_one_end_and_one_result() {
    for kind in [
        StopKind::End,
        StopKind::Tool,
        StopKind::Paused,
        StopKind::Length,
        StopKind::StreamCut,
        StopKind::Refusal,
        StopKind::ContextFull,
        StopKind::Filtered,
    ] {
        for slow in [false, true] {
            let first = if slow { "stuck" } else { "read_file" };
            let streams = [vec![call("1", first), call("2", "writes"), Waits(1), stop(kind)], report()];
            let mut setup = gated(streams);
            setup.play.config.node_timeout = Duration::from_secs(60);
            // The kit compares starts and ends of calls; `run` the calls and results.
            let (played, _) = setup.run().await;
            let results = results(&played);
            let one = results.iter().filter(|(id, _)| id == "1").count();
            let two = results.iter().filter(|(id, _)| id == "2").count();
            assert_eq!((one, two), (1, 1), "{kind:?}: {results:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_of_a_reply_closes_what_has_started_and_what_has_not() {
    for reason in [Some(CancelReason::Interrupt), None] {
        let streams =
            [vec![call("1", "read_file"), call("2", "stuck"), call("3", "writes"), text("and"), Waits(1_000)]];
        let mut setup = gated(streams);
        setup.play.config.node_timeout = Duration::from_secs(5);
        setup.play.config.idle_timeout = Duration::from_secs(2_000);
        let cancel = setup.play.cancel.clone();
        if let Some(reason) = reason {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                cancel.request(reason);
            });
        }
        let (played, _) = setup.run().await;
        let expected = if reason.is_some() { Outcome::Cancelled } else { Outcome::TimedOut };
        assert_eq!(played.outcome("a"), expected);
        let results = results(&played);
        let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
        assert!(texts[0].contains("fn a()"), "a result that is there stays: {texts:?}");
        assert!(texts[1].contains("may or may not have had an effect"), "{texts:?}");
        assert_eq!(texts[2], "interrupted before it started");
        assert_eq!(started(&played), ["1", "2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_after_a_stop_not_even_what_came_in_the_same_moment() {
    let between = vec![call("1", "writes"), call("2", "writes"), Interrupts, stop(StopKind::Tool)];
    let within = vec![Interrupts, call("1", "read_file"), stop(StopKind::Tool)];
    for (streams, closed) in [(between, 2), (within, 1)] {
        let (played, _) = gated([streams]).run().await;
        assert_eq!(played.outcome("a"), Outcome::Cancelled);
        assert_eq!(started(&played), [""; 0]);
        let results = results(&played);
        assert_eq!(results.len(), closed);
        assert!(results.iter().all(|(_, text)| text == "interrupted before it started"), "{results:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ends_the_node_while_the_reply_streams_ends_the_stream_too() {
    let usage = Usage { output: 9, ..Usage::default() };
    let streams =
        [vec![Says(Delta::Usage(usage)), text("on it"), call("1", "fails"), call("2", "writes"), Waits(1_000)]];
    let begun = tokio::time::Instant::now();
    let (played, _) = gated(streams).run().await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    let end = played.end_of("a");
    assert_eq!((end.cause.unwrap().detail.as_str(), end.usage), ("the disk is gone", usage));
    assert_eq!(end.report.unwrap().summary, "on it");
    assert_eq!(results(&played).len(), 1, "the call after it was not complete yet");
}

#[tokio::test(start_paused = true)]
async fn what_another_model_replaced_leaves_no_call_behind_and_is_paid_for() {
    let used = |output| Says(Delta::Usage(Usage { output, ..Usage::default() }));
    let switch = Switch { to: "b/b".into(), why: "`a/a` is overloaded".into() };
    let streams = [
        vec![
            text("void"),
            used(5),
            call("1", "stuck"),
            Says(Delta::Switched(switch)),
            call("1", "read_file"),
            used(7),
            stop(StopKind::Tool),
        ],
        report(),
    ];
    let (played, requests) = gated(streams).run().await;
    assert_eq!(played.outcome("a"), Outcome::Succeeded, "{:?}", played.end.problem);
    assert!(!requests[1].text().contains("void"));
    assert_eq!(results(&played)[0].0, "1_2");
    assert_eq!(played.end_of("a").usage.output, 12);
    let told = played.index(|kind| matches!(kind, EventKind::ModelSwitched { switch, .. } if switch.to == "b/b"));
    assert!(told.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reply_at_its_limit_raises_the_limit_to_what_the_model_can_give() {
    for (most, output, limits) in [
        (Some(64_000), 0, [16_000, 64_000, 64_000]),
        (Some(64_000), 15_999, [16_000, 64_000, 64_000]),
        // Cut by its window: a higher limit would change nothing.
        (Some(64_000), 9_000, [16_000, 16_000, 16_000]),
        (Some(8_000), 8_000, [8_000, 8_000, 8_000]),
        (None, 16_000, [16_000, 16_000, 16_000]),
    ] {
        let used = Usage { output, ..Usage::default() };
        let long = || vec![text("long"), Says(Delta::Usage(used)), stop(StopKind::Length)];
        let (played, requests) = gated_with(most, [long(), long(), report()]).run().await;
        assert_eq!(played.outcome("a"), Outcome::Succeeded, "{:?}", played.end.problem);
        let asked: Vec<u32> = requests.iter().map(|request| request.max_output).collect();
        assert_eq!(asked, limits);
    }
}
