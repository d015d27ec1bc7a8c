//! What the events of a run add up to: the one fold behind table, progress, JSON result, `runs` and `show`.
//!
//! Pure: events in, state out. It takes any subset of a log in order, so a cut log gives what is known.

use crate::agent::Task;
use crate::event::{Event, EventKind, Timestamp};
use crate::model::{Bill, Usage};
use crate::plan::{Cause, MAX_FOREACH, Outcome};
use indexmap::IndexMap;
use serde_json::Value;

/// A run as its events tell it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The run's id; empty before its first event.
    pub run: String,
    /// What the user asked.
    pub task: Option<String>,
    /// A few words on the task, where the small model made some.
    pub title: Option<String>,
    /// The run's model.
    pub model: String,
    /// Nodes that may run at once.
    pub jobs: usize,
    /// Names of the accepted plans, in order.
    pub plans: Vec<String>,
    /// Time of the first event.
    pub started: Option<Timestamp>,
    /// Time of the latest event.
    pub latest: Option<Timestamp>,
    /// How the run ended: status and exit code; `None` while it runs or when it was killed.
    pub ended: Option<(String, u8)>,
    /// What went wrong with the run as a whole, if anything.
    pub problem: Option<String>,
    /// The coordinator's answer.
    pub answer: Option<String>,
    /// The latest merge.
    pub merge: Option<MergeSummary>,
    /// Sentences that users should know.
    pub notices: Vec<String>,
    /// Why the run was told to stop, if it was.
    pub cancelled: Option<String>,
    /// All model calls, the coordinator's included.
    pub usage: Usage,
    /// What they have cost, as far as prices are known.
    pub cost: Bill,
    /// By id, in plan order, plans of later rounds last.
    groups: IndexMap<String, Group>,
}

/// A node of a plan, with its instances when it is a `foreach`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The node itself.
    pub node: NodeSummary,
    /// By index.
    pub instances: Vec<NodeSummary>,
}

/// What came of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSummary {
    /// Full name.
    pub id: String,
    /// Role, or `command`; empty before it starts when the plan does not say.
    pub role: String,
    /// When its latest attempt started.
    pub started: Option<Timestamp>,
    /// How it ended; `None` before that.
    pub outcome: Option<Outcome>,
    /// Why.
    pub cause: Option<Cause>,
    /// Attempts made.
    pub attempts: u32,
    /// The report's summary.
    pub summary: Option<String>,
    /// The report's structured result.
    pub output: Option<Value>,
    /// Its model calls.
    pub usage: Usage,
    /// What they have cost, as far as prices are known.
    pub cost: Bill,
    /// From start to end, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Tool calls made.
    pub tool_calls: u32,
    /// Model calls made.
    pub turns: u32,
}

/// How the nodes of a plan ran together.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeSummary {
    /// The merged message.
    pub text: String,
    /// From first dispatch to last terminal event, in milliseconds.
    pub makespan_ms: u64,
    /// The longest chain by measured durations, with its length in milliseconds.
    pub critical_path: Vec<(String, u64)>,
    /// Lower bound over makespan, 0 to 1.
    pub efficiency: f64,
}

/// Nodes by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not started.
    pub waiting: usize,
    /// Started, not ended.
    pub running: usize,
    /// Ended in `succeeded` or `partial`.
    pub done: usize,
    /// Ended in another way, skipped ones aside.
    pub failed: usize,
    /// Never started.
    pub skipped: usize,
}

impl NodeSummary {
    fn named(id: impl Into<String>) -> Self {
        NodeSummary { id: id.into(), ..NodeSummary::default() }
    }
}

impl Group {
    /// Tokens of all that belongs to it.
    pub fn usage(&self) -> Usage {
        if self.instances.is_empty() {
            return self.node.usage;
        }
        let mut sum = Usage::default();
        self.instances.iter().for_each(|instance| sum += instance.usage);
        sum
    }

    /// What all that belongs to it has cost.
    pub fn cost(&self) -> Bill {
        if self.instances.is_empty() {
            return self.node.cost;
        }
        let mut sum = Bill::default();
        self.instances.iter().for_each(|instance| sum += instance.cost);
        sum
    }

    /// Tool calls of all that belongs to it.
    pub fn tool_calls(&self) -> u32 {
        if self.instances.is_empty() {
            return self.node.tool_calls;
        }
        self.instances.iter().map(|instance| instance.tool_calls).sum()
    }
}

impl Summary {
    /// The summary of these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut summary = Summary::default();
        events.into_iter().for_each(|event| summary.fold(event));
        summary
    }

    /// Nodes in plan order, each `foreach` with its instances, plans of later rounds last.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// All nodes in plan order, instances after their `foreach` node.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeSummary> {
        self.groups.values().flat_map(|group| std::iter::once(&group.node).chain(&group.instances))
    }

    /// The node of this full name.
    pub fn node(&self, name: &str) -> Option<&NodeSummary> {
        match self.groups.get(name) {
            Some(group) => Some(&group.node),
            None => split_instance(name).and_then(|(id, index)| self.groups.get(id)?.instances.get(index)),
        }
    }

    /// Nodes by state; a `foreach` node with instances counts as these.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for group in self.groups.values() {
            let nodes = if group.instances.is_empty() { std::slice::from_ref(&group.node) } else { &group.instances };
            for node in nodes {
                *counts.of(node) += 1;
            }
        }
        counts
    }

    /// From the first event to the latest, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        match (self.started, self.latest) {
            (Some(started), Some(latest)) => latest.since(started).as_millis() as u64,
            _ => 0,
        }
    }

    /// What the run hands over: the answer, or the merged message of a run without one.
    pub fn result_text(&self) -> Option<&str> {
        self.answer.as_deref().or_else(|| self.merge.as_ref().map(|merge| merge.text.as_str()))
    }

    /// Takes the next event. Live ones change nothing.
    pub fn fold(&mut self, event: &Event) {
        if event.kind.is_durable() {
            self.started.get_or_insert(event.at);
            self.latest = Some(event.at);
        }
        match &event.kind {
            EventKind::RunStarted { run, task, model, jobs } => {
                self.run.clone_from(run);
                self.task.clone_from(task);
                self.model.clone_from(model);
                self.jobs = *jobs;
            }
            EventKind::Notice { message } => self.notices.push(message.clone()),
            EventKind::PlanAccepted { round, plan, critical_path: _ } => self.plan(*round, plan),
            EventKind::NodeExpanded { node, count } => self.expand(node, *count),
            EventKind::NodeStarted { attempt } => {
                let node = self.entry(&attempt.node);
                node.started = Some(event.at);
                node.attempts = attempt.attempt;
                node.role = match &attempt.task {
                    Task::Prompt { role, .. } => role.clone(),
                    Task::Command { .. } => "command".to_string(),
                };
            }
            EventKind::NodeFinished { node, attempt, end, duration_ms } => {
                let node = self.entry(node);
                node.outcome = Some(end.outcome);
                node.cause.clone_from(&end.cause);
                node.attempts = *attempt;
                node.summary = end.report.as_ref().map(|report| report.summary.clone());
                node.output = end.report.as_ref().and_then(|report| report.output.clone());
                node.usage = end.usage;
                node.cost = end.cost;
                node.duration_ms = Some(*duration_ms);
                node.tool_calls = end.tool_calls;
                node.turns = end.turns;
            }
            EventKind::TurnFinished { node, turn, stop: _, usage, cost } => {
                // The log leaves out what nothing is known of.
                let cost = if cost.is_unknown() { Bill::of(None) } else { *cost };
                self.usage += *usage;
                self.cost += cost;
                if let Some(node) = self.known(node) {
                    node.turns = *turn;
                    node.usage += *usage;
                    node.cost += cost;
                }
            }
            EventKind::ToolStarted { node, .. } => {
                if let Some(node) = self.known(node) {
                    node.tool_calls += 1;
                }
            }
            EventKind::CancelRequested { reason } => self.cancelled = Some(reason.clone()),
            EventKind::Merged { round: _, text, makespan_ms, critical_path, efficiency } => {
                self.merge = Some(MergeSummary {
                    text: text.clone(),
                    makespan_ms: *makespan_ms,
                    critical_path: critical_path.clone(),
                    efficiency: *efficiency,
                });
            }
            EventKind::Titled { title } => self.title = Some(title.clone()),
            EventKind::Answered { text } => self.answer = Some(text.clone()),
            EventKind::RunFinished { status, exit_code, problem, usage, cost } => {
                self.notices.extend(problem.clone());
                self.problem.clone_from(problem);
                self.ended = Some((status.clone(), *exit_code));
                self.usage = *usage;
                self.cost = *cost;
            }
            EventKind::PlanRejected { .. }
            | EventKind::ModelWaiting { .. }
            | EventKind::ModelSwitched { .. }
            | EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalAnswered { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::Words { .. }
            | EventKind::Doing { .. } => {}
        }
    }

    fn plan(&mut self, round: u32, plan: &Value) {
        self.plans.extend(plan.get("name").and_then(Value::as_str).map(str::to_string));
        let prefix = if round > 1 { format!("r{round}.") } else { String::new() };
        for node in plan.get("node").and_then(Value::as_array).into_iter().flatten() {
            let Some(id) = node.get("id").and_then(Value::as_str) else { continue };
            let name = if id.starts_with(&prefix) { id.to_string() } else { format!("{prefix}{id}") };
            let entry = self.entry(&name);
            entry.role = match node.get("role").and_then(Value::as_str) {
                _ if node.get("command").is_some() => "command".to_string(),
                role => role.unwrap_or_default().to_string(),
            };
        }
    }

    fn expand(&mut self, node: &str, count: usize) {
        let instances = &mut self.group(node).instances;
        // A damaged log may say anything; a plan may not have more.
        for index in instances.len()..count.min(MAX_FOREACH) {
            instances.push(NodeSummary::named(format!("{node}[{index}]")));
        }
    }

    fn group(&mut self, id: &str) -> &mut Group {
        let new = || Group { node: NodeSummary::named(id), instances: Vec::new() };
        self.groups.entry(id.to_string()).or_insert_with(new)
    }

    /// The node if it is part of a plan; the coordinator is not.
    fn known(&mut self, name: &str) -> Option<&mut NodeSummary> {
        let (id, index) = match split_instance(name) {
            Some((id, index)) if !self.groups.contains_key(name) => (id, Some(index)),
            _ => (name, None),
        };
        let group = self.groups.get_mut(id)?;
        match index {
            Some(index) => group.instances.get_mut(index),
            None => Some(&mut group.node),
        }
    }

    /// The node, also when the event that should have announced it is missing.
    fn entry(&mut self, name: &str) -> &mut NodeSummary {
        match split_instance(name) {
            Some((id, index)) if index < MAX_FOREACH => {
                self.expand(id, index + 1);
                &mut self.group(id).instances[index]
            }
            _ => &mut self.group(name).node,
        }
    }
}

impl Counts {
    /// All of them.
    pub fn all(&self) -> usize {
        self.waiting + self.running + self.done + self.failed + self.skipped
    }

    fn of(&mut self, node: &NodeSummary) -> &mut usize {
        match node.outcome {
            None if node.started.is_some() => &mut self.running,
            None => &mut self.waiting,
            Some(Outcome::Succeeded | Outcome::Partial) => &mut self.done,
            Some(Outcome::Skipped) => &mut self.skipped,
            Some(Outcome::Failed | Outcome::Cancelled | Outcome::TimedOut | Outcome::OverBudget) => &mut self.failed,
        }
    }
}

/// `part[2]` is instance 2 of `part`.
fn split_instance(name: &str) -> Option<(&str, usize)> {
    let (id, index) = name.strip_suffix(']')?.rsplit_once('[')?;
    Some((id, index.parse().ok()?))
}
