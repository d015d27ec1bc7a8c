//! What a request says: which part scout plays, what is asked, and what its tools have answered so far.
//!
//! Scout holds no state. Its policy asks [`Talk::ask`] for the results of calls; calls that nobody has made yet come
//! back as the next step. So every turn goes through the same reasoning again and gets a little further.

use crate::model::{Block, Message, Request, Speaker, ToolResult};
use serde_json::Value;
use std::collections::HashMap;

/// The tool that ends a subagent.
pub(super) const REPORT: &str = "report";
/// The tool that starts a plan.
pub(super) const SUBMIT_PLAN: &str = "submit_plan";

/// A tool call to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    /// The tool.
    pub(super) name: &'static str,
    /// Its arguments.
    pub(super) args: Value,
}

/// What scout does next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// Say something and call tools.
    Call {
        /// What it says.
        say: String,
        /// The calls, never none.
        calls: Vec<Call>,
    },
    /// Say something and end.
    Say(String),
}

/// The part that scout plays in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// Hands in a report, with an `output` of this schema if the node has one.
    Subagent(Option<Value>),
    /// Submits a plan, then answers.
    Coordinator,
    /// Answers from what is there.
    Reader,
}

/// A conversation as scout reads it.
pub(super) struct Talk<'r> {
    /// Which part it plays.
    pub(super) part: Part,
    /// What is asked: the user's request and the task, without what surrounds them.
    pub(super) question: String,
    /// The task alone, as it stands: where paths are named and changes asked for.
    pub(super) task: String,
    /// Results of others that came with the question; may be empty.
    pub(super) reports: String,
    /// Whether nothing but the end is accepted any more.
    pub(super) must_end: bool,
    tools: Vec<&'r str>,
    results: HashMap<(&'r str, String), &'r ToolResult>,
    said: Vec<(&'r str, &'r Value, Option<&'r ToolResult>)>,
}

impl<'r> Talk<'r> {
    /// Reads a request.
    pub(super) fn new(request: &'r Request) -> Self {
        let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let part = match request.tools.iter().find(|tool| tool.name == REPORT) {
            Some(report) => Part::Subagent(report.schema.pointer("/properties/output").cloned()),
            None if tools.contains(&SUBMIT_PLAN) => Part::Coordinator,
            None => Part::Reader,
        };
        let start = match part {
            Part::Subagent(_) => 0,
            Part::Coordinator | Part::Reader => last_question(&request.messages),
        };
        let exchange = request.messages.get(start..).unwrap_or_default();
        let first = exchange.first().map(|message| words_of(message)).unwrap_or_default();
        let mut asked = Asked::read(&first);
        if !matches!(part, Part::Subagent(_)) && !asked.request.is_empty() {
            // What surrounds the user's request is the harness speaking.
            asked.question = asked.request.clone();
            asked.task = asked.request.clone();
        }
        let mut talk = Talk {
            part,
            question: asked.question,
            task: asked.task,
            reports: asked.reports,
            must_end: exchange.iter().skip(1).any(|message| ends(message)),
            tools,
            results: HashMap::new(),
            said: Vec::new(),
        };
        talk.collect(exchange);
        talk
    }

    fn collect(&mut self, exchange: &'r [std::sync::Arc<Message>]) {
        let blocks = || exchange.iter().flat_map(|message| message.blocks.iter());
        let mut answers: HashMap<&str, &ToolResult> = HashMap::new();
        for block in blocks() {
            if let Block::ToolResult(result) = block {
                answers.insert(&result.id, result);
            }
        }
        for block in blocks() {
            if let Block::ToolCall(call) = block {
                let answer = answers.get(call.id.as_str()).copied();
                self.said.push((&call.name, &call.args, answer));
                if let Some(answer) = answer {
                    self.results.insert((&call.name, call.args.to_string()), answer);
                }
            }
        }
    }

    /// The results of these calls, in order; a call that failed, or that no tool can serve, has none.
    ///
    /// # Errors
    /// The step that makes those calls that have not been made. Never when the conversation must end.
    pub(super) fn ask(&self, say: &str, calls: &[Call]) -> Result<Vec<Option<&'r str>>, Next> {
        let mut missing: Vec<Call> = Vec::new();
        let mut found = Vec::new();
        for call in calls {
            let result = self.results.get(&(call.name, call.args.to_string()));
            if result.is_none() && self.tools.contains(&call.name) && !missing.contains(call) {
                missing.push(call.clone());
            }
            found.push(result.filter(|result| !result.is_error).map(|result| result.text.as_str()));
        }
        if missing.is_empty() || self.must_end {
            return Ok(found);
        }
        Err(Next::Call { say: say.to_string(), calls: missing })
    }

    /// Whether the task is to change something.
    pub(super) fn asks_for_change(&self) -> bool {
        super::change::asks_for_change(split_dressing(&self.task).1)
    }

    /// The results of a tool's calls so far, in order: text and whether it failed.
    pub(super) fn answers_of(&self, tool: &str) -> Vec<(&'r str, bool)> {
        let of_tool = self.said.iter().filter(|(name, _, _)| *name == tool);
        of_tool.filter_map(|(_, _, answer)| answer.map(|answer| (answer.text.as_str(), answer.is_error))).collect()
    }
}

/// Where the latest question of the user stands: after the last reply that called no tool, else at the start.
fn last_question(messages: &[std::sync::Arc<Message>]) -> usize {
    let calls = |message: &Message| message.blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
    let closing = messages.iter().rposition(|message| message.speaker == Speaker::Assistant && !calls(message));
    closing.map_or(0, |at| if at + 1 < messages.len() { at + 1 } else { 0 })
}

fn words_of(message: &Message) -> String {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::ToolResult(_) | Block::Thinking { .. } | Block::ToolCall(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Whether the harness asks for the end: words about the report or the last turn, not a note of somebody else.
fn ends(message: &Message) -> bool {
    let text = words_of(message).to_lowercase();
    message.speaker == Speaker::User
        && (text.contains("`report`") || text.contains("last turn") || text.contains("no more tool calls"))
}

/// A first message, taken apart.
#[derive(Default)]
struct Asked {
    request: String,
    question: String,
    task: String,
    reports: String,
}

impl Asked {
    fn read(text: &str) -> Self {
        let (reports, rest) = cut_out(text, "<reports>", "</reports>");
        let (request, rest) = cut_out(&rest, "<request>", "</request>");
        let task = task_text(&rest);
        let mut asked = Asked { reports, ..Asked::default() };
        // Merged results of a plan that come without tags: everything from the first node's heading on.
        let (task, merged) = match task.find("\n## ") {
            Some(at) if asked.reports.is_empty() && has_evidence(task.get(at..).unwrap_or_default()) => {
                task.split_at(at)
            }
            Some(_) | None => (task.as_str(), ""),
        };
        if !merged.is_empty() {
            asked.reports = merged.to_string();
        }
        let (_, bare) = split_dressing(task);
        let questions = questions(bare);
        let bare = questions.as_deref().unwrap_or(bare);
        asked.question =
            if request.trim().is_empty() { bare.to_string() } else { format!("{}\n{bare}", request.trim()) };
        asked.task = task.trim().to_string();
        asked.request = request.trim().to_string();
        asked
    }
}

/// What stands between two tags, and the text without it.
fn cut_out(text: &str, open: &str, close: &str) -> (String, String) {
    let Some((before, after)) = text.split_once(open) else { return (String::new(), text.to_string()) };
    let (inside, after) = after.rsplit_once(close).unwrap_or((after, ""));
    (inside.to_string(), format!("{before}{after}"))
}

/// The text without headings and without what the harness itself says.
fn task_text(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if let Some(at) = lines.iter().rposition(|line| line.trim() == "# Your task") {
        lines.drain(..=at);
        lines.retain(|line| !(line.starts_with("You are node `") || line.starts_with("Your report needs an `output`")));
    }
    lines.retain(|line| !line.starts_with("# "));
    lines.join("\n").trim().to_string()
}

fn has_evidence(text: &str) -> bool {
    text.lines().any(|line| super::evidence::parse(line).is_some())
}

/// A task's opening clause, if that only says what to do with the question (`Answer from the reports: …`), and the rest.
pub(super) fn split_dressing(task: &str) -> (&str, &str) {
    const OPENERS: [&str; 23] = [
        "in", "list", "answer", "find", "describe", "explain", "map", "name", "using", "from", "look", "read", "check",
        "tell", "within", "under", "for", "search", "divide", "split", "give", "review", "starting",
    ];
    let task = task.trim();
    let Some((clause, rest)) = task.split_once(": ").or_else(|| task.split_once(":\n")) else { return ("", task) };
    let mut words = clause.split_whitespace();
    let opens = words.next().is_some_and(|word| OPENERS.contains(&word.to_lowercase().as_str()));
    let long_enough = rest.split_whitespace().count() >= 2;
    if opens && !clause.contains(['?', '!', '\n']) && long_enough { (clause, rest.trim()) } else { ("", task) }
}

/// The questions of a text, if it asks any: what stands around them says how to work, not what to find.
fn questions(text: &str) -> Option<String> {
    let mut found: Vec<&str> = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut start = 0;
        for (at, mark) in paragraph.match_indices(['.', '!', '?']) {
            let end = at + mark.len();
            let ends = paragraph.get(end..).is_none_or(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
            if !ends {
                continue;
            }
            if mark == "?" {
                found.push(split_dressing(paragraph.get(start..end).unwrap_or_default()).1);
            }
            start = end;
        }
    }
    let question = found.join("\n");
    // A bare "why?" rests on the sentence before it.
    (question.split_whitespace().count() > 3).then_some(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_around_a_question_are_not_looked_for() {
        for (text, expected) in [
            (
                "Look only in `src`. how does it stop when cancelled?\n\nGive the places, with evidence.",
                Some("how does it stop when cancelled?"),
            ),
            (
                "Divide `.` into parts, for this question: who may cancel a job?\n\nDo not answer it.",
                Some("who may cancel a job?"),
            ),
            ("A timer was late. Why?", None),
            ("Review error handling in src/a.rs.", None),
            ("Is a.b.c read first? And by whom is it read?", Some("Is a.b.c read first?\nAnd by whom is it read?")),
        ] {
            assert_eq!(questions(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_first_message_is_taken_apart() {
        let text = "# The user's request\nThe whole task:\n<request>\nwhere is it cancelled?\n</request>\n\n# Reports of the \
                    nodes before you\n<reports>\n## a: succeeded\n- x [high]\n  src/a.rs:3: \"q\"\n</reports>\n\n# Your \
                    task\nYou are node `b` of the plan `p`.\n\nIn `src`: how does it stop?\n\nYour report needs an `output` that fits.\n";
        let asked = Asked::read(text);
        assert_eq!(asked.question, "where is it cancelled?\nhow does it stop?");
        assert_eq!(asked.task, "In `src`: how does it stop?");
        assert!(asked.reports.contains("src/a.rs:3"));
    }

    #[test]
    fn plain_questions_stay_whole() {
        for text in ["why?", "A timer was late: where is that decided?", "", "In: x", "\u{0}<reports>", "# \n## "] {
            let asked = Asked::read(text);
            assert!(asked.reports.trim().is_empty(), "{text}");
        }
        assert_eq!(Asked::read("A timer was late: where?").question, "A timer was late: where?");
    }

    #[test]
    fn merged_results_without_tags_are_reports() {
        let asked = Asked::read("where is x?\n\n## part[0]: succeeded\n- it is here [high]\n  a.rs:3: \"x\"\n");
        assert_eq!(asked.question, "where is x?");
        assert!(asked.reports.contains("a.rs:3"));
    }
}
