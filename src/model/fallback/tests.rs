//! What moves on to the next model, and what does not.

use super::*;
use crate::model::{Block, Cost, Opaque, Reply, ToolCall, Usage, Wait, WaitCause, collect};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A model whose calls come out as written, one after the other; the last one again and again.
struct Fake {
    name: &'static str,
    window: u64,
    idle: Option<u64>,
    calls: Vec<Vec<Result<Delta, ModelError>>>,
    asked: AtomicUsize,
}

impl Fake {
    fn new(name: &'static str, calls: impl IntoIterator<Item = Vec<Result<Delta, ModelError>>>) -> Arc<Self> {
        Arc::new(Fake {
            name,
            window: 1000,
            idle: None,
            calls: calls.into_iter().collect(),
            asked: AtomicUsize::new(0),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Model for Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn context_window(&self) -> u64 {
        self.window
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.idle.map(Duration::from_secs)
    }

    async fn stream(&self, _: Request) -> Result<Deltas, ModelError> {
        let nth = self.asked.fetch_add(1, Ordering::Relaxed);
        let call = self.calls[nth.min(self.calls.len() - 1)].clone();
        match call.as_slice() {
            [Err(error)] => Err(error.clone()),
            _ => Ok(stream::iter(call).boxed()),
        }
    }
}

fn says(words: &str) -> Vec<Result<Delta, ModelError>> {
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    [Delta::Sent, Delta::Text(words.into()), Delta::Usage(usage), Delta::Cost(Cost(7)), Delta::Stop(StopKind::End)]
        .map(Ok)
        .to_vec()
}

fn fails(kind: ModelErrorKind) -> Vec<Result<Delta, ModelError>> {
    vec![Err(ModelError::new(kind, format!("it failed: {kind:?}")))]
}

fn declines_after(before: Delta) -> Vec<Result<Delta, ModelError>> {
    let usage = Usage { input: 100, output: 1, ..Usage::default() };
    [before, Delta::Usage(usage), Delta::Cost(Cost(30)), Delta::Stop(StopKind::Refusal)].map(Ok).to_vec()
}

fn call() -> Delta {
    Delta::Call(ToolCall::new("call_1", "read_file", json!({ "file_path": "a" })))
}

async fn ask(model: &Fallback) -> (Result<Reply, ModelError>, Vec<Switch>) {
    let request = Request {
        conversation: "map".into(),
        attempt: 1,
        turn: 1,
        system: "".into(),
        tools: Vec::new().into(),
        messages: Vec::new(),
        max_output: 100,
        format: None,
    };
    let mut switches = Vec::new();
    let deltas = model.stream(request).await.unwrap();
    let reply = collect(deltas, |delta| {
        if let Delta::Switched(switch) = delta {
            switches.push(switch.clone());
        }
    });
    (reply.await, switches)
}

fn words(reply: &Reply) -> &str {
    match reply.blocks.as_slice() {
        [Block::Text { text }] => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn overload_moves_on_and_is_remembered_for_five_minutes() {
    for kind in [ModelErrorKind::Overloaded, ModelErrorKind::RateLimit, ModelErrorKind::Server] {
        let first = Fake::new("a/one", [fails(kind), says("first")]);
        let second = Fake::new("b/two", [says("second")]);
        let model = Fallback::new(first.clone(), vec![second.clone()]);
        let (reply, switches) = ask(&model).await;
        assert_eq!(words(&reply.unwrap()), "second");
        assert_eq!(switches, [Switch { to: "b/two".into(), why: format!("it failed: {kind:?}") }]);

        tokio::time::sleep(MEMORY - Duration::from_secs(1)).await;
        let (reply, switches) = ask(&model).await;
        assert_eq!(words(&reply.unwrap()), "second");
        assert_eq!((first.asked(), switches.len()), (1, 1), "not asked again");
        assert_eq!(switches[0].why, "`a/one` was overloaded less than 5 minutes ago");

        tokio::time::sleep(Duration::from_secs(1)).await;
        let (reply, switches) = ask(&model).await;
        assert_eq!((words(&reply.unwrap()), switches), ("first", vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_user_has_to_put_right_ends_the_call() {
    for kind in [
        ModelErrorKind::Auth,
        ModelErrorKind::Quota,
        ModelErrorKind::NotFound,
        ModelErrorKind::InvalidRequest,
        ModelErrorKind::ContextFull,
        ModelErrorKind::NoTools,
        ModelErrorKind::Egress,
        ModelErrorKind::Network,
        ModelErrorKind::Protocol,
    ] {
        let second = Fake::new("b/two", [says("second")]);
        let model = Fallback::new(Fake::new("a/one", [fails(kind)]), vec![second.clone()]);
        let (reply, switches) = ask(&model).await;
        assert_eq!((reply.unwrap_err().kind, switches), (kind, vec![]));
        assert_eq!(second.asked(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_moves_on_what_was_said_is_void_and_what_it_cost_is_not() {
    let blob = Opaque { model: "a/one".into(), value: json!("no") };
    for before in [Delta::Text("I".into()), Delta::Thinking(blob.clone())] {
        let first = Fake::new("a/one", [declines_after(before), says("first")]);
        let model = Fallback::new(first, vec![Fake::new("b/two", [says("second")])]);
        let (reply, switches) = ask(&model).await;
        let reply = reply.unwrap();
        assert_eq!((words(&reply), reply.stop), ("second", StopKind::End));
        assert_eq!((reply.usage.input, reply.usage.output, reply.bill().known), (110, 6, Some(Cost(37))));
        assert_eq!(switches, [Switch { to: "b/two".into(), why: "`a/one` declined to answer".into() }]);
        let (reply, switches) = ask(&model).await;
        assert_eq!((words(&reply.unwrap()), switches), ("first", vec![]), "another question, another answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_tool_call_or_of_the_last_model_stands() {
    let second = Fake::new("b/two", [says("second")]);
    let model = Fallback::new(Fake::new("a/one", [declines_after(call())]), vec![second.clone()]);
    let (reply, switches) = ask(&model).await;
    let reply = reply.unwrap();
    assert_eq!((reply.stop, reply.blocks.len(), switches.len()), (StopKind::Refusal, 1, 0));
    assert_eq!(second.asked(), 0);

    let alone = Fallback::new(Fake::new("a/one", [declines_after(Delta::Sent)]), Vec::new());
    assert_eq!(ask(&alone).await.0.unwrap().stop, StopKind::Refusal);
}

#[tokio::test(start_paused = true)]
async fn after_content_an_overload_is_for_the_conversation_to_go_on_from() {
    let overload = ModelError::new(ModelErrorKind::Overloaded, "overloaded");
    let first = Fake::new("a/one", [vec![Ok(Delta::Text("half".into())), Err(overload.clone())], says("first")]);
    let model = Fallback::new(first, vec![Fake::new("b/two", [says("second")])]);
    let (reply, switches) = ask(&model).await;
    assert_eq!((reply.unwrap_err(), switches), (overload, vec![]));
    assert_eq!(words(&ask(&model).await.0.unwrap()), "first", "it is not passed over either");
}

#[tokio::test(start_paused = true)]
async fn the_last_error_counts_when_all_are_overloaded_and_the_first_choice_is_asked_again() {
    let busy = || fails(ModelErrorKind::Overloaded);
    let first = Fake::new("a/one", [busy(), says("first")]);
    let wait = Wait { cause: WaitCause::Retry, time_ms: Some(500), detail: "b".into() };
    let mut waits = vec![Ok(Delta::Waiting(wait))];
    waits.extend(busy());
    let model = Fallback::new(first.clone(), vec![Fake::new("b/two", [waits]), Fake::new("c/three", [busy()])]);
    let (reply, switches) = ask(&model).await;
    assert_eq!(reply.unwrap_err().kind, ModelErrorKind::Overloaded);
    assert_eq!(switches.iter().map(|switch| switch.to.as_str()).collect::<Vec<_>>(), ["b/two", "c/three"]);
    let (reply, switches) = ask(&model).await;
    assert_eq!((words(&reply.unwrap()), switches), ("first", vec![]));
}

#[test]
fn it_has_the_first_ones_name_and_the_smallest_window() {
    let mut small = Fake::new("b/two", [says("")]);
    Arc::get_mut(&mut small).unwrap().window = 500;
    let model = Fallback::new(Fake::new("a/one", [says("")]), vec![small]);
    assert_eq!((model.name(), model.context_window(), model.max_output()), ("a/one", 500, None));
}

#[test]
fn a_fallback_makes_nobody_less_patient_with_the_first() {
    for (first, second, both) in [
        (None, Some(9), None),
        (Some(60), Some(9), Some(60)),
        (Some(60), Some(300), Some(300)),
        (Some(60), None, Some(60)),
    ] {
        let fake = |idle| {
            let mut fake = Fake::new("a/one", [says("")]);
            Arc::get_mut(&mut fake).unwrap().idle = idle;
            fake
        };
        let model = Fallback::new(fake(first), vec![fake(second)]);
        assert_eq!(model.idle_timeout(), both.map(Duration::from_secs));
    }
}

#[tokio::test(start_paused = true)]
async fn blanks_alone_are_nothing_said() {
    let broken = vec![
        Ok(Delta::Partial("\n".into())),
        Ok(Delta::Text("\n".into())),
        Err(ModelError::new(ModelErrorKind::Overloaded, "overloaded")),
    ];
    let model = Fallback::new(Fake::new("a/one", [broken]), vec![Fake::new("b/two", [says("second")])]);
    let (reply, switches) = ask(&model).await;
    assert_eq!(words(&reply.unwrap()), "second");
    assert_eq!(switches.len(), 1);
}
