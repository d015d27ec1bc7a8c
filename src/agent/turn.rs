//! The state of one conversation: inputs in, next step out.
//!
//! Pure. The driver calls [`Machine::step`] and does what it says; what comes of it goes back in through
//! [`Machine::replied`], [`Machine::cut`], [`Machine::model_failed`], [`Machine::resolved`] and [`Machine::stop`]. The
//! machine owns the history, so calls and results are paired on every path.
//!
//! ```text
//! step: CallModel ──replied──> calls? ──yes──> step: RunTools ──resolved (each)──> step: CallModel …
//!          │                    │no
//!          │                    ├─ ends by text (coordinator): End
//!          │                    └─ ends by report: asked once for it, then the last text is salvaged
//!          └── while it streams: admit (each call) ──may start──> resolved, perhaps before the reply is whole
//! ```
//!
//! A call that only reads may start while the reply still streams, as long as nothing that acts was called before it in
//! the same reply. Its result waits until the reply is in the history, whole or not.
//!
//! How a conversation that does not end by itself ends (`turn::end`): one turn before its limit it is told that only
//! `report` is accepted now. The same happens when it goes in circles: [`MAX_REPEATS`] turns in a row with the same calls
//! and the same results, or [`MAX_IDLE`] turns in a row in which nothing new came (every call failed, or had been made
//! before with the same result).

pub(super) mod arguments;
mod end;

pub use end::{MAX_CONTINUED, MAX_CUTS, MAX_IDLE, MAX_PAUSES, MAX_REPEATS};

use super::history::{History, INTERRUPTED, Record};
use super::progress::Progress;
use super::report::{REPORT, Report, ReportRules};
use crate::model::{Block, Message, Reply, StopKind, ToolCall, ToolResult};
use crate::plan::CauseKind;
use crate::tool::Effect;
use end::{InARow, Lack, LastTurn};
use indexmap::IndexMap;
use std::sync::Arc;

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
    /// Run these tools and hand in each result, and those of the calls that have started already. Only calls that are to
    /// be run: the machine has answered the others.
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

/// Calls that have started before their reply was whole.
#[derive(Clone, Debug, Default)]
struct Early {
    /// With the results that are there.
    started: IndexMap<String, Option<ToolResult>>,
    /// Whether a call that acts came before: what comes after it must see its effect.
    closed: bool,
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
    /// The next words go on where the last ones stopped, with this between them.
    joined_by: Option<&'static str>,
    records: Vec<Record>,
    current: Vec<(ToolCall, Option<ToolResult>)>,
    early: Early,
    progress: Progress,
    in_a_row: InARow,
    /// Whether the model can give longer replies than it was allowed so far.
    can_raise: bool,
    raised: bool,
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
            joined_by: None,
            records: Vec::new(),
            current: Vec::new(),
            early: Early::default(),
            progress: Progress::default(),
            in_a_row: InARow::default(),
            can_raise: false,
            raised: false,
        };
        machine.say(prompt);
        machine
    }

    /// Says that the model can give longer replies than it is allowed at first, so that one that is cut at its limit is
    /// worth another try: see [`Machine::is_raised`].
    pub fn can_raise_output(&mut self) {
        self.can_raise = true;
    }

    /// Says that a higher limit would change nothing: something else cuts replies.
    pub fn cannot_raise_output(&mut self) {
        self.can_raise = false;
    }

    /// Whether replies may be as long as the model can make them from now on.
    pub fn is_raised(&self) -> bool {
        self.raised
    }

    /// What to do next. Asking again before anything was handed in names the same model call, and hands out no tool
    /// call twice.
    pub fn step(&mut self) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Ask => {
                self.announce_last_turn();
                self.turn += 1;
                self.early = Early::default();
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

    /// A call of the reply that streams is whole; `effect` is that of its tool, if there is one. Gives the call the id
    /// that it keeps, and says whether it is to start now. Whatever becomes of the reply then, a call that has started
    /// keeps its result.
    pub fn admit(&mut self, call: ToolCall, effect: Option<Effect>) -> (ToolCall, bool) {
        let call = self.history.admit(call);
        let reads = effect == Some(Effect::Read);
        self.early.closed |= effect.is_some() && !reads;
        let ours = self.answers(&call) || arguments::unusable(&call.args).is_some();
        let starts = reads && !ours && !self.early.closed && self.phase == Phase::Asked;
        if starts {
            self.early.started.insert(call.id.clone(), None);
        }
        (call, starts)
    }

    /// What the model has said of the reply that streams is void: another model answers from here on. Calls of it that
    /// have started are to be dropped; none of them will be in the history.
    pub fn void(&mut self) {
        self.early = Early::default();
    }

    /// The model's reply is complete. A reply that [`Machine::step`] did not ask for, or that comes after the end, is
    /// ignored.
    pub fn replied(&mut self, reply: Reply) {
        if self.phase != Phase::Asked {
            return;
        }
        let stop = reply.stop;
        if stop == StopKind::StreamCut {
            return self.cut(reply, "the reply was cut in transit");
        }
        let raises = stop == StopKind::Length && self.raises();
        if raises && self.early.started.is_empty() {
            return self.ask_again(&reply);
        }
        let (calls, words) = self.keep(reply);
        let spoke = !words.is_empty();
        self.hear(words);
        self.in_a_row.count(stop);
        match stop {
            StopKind::Length if raises => self.make_again(),
            StopKind::Length => self.cut_at_limit(calls.is_empty()),
            StopKind::ContextFull => {
                self.close("the context window is full, so this call was not run");
                self.end_short(CauseKind::CutShort, "the model's context window is full");
            }
            StopKind::Filtered => {
                self.close("a content filter cut your reply, so this call was not run");
                self.end_short(CauseKind::CutShort, "a content filter cut the model's reply");
            }
            StopKind::Refusal => {
                self.close("not run: the reply was a refusal");
                self.end_short(CauseKind::CutShort, "the model declined to answer");
            }
            StopKind::End | StopKind::Tool | StopKind::Paused if !calls.is_empty() => self.take_calls(calls),
            StopKind::Paused => self.paused(),
            StopKind::End if spoke => self.ended_in_words(),
            StopKind::End => self.ended_without_call(Lack::Words),
            StopKind::Tool | StopKind::StreamCut => self.ended_without_call(Lack::Call),
        }
    }

    /// The stream broke with this error after the model had begun to speak. What was said is kept, and the conversation
    /// goes on: [`MAX_CUTS`] times in a row. Then, or when no turn is left, it ends with the error.
    pub fn cut(&mut self, said: Reply, why: &str) {
        if self.phase != Phase::Asked {
            return;
        }
        let (calls, words) = self.keep(Reply { stop: StopKind::StreamCut, ..said });
        let spoke = !words.is_empty();
        self.hear(words);
        self.in_a_row.count(StopKind::StreamCut);
        self.cut_in_transit(calls.is_empty(), spoke, why);
    }

    /// The model call failed for good. Ignored when none is under way.
    pub fn model_failed(&mut self, message: &str) {
        if self.phase == Phase::Asked {
            self.close("not run: the model failed before its reply was complete");
            self.end_short(CauseKind::Model, message);
        }
    }

    /// The model call is given up before its reply is complete: what it said stays. Followed by [`Machine::model_failed`]
    /// or [`Machine::stop`], which close its calls; ignored when no call is under way.
    pub fn broken_off(&mut self, said: Reply) {
        if self.phase != Phase::Asked || (said.blocks.is_empty() && said.usage.total() == 0) {
            return;
        }
        let (_, words) = self.keep(said);
        // Half a reply does not stand for the words before it.
        for words in words {
            self.last_text.push_str(if self.last_text.is_empty() { "" } else { "\n\n" });
            self.last_text.push_str(&words);
        }
    }

    /// A call that was handed out, or has started while its reply streamed, has its result. Results may come in any
    /// order; one that nobody waits for is ignored.
    pub fn resolved(&mut self, result: ToolResult) {
        if self.phase == Phase::Asked {
            if let Some(slot @ None) = self.early.started.get_mut(&result.id) {
                *slot = Some(result);
            }
        } else if self.record_result(result) && self.history.open_calls().is_empty() {
            self.turn_is_over();
        }
    }

    /// Ends the conversation now, unless it has ended. Open calls get a result: `running` tells which of them had
    /// started. A report that was taken already counts, whatever else ran beside it.
    pub fn stop(&mut self, kind: CauseKind, detail: &str, running: impl Fn(&str) -> bool) {
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        for id in self.history.open_calls() {
            let text = if running(&id) { INTERRUPTED } else { "interrupted before it started" };
            self.record_error(id, text);
        }
        match self.accepted.take() {
            Some(report) => self.phase = Phase::Over(End::Reported(report)),
            None => self.end_short(kind, detail),
        }
    }

    /// Takes a reply into history and transcript, with the results that its calls have already. Returns its calls and its
    /// words, block by block.
    fn keep(&mut self, said: Reply) -> (Vec<ToolCall>, Vec<String>) {
        let Reply { blocks, stop, usage, cost: _, before: _ } = said;
        let blocks = self.history.reply(blocks, stop);
        self.records.push(Record::Assistant { turn: self.turn, blocks: blocks.clone(), stop, usage });
        let (mut calls, mut words) = (Vec::new(), Vec::new());
        for block in blocks {
            match block {
                Block::Text { text } => words.push(text),
                Block::ToolCall(call) => calls.push(call),
                Block::Thinking { .. } | Block::ToolResult(_) => {}
            }
        }
        self.current = calls.iter().map(|call| (call.clone(), None)).collect();
        let early: Vec<ToolResult> = self.early.started.values().flatten().cloned().collect();
        for result in early {
            self.record_result(result);
        }
        (calls, words)
    }

    /// Takes note of the words of a reply.
    fn hear(&mut self, words: Vec<String>) {
        let joined_by = self.joined_by.take();
        if words.is_empty() {
            return;
        }
        match joined_by {
            Some(between) => {
                self.last_text.push_str(between);
                self.last_text.push_str(&words.join("\n\n"));
            }
            None => self.last_text = words.join("\n\n"),
        }
    }

    /// Answers what it can itself; the rest is to be handed out, but for what runs already.
    fn take_calls(&mut self, calls: Vec<ToolCall>) {
        let mut to_run = Vec::new();
        for call in calls {
            if self.early.started.contains_key(&call.id) {
                continue;
            }
            match self.answer_ourselves(&call) {
                Some((text, is_error)) => {
                    self.record_result(ToolResult { id: call.id, text, is_error });
                }
                None => to_run.push(call),
            }
        }
        if to_run.is_empty() { self.wait_for_early() } else { self.phase = Phase::Hand(to_run) }
    }

    /// Nothing is to be handed out: the turn is over when what has started has ended.
    fn wait_for_early(&mut self) {
        if self.history.open_calls().is_empty() { self.turn_is_over() } else { self.phase = Phase::Running }
    }

    /// Gives every call without a result an error: this text, unless it has started.
    fn close(&mut self, text: &str) {
        self.close_unstarted(text);
        for id in self.history.open_calls() {
            self.record_error(id, INTERRUPTED);
        }
    }

    /// Gives every call that has not started an error with this text.
    fn close_unstarted(&mut self, text: &str) {
        for id in self.history.open_calls() {
            if !self.early.started.contains_key(&id) {
                self.record_error(id, text);
            }
        }
    }

    fn record_error(&mut self, id: String, text: &str) {
        self.record_result(ToolResult { id, text: text.to_string(), is_error: true });
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

    /// Whether no tool gets to see this call: `report`, or anything while only the end is accepted.
    fn answers(&self, call: &ToolCall) -> bool {
        match self.ending {
            Ending::Report(_) => call.name == REPORT || self.last.is_some(),
            Ending::Text => self.last.is_some(),
        }
    }

    /// The result of a call that no tool gets to see.
    fn answer_ourselves(&mut self, call: &ToolCall) -> Option<(String, bool)> {
        match &self.ending {
            Ending::Report(rules) if call.name == REPORT => {
                let rules = Arc::clone(rules);
                return Some(self.take_report(&rules, call));
            }
            Ending::Report(_) if self.last.is_some() => {
                return Some((format!("not run: only `{REPORT}` is accepted now"), true));
            }
            Ending::Text if self.last.is_some() => {
                return Some(("not run: this is the last turn, answer in words".to_string(), true));
            }
            Ending::Report(_) | Ending::Text => {}
        }
        let problem = arguments::unusable(&call.args)?;
        Some((format!("not run: {problem}. Make the call again with a JSON object that fits the tool's schema."), true))
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
}
