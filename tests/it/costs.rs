//! What model calls wait for, whom they are switched to and what they cost: from the stream to every screen.

use crate::kit::{Play, Played};
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use sortie::event::{Event, EventKind};
use sortie::model::{
    Bill, Cost, Delta, Deltas, Model, ModelError, Models, Request, StopKind, Switch, ToolCall, Usage, Wait, WaitCause,
};
use sortie::store::Summary;
use sortie::ui::{Json, Plain, Reporter, table};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PARTS: &str = "[[node]]\nid = \"part\"\nforeach = [1, 2]\nprompt = \"{{ item }}\"\n";

/// Says these deltas to each conversation, and then a report. `Waiting` takes its time.
struct Plays {
    deltas: BTreeMap<&'static str, Vec<Delta>>,
    idle: Option<Duration>,
}

#[async_trait]
impl Model for Plays {
    fn name(&self) -> &str {
        "test/plays"
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.idle
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        let report = json!({ "status": "done", "summary": "done" });
        let mut deltas = self.deltas[request.conversation.as_str()].clone();
        deltas.push(Delta::Call(ToolCall::new("r", "report", report)));
        deltas.push(Delta::Stop(StopKind::Tool));
        let say = |delta: Delta| async move {
            let before_next = match &delta {
                Delta::Waiting(wait) => wait.time_ms.unwrap_or_default(),
                _ => 0,
            };
            let then = stream::once(tokio::time::sleep(Duration::from_millis(before_next))).filter_map(async |()| None);
            stream::iter([Ok(delta)]).chain(then.boxed())
        };
        Ok(stream::iter(deltas).then(say).flatten().boxed())
    }
}

fn used(input: u64, output: u64) -> Delta {
    Delta::Usage(Usage { input, output, ..Usage::default() })
}

fn waiting(cause: WaitCause, time_ms: Option<u64>, detail: &str) -> Delta {
    Delta::Waiting(Wait { cause, time_ms, detail: detail.into() })
}

async fn play(first: Vec<Delta>, second: Vec<Delta>, idle: Option<Duration>) -> Played {
    let mut play = Play::new("").plan(PARTS);
    play.config.jobs = 1;
    let deltas = BTreeMap::from([("part[0]", first), ("part[1]", second)]);
    play.harness.models = Models::new(Arc::new(Plays { deltas, idle }));
    play.run().await
}

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn printed<R: Reporter>(events: &[Arc<Event>], make: impl FnOnce(Page) -> R) -> String {
    let page = Page::default();
    let mut reporter = make(page.clone());
    events.iter().for_each(|event| reporter.event(event).unwrap());
    reporter.end().unwrap();
    let bytes = page.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test(start_paused = true)]
async fn waits_switches_and_costs_are_told_on_every_screen() {
    let first = vec![
        waiting(WaitCause::Streams, None, "anthropic"),
        waiting(WaitCause::Rate, Some(900), "anthropic"),
        waiting(WaitCause::Prefix, Some(1_500), "anthropic"),
        waiting(WaitCause::Cooldown, Some(300_000), "anthropic: 429: too many\nrequests\u{1b}[2J"),
        Delta::Sent,
        used(100, 1),
        used(1_000, 20),
        Delta::Cost(Cost(1_000_000)),
        Delta::Cost(Cost(12_300_000)),
    ];
    let second = vec![
        used(10, 10),
        Delta::Cost(Cost(5_000_000)),
        Delta::Switched(Switch { to: "openai/other".into(), why: "`anthropic/x` is overloaded".into() }),
        used(500, 5),
    ];
    let played = play(first, second, None).await;
    assert!(played.end.problem.is_none(), "{:?}", played.end.problem);
    insta::assert_snapshot!(printed(&played.events, Plain::new));

    let whole = Bill { known: Some(Cost(17_300_000)), at_least: true };
    assert_eq!((played.end.cost, played.end.usage.total()), (whole, 1_545));
    let ends = played.ends();
    assert_eq!(ends["part[0]"].cost, Bill { known: Some(Cost(12_300_000)), at_least: false });
    assert_eq!(ends["part[1]"].cost, Bill { known: Some(Cost(5_000_000)), at_least: true });
    let json: Value = serde_json::from_str(&printed(&played.events, Json::new)).unwrap();
    assert_eq!((&json["cost_usd"], &json["cost_at_least"]), (&json!(0.0173), &json!(true)));
    let part = |at: usize| (json["nodes"][at]["cost_usd"].clone(), json["nodes"][at].get("cost_at_least").cloned());
    assert_eq!((part(1), part(2)), ((json!(0.0123), None), (json!(0.005), Some(json!(true)))));

    // A run that was killed knows what its turns have cost, and what is logged comes back the same.
    let all = Summary::of(played.events.iter().map(AsRef::as_ref));
    let killed = Summary::of(played.events.iter().map(AsRef::as_ref).take(played.events.len() - 1));
    assert_eq!((all.cost, killed.cost), (whole, whole));
    for event in &played.events {
        let line = serde_json::to_string(&**event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), **event, "{line}");
    }
    for width in [20, 40, 60, 80] {
        let fits = |line: &str| unicode_width::UnicodeWidthStr::width(line) <= width;
        assert!(table(&all, Some(width)).lines().all(fits), "{}", table(&all, Some(width)));
    }
}

#[tokio::test(start_paused = true)]
async fn where_no_price_is_known_nothing_is_said_of_costs() {
    let played = play(vec![used(10, 1)], vec![used(10, 1)], None).await;
    assert!(played.end.cost.is_unknown());
    let json = printed(&played.events, Json::new);
    assert!(!json.contains("cost_"), "{json}");
    let plain = printed(&played.events, Plain::new);
    assert!(!plain.contains('$') && !plain.contains("cost"), "{plain}");
    let logged = serde_json::to_string(&**played.events.last().unwrap()).unwrap();
    assert!(!logged.contains("cost"), "{logged}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_at_the_gate_may_last_longer_than_a_model_may_be_silent() {
    let wait = || vec![waiting(WaitCause::Cooldown, Some(600_000), "anthropic"), Delta::Sent];
    let played = play(wait(), wait(), Some(Duration::from_secs(1))).await;
    assert!(played.end.problem.is_none(), "{:?}", played.end.problem);
    let waits = played.events.iter().filter(|event| matches!(event.kind, EventKind::ModelWaiting { .. })).count();
    assert_eq!(waits, 2);
    // The provider's own limit goes before the run's of two minutes.
    let silent =
        || vec![waiting(WaitCause::Cooldown, None, "x"), Delta::Sent, waiting(WaitCause::Streams, Some(1), "x")];
    let played = play(silent(), silent(), Some(Duration::from_secs(1))).await;
    assert!(played.end.problem.is_none(), "{:?}", played.end.problem);
}
