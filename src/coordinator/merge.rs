//! From the results of a plan to the one message that the parent conversation gets.
//!
//! Pure over plan and outcomes: no durations, usage, ids of runs or absolute paths, so serial and parallel runs of the
//! same outcomes merge to the same text. Bounded: the room goes first to the results that nobody has used yet (sinks, and
//! nodes whose dependents did not succeed), in equal shares; results that later nodes have already used get two lines, and
//! are the first to be left out.

use super::results::Results;
use crate::agent::{AttemptEnd, render};
use crate::plan::{Graph, Outcome, Plan};
use crate::text;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that the result of one node gets at least; where that is too much in all, some are only counted.
const MIN_RESULT: usize = 240;
/// Bytes of the line that says what was cut out of a result.
const GAP: usize = 48;
/// The part of the room, as a divisor, that overlaps and contradictions may take.
const NOTES_SHARE: usize = 4;
/// Lines that two places may be apart and count as the same.
const SAME_PLACE: u64 = 3;
/// Overlaps and contradictions that are listed.
const MAX_LISTED: usize = 12;
/// Names of nodes that one of them lists.
const MAX_NAMES: usize = 6;
/// Characters of a path or a field that one of them shows.
const MAX_SHOWN: usize = 200;

/// The merged message, at most about `room` bytes.
pub(super) fn merge(plan: &Plan, graph: &Graph, results: &Results<'_>, room: usize) -> String {
    let mut all: Vec<Part<'_>> = Vec::new();
    for node in 0..plan.nodes.len() {
        let used =
            graph.dependents(node).any(|dependent| results.end(dependent).is_some_and(|end| end.outcome.satisfies()));
        let parts = results.of(node).into_iter().map(|(name, end)| Part { name, end, used });
        all.extend(parts);
    }
    let mut out = format!("# {}: {}\n", plan.name, counts(all.iter().map(|part| part.end.outcome)));
    let notes = notes(&all);
    let notes = text::clip_middle(&notes, room / NOTES_SHARE);
    let room = room.saturating_sub(out.len() + notes.len());
    let most = (room / (MIN_RESULT + 1)).max(1);
    // Which results are shown at all is decided by their worth, in which order by the plan.
    let (used, unused): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(|at| all[*at].used);
    let mut shown: Vec<usize> = unused.into_iter().chain(used).take(most).collect();
    shown.sort_unstable();
    let shown: Vec<&Part<'_>> = shown.into_iter().map(|at| &all[at]).collect();
    for (part, room) in shown.iter().zip(rooms(&shown, room)) {
        out.push('\n');
        if part.used {
            let brief = render::brief(&part.name, part.end);
            let room = if brief.len() > room { room.saturating_sub(GAP) } else { room };
            out.push_str(&text::clip_middle(&brief, room));
        } else {
            out.push_str(&render::report(&part.name, part.end, room));
        }
    }
    if all.len() > shown.len() {
        let left = text::plural(all.len() - shown.len(), "more result");
        out.push_str(&format!("\n[{left} left out for lack of room]\n"));
    }
    out.push_str(&notes);
    out
}

/// Bytes for each part: what all get at least, then what nobody has used yet, then the others.
fn rooms(shown: &[&Part<'_>], room: usize) -> Vec<usize> {
    let lengths: Vec<usize> = shown.iter().map(|part| part.length()).collect();
    let mut rooms: Vec<usize> = lengths.iter().map(|length| MIN_RESULT.min(*length)).collect();
    for turn_of_used in [false, true] {
        // A blank line goes before each.
        let spare = room.saturating_sub(rooms.iter().sum::<usize>() + rooms.len());
        let wanted = shown.iter().zip(lengths.iter().zip(&rooms));
        let wanted: Vec<usize> =
            wanted.map(|(part, (length, has))| if part.used == turn_of_used { length - has } else { 0 }).collect();
        for (room, more) in rooms.iter_mut().zip(render::shares(&wanted, spare)) {
            *room += more;
        }
    }
    rooms
}

/// A node's result and whether a later node that ended well has used it.
struct Part<'a> {
    name: String,
    end: &'a AttemptEnd,
    used: bool,
}

impl Part<'_> {
    fn length(&self) -> usize {
        if self.used { render::brief(&self.name, self.end).len() } else { render::full_length(&self.name, self.end) }
    }
}

/// `5 nodes: 4 succeeded, 1 failed`, in the order of [`Outcome`].
fn counts(outcomes: impl Iterator<Item = Outcome>) -> String {
    let order = [
        Outcome::Succeeded,
        Outcome::Partial,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::TimedOut,
        Outcome::OverBudget,
        Outcome::Skipped,
    ];
    let outcomes: Vec<Outcome> = outcomes.collect();
    let counted: Vec<String> = order
        .iter()
        .map(|outcome| (outcome, outcomes.iter().filter(|other| *other == outcome).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(outcome, count)| format!("{count} {}", outcome.as_str().replace('_', " ")))
        .collect();
    format!("{}: {}", text::plural(outcomes.len(), "node"), counted.join(", "))
}

/// What only shows when results are laid side by side.
fn notes(all: &[Part<'_>]) -> String {
    let unused: Vec<&Part<'_>> = all.iter().filter(|part| !part.used).collect();
    let mut out = String::new();
    for (title, lines) in [("Overlaps", overlaps(&unused)), ("Contradictions", contradictions(&unused))] {
        if lines.is_empty() {
            continue;
        }
        out.push_str(&format!("\n## {title}\n"));
        for line in lines.iter().take(MAX_LISTED) {
            out.push_str(&format!("- {line}\n"));
        }
        if lines.len() > MAX_LISTED {
            out.push_str(&format!("- and {} more\n", lines.len() - MAX_LISTED));
        }
    }
    out
}

/// Places that several nodes cite.
fn overlaps(parts: &[&Part<'_>]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for part in parts {
        let findings = part.end.report.iter().flat_map(|report| &report.findings);
        for evidence in findings.flat_map(|finding| &finding.evidence) {
            places.entry(&evidence.path).or_default().push((evidence.line, &part.name));
        }
    }
    let mut lines = Vec::new();
    for (path, mut cited) in places {
        cited.sort_unstable();
        let mut rest = cited.as_slice();
        while let Some((line, _)) = rest.first() {
            let near = rest.iter().take_while(|(other, _)| other - line <= SAME_PLACE).count();
            let by: BTreeSet<&str> = rest[..near].iter().map(|(_, name)| *name).collect();
            if by.len() > 1 {
                let path = text::clip(path, MAX_SHOWN);
                lines.push(format!("{}:{line} is cited by {}", render::as_data(&path), names(by)));
            }
            rest = &rest[near..];
        }
    }
    lines
}

/// Yes-or-no fields of `output` on which nodes with the same fields differ. Nothing else can be compared without
/// understanding it; instances of one `foreach` node look at different things, so they may differ.
fn contradictions(parts: &[&Part<'_>]) -> Vec<String> {
    let mut fields: BTreeMap<(String, &str), BTreeMap<bool, Vec<&str>>> = BTreeMap::new();
    for part in parts.iter().filter(|part| !part.name.ends_with(']')) {
        let Some(object) = part.end.report.as_ref().and_then(|report| report.output.as_ref()?.as_object()) else {
            continue;
        };
        // Only outputs of one shape are about the same thing.
        let shape: Vec<&str> = object.keys().map(String::as_str).collect();
        for (field, value) in object.iter().filter_map(|(field, value)| Some((field, value.as_bool()?))) {
            fields.entry((shape.join(","), field)).or_default().entry(value).or_default().push(&part.name);
        }
    }
    let differing = fields.into_iter().filter(|(_, by_value)| by_value.len() > 1);
    differing
        .map(|((_, field), by_value)| {
            let sides: Vec<String> =
                by_value.into_iter().map(|(value, by)| format!("{value} ({})", names(by))).collect();
            format!("`{}`: {}", render::as_data(&text::clip(field, MAX_SHOWN)), sides.join(" against "))
        })
        .collect()
}

/// The first few of these names and how many more there are.
fn names<'a>(all: impl IntoIterator<Item = &'a str, IntoIter: ExactSizeIterator>) -> String {
    let mut all = all.into_iter();
    let shown: Vec<&str> = all.by_ref().take(MAX_NAMES).collect();
    let more = if all.len() > 0 { format!(" and {} more", all.len()) } else { String::new() };
    shown.join(", ") + &more
}
