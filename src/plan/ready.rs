//! The state of a running plan: what may start next, and what an outcome unlocks or skips.
//!
//! Pure and single-threaded; the scheduler drives it: [`Ready::next`] gives the best job that may start,
//! [`Ready::expand`] tells how many instances a `foreach` node has, [`Ready::finish`] takes an outcome and answers
//! with everything that ended because of it. Edges fire on data, never at a level barrier.
//!
//! Rules, in one place:
//! - a node may start when all that it needs have ended well enough (the caller says so with the outcome: a `Partial`
//!   that lacks the output its schema demands is not);
//! - the first need that ends otherwise skips the node, and that skips what needs it (a fixpoint over edges); the cause
//!   names the node where it began;
//! - among those that may start, the longest path to a sink goes first, then declaration order, then the instance;
//! - a `foreach` node ends when all its instances have: `Succeeded` if all did, `Partial` if at least one handed
//!   something back, else like its instances (the first that failed);
//! - `on_failure = "stop"`: nothing new starts, the rest is skipped; the caller cancels what runs. An instance that
//!   fails stops the run as its node would.
//!
//! Every operation costs what it changes (plus a logarithm for the queue), so a plan of 100,000 nodes is no special case.

use super::{Cause, CauseKind, OnFailure, Outcome};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The shape of a plan as far as starting and ending go.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// By node, in declaration order.
    pub nodes: Vec<ShapeNode>,
}

/// One node of a [`Shape`].
#[derive(Clone, Debug, Default)]
pub struct ShapeNode {
    /// Its id, for the causes of skipped nodes.
    pub id: String,
    /// Indexes of the nodes that need it.
    pub dependents: Vec<u32>,
    /// How many nodes it needs.
    pub needs: u32,
    /// Longest path to a sink, itself included: the larger, the sooner.
    pub priority: u64,
    /// Whether it runs once per item.
    pub foreach: bool,
    /// What its failure does.
    pub on_failure: OnFailure,
}

/// Something that can be started: a node, or one instance of a `foreach` node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Job {
    /// Index of the node.
    pub node: u32,
    /// Which instance, for a `foreach` node that was expanded.
    pub instance: Option<u32>,
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Start this; it counts as running from now on.
    Start(Job),
    /// All that this `foreach` node needs is there: find its items and call [`Ready::expand`], or
    /// [`Ready::finish`] if they cannot be found.
    Expand(u32),
}

/// A node that ended without a job of its own ending: skipped, or a `foreach` node whose last instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which; an instance only when it was skipped before it started.
    pub job: Job,
    /// How.
    pub outcome: Outcome,
    /// Why.
    pub cause: Option<Cause>,
}

/// All that an outcome brought about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// What ended with it, in the order in which it did.
    pub ended: Vec<Ended>,
    /// Set when the outcome stops the run: the node's id.
    pub stop: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Waits for this many nodes.
    Waiting(u32),
    /// In the queue.
    Queued,
    /// Given out, not ended. A `foreach` node is here from its expansion on.
    Running,
    /// Ended.
    Done(Outcome),
}

/// Instances of a `foreach` node that is running.
#[derive(Clone, Debug)]
struct Group {
    left: u32,
    total: u32,
    satisfied: u32,
    succeeded: u32,
    first_bad: Option<(u32, Outcome)>,
}

/// What may start: see the module's text.
#[derive(Clone, Debug)]
pub struct Ready {
    shape: Shape,
    state: Vec<State>,
    queue: BinaryHeap<(u64, Reverse<Job>)>,
    /// By node, from its expansion until its last instance has ended.
    groups: HashMap<u32, Group>,
    running: usize,
    /// Nodes and instances that have not ended.
    open: usize,
    /// Why nothing new starts any more.
    halted: Option<Cause>,
}

impl Ready {
    /// Nothing has started yet. The shape must be acyclic with `needs` that agree with `dependents`
    /// (as [`Graph`](super::Graph) makes it); nodes on a cycle would never start.
    pub fn new(shape: Shape) -> Self {
        let mut ready = Ready {
            state: shape.nodes.iter().map(|node| State::Waiting(node.needs)).collect(),
            open: shape.nodes.len(),
            shape,
            queue: BinaryHeap::new(),
            groups: HashMap::new(),
            running: 0,
            halted: None,
        };
        for node in 0..ready.shape.nodes.len() as u32 {
            if ready.shape.nodes[node as usize].needs == 0 {
                ready.enqueue(node);
            }
        }
        ready
    }

    /// The best thing that may start now; it counts as running from here on. `None` when nothing may.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: what comes depends on what has ended")]
    pub fn next(&mut self) -> Option<Next> {
        let (_, Reverse(job)) = self.queue.pop()?;
        self.running += 1;
        if job.instance.is_none() {
            self.state[job.node as usize] = State::Running;
            if self.shape.nodes[job.node as usize].foreach {
                return Some(Next::Expand(job.node));
            }
        }
        Some(Next::Start(job))
    }

    /// Whether anything may start now.
    pub fn has_next(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A `foreach` node that [`Ready::next`] gave out has this many instances. None at all is success.
    pub fn expand(&mut self, node: u32, count: u32) -> Effects {
        // The node itself held a place as running while its items were found.
        self.running -= 1;
        if count == 0 {
            return self.end_group(node, Outcome::Succeeded, true, None);
        }
        self.groups.insert(node, Group { left: count, total: count, satisfied: 0, succeeded: 0, first_bad: None });
        self.open += count as usize;
        let priority = self.shape.nodes[node as usize].priority;
        for instance in 0..count {
            self.queue.push((priority, Reverse(Job { node, instance: Some(instance) })));
        }
        match self.halted.clone() {
            Some(cause) => self.skip_queue(&cause),
            None => Effects::default(),
        }
    }

    /// A job that was given out has ended. `satisfies`: whether what it handed back is enough for those that need it;
    /// never true for an outcome that satisfies no edge.
    pub fn finish(&mut self, job: Job, outcome: Outcome, satisfies: bool) -> Effects {
        self.running -= 1;
        let satisfies = satisfies && outcome.satisfies();
        let mut effects = match job.instance {
            None => self.end_node(job.node, outcome, satisfies),
            Some(instance) => {
                self.open -= 1;
                self.end_instance(job.node, instance, outcome, satisfies)
            }
        };
        let node = &self.shape.nodes[job.node as usize];
        if !satisfies && node.on_failure == OnFailure::Stop && self.halted.is_none() {
            let id = node.id.clone();
            let cause = Cause::new(CauseKind::SiblingFailed, format!("`{id}` did not succeed and stops the run"));
            effects.ended.extend(self.halt(&cause).ended);
            effects.stop = Some(id);
        }
        effects
    }

    /// Nothing new starts any more: all that waits is skipped for this cause. What runs stays running.
    pub fn halt(&mut self, cause: &Cause) -> Effects {
        self.halted.get_or_insert_with(|| cause.clone());
        let mut effects = Effects::default();
        // What waits goes before the queue: a skipped instance may end its node, and that must not start a dependent.
        for node in 0..self.state.len() as u32 {
            if matches!(self.state[node as usize], State::Waiting(_)) {
                self.mark(node, Outcome::Skipped);
                effects.ended.push(Ended {
                    job: Job { node, instance: None },
                    outcome: Outcome::Skipped,
                    cause: Some(cause.clone()),
                });
            }
        }
        effects.ended.extend(self.skip_queue(cause).ended);
        effects
    }

    /// Jobs given out and not ended.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Whether every node and every instance has ended.
    pub fn is_done(&self) -> bool {
        self.open == 0
    }

    /// How a node ended, if it has.
    pub fn outcome(&self, node: u32) -> Option<Outcome> {
        match self.state[node as usize] {
            State::Done(outcome) => Some(outcome),
            State::Waiting(_) | State::Queued | State::Running => None,
        }
    }

    fn enqueue(&mut self, node: u32) {
        self.state[node as usize] = State::Queued;
        self.queue.push((self.shape.nodes[node as usize].priority, Reverse(Job { node, instance: None })));
    }

    fn mark(&mut self, node: u32, outcome: Outcome) {
        self.state[node as usize] = State::Done(outcome);
        self.open -= 1;
    }

    /// Ends a node, and everything that this ends: dependents whose rule can no longer be met.
    fn end_node(&mut self, node: u32, outcome: Outcome, satisfies: bool) -> Effects {
        let mut effects = Effects::default();
        let mut todo = vec![(node, outcome, satisfies, None)];
        while let Some((node, outcome, satisfies, root)) = todo.pop() {
            if matches!(self.state[node as usize], State::Done(_)) {
                continue;
            }
            self.mark(node, outcome);
            if root.is_some() {
                effects.ended.push(Ended { job: Job { node, instance: None }, outcome, cause: root.clone() });
            }
            for at in 0..self.shape.nodes[node as usize].dependents.len() {
                let dependent = self.shape.nodes[node as usize].dependents[at];
                match self.state[dependent as usize] {
                    State::Waiting(left) if satisfies => {
                        self.state[dependent as usize] = State::Waiting(left - 1);
                        if left == 1 {
                            self.enqueue(dependent);
                        }
                    }
                    State::Waiting(_) => {
                        let cause = root.clone().unwrap_or_else(|| {
                            let detail = format!("`{}` {}", self.shape.nodes[node as usize].id, past(outcome));
                            Cause::new(CauseKind::Upstream, detail)
                        });
                        todo.push((dependent, Outcome::Skipped, false, Some(cause)));
                    }
                    // A dependent cannot be queued or running before its last need has ended; it may have been skipped.
                    State::Queued | State::Running | State::Done(_) => {}
                }
            }
        }
        effects
    }

    fn end_instance(&mut self, node: u32, instance: u32, outcome: Outcome, satisfies: bool) -> Effects {
        let Some(group) = self.groups.get_mut(&node) else { return Effects::default() };
        group.left -= 1;
        if satisfies {
            group.satisfied += 1;
            group.succeeded += u32::from(outcome == Outcome::Succeeded);
        } else if group.first_bad.is_none_or(|(first, _)| instance < first) {
            group.first_bad = Some((instance, outcome));
        }
        if group.left > 0 {
            return Effects::default();
        }
        let satisfies = group.satisfied > 0;
        let (outcome, cause) = match group.verdict() {
            // No instance has started: the node is as skipped as any other.
            (Outcome::Skipped, cause) => (Outcome::Skipped, self.halted.clone().or(cause)),
            verdict => verdict,
        };
        self.groups.remove(&node);
        self.end_group(node, outcome, satisfies, cause)
    }

    /// Ends a `foreach` node itself, which the caller could not know.
    fn end_group(&mut self, node: u32, outcome: Outcome, satisfies: bool, cause: Option<Cause>) -> Effects {
        let mut ended = vec![Ended { job: Job { node, instance: None }, outcome, cause }];
        ended.extend(self.end_node(node, outcome, satisfies).ended);
        Effects { ended, stop: None }
    }

    fn skip_queue(&mut self, cause: &Cause) -> Effects {
        let mut effects = Effects::default();
        let mut queued: Vec<Job> = self.queue.drain().map(|(_, Reverse(job))| job).collect();
        queued.sort_unstable();
        for job in queued {
            effects.ended.push(Ended { job, outcome: Outcome::Skipped, cause: Some(cause.clone()) });
            match job.instance {
                None => self.mark(job.node, Outcome::Skipped),
                Some(instance) => {
                    self.open -= 1;
                    effects.ended.extend(self.end_instance(job.node, instance, Outcome::Skipped, false).ended);
                }
            }
        }
        effects
    }
}

impl Group {
    /// How the whole node ended, once no instance is left.
    fn verdict(&self) -> (Outcome, Option<Cause>) {
        if self.succeeded == self.total {
            return (Outcome::Succeeded, None);
        }
        let outcome = match self.first_bad {
            Some((_, bad)) if self.satisfied == 0 => bad,
            _ => Outcome::Partial,
        };
        let detail = format!("{} of {} items succeeded", self.succeeded, self.total);
        (outcome, Some(Cause::new(CauseKind::SomeItems, detail)))
    }
}

fn past(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Partial => "was partial, without the output that its schema demands",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "was cancelled",
        Outcome::TimedOut => "timed out",
        Outcome::OverBudget => "went over its budget",
        Outcome::Skipped => "was skipped",
    }
}
