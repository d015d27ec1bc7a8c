//! Shapes that other schedulers have got wrong, and very large ones.

use super::*;

const OK: Verdict = (Outcome::Succeeded, true);
const BAD: Verdict = (Outcome::Failed, false);

fn node(needs: &[u32], verdict: Verdict) -> TestNode {
    TestNode { needs: needs.iter().copied().collect(), work: Work::Single(verdict), on_failure: OnFailure::default() }
}

fn each(needs: &[u32], verdicts: &[Verdict]) -> TestNode {
    TestNode { work: Work::Foreach(verdicts.to_vec()), ..node(needs, OK) }
}

/// One letter per node: outcome in plan order.
fn letters(run: &Run<'_>) -> String {
    (0..run.naive.plan.len() as u32)
        .map(|node| match run.ready.outcome(node) {
            Some(Outcome::Succeeded) => 'S',
            Some(Outcome::Partial) => 'P',
            Some(Outcome::Failed) => 'F',
            Some(Outcome::Cancelled) => 'C',
            Some(Outcome::TimedOut) => 'T',
            Some(Outcome::OverBudget) => 'B',
            Some(Outcome::Skipped) => '-',
            None => '?',
        })
        .collect()
}

#[test]
fn outcomes_of_small_plans_serial_and_parallel() {
    let partial = (Outcome::Partial, true);
    let no_output = (Outcome::Partial, false);
    let timed_out = (Outcome::TimedOut, false);
    let cases: &[(&str, TestPlan, &str)] = &[
        ("nothing to do", vec![], ""),
        ("outputs stay in plan order", vec![node(&[], OK), node(&[], BAD), node(&[0], OK)], "SFS"),
        (
            "a join over a skipped parent is skipped, and what follows",
            vec![node(&[], OK), node(&[], BAD), node(&[1], OK), node(&[0, 2], OK), node(&[3], OK)],
            "SF---",
        ),
        ("the rest goes on", vec![node(&[], BAD), node(&[0], OK), node(&[1], OK), node(&[], OK)], "F--S"),
        ("partial is enough", vec![node(&[], partial), node(&[0], OK)], "PS"),
        ("partial without its output is not", vec![node(&[], no_output), node(&[0], OK)], "P-"),
        ("no item at all is success", vec![each(&[], &[]), node(&[0], OK)], "SS"),
        ("one item of two is partial", vec![each(&[], &[BAD, OK]), node(&[0], OK)], "PS"),
        ("partial items are a partial whole", vec![each(&[], &[partial, OK]), node(&[0], OK)], "PS"),
        ("no item is the first one's outcome", vec![each(&[], &[timed_out, BAD]), node(&[0], OK)], "T-"),
        (
            "items that cannot be found",
            vec![TestNode { work: Work::NoItems, ..node(&[], OK) }, node(&[0], OK), node(&[], OK)],
            "F-S",
        ),
    ];
    for (what, plan, expected) in cases {
        for jobs in [1, 8] {
            assert_eq!(letters(&run(plan, jobs)), *expected, "{what}, {jobs} at once");
        }
    }
}

#[test]
fn a_failure_skips_at_once_all_that_needs_it_and_says_why() {
    let plan = vec![node(&[], BAD), node(&[0], OK), node(&[1], OK), node(&[], OK)];
    let mut run = Run::new(&plan);
    run.fill(8);
    run.progress(0);
    assert_eq!(letters(&run), "F--?", "not only once the rest has ended");
    for skipped in [1, 2] {
        assert_eq!(run.causes[&job(skipped)], Cause::new(CauseKind::Upstream, "`n0` failed"));
    }
}

#[test]
fn what_follows_a_fast_node_does_not_wait_for_its_slow_sibling() {
    let plan = vec![node(&[], OK), node(&[], OK), node(&[0], OK)];
    let mut run = Run::new(&plan);
    run.fill(8);
    assert_eq!(run.running, [job(0), job(1)]);
    run.progress(0);
    run.fill(8);
    assert_eq!(run.running, [job(1), job(2)]);
}

#[test]
fn a_join_starts_once_after_the_last_of_uneven_branches() {
    // b -> b2 and c, both -> d.
    let plan = vec![node(&[], OK), node(&[0], OK), node(&[], OK), node(&[1, 2], OK)];
    let ends = [job(2), job(0), job(1)];
    let mut run = Run::new(&plan);
    for end in ends {
        run.fill(8);
        assert!(!run.running.contains(&job(3)), "{end:?} is still to end");
        let at = run.running.iter().position(|running| *running == end).unwrap();
        run.progress(at);
    }
    run.fill(8);
    assert_eq!(run.running, [job(3)]);
    run.drain(8, None, |_| 0);
}

#[test]
fn all_items_and_all_independent_nodes_may_run_at_once() {
    for (what, plan, wide) in [("21 items", vec![each(&[], &[OK; 21])], 21), ("30 nodes", vec![node(&[], OK); 30], 30)]
    {
        assert_eq!(run(&plan, usize::MAX).peak, wide, "{what}");
        assert_eq!(run(&plan, 4).peak, 4, "{what}, four at once");
    }
}

#[test]
fn a_halt_starts_nothing_even_where_it_ends_a_node() {
    // One of two items has succeeded: skipping the other ends the node, partially, and that satisfies `n1`.
    let plan = vec![each(&[], &[OK, OK]), node(&[0], OK)];
    let mut run = Run::new(&plan);
    for _ in 0..2 {
        run.fill(1);
        run.progress(0);
    }
    run.halt();
    assert_eq!(letters(&run), "P-");
    assert_eq!(run.causes[&job(1)].kind, CauseKind::Interrupted);
    run.drain(1, None, |_| 0);
}

#[test]
fn items_found_after_a_halt_are_skipped_for_its_cause() {
    let plan = vec![each(&[], &[OK, OK]), node(&[0], OK)];
    let mut run = Run::new(&plan);
    run.fill(1);
    run.halt();
    run.progress(0);
    let run = run.drain(1, None, |_| 0);
    assert_eq!(letters(&run), "--");
    assert!(run.causes.values().all(|cause| cause.kind == CauseKind::Interrupted), "{:?}", run.causes);
    assert_eq!(run.causes.len(), 4, "both nodes and both items");
}

#[test]
fn a_stop_skips_the_rest_and_lets_what_runs_end() {
    let stops = TestNode { on_failure: OnFailure::Stop, ..node(&[], BAD) };
    let plan = vec![stops, node(&[], OK), node(&[1], OK), node(&[0], OK)];
    let mut run = Run::new(&plan);
    run.fill(2);
    run.progress(0);
    assert_eq!(letters(&run), "F?--");
    assert_eq!(run.causes[&job(2)].kind, CauseKind::SiblingFailed);
    assert_eq!(run.causes[&job(3)].kind, CauseKind::Upstream, "it would not have started anyway");
    assert_eq!(letters(&run.drain(2, None, |_| 0)), "FS--");
}

/// Runs a large shape on a small stack; the first node ends so. Returns how many ended by themselves and by effect.
fn large(shape: Shape, first: Outcome) -> (usize, usize) {
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || {
        let mut ready = Ready::new(shape);
        let (mut finished, mut by_effect, mut running) = (0, 0, std::collections::VecDeque::new());
        loop {
            while let Some(next) = ready.next() {
                let Next::Start(job) = next else { panic!("no `foreach` here") };
                running.push_back(job);
            }
            let Some(job) = running.pop_front() else { break };
            let outcome = if job.node == 0 { first } else { Outcome::Succeeded };
            by_effect += ready.finish(job, outcome, true).ended.len();
            finished += 1;
        }
        assert!(ready.is_done() && ready.running() == 0);
        (finished, by_effect)
    });
    thread.unwrap().join().unwrap()
}

#[test]
fn a_hundred_thousand_nodes_wide_or_long_take_one_step_each() {
    const N: u32 = 100_000;
    let chain = || {
        let node = |at: u32| ShapeNode {
            id: id(at),
            needs: u32::from(at > 0),
            dependents: (at + 1 < N).then_some(at + 1).into_iter().collect(),
            priority: u64::from(N - at),
            ..ShapeNode::default()
        };
        Shape { nodes: (0..N).map(node).collect() }
    };
    // The first, all others, the last.
    let fan = || {
        let node = |at: u32| ShapeNode {
            id: id(at),
            needs: if at == 0 {
                0
            } else if at == N - 1 {
                N - 2
            } else {
                1
            },
            dependents: if at == 0 {
                (1..N - 1).collect()
            } else {
                (at < N - 1).then_some(N - 1).into_iter().collect()
            },
            priority: if at == 0 { 3 } else { 1 + u64::from(at < N - 1) },
            ..ShapeNode::default()
        };
        Shape { nodes: (0..N).map(node).collect() }
    };
    for shape in [chain, fan] as [fn() -> Shape; 2] {
        assert_eq!(large(shape(), Outcome::Succeeded), (N as usize, 0));
        assert_eq!(large(shape(), Outcome::Failed), (1, N as usize - 1));
    }
}
