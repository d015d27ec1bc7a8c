//! How a node can end, and why: closed lists, so that a new way to end breaks every consumer at compile time.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a node ended. Every node of a run gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what was asked.
    Succeeded,
    /// It handed back something usable, but not all; satisfies an edge like `Succeeded`.
    Partial,
    /// It could not do it.
    Failed,
    /// It was told to stop.
    Cancelled,
    /// Its own time limit passed.
    TimedOut,
    /// Its own budget was used up.
    OverBudget,
    /// It never started, because something it needs did not succeed or the run ended first.
    Skipped,
}

impl Outcome {
    /// Whether a dependent may start after it.
    pub fn satisfies(self) -> bool {
        match self {
            Outcome::Succeeded | Outcome::Partial => true,
            Outcome::Failed | Outcome::Cancelled | Outcome::TimedOut | Outcome::OverBudget | Outcome::Skipped => false,
        }
    }

    /// The word in JSON, logs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Partial => "partial",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::TimedOut => "timed_out",
            Outcome::OverBudget => "over_budget",
            Outcome::Skipped => "skipped",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of thing made a node end other than by plain success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The subagent reported `partial`.
    ReportedPartial,
    /// The subagent reported `blocked`.
    Blocked,
    /// No `report` call came, even after asking; the last text was kept.
    NoReport,
    /// The report lacked the `output` that the node's schema demands, after one repair round.
    InvalidOutput,
    /// All turns were used up before a report came.
    TurnLimit,
    /// The model kept making the same calls with the same results.
    Repetition,
    /// Turn after turn brought nothing new.
    NoProgress,
    /// Some instances of a `foreach` node did not succeed.
    SomeItems,
    /// A model call failed for good.
    Model,
    /// The model's answer was cut at its output limit or refused.
    CutShort,
    /// A command exited with a code other than 0, died by a signal, or could not start.
    Command,
    /// The prompt could not be rendered, or `foreach` did not yield a list.
    Template,
    /// A tool could not go on (its failure ends the node, not the model's fault).
    Tool,
    /// Our code panicked inside the node.
    Panic,
    /// Something it needs did not succeed.
    Upstream,
    /// Another node failed under `on_failure = "stop"`.
    SiblingFailed,
    /// The node's time limit.
    Timeout,
    /// The run's time limit.
    Deadline,
    /// The run's record could not be written.
    Storage,
    /// The user pressed Ctrl-C, or the process was told to terminate.
    Interrupted,
}

impl CauseKind {
    /// The word in JSON and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            CauseKind::ReportedPartial => "reported_partial",
            CauseKind::Blocked => "blocked",
            CauseKind::NoReport => "no_report",
            CauseKind::InvalidOutput => "invalid_output",
            CauseKind::TurnLimit => "turn_limit",
            CauseKind::Repetition => "repetition",
            CauseKind::NoProgress => "no_progress",
            CauseKind::SomeItems => "some_items",
            CauseKind::Model => "model",
            CauseKind::CutShort => "cut_short",
            CauseKind::Command => "command",
            CauseKind::Template => "template",
            CauseKind::Tool => "tool",
            CauseKind::Panic => "panic",
            CauseKind::Upstream => "upstream",
            CauseKind::SiblingFailed => "sibling_failed",
            CauseKind::Timeout => "timeout",
            CauseKind::Deadline => "deadline",
            CauseKind::Storage => "storage",
            CauseKind::Interrupted => "interrupted",
        }
    }
}

/// Why a node ended as it did: a kind for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The kind.
    pub kind: CauseKind,
    /// A lower-case fragment that reads after the outcome: `node "a" failed`.
    pub detail: String,
}

impl Cause {
    /// A cause with its explanation.
    pub fn new(kind: CauseKind, detail: impl Into<String>) -> Self {
        Cause { kind, detail: detail.into() }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}
