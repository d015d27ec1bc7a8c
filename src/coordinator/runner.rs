//! Runs one plan of a run after the other: asks for approval, schedules, merges, tells.

use super::merge;
use super::scheduler::{Compose, Execute, Ran, Scheduler};
use crate::agent::Task;
use crate::agent::prompt::Briefing;
use crate::agent::subagent::Kit;
use crate::cancel::Cancel;
use crate::config::RunConfig;
use crate::event::EventKind;
use crate::permission::{Answer, Approver, Question};
use crate::plan;
use crate::plan::{Graph, Job, Known, Outcome, Plan, Work};
use crate::text;
use crate::ui::Bus;
use indexmap::IndexMap;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Share of the parent's context window that a merged message may take.
const MERGE_SHARE: f64 = 0.25;
/// Share of a subagent's window that the reports of its dependencies may take together.
const REPORTS_SHARE: f64 = 0.25;
/// Bytes per token, as everywhere where nothing was counted.
const BYTES_PER_TOKEN: f64 = 4.0;

/// Runs plans for one run.
pub(super) struct PlanRunner {
    pub(super) config: RunConfig,
    pub(super) kit: Arc<Kit>,
    pub(super) approver: Arc<dyn Approver>,
    pub(super) cancel: Cancel,
    rounds: AtomicU32,
    /// Approvals asked for so far.
    asked: AtomicU32,
    /// The latest plan's end. A lock, since the tool that runs plans and the run's end both see it.
    latest: Mutex<Latest>,
}

/// How the latest plan ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    /// Its sinks.
    pub(super) sinks: Vec<Sink>,
    /// The merged message; `None` before any plan ended.
    pub(super) merged: Option<String>,
}

/// How a sink of the latest plan ended.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

/// The user said no.
pub(super) struct Refused {
    comment: String,
}

impl Refused {
    /// What was said with it.
    pub(super) fn comment(&self) -> &str {
        if self.comment.trim().is_empty() { "no reason was given" } else { &self.comment }
    }
}

impl PlanRunner {
    pub(super) fn new(config: RunConfig, kit: Arc<Kit>, approver: Arc<dyn Approver>, cancel: Cancel) -> Self {
        let (rounds, asked) = (AtomicU32::new(0), AtomicU32::new(0));
        PlanRunner { config, kit, approver, cancel, rounds, asked, latest: Mutex::default() }
    }

    pub(super) fn bus(&self) -> &Bus {
        &self.kit.bus
    }

    /// Plans that have been accepted.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::SeqCst)
    }

    /// How the latest plan ended.
    pub(super) fn latest(&self) -> Latest {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What plans may name.
    pub(super) fn known(&self, commands_allowed: bool) -> Known {
        Known {
            roles: self.kit.roles.iter().map(|role| role.name.clone()).collect(),
            tools: self.kit.registry.names().map(str::to_string).collect(),
            commands_allowed,
        }
    }

    /// Runs a valid plan to its end and merges what came of it.
    ///
    /// # Errors
    /// When the plan had to be approved and was not; nothing of it has started then.
    pub(super) async fn run(&self, plan: Plan, inputs: IndexMap<String, Value>) -> Result<String, Refused> {
        let graph = Graph::new(&plan);
        self.approve(&plan).await?;
        let round = self.rounds.fetch_add(1, Ordering::SeqCst) + 1;
        let prefix = if round == 1 { String::new() } else { format!("r{round}.") };
        self.bus().emit(EventKind::PlanAccepted {
            round,
            plan: serde_json::to_value(&plan).unwrap_or_default(),
            critical_path: graph.critical_path().into_iter().map(|node| plan.nodes[node].id.clone()).collect(),
        });
        let plan = Arc::new(plan);
        let graph = Arc::new(graph);
        let cancel = self.cancel.child();
        let scheduler = Scheduler {
            plan: &plan,
            graph: &graph,
            prefix: &prefix,
            inputs,
            jobs: self.config.jobs,
            node_timeout: self.config.node_timeout,
            grace: self.config.grace,
            compose: self.compose(&plan),
            execute: self.execute(&plan, &graph, &prefix),
            bus: self.bus(),
            cancel: &cancel,
        };
        let ran = scheduler.run().await;
        let room = self.kit.models.default_model().context_window() as f64 * BYTES_PER_TOKEN * MERGE_SHARE;
        let text = merge::merge(&plan, &graph, &ran.results, room as usize);
        // Whoever reads the message may read what it points to.
        self.kit.store.flush().await;
        self.tell(&plan, &graph, &ran, round, &text);
        Ok(text)
    }

    async fn approve(&self, plan: &Plan) -> Result<(), Refused> {
        if !self.config.approve_plan {
            return Ok(());
        }
        let id = format!("plan-{}", self.asked.fetch_add(1, Ordering::SeqCst) + 1);
        let nodes = text::plural(plan.nodes.len(), "node");
        let question = Question {
            id: id.clone(),
            title: format!("Run the plan `{}` ({nodes})?", plan.name),
            detail: plan::tree(plan),
        };
        self.bus().emit(EventKind::ApprovalAsked { id: id.clone(), question: question.title.clone() });
        let answer = tokio::select! {
            biased;
            () = self.cancel.stop_token().cancelled() => {
                let why = self.cancel.reason().map_or("stopped", |reason| reason.detail());
                Answer::No { comment: why.to_string() }
            }
            answer = self.approver.decide(&question) => answer,
        };
        let (approved, comment) = match answer {
            Answer::Yes => (true, String::new()),
            Answer::No { comment } => (false, comment),
        };
        self.bus().emit(EventKind::ApprovalAnswered { id, approved, comment: comment.clone() });
        if approved { Ok(()) } else { Err(Refused { comment }) }
    }

    /// Makes a node's task: what the subagent is told, and with what it works.
    fn compose<'a>(&'a self, plan: &'a Plan) -> Compose<'a> {
        Box::new(move |node, name, text, needs| {
            let node = &plan.nodes[node];
            let output = node.output.clone();
            if let Work::Command(_) = node.work {
                return Task::Command { command: text, output };
            }
            let role = self.kit.role(&node.role);
            let models = &self.kit.models;
            let model = models.resolve(node.model.as_deref(), role.and_then(|role| role.model.as_deref()));
            let window = models.get(model).unwrap_or(models.default_model()).context_window();
            let allowed = role.map(|role| role.tools.clone()).unwrap_or_default();
            let tools = match &node.tools {
                Some(narrower) => allowed.into_iter().filter(|tool| narrower.contains(tool)).collect(),
                None => allowed,
            };
            let briefing = Briefing {
                request: self.config.task.as_deref(),
                node: name,
                plan: &plan.name,
                task: &text,
                reports: needs.iter().map(|(name, end)| (name.as_str(), *end)).collect(),
                wants_output: output.is_some(),
                room: (window as f64 * BYTES_PER_TOKEN * REPORTS_SHARE) as usize,
                compact: role.is_some_and(|role| role.compact),
            };
            Task::Prompt {
                prompt: briefing.text(),
                role: node.role.clone(),
                tools,
                model: model.to_string(),
                turns: node.turns.or_else(|| role?.turns).unwrap_or(self.config.turns),
                output,
            }
        })
    }

    /// Executes attempts with the kit; which artifacts one may read is worked out when it starts.
    fn execute(&self, plan: &Arc<Plan>, graph: &Arc<Graph>, prefix: &str) -> Execute {
        let (kit, plan, graph) = (Arc::clone(&self.kit), Arc::clone(plan), Arc::clone(graph));
        let prefix: Arc<str> = prefix.into();
        let places: HashMap<String, usize> =
            plan.nodes.iter().enumerate().map(|(place, node)| (node.id.clone(), place)).collect();
        let places = Arc::new(places);
        Arc::new(move |attempt, cancel| {
            let (kit, plan, graph) = (Arc::clone(&kit), Arc::clone(&plan), Arc::clone(&graph));
            let (prefix, places) = (Arc::clone(&prefix), Arc::clone(&places));
            Box::pin(async move {
                let ancestors = match &attempt.task {
                    Task::Prompt { .. } => {
                        let node = places.get(id_of(&attempt.node, &prefix)).copied();
                        node.map(|node| ancestors(node, &attempt.needs, &plan, &graph, &prefix)).unwrap_or_default()
                    }
                    Task::Command { .. } => Vec::new(),
                };
                kit.execute(attempt, ancestors, cancel).await
            })
        })
    }

    fn tell(&self, plan: &Plan, graph: &Graph, ran: &Ran<'_>, round: u32, text: &str) {
        let durations: Vec<u64> = (0..plan.nodes.len()).map(|node| ran.results.duration_us(node)).collect();
        let (path, length) = graph.longest_path(&durations);
        let makespan = ran.makespan.as_micros() as f64;
        let bound = (length as f64).max(ran.work.as_micros() as f64 / self.config.jobs as f64);
        let efficiency = if makespan > 0.0 { (bound / makespan).min(1.0) } else { 1.0 };
        // Nodes that never started took no time and tell nothing.
        let path = path
            .into_iter()
            .filter(|node| durations[*node] > 0)
            .map(|node| (plan.nodes[node].id.clone(), durations[node] / 1_000));
        self.bus().emit(EventKind::Merged {
            round,
            text: text.to_string(),
            makespan_ms: ran.makespan.as_millis() as u64,
            critical_path: path.collect(),
            efficiency,
        });
        let sinks = (0..plan.nodes.len())
            .filter(|node| graph.dependents(*node).next().is_none())
            .filter_map(|node| {
                let outcome = ran.results.end(node)?.outcome;
                Some(Sink { name: ran.results.name(Job { node: node as u32, instance: None }), outcome })
            })
            .collect();
        let latest = Latest { sinks, merged: Some(text.to_string()) };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
    }
}

/// The id of the node of this full name.
fn id_of<'n>(name: &'n str, prefix: &str) -> &'n str {
    let id = name.strip_prefix(prefix).unwrap_or(name);
    id.split_once('[').map_or(id, |(id, _)| id)
}

/// Full names of all nodes before this one. What it needs goes first, instances by name; a node further back stands for
/// its instances.
fn ancestors(node: usize, needs: &[String], plan: &Plan, graph: &Graph, prefix: &str) -> Vec<String> {
    let needed: HashSet<&str> = needs.iter().map(String::as_str).collect();
    let all = graph.ancestors(node).into_iter().map(|node| format!("{prefix}{}", plan.nodes[node].id));
    let further = all.filter(|name| !needed.contains(name.as_str()));
    needs.iter().cloned().chain(further).collect()
}
