//! `sortie show RUN [NODE]`: what a run did, from its record.

use super::out::Out;
use super::runs::{Format, runs_of, short, status};
use serde_json::json;
use sortie::error::{Error, exit};
use sortie::store::{FoundRun, NodeRecord, RunRecord, find_runs};
use sortie::text::{one_line, plural, printable};
use sortie::ui::{RunResult, node_detail, table};

/// Candidates that an error names at most.
const CANDIDATES: usize = 10;

/// Show what a run did, or one node of it.
///
/// A run alone gives its table and its answer. With a node: what it was told, what it reported with evidence, what it
/// read and left unread, and every tool call it made.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The run's id, enough of its start or end to tell it, or `last`
    run: String,
    /// A node of it, or `coordinator`
    node: Option<String>,
    #[command(flatten)]
    workspace: super::WorkspaceArgs,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn main(args: ShowArgs, out: &mut Out) -> Result<u8, Error> {
    let runs = runs_of(&args.workspace)?;
    let found = the_one(&runs, &args.run)?;
    let text = match &args.node {
        None => show_run(found, args.output, out),
        Some(node) => show_node(found, node, args.output)?,
    };
    out.data(&text)?;
    Ok(exit::OK)
}

fn show_run(found: &FoundRun, format: Format, out: &mut Out) -> String {
    let record = RunRecord::read(found, |_| {});
    for problem in &record.problems {
        out.note(&format!("warning: {}", one_line(problem, 400)));
    }
    match format {
        Format::Json => format!("{:#}\n", json!(RunResult::from(&record.summary))),
        Format::Text => run_text(&record, out.stdout_columns()),
    }
}

fn run_text(record: &RunRecord, columns: Option<usize>) -> String {
    let summary = &record.summary;
    let mut text = format!("run {} ({})\n", one_line(&record.found.id, 100), one_line(status(record), 40));
    if let Some(task) = &summary.task {
        text.push_str(&format!("{}\n", printable(task).trim_end()));
    }
    for notice in &summary.notices {
        text.push_str(&format!("note: {}\n", one_line(notice, 400)));
    }
    let nodes = table(summary, columns);
    if !nodes.is_empty() {
        text.push_str(&format!("\n{nodes}"));
    }
    if let Some(result) = summary.result_text() {
        text.push_str(&format!("\n{}\n", printable(result).trim_end()));
    }
    text
}

fn show_node(found: &FoundRun, node: &str, format: Format) -> Result<String, Error> {
    let Some(record) = NodeRecord::read(found, node) else { return Err(no_such_node(found, node)) };
    Ok(match format {
        Format::Text => node_detail(&record),
        Format::Json => {
            let transcript: Vec<_> = record.transcript.iter().map(|line| line.to_value()).collect();
            let value = json!({
                "version": 1,
                "run": found.id,
                "node": record.node,
                "attempt": record.attempt,
                "end": record.end.as_ref().map(|(end, _)| end),
                "duration_ms": record.end.as_ref().map(|(_, ms)| ms),
                "transcript": transcript,
                "problems": record.problems,
            });
            format!("{value:#}\n")
        }
    })
}

/// A node that the run does not have, with those that it has.
pub(crate) fn no_such_node(found: &FoundRun, node: &str) -> Error {
    let summary = RunRecord::read(found, |_| {}).summary;
    let names: Vec<String> = summary.nodes().map(|node| format!("`{}`", one_line(&node.id, 60))).collect();
    let error = Error::usage(format!("run `{}` has no node `{}`", short(&found.id), one_line(node, 60)));
    match names.len() {
        0 => error.hint("the run has no nodes"),
        1..=CANDIDATES => error.hint(format!("its nodes are {}", names.join(", "))),
        all => error.hint(format!("its nodes are {} and {} more", names[..CANDIDATES].join(", "), all - CANDIDATES)),
    }
}

/// The one run that the user means.
pub(crate) fn the_one<'a>(runs: &'a [FoundRun], wanted: &str) -> Result<&'a FoundRun, Error> {
    let wanted_shown = one_line(wanted, 60);
    match find_runs(runs, wanted).as_slice() {
        [one] => Ok(one),
        [] if runs.is_empty() => Err(Error::usage("there are no runs here")
            .hint("`sortie run \"a question\"` starts one; `-C DIR` looks elsewhere")),
        [] => {
            Err(Error::usage(format!("there is no run `{wanted_shown}`"))
                .hint(candidates("the latest are", runs.iter())))
        }
        several => Err(Error::usage(format!("`{wanted_shown}` means {}", plural(several.len(), "run")))
            .hint(candidates("they are", several.iter().copied()))),
    }
}

fn candidates<'a>(words: &str, runs: impl Iterator<Item = &'a FoundRun>) -> String {
    let ids: Vec<String> = runs.take(CANDIDATES).map(|run| format!("`{}`", one_line(&run.id, 60))).collect();
    format!("{words} {}", ids.join(", "))
}
