//! Scout as a subagent: looks at its part of the tree, or weighs what the nodes before it found, and reports.

use super::conversation::{Call, Next, REPORT, Talk};
use super::evidence;
use super::fill::{Material, fill};
use super::findings::{self, DISCLOSURE};
use super::place::{self, Scope};
use super::query::Query;
use super::rank::{Ranked, Stats};
use super::source::{Vocabulary, is_aside};
use super::split::{self, Listing};
use super::survey::{self, Area, CODE};
use crate::agent::report::{MAX_NOTE, MAX_NOTES, MAX_SUMMARY};
use crate::agent::{Finding, Report, ReportStatus};
use crate::text;
use serde_json::Value;

/// Findings in a report.
const MAX_REPORTED: usize = 12;
/// Files that are read again of those that other nodes named: of each node, and in all.
const PER_NODE: usize = 11;
const MAX_WEIGHED: usize = 64;

/// The next step of a subagent.
pub(super) fn next(talk: &Talk<'_>, output: Option<&Value>) -> Next {
    work(talk, output).unwrap_or_else(|next| next)
}

fn work(talk: &Talk<'_>, output: Option<&Value>) -> Result<Next, Next> {
    if talk.asks_for_change() {
        return Ok(blocked());
    }
    let scope = place::of_task(talk, &talk.task)?;
    let query = Query::new(&talk.question);
    let seen = look(talk, &query, &scope)?;
    let parts = match output {
        Some(_) if seen.used.is_empty() => parts(talk, &scope)?,
        Some(_) | None => Vec::new(),
    };
    Ok(report(&query, &scope, &seen, &parts, output))
}

/// What looking came to.
pub(super) struct Seen {
    /// Files, best first.
    pub(super) ranked: Vec<Ranked>,
    /// Numbers over the area.
    pub(super) stats: Stats,
    /// Nodes whose reports were used.
    pub(super) used: Vec<String>,
    /// Whether there was no code, so that every file was looked at.
    pub(super) everything: bool,
}

/// Looks at a scope. With the reports of others it starts from the files that these name and compares them on one scale;
/// otherwise from counts over the scope.
pub(super) fn look(talk: &Talk<'_>, query: &Query, scope: &Scope) -> Result<Seen, Next> {
    let vocabulary = Vocabulary::new(query);
    let named = weighed(&talk.reports);
    let used: Vec<String> = if named.is_empty() { Vec::new() } else { evidence::nodes(&talk.reports) };
    let mut everything = false;
    let mut counted = survey::count(talk, query, &Area::code(&scope.paths, &scope.files), named.is_empty())?;
    if counted.stats.files == 0 {
        everything = true;
        counted = survey::count(talk, query, &Area::everything(&scope.paths, &scope.files), named.is_empty())?;
    }
    let files = if named.is_empty() { counted.promising(query, &vocabulary) } else { named };
    let docs = survey::read(talk, &files, &counted.lengths, &vocabulary)?;
    let ranked = survey::rank(query, &counted.stats, &vocabulary, &docs);
    Ok(Seen { ranked, stats: counted.stats, used, everything })
}

/// Files that reports name, the first of each node first: asides only while there is room.
fn weighed(reports: &str) -> Vec<String> {
    let places = evidence::places(reports);
    let mut files: Vec<String> = Vec::new();
    for aside in [false, true] {
        for node in evidence::nodes(reports).into_iter().chain([String::new()]) {
            let of_node = places.iter().filter(|(by, place)| *by == node && is_aside(&place.path) == aside);
            for (_, place) in of_node.take(if aside { 1 } else { PER_NODE }) {
                if files.len() < MAX_WEIGHED && !files.contains(&place.path) {
                    files.push(place.path.clone());
                }
            }
        }
    }
    files
}

/// The scope in parts that one path each stands for: code where there is any, tests and docs only where there is no other.
fn parts(talk: &Talk<'_>, scope: &Scope) -> Result<Vec<String>, Next> {
    let paths = split::single(&code_listing(talk, scope)?, split::MAX_PARTS);
    let code: Vec<String> = paths.iter().filter(|path| !is_aside(&format!("{path}/"))).cloned().collect();
    Ok(if code.is_empty() { paths } else { code })
}

/// The files to split: code where there is any.
pub(super) fn code_listing(talk: &Talk<'_>, scope: &Scope) -> Result<Listing, Next> {
    if scope.paths.is_empty() {
        let result = talk.ask("Looking what there is.", &[place::list_matching(CODE)])?;
        let mut code = Listing::parse(result.first().copied().flatten().unwrap_or_default());
        if code.files() > 0 {
            place::expand(talk, &mut code, Some(CODE))?;
            return Ok(code);
        }
    }
    listing(talk, scope)
}

/// All files of a scope, by folder where there are many.
fn listing(talk: &Talk<'_>, scope: &Scope) -> Result<Listing, Next> {
    let folders: Vec<String> = if scope.paths.is_empty() { vec![".".to_string()] } else { scope.paths.clone() };
    let calls: Vec<Call> = folders.iter().map(|path| place::list(path)).collect();
    let results = talk.ask("Looking what there is.", &calls)?;
    let mut all = Listing::default();
    for result in results {
        let one = Listing::parse(result.unwrap_or_default());
        all.by_folder |= one.by_folder;
        all.rows.extend(one.rows);
    }
    place::expand(talk, &mut all, None)?;
    Ok(all)
}

fn blocked() -> Next {
    hand_in(&Report {
        status: ReportStatus::Blocked,
        summary:
            "This task asks for a change, and builtin/scout only reads: nothing was done. Next step: run it with a \
                  language model (`--model provider/model`)."
                .to_string(),
        findings: Vec::new(),
        decisions: vec![DISCLOSURE.to_string()],
        open_questions: Vec::new(),
        used_inputs: Vec::new(),
        output: None,
        body: None,
    })
}

fn report(query: &Query, scope: &Scope, seen: &Seen, parts: &[String], schema: Option<&Value>) -> Next {
    let found: Vec<Finding> = findings::of_ranked(query, &seen.ranked, MAX_REPORTED);
    let mut summary = findings::sentence(query, &seen.ranked, &scope.shown());
    let mut open_questions: Vec<String> = findings::missing(query, &seen.stats)
        .into_iter()
        .map(|word| format!("`{word}` and words like it occur nowhere in {}.", scope.shown()))
        .collect();
    let material = Material { parts, findings: &found, answer: &summary, follows_others: !seen.used.is_empty() };
    let (output, cannot) = match schema.map(|schema| fill(schema, &material)) {
        None => (None, None),
        Some(Ok(output)) => (Some(output), None),
        Some(Err(why)) => (None, Some(why)),
    };
    let mut status = ReportStatus::Done;
    if let Some(why) = cannot {
        status = ReportStatus::Partial;
        open_questions.insert(0, format!("No output: {why}. A language model could (`--model provider/model`)."));
        summary.push_str(&format!(" No output was filled in: {why}."));
    }
    if seen.stats.files == 0 {
        status = ReportStatus::Partial;
        open_questions.push(format!("There was no file to search in {}.", scope.shown()));
    }
    let mut decisions = vec![DISCLOSURE.to_string()];
    if seen.everything && seen.stats.files > 0 {
        decisions.push("There is no code here, so files of every kind were searched.".to_string());
    }
    hand_in(&Report {
        status,
        summary: text::clip(&summary, MAX_SUMMARY - 40).into_owned(),
        findings: found,
        decisions,
        open_questions: open_questions
            .iter()
            .take(MAX_NOTES)
            .map(|note| note.chars().take(MAX_NOTE).collect())
            .collect(),
        used_inputs: seen.used.clone(),
        output,
        body: None,
    })
}

fn hand_in(report: &Report) -> Next {
    let args = serde_json::to_value(report).unwrap_or_default();
    Next::Call { say: String::new(), calls: vec![Call { name: REPORT, args }] }
}
