//! The ready set against an interpreter of its rules that is too naive to be wrong, on random plans.

mod cases;

use proptest::prelude::*;
use proptest::sample::Index;
use sortie::plan::{Cause, CauseKind, Ended, Job, Next, OnFailure, Outcome, Ready, Shape, ShapeNode};
use std::collections::{BTreeMap, BTreeSet};

/// How one job ends, and whether that is enough for its dependents.
type Verdict = (Outcome, bool);

/// What a node does in a test.
#[derive(Clone, Debug)]
enum Work {
    Single(Verdict),
    /// One verdict per item.
    Foreach(Vec<Verdict>),
    /// Its items cannot be found.
    NoItems,
}

#[derive(Clone, Debug)]
struct TestNode {
    needs: BTreeSet<u32>,
    work: Work,
    on_failure: OnFailure,
}

type TestPlan = Vec<TestNode>;

fn job(node: u32) -> Job {
    Job { node, instance: None }
}

fn id(node: u32) -> String {
    format!("n{node}")
}

fn shape(plan: &TestPlan) -> Shape {
    let mut nodes: Vec<ShapeNode> = (0u32..)
        .zip(plan)
        .map(|(at, node)| ShapeNode {
            id: id(at),
            needs: node.needs.len() as u32,
            priority: 1,
            foreach: !matches!(node.work, Work::Single(_)),
            on_failure: node.on_failure,
            ..ShapeNode::default()
        })
        .collect();
    for at in (0..plan.len()).rev() {
        for &need in &plan[at].needs {
            nodes[need as usize].dependents.push(at as u32);
            nodes[need as usize].priority = nodes[need as usize].priority.max(nodes[at].priority + 1);
        }
    }
    Shape { nodes }
}

/// The rules of `plan::ready`, applied until nothing changes, with no thought for cost.
struct Naive<'a> {
    plan: &'a TestPlan,
    priority: Vec<u64>,
    started: BTreeSet<Job>,
    /// Items of `foreach` nodes that were expanded.
    items: BTreeMap<u32, u32>,
    ended: BTreeMap<Job, Verdict>,
    halted: bool,
}

impl<'a> Naive<'a> {
    fn new(plan: &'a TestPlan) -> Self {
        Naive {
            plan,
            priority: shape(plan).nodes.iter().map(|node| node.priority).collect(),
            started: BTreeSet::new(),
            items: BTreeMap::new(),
            ended: BTreeMap::new(),
            halted: false,
        }
    }

    fn instances(&self, node: u32) -> Vec<Job> {
        (0..self.items.get(&node).copied().unwrap_or(0)).map(|i| Job { node, instance: Some(i) }).collect()
    }

    fn all_jobs(&self) -> Vec<Job> {
        (0..self.plan.len() as u32).flat_map(|node| std::iter::once(job(node)).chain(self.instances(node))).collect()
    }

    /// What one job's state makes of it now, if that is an end.
    fn verdict(&self, at: Job) -> Option<Verdict> {
        if !self.started.contains(&at) {
            let hopeless = at.instance.is_none()
                && self.plan[at.node as usize]
                    .needs
                    .iter()
                    .any(|need| matches!(self.ended.get(&job(*need)), Some((_, false))));
            return (self.halted || hopeless).then_some((Outcome::Skipped, false));
        }
        if at.instance.is_some() || !self.items.contains_key(&at.node) {
            return None;
        }
        let ends: Option<Vec<Verdict>> = self.instances(at.node).iter().map(|i| self.ended.get(i).copied()).collect();
        let ends = ends?;
        let enough = ends.iter().any(|(_, enough)| *enough);
        Some(match ends.iter().find(|(_, enough)| !enough) {
            _ if ends.iter().all(|end| *end == (Outcome::Succeeded, true)) => (Outcome::Succeeded, true),
            Some((bad, _)) if !enough => (*bad, false),
            Some(_) | None => (Outcome::Partial, true),
        })
    }

    /// Ends what can only end; returns it.
    fn settle(&mut self) -> BTreeMap<Job, Outcome> {
        let mut news = BTreeMap::new();
        loop {
            let found = self.all_jobs().into_iter().find_map(|at| {
                let open = !self.ended.contains_key(&at);
                open.then(|| self.verdict(at)).flatten().map(|verdict| (at, verdict))
            });
            let Some((at, verdict)) = found else { return news };
            self.ended.insert(at, verdict);
            news.insert(at, verdict.0);
        }
    }

    fn may_start(&self, at: Job) -> bool {
        !self.halted
            && !self.started.contains(&at)
            && !self.ended.contains_key(&at)
            && (at.instance.is_some()
                || self.plan[at.node as usize]
                    .needs
                    .iter()
                    .all(|need| matches!(self.ended.get(&job(*need)), Some((_, true)))))
    }

    /// The job that goes first among those that may start.
    fn best(&self) -> Option<Job> {
        let may = self.all_jobs().into_iter().filter(|at| self.may_start(*at));
        may.min_by_key(|at| (u64::MAX - self.priority[at.node as usize], at.node, at.instance))
    }
}

/// One run of a plan by the ready set, each step compared with the naive rules.
struct Run<'a> {
    ready: Ready,
    naive: Naive<'a>,
    /// Given out and not ended, in the order of their start; a `foreach` node here waits for its items.
    running: Vec<Job>,
    causes: BTreeMap<Job, Cause>,
    peak: usize,
}

impl<'a> Run<'a> {
    fn new(plan: &'a TestPlan) -> Self {
        Run {
            ready: Ready::new(shape(plan)),
            naive: Naive::new(plan),
            running: Vec::new(),
            causes: BTreeMap::new(),
            peak: 0,
        }
    }

    /// Starts what may start, up to `jobs` at once.
    fn fill(&mut self, jobs: usize) {
        while self.running.len() < jobs {
            let best = self.naive.best();
            assert_eq!(self.ready.has_next(), best.is_some(), "{best:?}");
            let next = self.ready.next();
            let started = next.map(|next| match next {
                Next::Start(job) => job,
                Next::Expand(node) => job(node),
            });
            assert_eq!(started, best, "the longest path first, then the declaration, then the instance");
            let Some(at) = started else { break };
            let foreach = !matches!(self.naive.plan[at.node as usize].work, Work::Single(_));
            assert_eq!(matches!(next, Some(Next::Expand(_))), foreach && at.instance.is_none());
            self.naive.started.insert(at);
            self.running.push(at);
        }
        self.peak = self.peak.max(self.running.len());
        assert_eq!(self.ready.running(), self.running.len());
    }

    /// The `at`-th of what runs goes on: finds its items, or ends.
    fn progress(&mut self, at: usize) {
        let at = self.running.remove(at);
        let node = &self.naive.plan[at.node as usize];
        let verdict = match (&node.work, at.instance) {
            (Work::Foreach(items), None) => {
                let count = items.len() as u32;
                self.naive.items.insert(at.node, count);
                let effects = self.ready.expand(at.node, count);
                assert_eq!(effects.stop, None);
                return self.compare(effects.ended);
            }
            (Work::Single(verdict), _) => *verdict,
            (Work::Foreach(items), Some(instance)) => items[instance as usize],
            (Work::NoItems, _) => (Outcome::Failed, false),
        };
        let stops = !verdict.1 && node.on_failure == OnFailure::Stop && !self.naive.halted;
        assert!(self.naive.ended.insert(at, verdict).is_none(), "{at:?} ended twice");
        let effects = self.ready.finish(at, verdict.0, verdict.1);
        assert_eq!(effects.stop, stops.then(|| id(at.node)));
        // What the outcome alone ends comes before what the stop ends.
        let mut expected = self.naive.settle();
        self.naive.halted |= stops;
        expected.extend(self.naive.settle());
        self.compare_with(effects.ended, &expected);
    }

    fn halt(&mut self) {
        self.naive.halted = true;
        let effects = self.ready.halt(&Cause::new(CauseKind::Interrupted, "interrupted"));
        self.compare(effects.ended);
        assert!(!self.ready.has_next(), "nothing starts after a halt");
    }

    fn compare(&mut self, ended: Vec<Ended>) {
        let expected = self.naive.settle();
        self.compare_with(ended, &expected);
    }

    fn compare_with(&mut self, ended: Vec<Ended>, expected: &BTreeMap<Job, Outcome>) {
        let got: BTreeMap<Job, Outcome> = ended.iter().map(|end| (end.job, end.outcome)).collect();
        assert_eq!(got.len(), ended.len(), "something ended twice: {ended:?}");
        assert_eq!(&got, expected);
        for end in ended {
            assert_eq!(end.cause.is_none(), end.outcome == Outcome::Succeeded, "{end:?}");
            self.causes.extend(end.cause.map(|cause| (end.job, cause)));
        }
        assert_eq!(self.ready.has_next(), self.naive.best().is_some());
    }

    /// Runs to the end; `choose` picks among what runs, `halt_at` is the step before which the run is halted.
    fn drain(mut self, jobs: usize, halt_at: Option<usize>, mut choose: impl FnMut(usize) -> usize) -> Self {
        let mut step = 0;
        loop {
            self.fill(jobs);
            if halt_at == Some(step) {
                self.halt();
            }
            if self.running.is_empty() {
                break;
            }
            self.progress(choose(self.running.len()));
            step += 1;
        }
        assert!(self.ready.is_done(), "everything ends");
        assert_eq!(self.ready.running(), 0);
        for at in self.naive.all_jobs() {
            let (outcome, _) = self.naive.ended[&at];
            if at.instance.is_none() {
                assert_eq!(self.ready.outcome(at.node), Some(outcome));
            }
            assert_eq!(
                outcome == Outcome::Skipped,
                !self.naive.started.contains(&at) || self.all_skipped(at),
                "{at:?}"
            );
        }
        self
    }

    /// A `foreach` node of which no instance has started.
    fn all_skipped(&self, at: Job) -> bool {
        let instances = self.naive.instances(at.node);
        at.instance.is_none() && !instances.is_empty() && !instances.iter().any(|i| self.naive.started.contains(i))
    }

    fn outcomes(&self) -> BTreeMap<Job, Outcome> {
        self.naive.ended.iter().map(|(at, (outcome, _))| (*at, *outcome)).collect()
    }
}

/// Runs a plan that nothing interrupts, first started first ended.
fn run(plan: &TestPlan, jobs: usize) -> Run<'_> {
    Run::new(plan).drain(jobs, None, |_| 0)
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        6 => Just((Outcome::Succeeded, true)),
        2 => Just((Outcome::Partial, true)),
        // It lacks the output that its schema demands.
        1 => Just((Outcome::Partial, false)),
        1 => Just((Outcome::Failed, false)),
        1 => Just((Outcome::TimedOut, false)),
        1 => Just((Outcome::Cancelled, false)),
        1 => Just((Outcome::OverBudget, false)),
    ]
}

fn works() -> impl Strategy<Value = Work> {
    prop_oneof![
        8 => verdicts().prop_map(Work::Single),
        4 => prop::collection::vec(verdicts(), 0..=6).prop_map(Work::Foreach),
        1 => Just(Work::NoItems),
    ]
}

fn plans(stop_weight: u32) -> impl Strategy<Value = TestPlan> {
    let on_failure = prop_oneof![100 => Just(OnFailure::SkipDependents), stop_weight => Just(OnFailure::Stop)];
    let node = (prop::collection::vec(any::<Index>(), 0..4), works(), on_failure);
    prop::collection::vec(node, 1..=40).prop_map(|nodes| {
        let node = |(at, (needs, work, on_failure)): (usize, (Vec<Index>, Work, OnFailure))| {
            // An edge leads to an earlier node; half of the draws are none at all, for width.
            let needs = needs.iter().filter(|_| at > 0).map(|need| need.index(at * 2)).filter(|need| *need < at);
            TestNode { needs: needs.map(|need| need as u32).collect(), work, on_failure }
        };
        nodes.into_iter().enumerate().map(node).collect()
    })
}

/// Picks by a list of random numbers, over and over.
fn by(picks: &[Index]) -> impl FnMut(usize) -> usize {
    let mut picks = picks.iter().cycle();
    move |among| picks.next().map_or(0, |pick| pick.index(among))
}

fn orders() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Starts, ends, skips and order are those of the naive rules at every step, also when a node or the user stops
    /// the run in the middle.
    #[test]
    fn every_step_is_that_of_the_naive_rules(
        plan in plans(15), jobs in 1usize..9, order in orders(), halt_at in prop::option::of(0usize..40),
    ) {
        Run::new(&plan).drain(jobs, halt_at, by(&order));
    }

    /// However many run at once and whoever ends first, the same verdicts give the same outcomes.
    #[test]
    fn serial_and_parallel_runs_agree(plan in plans(0), jobs in 2usize..9, order in orders()) {
        let serial = run(&plan, 1);
        let parallel = Run::new(&plan).drain(jobs, None, by(&order));
        prop_assert!(serial.peak <= 1);
        prop_assert_eq!(serial.outcomes(), parallel.outcomes());
    }

    /// A skipped node's cause names a node before it that did run and was not enough.
    #[test]
    fn a_skip_names_where_it_began(plan in plans(0), jobs in 1usize..9, order in orders()) {
        let run = Run::new(&plan).drain(jobs, None, by(&order));
        let mut before: Vec<BTreeSet<u32>> = Vec::new();
        for node in &plan {
            let further = node.needs.iter().flat_map(|need| before[*need as usize].clone());
            before.push(further.chain(node.needs.iter().copied()).collect());
        }
        for (at, (outcome, _)) in &run.naive.ended {
            if *outcome == Outcome::Skipped {
                let cause = &run.causes[at];
                let origin = before[at.node as usize].iter().find(|n| cause.detail.starts_with(&format!("`{}` ", id(**n))));
                let (origin_outcome, enough) = run.naive.ended[&job(*origin.unwrap())];
                prop_assert_eq!(cause.kind, CauseKind::Upstream);
                prop_assert!(!enough && origin_outcome != Outcome::Skipped);
            }
        }
    }
}
