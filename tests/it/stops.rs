//! Stops, panics and limits at awkward moments.

use crate::kit::{NoArgs, Play, Stuck, plan};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use indexmap::IndexMap;
use sortie::agent::{AttemptEnd, Task};
use sortie::cancel::{Cancel, CancelReason};
use sortie::coordinator::{RunStatus, Scheduler};
use sortie::event::EventKind;
use sortie::model::{Delta, Deltas, Model, ModelError, ModelErrorKind, Models, Request, Usage};
use sortie::permission::{Answer, Approver, Question};
use sortie::plan::{CauseKind, Graph, Outcome};
use sortie::store::MemoryStore;
use sortie::tool::{Effect, Tool, ToolContext, ToolError};
use sortie::ui::Bus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ONE: &str = "[[node]]\nid = \"a\"\nprompt = \"a\"\n";

struct Panics;

impl Tool for Panics {
    const NAME: &'static str = "panics";
    const DESCRIPTION: &'static str = "Panics.";
    const EFFECT: Effect = Effect::Read;
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, _: &ToolContext) -> Result<String, ToolError> {
        panic!("a bug in a tool")
    }
}

fn interrupt_after(cancel: &Cancel, time: Duration, reasons: &'static [CancelReason]) {
    let cancel = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        reasons.iter().for_each(|reason| cancel.request(*reason));
    });
}

#[tokio::test(start_paused = true)]
async fn a_reading_tool_of_the_coordinator_that_ignores_the_stop_does_not_hold_the_run() {
    let script = "[[reply]]\nnode = \"coordinator\"\ncalls = [{ name = \"stuck\" }]\n";
    let mut play = Play::new(script).task("t");
    play.harness.registry.add(Stuck).unwrap();
    interrupt_after(&play.cancel, Duration::from_secs(1), &[CancelReason::Interrupt]);
    let played = tokio::time::timeout(Duration::from_secs(60), play.run()).await.expect("the run hangs");
    assert_eq!(played.end.status, RunStatus::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_after_a_stop() {
    let play =
        Play::new("").plan("[[node]]\nid = \"a\"\ncommand = \"touch begun\"\n[[node]]\nid = \"b\"\nprompt = \"b\"\n");
    play.cancel.request(CancelReason::Interrupt);
    let begun = play.workspace.path().join("begun");
    let played = play.run().await;
    assert!(!begun.exists());
    assert_eq!(played.outcomes(), [("a".into(), Outcome::Skipped), ("b".into(), Outcome::Skipped)]);
    assert_eq!(played.started("a"), None);
}

#[tokio::test(start_paused = true)]
async fn every_stop_is_told_and_a_signal_goes_before_the_deadline() {
    for (reasons, status) in [
        (&[CancelReason::Interrupt][..], RunStatus::Interrupted),
        (&[CancelReason::Terminate], RunStatus::Terminated),
        (&[CancelReason::Terminate, CancelReason::Second], RunStatus::Terminated),
        (&[CancelReason::Interrupt, CancelReason::Second], RunStatus::Interrupted),
        (&[CancelReason::Deadline, CancelReason::Interrupt], RunStatus::Interrupted),
        (&[CancelReason::Deadline], RunStatus::Deadline),
    ] {
        let play = Play::new("[[reply]]\nnode = \"coordinator\"\nfault = \"hang\"\n").task("t");
        interrupt_after(&play.cancel, Duration::from_secs(1), reasons);
        let played = play.run().await;
        assert_eq!(played.end.status, status, "{reasons:?}");
        let told = played.index(|kind| matches!(kind, EventKind::CancelRequested { .. }));
        assert!(told.is_some(), "{reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_model_goes_before_the_deadline() {
    let script = "[[reply]]\nnode = \"a\"\nfault = \"401\"\n[[reply]]\nnode = \"b\"\nfault = \"hang\"\n";
    let mut play =
        Play::new(script).plan("[[node]]\nid = \"a\"\nprompt = \"a\"\n[[node]]\nid = \"b\"\nprompt = \"b\"\n");
    play.config.deadline = Some(Duration::from_secs(3));
    assert_eq!(play.run().await.end.status, RunStatus::NoModel);
}

/// Streams these deltas; then goes silent and lets it be stopped, or breaks for good.
struct Streams {
    deltas: Vec<Delta>,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    IsSilent,
    Breaks,
}

#[async_trait]
impl Model for Streams {
    fn name(&self) -> &str {
        "test/streams"
    }

    async fn stream(&self, _: Request) -> Result<Deltas, ModelError> {
        let deltas = stream::iter(self.deltas.clone()).map(Ok);
        Ok(match self.then {
            Then::IsSilent => deltas.chain(stream::pending()).boxed(),
            Then::Breaks => {
                let error = ModelError::new(ModelErrorKind::Protocol, "that is no event");
                deltas.chain(stream::iter([Err(error)])).boxed()
            }
        })
    }
}

fn streaming(deltas: Vec<Delta>, then: Then) -> Play {
    let mut play = Play::new("").plan(ONE);
    play.harness.models = Models::new(Arc::new(Streams { deltas, then }));
    play
}

#[tokio::test(start_paused = true)]
async fn what_had_streamed_of_a_reply_is_kept_and_counted() {
    let usage = Usage { input: 5, output: 7, ..Usage::default() };
    let deltas = vec![Delta::Text("half of an answer".into()), Delta::Usage(usage)];
    for then in [Then::IsSilent, Then::Breaks] {
        let play = streaming(deltas.clone(), then);
        interrupt_after(&play.cancel, Duration::from_secs(1), &[CancelReason::Interrupt]);
        let played = play.run().await;
        let end = played.end_of("a");
        assert_eq!(end.report.unwrap().summary, "half of an answer");
        assert_eq!((end.usage, played.end.usage), (usage, usage));
        assert!(played.store.transcript_of("a", 1).iter().any(|record| record["stop"] == "stream_cut"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_tool_ends_its_call_and_keeps_what_was_said() {
    let script =
        "[[reply]]\nnode = \"a\"\ntext = \"found it\"\ncalls = [{ name = \"panics\" }, { name = \"list_files\" }]\n";
    let mut play = Play::new(script).plan(ONE);
    play.harness.registry.add(Panics).unwrap();
    play.harness.roles[0].tools.push("panics".into());
    let played = play.run().await;
    let end = played.end_of("a");
    let cause = end.cause.unwrap();
    assert_eq!((end.outcome, cause.kind), (Outcome::Failed, CauseKind::Panic));
    assert!(cause.detail.contains("`panics`") && cause.detail.contains("a bug in a tool"), "{cause}");
    assert_eq!(end.report.unwrap().summary, "found it");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_coordinator_closes_the_run_as_our_bug() {
    let model = "[[reply]]\nnode = \"coordinator\"\nfault = \"panic\"\n";
    let tool = "[[reply]]\nnode = \"coordinator\"\ncalls = [{ name = \"panics\" }]\n";
    for script in [model, tool] {
        let mut play = Play::new(script).task("t");
        play.harness.registry.add(Panics).unwrap();
        let played = play.run().await;
        assert_eq!(played.end.status.exit_code(), 101, "{:?}", played.end.problem);
        assert!(played.end.problem.unwrap().contains("panic"));
        assert!(played.store.report().is_some());
    }
}

#[tokio::test]
async fn a_panic_while_a_task_is_made_or_begun_is_that_nodes_failure() {
    let plan = plan(
        "[[node]]\nid = \"made\"\nprompt = \"m\"\n[[node]]\nid = \"begun\"\nprompt = \"b\"\n[[node]]\nid = \"c\"\nprompt = \"c\"\n",
    );
    let graph = Graph::new(&plan);
    let bus = Bus::new(Arc::new(MemoryStore::new()), Vec::new());
    let cancel = Cancel::new();
    let scheduler = Scheduler {
        plan: &plan,
        graph: &graph,
        prefix: "",
        inputs: IndexMap::new(),
        jobs: 1,
        node_timeout: Duration::MAX,
        grace: Duration::MAX,
        compose: Box::new(|_, name, text, _| {
            assert!(name != "made", "no task for it");
            Task::Command { command: text, output: None }
        }),
        execute: Arc::new(|attempt, _| {
            assert!(attempt.node != "begun", "not that one");
            async { AttemptEnd::bare(Outcome::Succeeded, None) }.boxed()
        }),
        bus: &bus,
        cancel: &cancel,
    };
    let ran = scheduler.run().await;
    let outcomes: Vec<Outcome> = (0..3).map(|node| ran.results.end(node).unwrap().outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed, Outcome::Failed, Outcome::Succeeded]);
}

/// On the real clock: a process does not follow a paused one.
#[tokio::test]
async fn a_limit_that_no_clock_reaches_is_no_limit() {
    let script =
        "[[reply]]\nnode = \"a\"\ncalls = [{ name = \"report\", args = { status = \"done\", summary = \"s\" } }]\n";
    let mut play = Play::new(script).plan(&format!("{ONE}[[node]]\nid = \"c\"\ncommand = \"true\"\n"));
    play.config.node_timeout = Duration::MAX;
    play.config.idle_timeout = Duration::MAX;
    play.config.grace = Duration::MAX;
    play.config.deadline = Some(Duration::MAX);
    let played = play.run().await;
    assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
}

/// Says no for as long as it is asked.
struct No(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Approver for No {
    async fn decide(&self, question: &Question) -> Answer {
        self.0.lock().unwrap().push(question.id.clone());
        Answer::No { comment: String::new() }
    }
}

#[tokio::test(start_paused = true)]
async fn every_approval_has_an_id_of_its_own() {
    let plan = "calls = [{ name = \"submit_plan\", args = { name = \"p\", node = [{ id = \"a\", prompt = \"x\" }] } }]";
    let script = format!(
        "[[reply]]\nnode = \"coordinator\"\n{plan}\n[[reply]]\nnode = \"coordinator\"\n{plan}\nexpect = {{ contains = [\"declined the plan\", \"no reason was given\"] }}\n[[reply]]\nnode = \"coordinator\"\ntext = \"well then\"\n"
    );
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut play = Play::new(&script).task("t");
    play.config.approve_plan = true;
    play.harness.approver = Arc::new(No(Arc::clone(&asked)));
    let played = play.run().await;
    assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
    assert_eq!(*asked.lock().unwrap(), ["plan-1", "plan-2"]);
}

/// On the real clock: a process does not follow a paused one.
#[tokio::test]
async fn a_child_that_left_the_group_and_floods_the_pipe_does_not_hold_its_node() {
    let played = Play::new("").plan("[[node]]\nid = \"a\"\ncommand = \"setsid yes & echo done\"\n").run();
    let played = tokio::time::timeout(Duration::from_secs(20), played).await.expect("the node hangs");
    assert_eq!(played.outcome("a"), Outcome::Succeeded);
}
