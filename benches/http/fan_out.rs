//! Whole runs of the program over loopback HTTP.

use crate::serve::Served;
use crate::{Failure, print, verdict};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const WIDE: usize = 128;
const EFFICIENCY: f64 = 0.95;
const SIBLINGS: usize = 16;
/// Three turns, each 200 ms to the first of five chunks and 20 ms to each other.
const IDEAL: Duration = Duration::from_millis(3 * 280);
/// A model that nothing is known of.
const UNKNOWN: &str = "plain/scripted";

/// A run that has ended.
struct Ran {
    makespan: Duration,
    around: Duration,
    input: f64,
    cache_read: f64,
}

/// A fan-out on a model without prefix caching.
pub(crate) fn wide() -> Result<bool, Failure> {
    let served = Served::start("agents", "anthropic")?;
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        runs.push(run(&served.url, "anthropic", UNKNOWN, WIDE)?);
    }
    runs.sort_by_key(|run| run.makespan);
    let median = &runs[ROUNDS / 2];
    let efficiency = IDEAL.as_secs_f64() / median.makespan.as_secs_f64();
    let within = efficiency >= EFFICIENCY;
    print(&format!(
        "{WIDE} subagents of 3 turns over HTTP, all at once: {:.0} ms (ideal {:.0}), efficiency {efficiency:.3} (at least {EFFICIENCY}), process around it {:.0} ms  ({})",
        ms(median.makespan),
        ms(IDEAL),
        ms(median.around),
        verdict(within)
    ));
    Ok(within)
}

/// What the hold costs in time and saves in input, and what marks do. The price of input is 1, read from a cache 0.1,
/// marked to be written to it 1.25.
pub(crate) fn cached() -> Result<(), Failure> {
    for (name, protocol, model, write) in [
        ("caches by itself, without the hold", "openai-chat", UNKNOWN, 1.0),
        ("caches by itself, with the hold", "openai-chat", "openai/gpt-5.5", 1.0),
        ("wants marks, without hold and marks", "anthropic", UNKNOWN, 1.0),
        ("wants marks, with hold and marks", "anthropic", "anthropic/claude-sonnet-4-5", 1.25),
    ] {
        // A new server each: an empty cache.
        let served = Served::start("cached", protocol)?;
        let ran = run(&served.url, protocol, model, SIBLINGS)?;
        let all = ran.input + ran.cache_read;
        print(&format!(
            "{SIBLINGS} siblings on a server that {name}: {:.0} ms, {:.0}% of {all:.0} input tokens read from the cache, which costs {:.0}% of uncached",
            ms(ran.makespan),
            ran.cache_read / all * 100.0,
            (ran.input * write + ran.cache_read * 0.1) / all * 100.0,
        ));
    }
    Ok(())
}

fn run(url: &str, protocol: &str, model: &str, subagents: usize) -> Result<Ran, Failure> {
    let place = tempfile::tempdir()?;
    write(place.path(), subagents)?;
    let config = place.path().join("sortie");
    std::fs::create_dir(&config)?;
    std::fs::write(
        config.join("config.toml"),
        format!("[providers.plain]\nprotocol = \"{protocol}\"\nbase_url = \"{url}\"\n"),
    )?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
    command.current_dir(place.path()).env_clear();
    command.env("ANTHROPIC_API_KEY", "none").env("ANTHROPIC_BASE_URL", url);
    command.env("OPENAI_API_KEY", "none").env("OPENAI_BASE_URL", url).env("SORTIE_STATE_DIR", place.path());
    command.env("XDG_CONFIG_HOME", place.path());
    command.args(["run", "--plan", "plan.toml", "--model", model, "--output", "jsonl"]);
    command.args(["--jobs", &subagents.to_string()]);
    let begun = Instant::now();
    let output = command.output()?;
    let wall = begun.elapsed();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let event = |kind: &str| -> Result<Value, Failure> {
        let line =
            text.lines().find(|line| line.contains(&format!("\"type\":\"{kind}\""))).ok_or("an event is missing")?;
        Ok(serde_json::from_str(line)?)
    };
    let makespan = Duration::from_millis(event("merged")?["makespan_ms"].as_u64().ok_or("no makespan")?);
    let usage = &event("run_finished")?["usage"];
    let tokens = |name: &str| usage[name].as_f64().unwrap_or(0.0);
    Ok(Ran {
        makespan,
        around: wall.saturating_sub(makespan),
        input: tokens("input") + tokens("cache_write"),
        cache_read: tokens("cache_read"),
    })
}

fn write(place: &Path, subagents: usize) -> std::io::Result<()> {
    let items: Vec<String> = (0..subagents).map(|item| item.to_string()).collect();
    let plan = format!(
        "version = 1\nname = \"fan_out\"\n[[node]]\nid = \"n\"\nforeach = [{}]\nprompt = \"Look at part {{{{ item }}}}.\"\n",
        items.join(", ")
    );
    std::fs::write(place.join("plan.toml"), plan)?;
    for file in ["a.txt", "b.txt"] {
        std::fs::write(place.join(file), "a line of text that says little\n".repeat(30))?;
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
