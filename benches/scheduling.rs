//! What scheduling itself costs: plans of many nodes whose work is nothing.
//!
//! ```text
//! cargo bench --bench scheduling
//! ```
//!
//! Each figure is the median of interleaved rounds in one process: a bare `JoinSet` that spawns as many empty tasks, the
//! scheduler on a memory store, the scheduler on a file store (a temporary directory; every node's end is synced, in
//! groups). Then plans of 100,000 nodes, wide and long, with the memory that a pending node takes (resident set before
//! the first start against before the plan was built). Fails when a figure is over its limit.

use futures_util::FutureExt;
use indexmap::IndexMap;
use sortie::agent::{AttemptEnd, Task};
use sortie::cancel::Cancel;
use sortie::coordinator::{Execute, Scheduler};
use sortie::plan::{Graph, Node, Outcome, PLAN_VERSION, Plan, Work};
use sortie::store::{FileStore, MemoryStore, RunHeader, Store};
use sortie::ui::Bus;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const NODES: usize = 10_000;
const ROUNDS: usize = 7;
const JOBS: usize = 8;

fn main() -> std::process::ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return std::process::ExitCode::FAILURE;
    };
    let shape = std::env::args().skip_while(|argument| argument != SHAPE).nth(1);
    // On a worker thread, as the command runs it: what a worker spawns need not wake another thread.
    let within = runtime.block_on(runtime.spawn(async move {
        match shape.as_deref() {
            Some("wide") => {
                large("wide", |at, count| if at + 1 == count { (0..at).collect() } else { Vec::new() }).await
            }
            Some(_) => large("long", |at, _| if at == 0 { Vec::new() } else { vec![at - 1] }).await,
            None => small_costs().await,
        }
    }));
    let mut within = within.unwrap_or(false);
    if std::env::args().all(|argument| argument != SHAPE) {
        // Each in a process of its own: memory that an earlier plan gave back would be counted as none.
        for shape in ["wide", "long"] {
            let child =
                std::env::current_exe().and_then(|this| std::process::Command::new(this).args([SHAPE, shape]).status());
            within &= child.is_ok_and(|status| status.success());
        }
    }
    if within { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

/// The argument that asks for one large plan only.
const SHAPE: &str = "--shape";

/// The cost per node on a random DAG.
async fn small_costs() -> bool {
    let plan = random_plan(NODES);
    let graph = Graph::new(&plan);
    let (mut bare, mut memory, mut file) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(join_set(NODES).await);
        memory.push(schedule(&plan, &graph, Arc::new(MemoryStore::new())).await);
        file.push(on_file_store(&plan, &graph).await);
    }
    let per_node = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6 / NODES as f64
    };
    let (bare, memory, file) = (per_node(&mut bare), per_node(&mut memory), per_node(&mut file));
    print(&format!("random DAG of {NODES} nodes, {JOBS} at once, median of {ROUNDS}, per node"));
    print(&format!("  bare JoinSet spawn  {bare:7.2} µs"));
    let within = limit("memory store", memory, 20.0, bare);
    limit("file store", file, 60.0, bare) && within
}

fn limit(name: &str, value: f64, limit: f64, bare: f64) -> bool {
    let verdict = if value <= limit { "within" } else { "OVER" };
    print(&format!("  {name:<18}  {value:7.2} µs  = {:5.1} x bare  ({verdict} {limit} µs)", value / bare));
    value <= limit
}

/// One plan of 100,000 nodes.
async fn large(name: &str, needs: impl Fn(usize, usize) -> Vec<usize>) -> bool {
    let count = 100_000;
    let before = resident();
    let started = Instant::now();
    let plan = plan_of((0..count).map(|at| needs(at, count)));
    let graph = Graph::new(&plan);
    let pending = resident().saturating_sub(before) as f64 / count as f64;
    let built = started.elapsed();
    let ran = schedule(&plan, &graph, Arc::new(MemoryStore::new())).await;
    let all = started.elapsed();
    let within = all <= Duration::from_secs(2) && pending <= 1024.0;
    print(&format!(
        "100,000 nodes, {name}: {:.2} s in all (built {:.2} s, ran {:.2} s), {pending:.0} bytes per pending node  ({} 2 s and 1,024 bytes)",
        all.as_secs_f64(),
        built.as_secs_f64(),
        ran.as_secs_f64(),
        if within { "within" } else { "OVER" }
    ));
    within
}

async fn join_set(count: usize) -> Duration {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    let mut left = count;
    while left > 0 || !tasks.is_empty() {
        while left > 0 && tasks.len() < JOBS {
            tasks.spawn(async {});
            left -= 1;
        }
        tasks.join_next().await;
    }
    started.elapsed()
}

async fn on_file_store(plan: &Plan, graph: &Graph) -> Duration {
    let Ok(directory) = tempfile::tempdir() else { return Duration::MAX };
    let header = RunHeader::new("bench", directory.path());
    let Ok(store) = FileStore::create(&directory.path().join("run"), &header) else { return Duration::MAX };
    schedule(plan, graph, Arc::new(store)).await
}

/// From the first dispatch to the record being on disk.
async fn schedule(plan: &Plan, graph: &Graph, store: Arc<dyn Store>) -> Duration {
    let bus = Bus::new(Arc::clone(&store), Vec::new());
    let cancel = Cancel::new();
    let execute: Execute = Arc::new(|_, _| async { AttemptEnd::bare(Outcome::Succeeded, None) }.boxed());
    let started = Instant::now();
    let scheduler = Scheduler {
        plan,
        graph,
        prefix: "",
        inputs: IndexMap::new(),
        jobs: JOBS,
        node_timeout: Duration::from_secs(60),
        grace: Duration::from_secs(5),
        compose: Box::new(|_, _, text, _| Task::Command { command: text, output: None }),
        execute,
        bus: &bus,
        cancel: &cancel,
    };
    let ran = scheduler.run().await;
    let synced = store.sync().await;
    let took = started.elapsed();
    assert!(synced.is_ok() && (0..plan.nodes.len()).all(|node| ran.results.end(node).is_some()), "every node ended");
    took
}

/// Each node needs up to three of the two hundred before it.
fn random_plan(count: usize) -> Plan {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let needs: Vec<Vec<usize>> = (0..count)
        .map(|at| {
            let mut needs: Vec<usize> = (0..next(4)).filter(|_| at > 0).map(|_| at - 1 - next(at.min(200))).collect();
            needs.sort_unstable();
            needs.dedup();
            needs
        })
        .collect();
    plan_of(needs.into_iter())
}

fn plan_of(needs: impl Iterator<Item = Vec<usize>>) -> Plan {
    let node = |(at, needs): (usize, Vec<usize>)| Node {
        needs: needs.into_iter().map(|need| format!("n{need}")).collect(),
        ..Node::new(format!("n{at}"), Work::Command("true".to_string()))
    };
    let nodes = needs.enumerate().map(node).collect();
    Plan {
        version: PLAN_VERSION,
        name: "bench".to_string(),
        description: String::new(),
        inputs: IndexMap::new(),
        nodes,
    }
}

/// Bytes of the resident set.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * 4096
}

#[expect(clippy::print_stdout, reason = "what a benchmark is for")]
fn print(line: &str) {
    println!("{line}");
}
