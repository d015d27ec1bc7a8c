//! What a whole process costs: from its start to the first tool call, and a fan-out of 128 subagents on the real clock.
//!
//! ```text
//! cargo bench --bench process
//! ```
//!
//! The start is paired with starting `true`, interleaved, medians. The fan-out: 128 scripted subagents of 3 turns at
//! 200 ms per model call, file store, plain reporter, 32 at once. The ideal is 128 / 32 * 3 * 200 ms = 2.4 s; efficiency
//! is that ideal over the time from first dispatch to last terminal event. Fails when a figure is over its limit.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 11;
const SUBAGENTS: u32 = 128;
const JOBS: u32 = 32;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match start().and_then(|()| fan_out()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print(&format!("could not measure: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// From starting the process to its first tool call, beside starting `true`.
fn start() -> Result<(), Failure> {
    let place = tempfile::tempdir()?;
    let plan = "version = 1\nname = \"start\"\n[[node]]\nid = \"a\"\nprompt = \"look\"\n";
    let script = "[[reply]]\nnode = \"a\"\ncalls = [{ name = \"list_files\" }]\n[[reply]]\nnode = \"a\"\ncalls = [{ name = \"report\", args = { status = \"done\", summary = \"s\" } }]\n";
    write(place.path(), plan, script)?;
    let (mut ours, mut nothing) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        Command::new("true").status()?;
        nothing.push(begun.elapsed());
        let begun = Instant::now();
        let mut child = sortie(place.path(), 1).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        let mut first = None;
        for line in lines {
            if line?.contains("\"type\":\"tool_started\"") {
                first.get_or_insert(begun.elapsed());
            }
        }
        child.wait()?;
        ours.push(first.ok_or("no tool call was made")?);
    }
    let (ours, nothing) = (median(&mut ours), median(&mut nothing));
    print(&format!(
        "process start to first tool call: {:.1} ms; starting `true`: {:.1} ms; ratio {:.1} (median of {ROUNDS})",
        ms(ours),
        ms(nothing),
        ours.as_secs_f64() / nothing.as_secs_f64()
    ));
    Ok(())
}

fn fan_out() -> Result<bool, Failure> {
    let place = tempfile::tempdir()?;
    let items: Vec<String> = (0..SUBAGENTS).map(|at| at.to_string()).collect();
    let plan = format!(
        "version = 1\nname = \"fan_out\"\n[[node]]\nid = \"n\"\nforeach = [{}]\nprompt = \"Look at part {{{{ item }}}}.\"\n",
        items.join(", ")
    );
    let turn = |call: &str| format!("[[reply]]\nnode = \"n\"\ndelay = \"200ms\"\ncalls = [{call}]\n");
    let script = turn("{ name = \"read_file\", args = { file_path = \"plan.toml\" } }")
        + &turn("{ name = \"read_file\", args = { file_path = \"script.toml\" } }")
        + &turn("{ name = \"report\", args = { status = \"done\", summary = \"It is a part.\" } }");
    write(place.path(), &plan, &script)?;
    let ideal = Duration::from_millis(u64::from(SUBAGENTS / JOBS) * 3 * 200);
    let (mut efficiency, mut around) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let begun = Instant::now();
        let output = sortie(place.path(), JOBS).stderr(Stdio::piped()).output()?;
        let wall = begun.elapsed();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let makespan = makespan(&String::from_utf8_lossy(&output.stdout)).ok_or("no merge was told")?;
        efficiency.push(ideal.as_secs_f64() / makespan.as_secs_f64());
        around.push(wall.saturating_sub(makespan));
    }
    efficiency.sort_by(f64::total_cmp);
    let (efficiency, around) = (efficiency[efficiency.len() / 2], median(&mut around));
    let within = efficiency >= 0.97 && around <= Duration::from_millis(60);
    print(&format!(
        "{SUBAGENTS} subagents, {JOBS} at once: efficiency {efficiency:.3} (at least 0.97), process wall minus makespan {:.1} ms (at most 60)  ({})",
        ms(around),
        if within { "within" } else { "OVER" }
    ));
    Ok(within)
}

/// A run of the plan and script in this directory.
fn sortie(place: &Path, jobs: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
    command.current_dir(place).args([
        "run",
        "--plan",
        "plan.toml",
        "--model",
        "script/script.toml",
        "--output",
        "jsonl",
    ]);
    command.args(["--jobs", &jobs.to_string()]).env_remove("SORTIE_MODEL");
    command
}

fn makespan(lines: &str) -> Option<Duration> {
    let merged = lines.lines().find(|line| line.contains("\"type\":\"merged\""))?;
    let event: serde_json::Value = serde_json::from_str(merged).ok()?;
    event["makespan_ms"].as_u64().map(Duration::from_millis)
}

fn write(place: &Path, plan: &str, script: &str) -> std::io::Result<()> {
    std::fs::write(place.join("plan.toml"), plan)?;
    std::fs::write(place.join("script.toml"), script)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::print_stdout, reason = "what a benchmark is for")]
fn print(line: &str) {
    println!("{line}");
}
