//! Scout's quality as a number: asks every question of `questions.toml` as `sortie run "…"` would, from the
//! coordinator's plan to its answer, and looks where the right files stand in the answer.
//!
//! ```text
//! tests/scout/run [DIR]                                   # fetches the packages first
//! cargo run --release --example scout_eval -- DIR [--verbose] [--only PACKAGE] [--split dev|test] \
//!     [--questions tests/scout/more_dev.toml]
//! ```
//!
//! Exit status: 0 good enough, 1 below the target or too close to a baseline, 2 it could not run.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command that prints a table")]

use serde::Deserialize;
use serde_json::Value;
use sortie::agent::Role;
use sortie::cancel::Cancel;
use sortie::config::RunConfig;
use sortie::coordinator::{self, Harness};
use sortie::model::{Models, Scout};
use sortie::permission::Nobody;
use sortie::store::MemoryStore;
use sortie::tool;
use sortie::workspace::Shared;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Share of questions whose right file must be among the first three.
const TARGET: f64 = 0.75;
/// How much better than each baseline that must be.
const MARGIN: f64 = 0.10;

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize)]
struct Questions {
    package: Vec<Package>,
    question: Vec<Question>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

#[derive(Deserialize, Clone)]
struct Question {
    package: String,
    split: String,
    text: String,
    files: Vec<String>,
}

struct Options {
    data: PathBuf,
    verbose: bool,
    only: Option<String>,
    split: Option<String>,
    questions: PathBuf,
}

/// What became of one question.
struct Row {
    package: String,
    split: String,
    rank: Option<usize>,
    rarest: Option<usize>,
    bm25: Option<usize>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("scout_eval: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<bool, Failure> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scout");
    let options = options(&here)?;
    let spec: Questions = toml::from_str(&std::fs::read_to_string(&options.questions)?)?;
    let baselines = baselines(&here, &options)?;
    let mut rows = Vec::new();
    let mut slowest = Duration::ZERO;
    let started = Instant::now();
    for (number, question) in spec.question.iter().enumerate() {
        let wanted = |value: &String, only: &Option<String>| only.as_ref().is_none_or(|only| only == value);
        if !wanted(&question.package, &options.only) || !wanted(&question.split, &options.split) {
            continue;
        }
        let package = spec.package.iter().find(|package| package.name == question.package);
        let package = package.ok_or_else(|| format!("question {} names an unknown package", number + 1))?;
        let root = options.data.join(format!("{}-{}", package.name, package.version));
        let asked = Instant::now();
        let answer = ask(&root, &question.text).await?;
        slowest = slowest.max(asked.elapsed());
        let ranking = ranking(&answer);
        let rank = ranking.iter().position(|path| question.files.contains(path)).map(|at| at + 1);
        // Misses of the held-out half stay unseen: whoever tunes must not look.
        if options.verbose && question.split == "dev" && rank.is_none_or(|rank| rank > 3) {
            println!(
                "miss: {} ({})\n  wanted {}, got:\n{}",
                question.text,
                question.package,
                question.files.join(" or "),
                indented(&answer)
            );
        }
        let (rarest, bm25) = baselines.get(&(number as u64 + 1)).copied().unwrap_or_default();
        rows.push(Row { package: question.package.clone(), split: question.split.clone(), rank, rarest, bm25 });
    }
    let good = table(&spec, &rows);
    println!("{} questions in {:.0?}, the slowest took {slowest:.1?}", rows.len(), started.elapsed());
    Ok(good)
}

fn options(here: &Path) -> Result<Options, Failure> {
    let questions = here.join("questions.toml");
    let mut options = Options { data: PathBuf::new(), verbose: false, only: None, split: None, questions };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--verbose" => options.verbose = true,
            "--only" => options.only = Some(args.next().ok_or("--only needs a package")?),
            "--split" => options.split = Some(args.next().ok_or("--split needs dev or test")?),
            "--questions" => options.questions = args.next().ok_or("--questions needs a file")?.into(),
            dir => options.data = PathBuf::from(dir),
        }
    }
    if !options.data.is_dir() {
        return Err("give the directory that tests/scout/fetch filled".into());
    }
    Ok(options)
}

/// One question, as `sortie run` asks it; the answer's text.
async fn ask(root: &Path, question: &str) -> Result<String, Failure> {
    let mut config = RunConfig::new();
    config.task = Some(question.to_string());
    let harness = Harness {
        models: Models::new(Arc::new(Scout)),
        registry: tool::builtin()?,
        roles: Role::built_in(),
        workspace: Arc::new(Shared::new(root)?),
        store: Arc::new(MemoryStore::new()),
        approver: Arc::new(Nobody),
        reporters: Vec::new(),
    };
    let end = coordinator::run(config, harness, &Cancel::new()).await?;
    if let Some(problem) = end.problem {
        return Err(format!("{question}: {problem}").into());
    }
    Ok(end.answer)
}

/// The files of an answer's numbered places, best first: ``1. `src/a.rs:12` …``.
fn ranking(answer: &str) -> Vec<String> {
    let place = |line: &str| {
        let (number, rest) = line.split_once(". `")?;
        number.parse::<usize>().ok()?;
        let (place, _) = rest.split_once('`')?;
        Some(place.rsplit_once(':')?.0.to_string())
    };
    answer.lines().filter_map(place).collect()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// Where the right file stands with the rarest word and with BM25, counted from 1.
type Ranks = (Option<usize>, Option<usize>);

/// Ranks of both baselines by the question's number.
fn baselines(here: &Path, options: &Options) -> Result<HashMap<u64, Ranks>, Failure> {
    let output = std::process::Command::new("python3")
        .arg(here.join("baselines.py"))
        .args(["--json", "--questions"])
        .arg(&options.questions)
        .arg(&options.data)
        .output()?;
    if !output.status.success() {
        return Err(format!("baselines.py failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let all: Value = serde_json::from_slice(&output.stdout)?;
    let rank = |row: &Value, name: &str| row[name].as_u64().map(|rank| rank as usize);
    let rows = all["questions"].as_array().into_iter().flatten();
    Ok(rows.map(|row| (row["number"].as_u64().unwrap_or_default(), (rank(row, "rarest"), rank(row, "bm25")))).collect())
}

/// Prints the table and says whether all of it is good enough.
fn table(spec: &Questions, rows: &[Row]) -> bool {
    println!("{:<10} {:<5} {:>4}   {:^20}   {:>6}   {:>6}", "", "", "", "scout", "rarest", "global");
    println!(
        "{:<10} {:<5} {:>4}   {:>6} {:>6} {:>6}   {:>6}   {:>6}",
        "package", "split", "n", "top-1", "top-3", "MRR", "top-3", "BM25"
    );
    let mut good = true;
    let names = spec.package.iter().map(|package| package.name.as_str()).chain(["all"]);
    for name in names {
        for split in ["dev", "test", "all"] {
            let chosen: Vec<&Row> = rows
                .iter()
                .filter(|row| (name == "all" || row.package == name) && (split == "all" || row.split == split))
                .collect();
            if chosen.is_empty() {
                continue;
            }
            let share = |rank: fn(&Row) -> Option<usize>, within: usize| {
                chosen.iter().filter(|row| rank(row).is_some_and(|rank| rank <= within)).count() as f64
                    / chosen.len() as f64
            };
            let mrr: f64 = chosen.iter().filter_map(|row| row.rank).map(|rank| 1.0 / rank as f64).sum::<f64>()
                / chosen.len() as f64;
            let (top1, top3) = (share(|row| row.rank, 1), share(|row| row.rank, 3));
            let (rarest, bm25) = (share(|row| row.rarest, 3), share(|row| row.bm25, 3));
            println!(
                "{name:<10} {split:<5} {:>4}   {:>5.0}% {:>5.0}% {mrr:>6.2}   {:>5.0}%   {:>5.0}%",
                chosen.len(),
                top1 * 100.0,
                top3 * 100.0,
                rarest * 100.0,
                bm25 * 100.0
            );
            if name == "all" && split == "all" {
                good = top3 >= TARGET && top3 >= rarest + MARGIN && top3 >= bm25 + MARGIN;
            }
        }
    }
    good
}
