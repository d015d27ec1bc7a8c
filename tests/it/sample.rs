//! A recorded run for tests of log and screens: what can be told of a run is in it once.

use serde_json::{Value, json};
use sortie::agent::{
    Attempt, AttemptEnd, Confidence, Evidence, Facts, Finding, QuoteCheck, Report, ReportStatus, Task,
};
use sortie::event::{Event, EventKind, LOG_VERSION, Timestamp};
use sortie::model::{Bill, StopKind, Usage};
use sortie::plan::{Cause, CauseKind, Outcome};
use sortie::tool::{FileRead, Searched};
use sortie::workspace::Coverage;
use std::time::Duration;

/// 2026-01-01T00:00:00Z.
pub(crate) const START: u64 = 1_767_225_600_000;

/// Text that would break a log's lines or drive a terminal.
pub(crate) const HOSTILE: &str = "a\nb\r\nc\u{2028}d\u{0}e\\ud800 \u{1b}]0;title\u{7}\u{1b}[2Jf 你好👩‍💻";

/// Turns kinds into the events of a log, 100 ms apart.
pub(crate) fn events(kinds: impl IntoIterator<Item = EventKind>) -> Vec<Event> {
    let event = |(kind, seq)| Event { v: LOG_VERSION, seq, at: Timestamp(START + seq * 100), kind };
    kinds.into_iter().zip(1..).map(event).collect()
}

pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

pub(crate) fn run_started(task: Option<&str>) -> EventKind {
    EventKind::RunStarted { run: "r-1".into(), task: task.map(str::to_string), model: "script/x".into(), jobs: 4 }
}

pub(crate) fn run_finished(status: &str, exit_code: u8) -> EventKind {
    EventKind::RunFinished {
        status: status.into(),
        exit_code,
        problem: None,
        usage: usage(21_000, 3_000),
        cost: Bill::default(),
    }
}

pub(crate) fn plan(round: u32, ids: &[&str]) -> EventKind {
    let nodes: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "prompt": "p", "role": "explorer" })).collect();
    let plan = json!({ "version": 1, "name": "investigate", "node": nodes });
    EventKind::PlanAccepted { round, plan, critical_path: vec![ids[0].to_string()] }
}

pub(crate) fn started(node: &str) -> EventKind {
    let task = Task::Prompt {
        prompt: format!("Where is it? {HOSTILE}"),
        role: "explorer".into(),
        tools: vec!["search_code".into()],
        model: "script/x".into(),
        turns: 40,
        output: None,
    };
    let attempt = Attempt { node: node.into(), attempt: 1, task, timeout: Duration::from_secs(900), needs: Vec::new() };
    EventKind::NodeStarted { attempt }
}

pub(crate) fn finished(node: &str, outcome: Outcome, cause: Option<(CauseKind, &str)>) -> EventKind {
    let skipped = outcome == Outcome::Skipped;
    let end = AttemptEnd {
        report: outcome.satisfies().then(report),
        facts: if outcome.satisfies() { facts() } else { Facts::default() },
        usage: if skipped { Usage::default() } else { usage(1_200, 34) },
        tool_calls: if skipped { 0 } else { 2 },
        turns: u32::from(!skipped),
        ..AttemptEnd::bare(outcome, cause.map(|(kind, detail)| Cause::new(kind, detail)))
    };
    EventKind::NodeFinished { node: node.into(), attempt: u32::from(!skipped), end, duration_ms: 1_250 }
}

fn report() -> Report {
    let place =
        |line, check| Evidence { path: "src/a.rs".into(), line, quote: "fn cancel()".into(), check: Some(check) };
    Report {
        status: ReportStatus::Done,
        summary: "It is in `src/a.rs`.".into(),
        findings: vec![Finding {
            claim: format!("cancel is there {HOSTILE}"),
            evidence: vec![place(3, QuoteCheck::Verified), place(9, QuoteCheck::Unverified)],
            confidence: Confidence::High,
        }],
        decisions: vec!["looked at code only".into()],
        open_questions: vec!["who calls it?".into()],
        used_inputs: Vec::new(),
        output: Some(json!({ "parts": ["src", HOSTILE] })),
        body: None,
    }
}

fn facts() -> Facts {
    Facts {
        read: vec![FileRead { path: "src/a.rs".into(), lines: vec![(1, 80), (200, 210)] }],
        searched: vec![Searched { pattern: "fn cancel".into(), path: ".".into(), files: 1 }],
        coverage: Some(Coverage { scope: vec!["src".into()], files: 3, read: 1, unread: vec![("src/b".into(), 2)] }),
        commands: Vec::new(),
    }
}

/// A run with a `foreach`, a failure, a skip, a follow-up plan and hostile text everywhere.
pub(crate) fn run() -> Vec<Event> {
    let gone = "model `script/x` is gone\u{1b}[2J\nfor good";
    events([
        run_started(Some("where is cancellation handled?")),
        EventKind::Notice { message: format!("`builtin/scout` is no language model {HOSTILE}") },
        plan(1, &["map", "part", "last"]),
        started("map"),
        EventKind::TurnFinished {
            node: "map".into(),
            turn: 1,
            stop: StopKind::Tool,
            usage: usage(10, 1),
            cost: Bill::default(),
        },
        EventKind::ToolStarted {
            node: "map".into(),
            call: "c1".into(),
            tool: "search_code".into(),
            subject: "cancel".into(),
        },
        EventKind::ToolFinished { node: "map".into(), call: "c1".into(), is_error: false, bytes: 40 },
        finished("map", Outcome::Succeeded, None),
        EventKind::NodeExpanded { node: "part".into(), count: 3 },
        started("part[1]"),
        started("part[0]"),
        finished("part[1]", Outcome::Failed, Some((CauseKind::Model, gone))),
        started("part[2]"),
        finished("part[2]", Outcome::Partial, Some((CauseKind::NoReport, "no report came"))),
        finished("part[0]", Outcome::Succeeded, None),
        finished("part", Outcome::Partial, Some((CauseKind::SomeItems, "1 of 3 instances failed"))),
        finished("last", Outcome::Skipped, Some((CauseKind::Upstream, "`part` did not succeed"))),
        plan(2, &["again"]),
        started("r2.again"),
        finished("r2.again", Outcome::Succeeded, None),
        EventKind::Merged {
            round: 2,
            text: "merged".into(),
            makespan_ms: 3_600,
            critical_path: vec![("map".into(), 1_250), ("part[0]".into(), 1_000)],
            efficiency: 0.968,
        },
        EventKind::Answered { text: format!("It is in `src/a.rs`. {HOSTILE}") },
        run_finished("failed", 1),
    ])
}
