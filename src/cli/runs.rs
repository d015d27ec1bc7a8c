//! `sortie runs`: the runs of a workspace, newest first.

use super::out::Out;
use super::state::state_dir;
use serde_json::json;
use sortie::error::{Error, exit};
use sortie::store::{FoundRun, RunRecord, newest_first, run_roots};
use sortie::text::{one_line, plural};
use sortie::ui::{duration, quantity};

/// List the runs of this workspace, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    workspace: super::WorkspaceArgs,
    /// Show at most this many
    #[arg(short = 'n', long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// How a list or a record is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object
    Json,
}

pub(crate) fn main(args: RunsArgs, out: &mut Out) -> Result<u8, Error> {
    let found = runs_of(&args.workspace)?;
    let shown: Vec<RunRecord> =
        found.iter().take(args.limit as usize).map(|run| RunRecord::read(run, |_| {})).collect();
    match args.output {
        Format::Json => {
            let runs: Vec<_> = shown.iter().map(as_json).collect();
            out.data(&format!("{:#}\n", json!({ "version": 1, "runs": runs })))?;
        }
        Format::Text if shown.is_empty() => {
            out.note("no runs here yet; `sortie run \"a question\"` starts one");
        }
        Format::Text => {
            let columns = out.stdout_columns();
            out.data(&table(&shown, columns))?;
            let older = found.len() - shown.len();
            if older > 0 {
                out.note(&format!("… and {}; `--limit {}` shows all", plural(older, "older run"), found.len()));
            }
        }
    }
    Ok(exit::OK)
}

/// The runs of this workspace, newest first, wherever they are recorded.
pub(crate) fn runs_of(workspace: &super::WorkspaceArgs) -> Result<Vec<FoundRun>, Error> {
    let directory = &workspace.directory;
    // A directory that does not exist should not look like one without runs.
    let absolute = directory.canonicalize().map_err(|error| super::cannot_read(directory, &error))?;
    std::fs::read_dir(&absolute).map_err(|error| super::cannot_read(directory, &error))?;
    newest_first(&run_roots(&absolute, state_dir().as_deref())).map_err(|error| Error::failed(error.to_string()))
}

/// The end of an id: ids of one day begin alike.
pub(crate) fn short(id: &str) -> String {
    let from = sortie::text::ceil_boundary(id, id.len().saturating_sub(8));
    one_line(&id[from..], 8)
}

/// Status of a run in a word.
pub(crate) fn status(record: &RunRecord) -> &str {
    match &record.summary.ended {
        _ if record.is_broken() => "broken",
        Some((status, _)) => status,
        None => "unfinished",
    }
}

/// What the run was about, or why nothing can be said.
fn about(record: &RunRecord) -> String {
    let header = record.header.as_ref();
    let task = record.summary.task.as_deref().or(header.and_then(|header| header.task.as_deref()));
    let plan = record.summary.plans.first().map(String::as_str).or(header.and_then(|header| header.plan.as_deref()));
    match (task, plan) {
        _ if record.is_broken() => record.problems.first().cloned().unwrap_or_else(|| "its log is empty".to_string()),
        (Some(task), _) => record.summary.title.as_deref().unwrap_or(task).to_string(),
        (None, Some(plan)) => format!("plan {plan}"),
        (None, None) => String::new(),
    }
}

fn started(record: &RunRecord) -> Option<sortie::event::Timestamp> {
    record.header.as_ref().map(|header| header.created).or(record.summary.started)
}

fn table(records: &[RunRecord], columns: Option<usize>) -> String {
    let mut rows = vec![["run", "started (UTC)", "status", "nodes", "time", "tokens", "about"].map(str::to_string)];
    rows.extend(records.iter().map(|record| {
        let summary = &record.summary;
        // Numbers of a run of which nothing is known would be lies.
        let number = |text: String| if record.is_broken() { String::new() } else { text };
        [
            short(&record.found.id),
            started(record).map(|at| at.minute()).unwrap_or_default(),
            one_line(status(record), 20),
            number(summary.counts().all().to_string()),
            number(duration(summary.duration_ms())),
            number(quantity(summary.usage.total())),
            about(record),
        ]
    }));
    sortie::ui::columns(&rows, columns, &[3, 4, 5])
}

fn as_json(record: &RunRecord) -> serde_json::Value {
    let summary = &record.summary;
    json!({
        "run": record.found.id,
        "dir": record.found.dir.display().to_string(),
        "started": started(record),
        "status": status(record),
        "exit_code": summary.ended.as_ref().map(|(_, code)| code),
        "task": summary.task.as_ref().or(record.header.as_ref().and_then(|header| header.task.as_ref())),
        "plan": summary.plans.first().or(record.header.as_ref().and_then(|header| header.plan.as_ref())),
        "title": summary.title,
        "nodes": summary.counts().all(),
        "duration_ms": summary.duration_ms(),
        "usage": summary.usage,
        "problems": record.problems,
    })
}
