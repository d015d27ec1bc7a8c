//! An attempt is a value: all that one try at a node needs, and all that comes of it.
//!
//! Between the scheduler and whatever executes a node pass only these, events and the cancellation token, so a
//! recorded attempt can run again alone, in another process, or elsewhere.

use crate::agent::report::Report;
use crate::model::{Bill, Usage};
use crate::plan::{Cause, CauseKind, Outcome};
use crate::tool::{FileRead, Searched};
use crate::workspace::Coverage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// All that one try at a node needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The node's full name: `part[2]`, `r2.map`.
    pub node: String,
    /// From 1.
    pub attempt: u32,
    /// What to do, rendered.
    pub task: Task,
    /// How long it may take.
    pub timeout: Duration,
    /// Full names of the nodes it needs, instances included.
    pub needs: Vec<String>,
}

/// What to do, rendered: no template is left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Task {
    /// A conversation.
    Prompt {
        /// The first user message: request, task, inputs, reports of dependencies.
        prompt: String,
        /// Name of the role, whose text is the system text.
        role: String,
        /// Names of the tools it has; `report` comes on top.
        tools: Vec<String>,
        /// `provider/model`.
        model: String,
        /// Model calls at most.
        turns: u32,
        /// JSON Schema of the report's `output`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
    },
    /// A command line for the shell.
    Command {
        /// The command line.
        command: String,
        /// JSON Schema that standard output must fulfil when read as JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
    },
}

/// All that comes of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, unless it plainly succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What it handed back, or what was salvaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// What the runtime saw.
    #[serde(default)]
    pub facts: Facts,
    /// Tokens of its model calls.
    #[serde(default)]
    pub usage: Usage,
    /// What they have cost.
    #[serde(default, skip_serializing_if = "Bill::is_unknown")]
    pub cost: Bill,
    /// Tool calls made, `report` included.
    #[serde(default)]
    pub tool_calls: u32,
    /// Model calls made.
    #[serde(default)]
    pub turns: u32,
}

impl Task {
    /// Whether a valid `output` is asked for.
    pub fn wants_output(&self) -> bool {
        match self {
            Task::Prompt { output, .. } | Task::Command { output, .. } => output.is_some(),
        }
    }
}

impl AttemptEnd {
    /// An end with nothing but its outcome and cause.
    pub fn bare(outcome: Outcome, cause: Option<Cause>) -> Self {
        AttemptEnd {
            outcome,
            cause,
            report: None,
            facts: Facts::default(),
            usage: Usage::default(),
            cost: Bill::default(),
            tool_calls: 0,
            turns: 0,
        }
    }

    /// Whether it is enough for those that need the node: a good outcome, and the output if one was asked for.
    pub fn satisfies(&self, wants_output: bool) -> bool {
        let has_output = self.report.as_ref().is_some_and(|report| report.output.is_some());
        self.outcome.satisfies() && (has_output || !wants_output)
    }

    /// A failure with nothing but its cause.
    pub fn failed(kind: CauseKind, detail: impl Into<String>) -> Self {
        AttemptEnd::bare(Outcome::Failed, Some(Cause::new(kind, detail)))
    }
}

/// What the runtime itself saw an attempt do: facts, beside the report's claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Files read, by path, with the lines that were shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<FileRead>,
    /// Searches made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<Searched>,
    /// How much of its scope was read, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// Commands run, with how they ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandRun>,
}

/// A command that an attempt ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// The command line.
    pub command: String,
    /// `exit 0`, `signal 9`, `timed out`.
    pub ended: String,
}
