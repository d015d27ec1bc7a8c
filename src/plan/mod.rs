//! WHAT is to be done: plans, their graph, what may start next.
//!
//! Pure: nothing in this folder knows the runtime, the file system, the clock or the environment
//! (`tests/it/purity.rs` reads the source and fails when that changes). Text comes in, values go out;
//! whoever calls reads files and prints.
//!
//! `source` reads TOML or JSON into one tree of placed values; `parse` turns that into a [`Plan`] or into *all* of its
//! [`Problems`], with `lint` for what only the whole plan shows. `graph` builds the DAG; `ready` is the state of a
//! running plan: what may start, what an outcome unlocks or skips; `template` renders prompts and `foreach`
//! expressions, `names` finds what they speak of; `show` draws a plan as tree, Mermaid, DOT or JSON.

mod command;
pub(crate) mod diag;
pub(crate) mod fields;
mod graph;
mod inputs;
mod lint;
mod lint_names;
mod names;
mod outcome;
mod parse;
mod parse_node;
mod ready;
mod show;
pub(crate) mod source;
pub(crate) mod suggest;
mod template;

pub use diag::{Place, Problem, Problems, Severity};
pub use graph::Graph;
pub use names::{Reference, References, expression_references, references};
pub use outcome::{Cause, CauseKind, Outcome};
pub use parse::{Checked, Known, check, parse, parse_value};
pub use ready::{Effects, Ended, Job, Next, Ready, Shape, ShapeNode};
pub use show::{dot, json, mermaid, path_text, tree};
pub use source::Format;
pub use suggest::nearest;
pub use template::{NodeResult, NodeView, TemplateError, Values, items, render, render_command};

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// The version of the plan format that this crate reads and writes.
pub const PLAN_VERSION: i64 = 1;
/// Items that a `foreach` may have at most.
pub const MAX_FOREACH: usize = 1_000;
/// The role of a node that names none.
pub const DEFAULT_ROLE: &str = "explorer";

/// A validated plan. Values of `[defaults]` have been written into the nodes.
///
/// Serialises to the JSON spelling of the same schema, so what `plan show --format json` prints can be run again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Always [`PLAN_VERSION`].
    pub version: i64,
    /// A short name: letters, digits, `-`, `_`, `.`, space.
    pub name: String,
    /// One sentence for people; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the caller fills in, by name, in declaration order.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<String, Input>,
    /// The nodes in declaration order; ids are unique, `needs` name other nodes, there is no cycle.
    #[serde(rename = "node")]
    pub nodes: Vec<Node>,
}

/// A value that the caller of a plan gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Input {
    /// What to put here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Used when the caller gives none; without a default the input is required. A string, number, boolean or
    /// list of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// One unit of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// `[a-z][a-z0-9_-]*`, unique in the plan.
    pub id: String,
    /// What kind of node it is, with its text.
    #[serde(flatten)]
    pub work: Work,
    /// Ids of the nodes whose outcomes it waits for, without repeats.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The profile of the subagent.
    pub role: String,
    /// The model, when it differs from the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A narrower toolset than the role's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "duration_text")]
    pub timeout: Option<Duration>,
    /// Model calls that one attempt may make; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// JSON Schema of the report's `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Run once per item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreach: Option<Foreach>,
    /// Items per instance of a `foreach` node; `item` is then a list. At least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// What its failure does to the rest.
    #[serde(skip_serializing_if = "OnFailure::is_default")]
    pub on_failure: OnFailure,
}

impl Node {
    /// A node that needs nothing, with defaults for all else.
    pub fn new(id: impl Into<String>, work: Work) -> Self {
        Node {
            id: id.into(),
            work,
            needs: Vec::new(),
            role: DEFAULT_ROLE.to_owned(),
            model: None,
            tools: None,
            timeout: None,
            turns: None,
            output: None,
            foreach: None,
            batch: None,
            on_failure: OnFailure::default(),
        }
    }
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A subagent follows this prompt (a template).
    Prompt(String),
    /// A shell runs this command line (a template); no model is called.
    Command(String),
}

impl Work {
    /// The template text, whatever the kind.
    pub fn text(&self) -> &str {
        match self {
            Work::Prompt(text) | Work::Command(text) => text,
        }
    }
}

/// Where the items of a `foreach` node come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Foreach {
    /// Written in the plan.
    Items(Vec<Value>),
    /// An expression over inputs and upstream reports: `nodes.map.output.parts`.
    Expression(String),
}

/// What a failed node does to the rest of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Whatever needs it is skipped; the rest goes on.
    #[default]
    SkipDependents,
    /// Nothing new starts, what runs is cancelled.
    Stop,
}

impl OnFailure {
    fn is_default(&self) -> bool {
        *self == OnFailure::SkipDependents
    }
}

impl Plan {
    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }
}

// serde's `serialize_with` hands a reference to the field.
#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn duration_text<S: serde::Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serializer.collect_str(&humantime::format_duration(*duration)),
        None => serializer.serialize_none(),
    }
}
