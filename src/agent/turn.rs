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

use super::history::{History, INTERRUPTED, Record};
use super::progress::Progress;
use super::report::{REPORT, Report, ReportRules};
use crate::model::{Block, Message, Reply, StopKind, ToolCall, ToolResult, Usage};
use crate::plan::CauseKind;
use std::sync::Arc;

/// Turns in a row with the same calls and results before only the end is accepted.
pub const MAX_REPEATS: u32 = 4;
/// Turns in a row without anything new before only the end is accepted.
pub const MAX_IDLE: u32 = 6;
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
    /// The text of the last reply, all of its blocks.
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

/// What a reply without calls lacks.
#[derive(Clone, Copy, Debug)]
enum Lack {
    /// Its end: it reached the output limit.
    CutAtLimit,
    /// Its end: the stream broke.
    CutInTransit,
    /// The `report` call, of a subagent that ended in words.
    Report,
    /// Anything at all.
    Words,
    /// The call that its stop reason speaks of.
    Call,
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
    /// The turn in which a report came back to the model because of its `output` alone.
    output_sent_back: Option<u32>,
    /// The model's last words, over all turns.
    last_text: String,
    records: Vec<Record>,
    current: Vec<(ToolCall, Option<ToolResult>)>,
    progress: Progress,
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
            output_sent_back: None,
            last_text: String::new(),
            records: Vec::new(),
            current: Vec::new(),
            progress: Progress::default(),
        };
        machine.say(prompt);
        machine
    }

    /// What to do next. Asking again before anything was handed in names the same model call, and hands out no tool
    /// call twice.
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

    /// The model's reply is complete. A reply that [`Machine::step`] did not ask for, or that comes after the end, is
    /// ignored.
    pub fn replied(&mut self, reply: Reply) {
        if self.phase != Phase::Asked {
            return;
        }
        let Reply { blocks, stop, usage, cost: _ } = reply;
        let blocks = self.history.reply(blocks);
        self.records.push(Record::Assistant { turn: self.turn, blocks: blocks.clone(), stop, usage });
        let mut calls = Vec::new();
        let mut words = Vec::new();
        for block in blocks {
            match block {
                Block::Text { text } => words.push(text),
                Block::ToolCall(call) => calls.push(call),
                Block::Thinking { .. } | Block::ToolResult(_) => {}
            }
        }
        let spoke = !words.is_empty();
        if spoke {
            self.last_text = words.join("\n\n");
        }
        self.current = calls.iter().map(|call| (call.clone(), None)).collect();
        match stop {
            StopKind::Length => {
                self.close_open(
                    |_| "your reply was cut at its output limit, so this call was not run: make it again, smaller",
                );
                if calls.is_empty() { self.ended_without_call(Lack::CutAtLimit) } else { self.turn_is_over() }
            }
            StopKind::StreamCut => {
                self.close_open(|_| "your reply was cut in transit, so this call was not run: make it again");
                if calls.is_empty() { self.ended_without_call(Lack::CutInTransit) } else { self.turn_is_over() }
            }
            StopKind::ContextFull => {
                self.close_open(|_| "the context window is full, so this call was not run");
                self.end_short(CauseKind::CutShort, "the model's context window is full");
            }
            StopKind::Filtered => {
                self.close_open(|_| "a content filter cut your reply, so this call was not run");
                self.end_short(CauseKind::CutShort, "a content filter cut the model's reply");
            }
            StopKind::Refusal => {
                self.close_open(|_| "not run: the reply was a refusal");
                self.end_short(CauseKind::CutShort, "the model declined to answer");
            }
            StopKind::End | StopKind::Tool | StopKind::Paused if !calls.is_empty() => self.take_calls(calls),
            StopKind::Paused if self.last.is_none() => self.phase = Phase::Ask,
            StopKind::End if spoke => self.ended_in_words(),
            StopKind::End => self.ended_without_call(Lack::Words),
            StopKind::Tool | StopKind::Paused => self.ended_without_call(Lack::Call),
        }
    }

    /// Answers what it can itself; the rest is to be handed out.
    fn take_calls(&mut self, calls: Vec<ToolCall>) {
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

    /// The model call failed for good. Ignored when none is under way.
    pub fn model_failed(&mut self, message: &str) {
        if self.phase == Phase::Asked {
            self.end_short(CauseKind::Model, message);
        }
    }

    /// The model call is given up before its reply is complete: its words stay, its calls do not, since nobody runs
    /// them. Followed by [`Machine::model_failed`] or [`Machine::stop`]; ignored when no call is under way.
    pub fn broken_off(&mut self, said: Reply) {
        let Reply { blocks, stop, usage, cost: _ } = said;
        if self.phase != Phase::Asked || (blocks.is_empty() && usage == Usage::default()) {
            return;
        }
        let words = blocks.into_iter().filter(|block| matches!(block, Block::Text { .. })).collect();
        let blocks = self.history.reply(words);
        for block in &blocks {
            if let Block::Text { text } = block {
                self.last_text.push_str(if self.last_text.is_empty() { "" } else { "\n\n" });
                self.last_text.push_str(text);
            }
        }
        self.records.push(Record::Assistant { turn: self.turn, blocks, stop, usage });
    }

    /// A call that was handed out has its result. Results may come in any order; one that nobody waits for is ignored.
    pub fn resolved(&mut self, result: ToolResult) {
        if self.record_result(result) && self.history.open_calls().is_empty() {
            self.turn_is_over();
        }
    }

    /// Ends the conversation now, unless it has ended. Open calls get a result: `running` tells which of them had
    /// started. A report that was taken already counts, whatever else ran beside it.
    pub fn stop(&mut self, kind: CauseKind, detail: &str, running: impl Fn(&str) -> bool) {
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        self.close_open(|id| if running(id) { INTERRUPTED } else { "interrupted before it started" });
        match self.accepted.take() {
            Some(report) => self.phase = Phase::Over(End::Reported(report)),
            None => self.end_short(kind, detail),
        }
    }

    /// Gives every call without a result an error with this text.
    fn close_open(&mut self, text: impl Fn(&str) -> &'static str) {
        for id in self.history.open_calls() {
            let text = text(&id).to_string();
            self.record_result(ToolResult { id, text, is_error: true });
        }
    }

    /// Whether there was such a call without a result.
    fn record_result(&mut self, result: ToolResult) -> bool {
        if !self.history.resolve(result.clone()) {
            return false;
        }
        if let Some((_, slot)) = self.current.iter_mut().find(|(call, _)| call.id == result.id) {
            *slot = Some(result.clone());
        }
        self.records.push(Record::ToolResult { result });
        true
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
            Err(problem) => match problem.without_output {
                // One repair round for `output`; then the rest of the report is worth more than another try.
                Some(report) if self.last.is_some() || self.output_sent_back.is_some_and(|turn| turn < self.turn) => {
                    self.accepted = Some(*report);
                    (format!("received without its output: {}", problem.message), false)
                }
                Some(_) => {
                    self.output_sent_back = Some(self.turn);
                    (problem.message, true)
                }
                None => (problem.message, true),
            },
        }
    }

    /// All calls of the turn have their results: what now?
    fn turn_is_over(&mut self) {
        if let Some(report) = self.accepted.take() {
            self.phase = Phase::Over(End::Reported(report));
            return;
        }
        if let Some(last) = self.last {
            return self.end_last(last);
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

    /// A whole reply of words alone: the coordinator's answer, but no end of a subagent.
    fn ended_in_words(&mut self) {
        match self.ending {
            Ending::Text => self.phase = Phase::Over(End::Answered(std::mem::take(&mut self.last_text))),
            Ending::Report(_) => self.ended_without_call(Lack::Report),
        }
    }

    /// The reply neither calls a tool nor ends the conversation: it is asked to, once.
    fn ended_without_call(&mut self, lack: Lack) {
        if let Some(last) = self.last {
            return self.end_last(last);
        }
        if self.asked_to_end {
            let (kind, detail) = match (lack, &self.ending) {
                (Lack::CutAtLimit, _) => (CauseKind::CutShort, "the reply was cut at its output limit"),
                (Lack::CutInTransit, _) => (CauseKind::CutShort, "the reply was cut in transit"),
                (Lack::Report | Lack::Words | Lack::Call, Ending::Report(_)) => {
                    (CauseKind::NoReport, "it ended without a report, also after it was asked for one")
                }
                (Lack::Report | Lack::Words | Lack::Call, Ending::Text) => {
                    (CauseKind::NoReport, "it ended without an answer, also after it was asked for one")
                }
            };
            return self.end_short(kind, detail);
        }
        self.asked_to_end = true;
        let what = match lack {
            Lack::CutAtLimit => "Your reply was cut at its output limit.",
            Lack::CutInTransit => "Your reply was cut in transit.",
            Lack::Report => "You ended your turn without calling `report`. Nothing you write outside it is kept.",
            Lack::Words => "Your reply was empty.",
            Lack::Call => "Your reply announced a tool call but held none.",
        };
        let next = match (lack, &self.ending) {
            (Lack::CutAtLimit, Ending::Report(_)) => {
                "Call `report` now with a short summary and leave out what is long."
            }
            (Lack::CutAtLimit, Ending::Text) => "Answer again, shorter.",
            (Lack::CutInTransit | Lack::Report | Lack::Words | Lack::Call, Ending::Report(_)) => {
                "Call `report` now with what you have; if work remains, do it first."
            }
            (Lack::CutInTransit | Lack::Report | Lack::Words | Lack::Call, Ending::Text) => {
                "Answer the user's request now."
            }
        };
        self.say(&format!("{what} {next}"));
        self.phase = Phase::Ask;
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
                match (self.limit, &self.ending) {
                    (1, Ending::Report(_)) => "its only turn brought no report".to_string(),
                    (1, Ending::Text) => "its only turn brought no answer".to_string(),
                    (limit, Ending::Report(_)) => format!("{limit} turns were used up without a report"),
                    (limit, Ending::Text) => format!("{limit} turns were used up without an answer"),
                },
            ),
            LastTurn::Repetition => (CauseKind::Repetition, "it kept making the same calls".to_string()),
            LastTurn::NoProgress => (CauseKind::NoProgress, format!("{MAX_IDLE} turns in a row brought nothing new")),
        };
        self.end_short(kind, &detail);
    }

    fn end_short(&mut self, kind: CauseKind, detail: &str) {
        let salvaged = std::mem::take(&mut self.last_text);
        self.phase = Phase::Over(End::Short { kind, detail: detail.to_string(), salvaged });
    }
}
