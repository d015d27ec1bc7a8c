//! The one loop that owns a running plan.
//!
//! It asks [`Ready`] what may start, gives each start an owned permit and a task of its own, and waits for what comes
//! first: a request to stop, the end of the grace, a task that ended. What it tells others are events; what it gets from
//! a task is one [`AttemptEnd`].
//!
//! THE LOOP IS NEVER LEFT EARLY. Whatever goes wrong is recorded, what has not started is skipped, and the loop goes on
//! until nothing runs, so that every node has its terminal event and no task outlives its run. The one exception is told
//! as such: a task that does not end though it was killed (it blocks its thread) is given up on after [`ABANDON`].

use super::results::Results;
use crate::agent::{Attempt, AttemptEnd, Task};
use crate::cancel::{Cancel, CancelReason, from_now};
use crate::error::panic_words;
use crate::event::EventKind;
use crate::plan::{Cause, CauseKind, Effects, Graph, Job, Next, Outcome, Plan, Ready, Shape, ShapeNode, Work};
use crate::ui::Bus;
use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::Value;
use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

/// How long a killed task may still take before it is given up on.
const ABANDON: Duration = Duration::from_secs(2);

/// What executes an attempt: a subagent, a command, or nothing at all in a benchmark.
pub type Execute = Arc<dyn Fn(Attempt, Cancel) -> BoxFuture<'static, AttemptEnd> + Send + Sync>;

/// What makes an attempt's task out of a node: its text, rendered, and the reports of the nodes it needs.
pub type Compose<'a> = Box<dyn Fn(usize, &str, String, &[(String, &AttemptEnd)]) -> Task + Send + Sync + 'a>;

/// A plan that is to run.
pub struct Scheduler<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its graph.
    pub graph: &'a Graph,
    /// Goes before the names of its nodes: empty, or `r2.`.
    pub prefix: &'a str,
    /// Values of its inputs.
    pub inputs: IndexMap<String, Value>,
    /// Nodes that may run at once; at least 1.
    pub jobs: usize,
    /// Time limit of a node that has none of its own.
    pub node_timeout: Duration,
    /// From stop to kill.
    pub grace: Duration,
    /// Makes tasks.
    pub compose: Compose<'a>,
    /// Executes attempts.
    pub execute: Execute,
    /// Where events go.
    pub bus: &'a Bus,
    /// How this plan is told to stop: a part of the run's.
    pub cancel: &'a Cancel,
}

/// How a plan ran.
pub struct Ran<'a> {
    /// What the nodes came to.
    pub results: Results<'a>,
    /// From first dispatch to last end.
    pub makespan: Duration,
    /// The time that all attempts took together.
    pub work: Duration,
}

/// How far the loop is in stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// New nodes may start.
    Open,
    /// What runs was asked to stop; it is killed at this time.
    Stopping { kill_at: Instant },
    /// What runs was killed; it is given up on at this time.
    Killed { give_up_at: Instant },
    /// Nothing is waited for any more.
    GivenUp,
}

impl Stage {
    /// Resolves when the time of this stage is over.
    async fn ends(self) {
        match self {
            Stage::Stopping { kill_at: time } | Stage::Killed { give_up_at: time } => {
                tokio::time::sleep_until(time).await
            }
            Stage::Open | Stage::GivenUp => std::future::pending().await,
        }
    }
}

struct Running {
    job: Job,
    started: Instant,
    wants_output: bool,
}

struct Loop<'a, 's> {
    setup: &'s Scheduler<'a>,
    ready: Ready,
    results: Results<'a>,
    tasks: JoinSet<AttemptEnd>,
    /// Whose task is whose: a panic does not say.
    running: HashMap<Id, Running>,
    slots: Arc<Semaphore>,
    first_start: Option<Instant>,
    last_end: Option<Instant>,
    work: Duration,
}

impl<'a> Scheduler<'a> {
    /// Runs the plan until nothing runs any more.
    pub async fn run(&self) -> Ran<'a> {
        let mut state = Loop {
            setup: self,
            ready: Ready::new(shape(self.plan, self.graph)),
            results: Results::new(self.plan, self.graph, self.prefix, self.inputs.clone()),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            slots: Arc::new(Semaphore::new(self.jobs.max(1))),
            first_start: None,
            last_end: None,
            work: Duration::ZERO,
        };
        state.run().await;
        let makespan = match (state.first_start, state.last_end) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        };
        Ran { results: state.results, makespan, work: state.work }
    }
}

impl Loop<'_, '_> {
    async fn run(&mut self) {
        let setup = self.setup;
        let mut stage = Stage::Open;
        // Pinned outside the loop: made anew, each round would register with both tokens again.
        let (stopped, killed) = (setup.cancel.stop_token().cancelled(), setup.cancel.kill_token().cancelled());
        tokio::pin!(stopped, killed);
        loop {
            if stage == Stage::Open {
                self.start_what_may();
            }
            if self.running.is_empty() && self.ready.is_done() {
                return;
            }
            tokio::select! {
                biased;
                () = &mut stopped, if stage == Stage::Open => {
                    tracing::debug!(running = self.running.len(), "stop");
                    stage = Stage::Stopping { kill_at: from_now(setup.grace) };
                    let reason = setup.cancel.reason().unwrap_or(CancelReason::Interrupt);
                    let effects = self.ready.halt(&Cause::new(reason.cause_kind(), reason.detail()));
                    self.tell(effects);
                }
                // Whoever killed: the end of the grace here or for the whole run, or a second press.
                () = &mut killed, if matches!(stage, Stage::Stopping { .. }) => {
                    stage = Stage::Killed { give_up_at: Instant::now() + ABANDON };
                }
                () = stage.ends() => {
                    if let Stage::Killed { .. } = stage {
                        self.abandon();
                        stage = Stage::GivenUp;
                    } else {
                        setup.cancel.kill();
                    }
                }
                Some(joined) = self.tasks.join_next_with_id() => {
                    self.joined(joined);
                    while let Some(joined) = self.tasks.try_join_next_with_id() {
                        self.joined(joined);
                    }
                }
            }
        }
    }

    /// Starts everything that may start and has a slot.
    fn start_what_may(&mut self) {
        // Nothing starts after a stop, also when the loop has not seen it yet.
        while self.ready.has_next() && !self.setup.cancel.is_stopped() {
            let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() else { return };
            match self.ready.next() {
                None => return,
                Some(Next::Expand(node)) => self.expand(node),
                Some(Next::Start(job)) => self.start(job, permit),
            }
        }
    }

    fn expand(&mut self, node: u32) {
        let spec = &self.setup.plan.nodes[node as usize];
        let Some(foreach) = &spec.foreach else { return };
        let job = Job { node, instance: None };
        let items = match self.results.items(job, foreach) {
            Ok(items) => items,
            Err(error) => return self.fail(job, &format!("its `foreach` has no items: {error}")),
        };
        let items: Vec<Value> = match spec.batch {
            None => items,
            Some(size) => items.chunks(size.max(1)).map(|chunk| Value::Array(chunk.to_vec())).collect(),
        };
        let count = items.len();
        self.setup.bus.emit(EventKind::NodeExpanded { node: self.results.name(job), count });
        self.results.expand(node, items);
        let effects = self.ready.expand(node, count as u32);
        self.tell(effects);
    }

    fn start(&mut self, job: Job, permit: OwnedSemaphorePermit) {
        let setup = self.setup;
        let spec = &setup.plan.nodes[job.node as usize];
        let text = match self.results.render(job, &spec.work) {
            Ok(text) => text,
            Err(error) => {
                let what = match spec.work {
                    Work::Prompt(_) => "prompt",
                    Work::Command(_) => "command",
                };
                return self.fail(job, &format!("its {what} cannot be rendered: {error}"));
            }
        };
        let name = self.results.name(job);
        let needs = self.results.needs(job.node);
        let composed = catch_unwind(AssertUnwindSafe(|| (setup.compose)(job.node as usize, &name, text, &needs)));
        let task = match composed {
            Ok(task) => task,
            Err(panic) => {
                drop(needs);
                return self.end(job, 0, panicked(panic.as_ref()), None, false);
            }
        };
        let attempt = Attempt {
            task,
            node: name,
            attempt: 1,
            timeout: spec.timeout.unwrap_or(setup.node_timeout),
            needs: needs.into_iter().map(|(name, _)| name).collect(),
        };
        setup.bus.emit(EventKind::NodeStarted { attempt: attempt.clone() });
        tracing::debug!(node = %attempt.node, "start");
        let started = Instant::now();
        self.first_start.get_or_insert(started);
        let running = Running { job, started, wants_output: attempt.task.wants_output() };
        let (execute, cancel) = (Arc::clone(&setup.execute), setup.cancel.clone());
        let task = self.tasks.spawn(async move {
            // The slot is free when the task is gone, not before.
            let _slot = permit;
            execute(attempt, cancel).await
        });
        self.running.insert(task.id(), running);
    }

    /// Ends a job that could not start.
    fn fail(&mut self, job: Job, detail: &str) {
        self.end(job, 0, AttemptEnd::failed(CauseKind::Template, detail), None, false);
    }

    fn joined(&mut self, joined: Result<(Id, AttemptEnd), JoinError>) {
        let (id, end) = match joined {
            Ok((id, end)) => (id, end),
            Err(error) => {
                let id = error.id();
                let end = match error.try_into_panic() {
                    Ok(panic) => panicked(panic.as_ref()),
                    Err(_) => AttemptEnd::failed(CauseKind::Panic, "its task was aborted"),
                };
                (id, end)
            }
        };
        if let Some(running) = self.running.remove(&id) {
            let now = Instant::now();
            self.work += now - running.started;
            self.end(running.job, 1, end, Some((running.started, now)), running.wants_output);
        }
    }

    fn end(&mut self, job: Job, attempt: u32, end: AttemptEnd, span: Option<(Instant, Instant)>, wants_output: bool) {
        let duration = span.map_or(Duration::ZERO, |(from, to)| to - from);
        tracing::debug!(node = %self.results.name(job), outcome = %end.outcome, ?duration, "end");
        self.last_end = span.map(|(_, to)| to).or(self.last_end);
        self.setup.bus.emit(EventKind::NodeFinished {
            node: self.results.name(job),
            attempt,
            end: end.clone(),
            duration_ms: duration.as_millis() as u64,
        });
        let effects = self.ready.finish(job, end.outcome, end.satisfies(wants_output));
        self.results.finish(job, end, span);
        self.tell(effects);
    }

    /// Tells what ended because of something else.
    fn tell(&mut self, effects: Effects) {
        for ended in effects.ended {
            let end = AttemptEnd::bare(ended.outcome, ended.cause);
            self.setup.bus.emit(EventKind::NodeFinished {
                node: self.results.name(ended.job),
                attempt: 0,
                end: end.clone(),
                duration_ms: self.results.duration_us(ended.job.node as usize) / 1_000,
            });
            self.results.finish(ended.job, end, None);
        }
        if effects.stop.is_some() {
            let reason = CancelReason::SiblingFailed;
            self.setup.cancel.request(reason);
            self.setup.bus.emit(EventKind::CancelRequested { reason: reason.as_str().to_string() });
        }
    }

    /// Gives up on tasks that were killed and did not end.
    fn abandon(&mut self) {
        self.tasks.detach_all();
        self.tasks = JoinSet::new();
        let left: Vec<Running> = self.running.drain().map(|(_, running)| running).collect();
        for running in left {
            let detail = "it did not stop when it was killed, and was given up on";
            let end = AttemptEnd::bare(Outcome::Cancelled, Some(Cause::new(CauseKind::Interrupted, detail)));
            self.end(running.job, 1, end, Some((running.started, Instant::now())), running.wants_output);
        }
    }
}

/// A plan as the ready set sees it. The longest path to a sink is counted in nodes: no durations are known before.
fn shape(plan: &Plan, graph: &Graph) -> Shape {
    let hops = graph.hops_to_sink();
    let node = |at: usize| ShapeNode {
        id: plan.nodes[at].id.clone(),
        dependents: graph.dependents(at).map(|dependent| dependent as u32).collect(),
        needs: graph.dependencies(at).count() as u32,
        priority: u64::from(hops[at]),
        foreach: plan.nodes[at].foreach.is_some(),
        on_failure: plan.nodes[at].on_failure,
    };
    Shape { nodes: (0..plan.nodes.len()).map(node).collect() }
}

fn panicked(panic: &(dyn Any + Send)) -> AttemptEnd {
    let words = panic_words(panic);
    AttemptEnd::failed(CauseKind::Panic, format!("it panicked (a bug in sortie or in a tool): {words}"))
}
