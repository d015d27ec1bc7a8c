//! Scout as the coordinator: splits the tree, submits a plan with one node per part, compares what came back, answers.

use super::conversation::{Call, Next, SUBMIT_PLAN, Talk};
use super::findings::{self, DISCLOSURE};
use super::place::{self, Scope};
use super::query::Query;
use super::rank::Ranked;
use super::split;
use super::subagent::{Seen, code_listing, look};
use crate::agent::Confidence;
use crate::text::{self, plural};
use serde_json::json;

/// Places in an answer.
const MAX_ANSWERED: usize = 5;

/// The next step of a coordinator.
pub(super) fn coordinate(talk: &mut Talk<'_>) -> Next {
    if talk.asks_for_change() {
        return refusal();
    }
    plan_and_answer(talk).unwrap_or_else(|next| next)
}

/// The next step where there is only an answer to give.
pub(super) fn read_and_answer(talk: &Talk<'_>) -> Next {
    if talk.asks_for_change() {
        return refusal();
    }
    let answer = || {
        let scope = place::of_task(talk, &talk.task)?;
        let query = Query::new(&talk.question);
        let seen = look(talk, &query, &scope)?;
        Ok(answer(&query, &scope, &seen, ""))
    };
    answer().unwrap_or_else(|next| next)
}

fn plan_and_answer(talk: &mut Talk<'_>) -> Result<Next, Next> {
    let scope = place::of_task(talk, &talk.task)?;
    let query = Query::new(&talk.question);
    let answers = talk.answers_of(SUBMIT_PLAN);
    let merged = answers.iter().rev().find(|(_, failed)| !failed).map(|(text, _)| *text);
    let refused = answers.iter().rev().find(|(_, failed)| *failed).map(|(text, _)| *text);
    if query.concepts.is_empty() {
        return Ok(Next::Say(format!("{}\n\n{DISCLOSURE}.", findings::sentence(&query, &[], &scope.shown()))));
    }
    let already_run = !talk.reports.is_empty();
    if merged.is_none() && refused.is_none() && !already_run {
        let listing = code_listing(talk, &scope)?;
        let parts = split::parts(&listing, split::MAX_PARTS);
        if parts.is_empty() {
            return Ok(Next::Say(format!("There is no file to search in {}.\n\n{DISCLOSURE}.", scope.shown())));
        }
        let say = format!("Asking {} of similar size at once.", plural(parts.len(), "part"));
        return Ok(Next::Call { say, calls: vec![plan(&talk.question, &parts)] });
    }
    let note = match merged {
        Some(merged) => {
            talk.reports = merged.to_string();
            String::new()
        }
        None if already_run => String::new(),
        None => format!(
            "The plan was not taken ({}), so this is what one look found.",
            text::clip(refused.unwrap_or_default(), 200)
        ),
    };
    let seen = look(talk, &query, &scope)?;
    Ok(answer(&query, &scope, &seen, &note))
}

fn plan(question: &str, parts: &[Vec<String>]) -> Call {
    let mut ids: Vec<String> = Vec::new();
    let mut nodes = Vec::new();
    for part in parts {
        let paths: Vec<String> = part.iter().map(|path| format!("`{path}`")).collect();
        let id = id_of(part, &ids);
        nodes.push(json!({ "id": id, "prompt": literal(&format!("In {}: {}", paths.join(", "), question.trim())) }));
        ids.push(id);
    }
    Call { name: SUBMIT_PLAN, args: json!({ "name": "ask every part", "node": nodes }) }
}

/// A node id that says what the part is: its first path.
fn id_of(part: &[String], taken: &[String]) -> String {
    let path = part.first().map(String::as_str).unwrap_or_default();
    let mut id = String::new();
    for c in path.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' | '_' => id.push(c),
            _ if !id.is_empty() && !id.ends_with('-') => id.push('-'),
            _ => {}
        }
    }
    let id: String = id.trim_matches(|c| c == '-' || c == '_').chars().take(32).collect();
    let id = if id.starts_with(|c: char| c.is_ascii_lowercase()) { id } else { format!("part-{id}") };
    let id = id.trim_end_matches('-').to_string();
    let free = |id: &String| !taken.contains(id);
    if free(&id) {
        return id;
    }
    (2..).map(|at| format!("{id}-{at}")).find(free).unwrap_or(id)
}

/// Prompts are templates; text with braces must not be read as one.
fn literal(prompt: &str) -> String {
    let template = ["{{", "{%", "{#"].iter().any(|mark| prompt.contains(mark));
    if template && !prompt.contains("endraw") {
        format!("{{% raw %}}{prompt}{{% endraw %}}")
    } else {
        prompt.to_string()
    }
}

fn refusal() -> Next {
    Next::Say(
        "This asks for a change, and builtin/scout only reads: nothing was done.\n\nNext step: run it again with a language \
         model, `--model provider/model`. builtin/scout answers questions about where and how something is done."
            .to_string(),
    )
}

fn answer(query: &Query, scope: &Scope, seen: &Seen, note: &str) -> Next {
    let mut out = findings::sentence(query, &seen.ranked, &scope.shown());
    out.push_str("\n\n");
    for (at, one) in seen.ranked.iter().take(MAX_ANSWERED).enumerate() {
        out.push_str(&entry(query, &seen.ranked, at, one));
    }
    if !seen.ranked.is_empty() {
        out.push('\n');
    }
    let files = plural(seen.stats.files as usize, "file");
    let nodes = match seen.used.len() {
        0 => String::new(),
        count => format!(" by {}", plural(count, "subagent")),
    };
    out.push_str(&format!("Searched: {files} in {}{nodes}.", scope.shown()));
    let missing = findings::missing(query, &seen.stats);
    if !missing.is_empty() {
        let words: Vec<String> = missing.iter().map(|word| format!("`{word}`")).collect();
        out.push_str(&format!(" Not found anywhere: {}.", words.join(", ")));
    }
    if !note.is_empty() {
        out.push_str(&format!(" {note}"));
    }
    out.push_str(&format!("\n{DISCLOSURE}.\n"));
    Next::Say(out)
}

fn entry(query: &Query, ranked: &[Ranked], at: usize, one: &Ranked) -> String {
    let sure = match findings::confidence(ranked, at) {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    };
    let line = one.best.first().map_or(1, |(line, _)| *line);
    let inside = one.inside.as_ref().map(|inside| format!(" in `{inside}`")).unwrap_or_default();
    let words: Vec<&str> =
        one.concepts.iter().filter_map(|at| query.concepts.get(*at)).map(|c| c.name.as_str()).collect();
    let mut out = format!("{}. `{}:{line}`{inside} [{sure}]: {}\n", at + 1, one.path, words.join(", "));
    for (line, quote) in one.best.iter().take(2) {
        out.push_str(&format!("   {line}: {}\n", text::clip(quote.trim(), 160)));
    }
    out
}
