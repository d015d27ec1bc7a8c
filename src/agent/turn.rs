//! The state of one conversation: inputs in, next step out.
//!
//! Pure. The driver calls [`Machine::step`] and does what it says; what comes of it goes back in through
//! [`Machine::replied`], [`Machine::model_failed`], [`Machine::resolved`] and [`Machine::stop`]. The machine owns the
//! history, so calls and results are paired on every path.
//!
//! ```text
//! step: CallModel ──replied──> calls? ──yes──> step: RunTools ──resolved (each)──> step: CallModel …
//!                               │no
//!                               ├─ ends by text (coordinator): End
//!                               └─ ends by report: asked once for it, then the last text is salvaged
//! ```
//!
//! How a conversation that does not end by itself ends: one turn before its limit it is told that only `report` is
//! accepted now. The same happens when it goes in circles: [`MAX_REPEATS`] turns in a row with the same calls and the
//! same results, or [`MAX_IDLE`] turns in a row in which nothing new came (every call failed, or had been made before
//! with the same result).

use super::history::{History, Record};
use super::report::{Report, ReportRules};
use crate::model::{Block, Message, Reply, StopKind, ToolCall, ToolResult, Usage};
use crate::plan::CauseKind;
use crate::text;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Turns in a row with the same calls and results before only the end is accepted.
pub const MAX_REPEATS: u32 = 4;
/// Turns in a row without anything new before only the end is accepted.
pub const MAX_IDLE: u32 = 6;
/// The tool that ends a subagent.
pub const REPORT: &str = "report";

/// How a conversation is meant to end.
#[derive(Clone, Debug)]
pub enum Ending {
    /// By a valid call of `report`: a subagent.
    Report(Arc<ReportRules>),
    /// By a reply without tool calls: the coordinator.
    Text,
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the model; the request's messages are [`Machine::messages`].
    CallModel {
        /// Which call this is, from 1.
        turn: u32,
    },
    /// Run these tools and hand in each result. Only calls that are to be run: the machine has answered the others.
    RunTools(Vec<ToolCall>),
    /// The conversation is over.
    End(End),
}

/// How a conversation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// A valid report.
    Reported(Report),
    /// The last reply's text.
    Answered(String),
    /// Not as meant. `salvaged` is the last text, if there was any.
    Short {
        /// What kind of end.
        kind: CauseKind,
        /// Why, as a fragment.
        detail: String,
        /// The last words of the model; may be empty.
        salvaged: String,
    },
}

/// Why only the end is accepted from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastTurn {
    Limit,
    Repetition,
    NoProgress,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// The next step is a model call.
    Ask,
    /// A model call is under way.
    Asked,
    /// These calls are to be handed out.
    Hand(Vec<ToolCall>),
    /// Calls are running.
    Running,
    /// Over.
    Over(End),
}

/// The state of one conversation.
#[derive(Clone, Debug)]
pub struct Machine {
    history: History,
    ending: Ending,
    limit: u32,
    turn: u32,
    phase: Phase,
    last: Option<LastTurn>,
    asked_to_end: bool,
    accepted: Option<Report>,
    invalid_output: u32,
    last_text: String,
    records: Vec<Record>,
    current: Vec<(ToolCall, Option<ToolResult>)>,
    progress: Progress,
}

/// What has happened before, to see whether anything new happens.
#[derive(Clone, Debug, Default)]
struct Progress {
    seen: HashSet<u64>,
    previous: Option<u64>,
    repeats: u32,
    idle: u32,
}

impl Machine {
    /// A conversation that begins with this prompt and may call the model `limit` times (at least once).
    pub fn new(prompt: &str, ending: Ending, limit: u32) -> Self {
        let mut machine = Machine {
            history: History::new(),
            ending,
            limit: limit.max(1),
            turn: 0,
            phase: Phase::Ask,
            last: None,
            asked_to_end: false,
            accepted: None,
            invalid_output: 0,
            last_text: String::new(),
            records: Vec::new(),
            current: Vec::new(),
            progress: Progress::default(),
        };
        machine.say(prompt);
        machine
    }

    /// What to do next. Asking twice without handing anything in gives a model call only once.
    pub fn step(&mut self) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Ask => {
                self.announce_last_turn();
                self.turn += 1;
                self.phase = Phase::Asked;
                Step::CallModel { turn: self.turn }
            }
            Phase::Asked => {
                self.phase = Phase::Asked;
                Step::CallModel { turn: self.turn }
            }
            Phase::Hand(calls) => Step::RunTools(calls),
            Phase::Running => Step::RunTools(Vec::new()),
            Phase::Over(end) => {
                self.phase = Phase::Over(end.clone());
                Step::End(end)
            }
        }
    }

    /// The messages of the next request.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.history.messages()
    }

    /// Transcript records since the last call of this.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// Model calls made.
    pub fn turns(&self) -> u32 {
        self.turn
    }

    /// The harness or the user says something; the model sees it with its next turn.
    pub fn say(&mut self, text: &str) {
        self.history.say(text);
        self.records.push(Record::User { text: text.to_string() });
    }

    /// The model's reply is complete.
    pub fn replied(&mut self, reply: Reply) {
        let Reply { blocks, stop, usage } = reply;
        let blocks = self.history.reply(blocks);
        self.records.push(Record::Assistant { turn: self.turn, blocks: blocks.clone(), stop, usage });
        let mut calls = Vec::new();
        for block in blocks {
            match block {
                Block::Text { text } => self.last_text = text,
                Block::ToolCall(call) => calls.push(call),
                Block::Thinking { .. } | Block::ToolResult(_) => {}
            }
        }
        self.current = calls.iter().map(|call| (call.clone(), None)).collect();
        let cut = match stop {
            StopKind::Length => {
                Some("your reply was cut at its output limit, so this call was not run: make it again, smaller")
            }
            StopKind::StreamCut => Some("your reply was cut in transit, so this call was not run: make it again"),
            StopKind::ContextFull => Some("the context window is full, so this call was not run"),
            StopKind::Filtered => Some("a content filter cut your reply, so this call was not run"),
            StopKind::Refusal => {
                self.close_current("not run: the reply was a refusal");
                return self.end_short(CauseKind::CutShort, "the model declined to answer");
            }
            StopKind::End | StopKind::Tool | StopKind::Paused => None,
        };
        if let Some(why) = cut {
            self.close_current(why);
            return match stop {
                StopKind::ContextFull => self.end_short(CauseKind::CutShort, "the model's context window is full"),
                StopKind::Filtered => self.end_short(CauseKind::CutShort, "a content filter cut the model's reply"),
                _ if calls.is_empty() => self.ended_without_call(true),
                _ => self.turn_is_over(),
            };
        }
        if calls.is_empty() {
            return if stop == StopKind::Paused && self.turn < self.limit {
                self.phase = Phase::Ask;
            } else {
                self.ended_without_call(false)
            };
        }
        let mut to_run = Vec::new();
        for call in calls {
            match self.answer_ourselves(&call) {
                Some((text, is_error)) => {
                    self.record_result(ToolResult { id: call.id, text, is_error });
                }
                None => to_run.push(call),
            }
        }
        if to_run.is_empty() { self.turn_is_over() } else { self.phase = Phase::Hand(to_run) }
    }

    /// The model call failed for good.
    pub fn model_failed(&mut self, message: &str) {
        self.end_short(CauseKind::Model, message);
    }

    /// A call that was handed out has its result. Results may come in any order; one that nobody waits for is ignored.
    pub fn resolved(&mut self, result: ToolResult) {
        self.record_result(result);
        if self.current.iter().all(|(_, result)| result.is_some()) {
            self.turn_is_over();
        }
    }

    /// Ends the conversation now. Open calls get a result: `running` tells which of them had started.
    pub fn stop(&mut self, kind: CauseKind, detail: &str, running: impl Fn(&str) -> bool) {
        for id in self.history.open_calls() {
            let text = if running(&id) { super::history::INTERRUPTED } else { "interrupted before it started" };
            self.record_result(ToolResult { id, text: text.to_string(), is_error: true });
        }
        if !matches!(self.phase, Phase::Over(_)) {
            self.end_short(kind, detail);
        }
    }

    fn close_current(&mut self, text: &str) {
        for id in self.history.open_calls() {
            self.record_result(ToolResult { id, text: text.to_string(), is_error: true });
        }
    }

    fn record_result(&mut self, result: ToolResult) {
        if !self.history.resolve(result.clone()) {
            return;
        }
        if let Some((_, slot)) = self.current.iter_mut().find(|(call, _)| call.id == result.id) {
            *slot = Some(result.clone());
        }
        self.records.push(Record::ToolResult { result });
    }

    /// The result of a call that no tool gets to see: `report`, or anything while only the end is accepted.
    fn answer_ourselves(&mut self, call: &ToolCall) -> Option<(String, bool)> {
        match &self.ending {
            Ending::Report(rules) if call.name == REPORT => {
                let rules = Arc::clone(rules);
                Some(self.take_report(&rules, call))
            }
            Ending::Report(_) if self.last.is_some() => {
                Some((format!("not run: only `{REPORT}` is accepted now"), true))
            }
            Ending::Text if self.last.is_some() => {
                Some(("not run: this is the last turn, answer in words".to_string(), true))
            }
            Ending::Report(_) | Ending::Text => None,
        }
    }

    fn take_report(&mut self, rules: &ReportRules, call: &ToolCall) -> (String, bool) {
        if self.accepted.is_some() {
            return ("a report was already taken; this one was ignored".to_string(), true);
        }
        match rules.check(&call.args) {
            Ok(report) => {
                self.accepted = Some(report);
                ("received".to_string(), false)
            }
            Err(problem) => {
                self.invalid_output += u32::from(problem.only_output);
                match problem.without_output {
                    // One repair round for `output`; then the rest of the report is worth more than another try.
                    Some(report) if self.invalid_output > 1 || self.last.is_some() => {
                        self.accepted = Some(*report);
                        (format!("received without its output: {}", problem.message), false)
                    }
                    Some(_) | None => (problem.message, true),
                }
            }
        }
    }

    /// All calls of the turn have their results: what now?
    fn turn_is_over(&mut self) {
        if let Some(report) = self.accepted.take() {
            return self.end(End::Reported(report));
        }
        if let Some(last) = self.last {
            return self.end_last(last);
        }
        if self.turn >= self.limit {
            return self.end_last(LastTurn::Limit);
        }
        self.progress.note(&self.current);
        if self.progress.repeats >= MAX_REPEATS {
            self.last = Some(LastTurn::Repetition);
            self.say(&format!(
                "You have made the same calls with the same results {MAX_REPEATS} times. {}",
                self.how_to_end()
            ));
        } else if self.progress.idle >= MAX_IDLE {
            self.last = Some(LastTurn::NoProgress);
            self.say(&format!("The last {MAX_IDLE} turns brought nothing new. {}", self.how_to_end()));
        }
        self.phase = Phase::Ask;
    }

    fn ended_without_call(&mut self, cut: bool) {
        match &self.ending {
            Ending::Text if !cut && !self.last_text.trim().is_empty() => {
                let answer = std::mem::take(&mut self.last_text);
                self.end(End::Answered(answer));
            }
            _ if self.last.is_some() || self.turn >= self.limit => self.end_last(self.last.unwrap_or(LastTurn::Limit)),
            _ if self.asked_to_end => {
                let detail = match (&self.ending, cut) {
                    (_, true) => "the reply was cut at its output limit",
                    (Ending::Report(_), false) => "it ended without a report, also after it was asked for one",
                    (Ending::Text, false) => "it ended without a word, also after it was asked for an answer",
                };
                let kind = if cut { CauseKind::CutShort } else { CauseKind::NoReport };
                self.end_short(kind, detail);
            }
            ending => {
                let note = match (ending, cut) {
                    (Ending::Report(_), true) => {
                        "Your reply was cut at its output limit. Call `report` now with a short summary; what is long goes into `body` in a later call or is left out."
                    }
                    (Ending::Report(_), false) => {
                        "You ended your turn without calling `report`. Nothing you write outside it is kept. Call `report` now with what you have; if work remains, do it first."
                    }
                    (Ending::Text, true) => "Your reply was cut at its output limit. Answer again, shorter.",
                    (Ending::Text, false) => "Your reply was empty. Answer the user's request now.",
                };
                self.asked_to_end = true;
                self.say(note);
                self.phase = Phase::Ask;
            }
        }
    }

    /// One turn is left: the model must know before it answers.
    fn announce_last_turn(&mut self) {
        if self.last.is_none() && self.turn + 1 == self.limit {
            self.last = Some(LastTurn::Limit);
            self.say(&format!("This is your last turn. {}", self.how_to_end()));
        }
    }

    fn how_to_end(&self) -> &'static str {
        match self.ending {
            Ending::Report(_) => {
                "Only `report` is accepted now: call it with what you have, status `partial` if work remains."
            }
            Ending::Text => "No tool is accepted now: answer the user's request with what you have.",
        }
    }

    fn end_last(&mut self, last: LastTurn) {
        let (kind, detail) = match last {
            LastTurn::Limit => (
                CauseKind::TurnLimit,
                format!("{} were used up without a report", text::plural(self.limit as usize, "turn")),
            ),
            LastTurn::Repetition => (CauseKind::Repetition, "it kept making the same calls".to_string()),
            LastTurn::NoProgress => (CauseKind::NoProgress, format!("{MAX_IDLE} turns in a row brought nothing new")),
        };
        self.end_short(kind, &detail);
    }

    fn end_short(&mut self, kind: CauseKind, detail: &str) {
        let salvaged = std::mem::take(&mut self.last_text);
        self.end(End::Short { kind, detail: detail.to_string(), salvaged });
    }

    fn end(&mut self, end: End) {
        self.phase = Phase::Over(end);
    }
}

impl Progress {
    /// Takes in a turn's calls with their results.
    fn note(&mut self, calls: &[(ToolCall, Option<ToolResult>)]) {
        let mut whole = DefaultHasher::new();
        let mut anything_new = false;
        for (call, result) in calls {
            let mut one = DefaultHasher::new();
            (&call.name, call.args.to_string()).hash(&mut one);
            let failed = result.as_ref().is_none_or(|result| {
                (&result.text, result.is_error).hash(&mut one);
                result.is_error
            });
            let fingerprint = one.finish();
            fingerprint.hash(&mut whole);
            anything_new |= self.seen.insert(fingerprint) && !failed;
        }
        let fingerprint = whole.finish();
        self.repeats = if self.previous == Some(fingerprint) { self.repeats + 1 } else { 1 };
        self.previous = Some(fingerprint);
        self.idle = if anything_new { 0 } else { self.idle + 1 };
    }
}

/// Tokens of all replies in these records.
pub fn usage_of(records: &[Record]) -> Usage {
    let mut total = Usage::default();
    for record in records {
        match record {
            Record::Assistant { usage, .. } => total += *usage,
            Record::Start { .. } | Record::User { .. } | Record::ToolResult { .. } => {}
        }
    }
    total
}
