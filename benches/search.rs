//! `search_code` in this process beside the `rg` binary, on the same large tree: `cargo bench --bench search`.
//!
//! Both start from a warm page cache and search the same files; runs alternate, so that a busy machine hurts both. The
//! binary's time includes the start of its process, a few milliseconds: the comparison is fair only on a tree that takes
//! much longer than that. `rg` from version 14 on has the same regex engine as this crate; 13 chooses other literals to
//! look for, which shows in `alternation`. Exits with 1 when `rg` is missing or a median ratio is above the bound.

use serde_json::json;
use sortie::model::ToolCall;
use sortie::tool::{Ledger, ToolCallEnd, ToolContext, Toolset, builtin};
use sortie::workspace::Places;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What the project promises.
const BOUND: f64 = 1.2;
const FILES: usize = 20_000;
const FOLDERS: usize = 400;
const ROUNDS: usize = 21;

/// Name, pattern, and whether matches are only counted.
const CASES: [(&str, &str, bool); 6] = [
    ("rare literal", "zanzibar_needle", false),
    ("common word", "account", false),
    ("common word, counted", "account", true),
    ("alternation", r"(alpha|kilo|tango)_\d+ = (true|false)", false),
    ("word boundary, no case", r"(?i)\bneedle\b", false),
    ("no match", "this_is_nowhere_at_all", false),
];

fn main() -> ExitCode {
    // `cargo test --benches` runs this too; measuring in a debug build says nothing.
    if cfg!(debug_assertions) {
        return ExitCode::SUCCESS;
    }
    let mut out = std::io::stdout();
    match run(&mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every ratio is within the bound.
fn run(out: &mut impl std::io::Write) -> Result<bool, String> {
    let version = Command::new("rg").arg("--version").output().map_err(|error| {
        format!("`rg` cannot be started: {error}; it comes with the package `ripgrep` (apt-get install ripgrep)")
    })?;
    let version = String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default().to_string();
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let bytes = grow_tree(dir.path()).map_err(|error| format!("the tree cannot be written: {error}"))?;
    let root = dir.path().canonicalize().map_err(|error| error.to_string())?;
    let mut text =
        format!("search_code (A) and {version} (B), {FILES} files, {} MiB, {ROUNDS} rounds A B A B …\n", bytes >> 20);
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    let _ = writeln!(text, "B includes the start of its process; {threads} threads; medians; bound {BOUND}\n");
    let _ = writeln!(text, "{:<24} {:>10} {:>10} {:>8}", "pattern", "A ms", "B ms", "A/B");
    out.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let registry = builtin().map_err(|error| error.to_string())?;
    let tools = registry.subagent(&["search_code".to_string()]);
    let mut within = true;
    for (name, pattern, count) in CASES {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for round in 0..=ROUNDS {
            let a = timed(|| runtime.block_on(search(&tools, &root, pattern, count)))?;
            let b = timed(|| ripgrep(&root, pattern, count))?;
            // The first round only warms up.
            if round > 0 {
                ours.push(a);
                theirs.push(b);
            }
        }
        let (a, b) = (median(&mut ours), median(&mut theirs));
        let ratio = a / b;
        within &= ratio <= BOUND;
        writeln!(out, "{name:<24} {a:>10.1} {b:>10.1} {ratio:>8.2}").map_err(|error| error.to_string())?;
    }
    Ok(within)
}

async fn search(tools: &Toolset, root: &Path, pattern: &str, count: bool) -> Result<(), String> {
    let context = ToolContext {
        node: "bench".into(),
        places: Arc::new(Places::new(root.to_path_buf())),
        ledger: Arc::new(Ledger::default()),
        cancel: CancellationToken::new(),
    };
    let args = json!({"pattern": pattern, "mode": if count { "count" } else { "content" }});
    match tools.call(&ToolCall::new("1", "search_code", args), &context).await {
        ToolCallEnd::Done(_) => Ok(()),
        ToolCallEnd::Failed(problem) | ToolCallEnd::Fatal(problem) => Err(problem),
    }
}

fn ripgrep(root: &Path, pattern: &str, count: bool) -> Result<(), String> {
    let mut command = Command::new("rg");
    command.args(["--no-config", "--heading"]).arg(if count { "--count" } else { "--line-number" });
    command.arg("--regexp").arg(pattern).arg(root).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    // 1 is `no match`.
    if output.status.code().is_some_and(|code| code < 2) {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn timed(work: impl FnOnce() -> Result<(), String>) -> Result<Duration, String> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// In milliseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

/// Writes the tree, the same at every run; gives its size in bytes.
fn grow_tree(root: &Path) -> std::io::Result<u64> {
    #[rustfmt::skip]
    const WORDS: [&str; 24] = [
        "alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima",
        "balance", "let", "return", "account", "transfer", "ledger", "if", "self", "value", "result", "match", "tango",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: u64| {
        // xorshift64: good enough to make text, the same everywhere.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    // A repository, so that both read ignore files.
    std::fs::create_dir(root.join(".git"))?;
    std::fs::write(root.join(".gitignore"), "target/\n*.log\n")?;
    std::fs::create_dir(root.join("target"))?;
    std::fs::write(root.join("target/out.txt"), "account ".repeat(100_000))?;
    for folder in 0..FOLDERS {
        std::fs::create_dir_all(root.join(format!("part{}/module{folder}", folder % 20)))?;
    }
    let mut bytes = 0;
    let mut text = String::new();
    for file in 0..FILES {
        text.clear();
        // Most files are small, a few are large.
        let lines = if file % 1000 == 999 { 40_000 } else { 20 + random(400) };
        for line in 0..lines {
            for _ in 0..random(10) {
                text.push_str(WORDS[random(24) as usize]);
                text.push(' ');
            }
            if random(40) == 0 {
                let _ = write!(text, "{}_{} = {}", WORDS[random(24) as usize], random(100), random(2) == 0);
            }
            if line == 7 && file % 4000 == 3 {
                text.push_str("zanzibar_needle");
            }
            if random(20_000) == 0 {
                text.push_str("Needle ");
            }
            text.push('\n');
        }
        let folder = file % FOLDERS;
        std::fs::write(root.join(format!("part{}/module{folder}/file{file}.rs", folder % 20)), &text)?;
        bytes += text.len() as u64;
    }
    Ok(bytes)
}
