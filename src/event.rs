//! The one vocabulary of log, screen, resume and report.
//!
//! Everything that watches a run is a fold over these. *Durable* events are logged and versioned; *live* ones
//! (text as it streams, what a subagent is doing) are for screens, are never logged and are dropped first.

use crate::agent::{Attempt, AttemptEnd};
use crate::model::{Bill, StopKind, Switch, Usage, Wait};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Version of the log's lines.
pub const LOG_VERSION: u32 = 1;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// [`LOG_VERSION`].
    pub v: u32,
    /// Consecutive from 1 over the durable events of a run; 0 for a live one.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Milliseconds since the Unix epoch; RFC 3339 in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// From the system's clock.
    pub fn from_system(time: SystemTime) -> Self {
        Timestamp(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64)
    }

    /// `2026-01-31 23:59`, in UTC.
    pub fn minute(self) -> String {
        let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(self.0)).to_string();
        text.chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect()
    }

    /// The time between `earlier` and this; zero when it is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(self.0)))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_rfc3339(&text).map(Timestamp::from_system).map_err(serde::de::Error::custom)
    }
}

/// What happened. Names in JSON are snake_case under `type`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "events travel behind an Arc; the large ones are the frequent ones")]
pub enum EventKind {
    /// First event of a run.
    RunStarted {
        /// The run's id.
        run: String,
        /// What the user asked, if anything.
        task: Option<String>,
        /// The run's model.
        model: String,
        /// Nodes that may run at once.
        jobs: usize,
    },
    /// Something that users should know, once.
    Notice {
        /// A sentence.
        message: String,
    },
    /// The coordinator's plan was not valid; nothing of it started.
    PlanRejected {
        /// Which try, from 1.
        attempt: u32,
        /// All problems, as the model was told.
        problems: String,
    },
    /// A plan was accepted and is about to run.
    PlanAccepted {
        /// Which plan of the run, from 1.
        round: u32,
        /// The plan in its JSON spelling; instances of `foreach` come later.
        plan: Value,
        /// Ids along the longest chain.
        critical_path: Vec<String>,
    },
    /// An approval was asked for.
    ApprovalAsked {
        /// Unique in the run.
        id: String,
        /// What is to be decided.
        question: String,
    },
    /// It was answered; the terminal event of an approval.
    ApprovalAnswered {
        /// As asked.
        id: String,
        /// Whether the answer was yes.
        approved: bool,
        /// What was said with it.
        comment: String,
    },
    /// A `foreach` node has its items; instances `NODE[0]` to `NODE[count-1]` exist from now on.
    NodeExpanded {
        /// The `foreach` node.
        node: String,
        /// Number of instances.
        count: usize,
    },
    /// A node's attempt has its slot and starts.
    NodeStarted {
        /// The attempt, as it was given out.
        attempt: Attempt,
    },
    /// The terminal event of a node (of a `foreach` node too, after its instances).
    NodeFinished {
        /// The node's full name.
        node: String,
        /// Which attempt; 0 when none was started.
        attempt: u32,
        /// How it ended and what came of it.
        #[serde(flatten)]
        end: AttemptEnd,
        /// From start to end, in milliseconds.
        duration_ms: u64,
    },
    /// A model call ended; one without a complete reply is here only when it has cost something.
    TurnFinished {
        /// The conversation: a node's full name or `coordinator`.
        node: String,
        /// From 1.
        turn: u32,
        /// Why the reply ended.
        stop: StopKind,
        /// Its tokens.
        usage: Usage,
        /// What it cost, where the price is known.
        #[serde(default, skip_serializing_if = "Bill::is_unknown")]
        cost: Bill,
    },
    /// A model call waits before it goes out (again).
    ModelWaiting {
        /// The conversation.
        node: String,
        /// Which model call.
        turn: u32,
        /// What for, and how long.
        #[serde(flatten)]
        wait: Wait,
    },
    /// Another model answers a call from here on.
    ModelSwitched {
        /// The conversation.
        node: String,
        /// Which model call.
        turn: u32,
        /// Which model, and why.
        #[serde(flatten)]
        switch: Switch,
    },
    /// A tool call starts.
    ToolStarted {
        /// The conversation.
        node: String,
        /// The call's id, unique in the conversation.
        call: String,
        /// The tool.
        tool: String,
        /// What it acts on, in a few words.
        subject: String,
    },
    /// The terminal event of a tool call.
    ToolFinished {
        /// The conversation.
        node: String,
        /// The call's id.
        call: String,
        /// Whether the result is an error.
        is_error: bool,
        /// Bytes that the model gets.
        bytes: u64,
    },
    /// The run was told to stop.
    CancelRequested {
        /// Why, in a word: as [`CancelReason::as_str`](crate::cancel::CancelReason::as_str) says it.
        reason: String,
    },
    /// All nodes of a plan have ended; this is what the parent conversation gets.
    Merged {
        /// Which plan of the run.
        round: u32,
        /// The message.
        text: String,
        /// Wall time from first dispatch to last terminal event, in milliseconds.
        makespan_ms: u64,
        /// The longest chain by measured durations, with its length in milliseconds.
        critical_path: Vec<(String, u64)>,
        /// Lower bound over makespan, 0 to 1: the bound is the longer of the critical path and all work divided by
        /// the number of jobs.
        efficiency: f64,
    },
    /// The run has a title; an older one is void.
    Titled {
        /// A few words on its task.
        title: String,
    },
    /// The coordinator's answer.
    Answered {
        /// The answer.
        text: String,
    },
    /// Last event of a run.
    RunFinished {
        /// `succeeded`, `failed`, `interrupted`, …
        status: String,
        /// The process's exit code.
        exit_code: u8,
        /// What went wrong with the run as a whole, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        /// All model calls together.
        usage: Usage,
        /// What they have cost, where prices are known.
        #[serde(default, skip_serializing_if = "Bill::is_unknown")]
        cost: Bill,
    },
    /// Live: words as they stream.
    Words {
        /// The conversation.
        node: String,
        /// The words.
        text: String,
    },
    /// Live: what a conversation is doing.
    Doing {
        /// The conversation.
        node: String,
        /// A few words: `thinking`, `search_code cancel`.
        what: String,
        /// Tokens used so far by this attempt.
        tokens: u64,
    },
}

impl EventKind {
    /// Whether the event is logged.
    pub fn is_durable(&self) -> bool {
        match self {
            EventKind::Words { .. } | EventKind::Doing { .. } => false,
            EventKind::RunStarted { .. }
            | EventKind::Notice { .. }
            | EventKind::PlanRejected { .. }
            | EventKind::PlanAccepted { .. }
            | EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalAnswered { .. }
            | EventKind::NodeExpanded { .. }
            | EventKind::NodeStarted { .. }
            | EventKind::NodeFinished { .. }
            | EventKind::TurnFinished { .. }
            | EventKind::ModelWaiting { .. }
            | EventKind::ModelSwitched { .. }
            | EventKind::Titled { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::CancelRequested { .. }
            | EventKind::Merged { .. }
            | EventKind::Answered { .. }
            | EventKind::RunFinished { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Confidence, Evidence, Finding, QuoteCheck, Report, ReportStatus};
    use crate::plan::Outcome;

    #[test]
    fn what_is_logged_comes_back_the_same() {
        let evidence =
            Evidence { path: "src/a.rs".into(), line: 3, quote: "fn a".into(), check: Some(QuoteCheck::Verified) };
        let report = Report {
            status: ReportStatus::Done,
            summary: "done".into(),
            findings: vec![Finding { claim: "so".into(), evidence: vec![evidence], confidence: Confidence::High }],
            decisions: Vec::new(),
            open_questions: Vec::new(),
            used_inputs: Vec::new(),
            output: None,
            body: None,
        };
        let end = AttemptEnd { report: Some(report), ..AttemptEnd::bare(Outcome::Succeeded, None) };
        let kind = EventKind::NodeFinished { node: "a".into(), attempt: 1, end, duration_ms: 7 };
        let event = Event { v: LOG_VERSION, seq: 1, at: Timestamp(1_767_225_600_123), kind };
        let line = serde_json::to_string(&event).unwrap();
        assert!(line.starts_with(r#"{"v":1,"seq":1,"at":"2026-01-01T00:00:00.123Z","type":"node_finished""#), "{line}");
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}
