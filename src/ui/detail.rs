//! One node of a recorded run, in full: what it was asked, what it said, what was seen of it.

use super::words::{duration, quantity};
use crate::agent::history::Record;
use crate::agent::{AttemptEnd, Facts, Finding, QuoteCheck, Report, Task};
use crate::model::Block;
use crate::store::{NodeRecord, TranscriptLine};
use crate::text::{clip, one_line, plural, printable};
use serde_json::Value;
use std::fmt::Write as _;

/// Characters of a prompt that are shown.
const PROMPT: usize = 4_000;
/// Columns of a line on a tool call.
const CALL: usize = 160;
/// Lines of a list that may be long.
const LIST: usize = 50;

/// Everything on a node, as text that cannot drive a terminal.
pub fn node_detail(record: &NodeRecord) -> String {
    let mut out = String::new();
    heading(&mut out, record);
    if let Some(attempt) = &record.attempt {
        match &attempt.task {
            Task::Prompt { prompt, .. } => section(&mut out, "prompt", &clip(prompt, PROMPT)),
            Task::Command { command, .. } => section(&mut out, "command", &clip(command, PROMPT)),
        }
    }
    if let Some(report) = record.end.as_ref().and_then(|(end, _)| end.report.as_ref()) {
        section(&mut out, "report", &report_text(report));
    }
    if let Some((end, _)) = &record.end {
        section(&mut out, "seen by sortie", &facts_text(&end.facts));
    }
    section(&mut out, "transcript", &transcript_text(&record.transcript));
    section(&mut out, "problems of the record", &record.problems.join("\n"));
    printable(&out).into_owned()
}

fn heading(out: &mut String, record: &NodeRecord) {
    let state = match (&record.end, &record.attempt) {
        (Some((end, _)), _) => Some(end.outcome.as_str()),
        (None, Some(_)) => Some("has no end in the record"),
        // The coordinator is no node: it has neither start nor end of its own.
        (None, None) if !record.transcript.is_empty() => None,
        (None, None) => Some("not started"),
    };
    let name = one_line(&record.node, 120);
    match state {
        Some(state) => line(out, format_args!("{name}: {state}")),
        None => line(out, format_args!("{name}")),
    }
    if let Some((end, ms)) = &record.end {
        if let Some(cause) = &end.cause {
            line(out, format_args!("cause: {} ({})", one_line(&cause.detail, 1_000), cause.kind.as_str()));
        }
        if record.attempt.is_some() {
            line(out, format_args!("{}, {}", duration(*ms), effort(end)));
        }
    }
    if let Some(attempt) = &record.attempt {
        let who = match &attempt.task {
            Task::Prompt { role, model, .. } => format!("role {role}, model {model}"),
            Task::Command { .. } => "command".to_string(),
        };
        line(
            out,
            format_args!(
                "{who}, attempt {}, time limit {}",
                attempt.attempt,
                humantime::format_duration(attempt.timeout)
            ),
        );
    }
}

fn effort(end: &AttemptEnd) -> String {
    let (turns, calls) = (plural(end.turns as usize, "turn"), plural(end.tool_calls as usize, "tool call"));
    let (all, out) = (end.usage.total(), end.usage.output);
    let cost = if end.cost.is_unknown() { String::new() } else { format!(", {}", end.cost) };
    format!("{turns}, {calls}, tokens: {} in, {} out{cost}", quantity(all.saturating_sub(out)), quantity(out))
}

fn report_text(report: &Report) -> String {
    let mut out = format!("{}\n", report.summary.trim_end());
    for finding in &report.findings {
        finding_text(&mut out, finding);
    }
    for (title, notes) in [("decision", &report.decisions), ("open question", &report.open_questions)] {
        for note in notes {
            line(&mut out, format_args!("{title}: {}", one_line(note, 1_000)));
        }
    }
    if let Some(output) = &report.output {
        line(&mut out, format_args!("output: {output:#}"));
    }
    out
}

fn finding_text(out: &mut String, finding: &Finding) {
    line(out, format_args!("- {}", one_line(&finding.claim, 1_000)));
    for evidence in &finding.evidence {
        let check = match evidence.check {
            Some(QuoteCheck::Verified) => "",
            Some(QuoteCheck::Moved) => " (line corrected)",
            Some(QuoteCheck::Unverified) | None => " (not verified)",
        };
        let quote =
            if evidence.quote.is_empty() { String::new() } else { format!(" {}", one_line(&evidence.quote, 200)) };
        line(out, format_args!("  {}:{}{check}{quote}", evidence.path, evidence.line));
    }
}

fn facts_text(facts: &Facts) -> String {
    let mut out = String::new();
    if let Some(coverage) = &facts.coverage {
        let scope = coverage.scope.join(", ");
        line(
            &mut out,
            format_args!("{} of {} of `{scope}` read", coverage.read, plural(coverage.files as usize, "file")),
        );
        for (folder, count) in &coverage.unread {
            line(&mut out, format_args!("  unread: {} in {folder}", plural(*count as usize, "file")));
        }
    }
    list(&mut out, &facts.read, |file| {
        let ranges: Vec<String> = file.lines.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        format!("read {} lines {}", file.path, ranges.join(", "))
    });
    list(&mut out, &facts.searched, |search| {
        format!("searched `{}` in {}: {}", search.pattern, search.path, plural(search.files as usize, "file"))
    });
    list(&mut out, &facts.commands, |command| format!("ran `{}`: {}", command.command, command.ended));
    out
}

fn list<T>(out: &mut String, items: &[T], text: impl Fn(&T) -> String) {
    for item in items.iter().take(LIST) {
        line(out, format_args!("{}", one_line(&text(item), CALL)));
    }
    if items.len() > LIST {
        line(out, format_args!("… and {} more", items.len() - LIST));
    }
}

fn transcript_text(lines: &[TranscriptLine]) -> String {
    let mut out = String::new();
    for entry in lines {
        match entry {
            TranscriptLine::Known(Record::Start { tools, .. }) => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                line(&mut out, format_args!("tools: {}", names.join(", ")));
            }
            TranscriptLine::Known(Record::User { text }) => {
                line(&mut out, format_args!("user: {}", one_line(text, CALL)))
            }
            TranscriptLine::Known(Record::Assistant { turn, blocks, .. }) => {
                for block in blocks {
                    block_text(&mut out, *turn, block);
                }
            }
            TranscriptLine::Known(Record::ToolResult { result }) => {
                let mark = if result.is_error { "failed: " } else { "" };
                line(&mut out, format_args!("    {mark}{}", one_line(&result.text, CALL)));
            }
            TranscriptLine::Other(value) => line(&mut out, format_args!("{}", one_line(&value.to_string(), CALL))),
        }
    }
    out
}

fn block_text(out: &mut String, turn: u32, block: &Block) {
    match block {
        Block::Text { text } => line(out, format_args!("turn {turn}: {}", one_line(text, CALL))),
        Block::Thinking { .. } => {}
        Block::ToolCall(call) => {
            line(out, format_args!("turn {turn}: {} {}", call.name, one_line(&arguments(&call.args), CALL)));
        }
        Block::ToolResult(_) => {}
    }
}

/// `pattern=fn main path=src`: shorter than JSON and as clear.
fn arguments(args: &Value) -> String {
    let Some(args) = args.as_object() else { return args.to_string() };
    let shown = args.iter().map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn section(out: &mut String, title: &str, text: &str) {
    if !text.trim().is_empty() {
        line(out, format_args!("\n{title}"));
        for text in text.trim_end().lines() {
            line(out, format_args!("  {text}"));
        }
    }
}

fn line(out: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{words}");
}
