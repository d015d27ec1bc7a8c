//! From ranked files to what is handed in: claims with quotes, an answer in words, and what was not found. Pure.

use super::query::Query;
use super::rank::{Ranked, Stats};
use crate::agent::report::{MAX_CLAIM, MAX_QUOTE};
use crate::agent::{Confidence, Evidence, Finding};
use crate::text;

/// What users are told before they trust an answer.
pub(super) const DISCLOSURE: &str = "builtin/scout is not a language model: it searches, reads and ranks by fixed rules, and it cannot reason or change files";

/// How sure a ranking by words can be of one of its results.
pub(super) fn confidence(ranked: &[Ranked], at: usize) -> Confidence {
    let Some(one) = ranked.get(at) else { return Confidence::Low };
    let best = ranked.first().map_or(0.0, |first| first.score);
    let next = ranked.get(at + 1).map_or(0.0, |next| next.score);
    if at == 0 && one.coverage >= 0.6 && one.score > next * 1.25 {
        Confidence::High
    } else if one.coverage >= 0.35 && one.score * 2.0 >= best {
        Confidence::Medium
    } else {
        Confidence::Low
    }
}

/// The best files as findings.
pub(super) fn of_ranked(query: &Query, ranked: &[Ranked], most: usize) -> Vec<Finding> {
    let finding = |(at, one): (usize, &Ranked)| Finding {
        claim: text_of(&claim(query, one), MAX_CLAIM),
        evidence: one.best.iter().map(|(line, quote)| evidence(&one.path, *line, quote)).collect(),
        confidence: confidence(ranked, at),
    };
    ranked.iter().enumerate().take(most).map(finding).collect()
}

fn evidence(path: &str, line: u64, quote: &str) -> Evidence {
    Evidence { path: path.to_string(), line, quote: text_of(quote.trim(), MAX_QUOTE), check: None }
}

/// The first characters of a text, nothing added: quotes must stand in the file as they are.
fn text_of(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

fn claim(query: &Query, one: &Ranked) -> String {
    let named: Vec<&str> =
        one.concepts.iter().filter_map(|at| query.concepts.get(*at)).map(|c| c.name.as_str()).collect();
    format!("{} speaks of: {}", place(one), named.join(", "))
}

/// `src/a.rs` (`fn x`, line 12).
pub(super) fn place(one: &Ranked) -> String {
    match (&one.inside, one.best.first()) {
        (Some(inside), Some((line, _))) => format!("`{}` (`{inside}`, line {line})", one.path),
        (None, Some((line, _))) => format!("`{}` (line {line})", one.path),
        (_, None) => format!("`{}`", one.path),
    }
}

/// One sentence that answers, as far as words can.
pub(super) fn sentence(query: &Query, ranked: &[Ranked], place_shown: &str) -> String {
    let Some(first) = ranked.first() else {
        let words: Vec<String> = query.concepts.iter().take(8).map(|concept| format!("`{}`", concept.name)).collect();
        return match words.is_empty() {
            true => "The question has no word that could be searched for; name what you are looking for.".to_string(),
            false => format!("Nothing in {place_shown} speaks of {}.", words.join(", ")),
        };
    };
    let sure = match confidence(ranked, 0) {
        Confidence::High => "Most likely in",
        Confidence::Medium => "Probably in",
        Confidence::Low => "Nothing fits well; the closest is",
    };
    let quote = first.best.first().map(|(_, line)| format!(": `{}`", text::clip(line.trim(), 160).replace('`', "'")));
    let mut out = format!("{sure} {}{}", place(first), quote.unwrap_or_default());
    let others: Vec<String> = ranked.iter().skip(1).take(3).map(place).collect();
    if !others.is_empty() {
        out.push_str(&format!("; then {}", others.join(", ")));
    }
    out.push('.');
    out
}

/// Words of the question that no searched file holds, related words included.
pub(super) fn missing(query: &Query, stats: &Stats) -> Vec<String> {
    let nowhere = |(at, _): &(usize, &super::query::Concept)| {
        stats.spread.get(*at).is_none_or(|spread| spread.exact == 0 && spread.related == 0)
    };
    query.concepts.iter().enumerate().filter(nowhere).map(|(_, concept)| concept.name.clone()).collect()
}
