//! Drives one conversation: calls the model, runs the tools, writes the transcript, until the machine says it is over.
//!
//! The loop does what [`Machine::step`] says and hands back what came of it. Whatever it waits for, it also waits for
//! the conversation's end from outside (stop, time limit), and then lets the machine close what is open. It holds no
//! permit and no lock while it waits.

use super::history::Record;
use super::turn::{End, Machine, Step};
use crate::cancel::Cancel;
use crate::error::panic_words;
use crate::event::EventKind;
use crate::model::{self, Delta, Model, ModelError, Reply, Request, ToolCall, ToolResult, ToolSpec, Usage};
use crate::plan::CauseKind;
use crate::store::Store;
use crate::text;
use crate::tool::{Effect, ToolCallEnd, ToolContext, Toolset};
use crate::ui::Bus;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Tokens that a reply may have unless its model says otherwise.
const MAX_OUTPUT: u32 = 16_000;

/// All that a conversation needs besides its machine.
pub(crate) struct Conversation {
    /// Full name of the node, or `coordinator`.
    pub(crate) name: Arc<str>,
    /// Which attempt, from 1; 0 for the coordinator.
    pub(crate) attempt: u32,
    /// Who answers.
    pub(crate) model: Arc<dyn Model>,
    /// Frozen system text.
    pub(crate) system: Arc<str>,
    /// Frozen tool list, `report` included where it ends the conversation.
    pub(crate) specs: Arc<[ToolSpec]>,
    /// The tools that can be called.
    pub(crate) tools: Toolset,
    /// What tool calls know.
    pub(crate) context: ToolContext,
    /// Where events go.
    pub(crate) bus: Arc<Bus>,
    /// Where the transcript goes.
    pub(crate) store: Arc<dyn Store>,
    /// How it is stopped.
    pub(crate) cancel: Cancel,
    /// When it must be over, with the limit for the message.
    pub(crate) deadline: Option<(Instant, Duration)>,
    /// How long a model stream may go without content.
    pub(crate) idle_timeout: Duration,
    /// Whether a stop waits for a call with side effects, because it sees the stop itself and has something to close:
    /// the coordinator's, which runs a plan. Calls that only read are never waited for.
    pub(crate) drains_tools: bool,
}

/// What a conversation came to.
#[derive(Debug)]
pub(crate) struct Talk {
    /// How it ended.
    pub(crate) end: End,
    /// Tokens of all its model calls.
    pub(crate) usage: Usage,
    /// Tool calls made, `report` included.
    pub(crate) tool_calls: u32,
    /// Model calls made.
    pub(crate) turns: u32,
    /// Model calls that gave a reply.
    pub(crate) replies: u32,
    /// Model calls that failed; those that a stop cut off did not.
    pub(crate) failures: u32,
}

/// Why a conversation must end now.
enum Stop {
    Told,
    Late(Duration),
}

/// Why a model call gave no reply.
enum NoReply {
    Stopped(Stop),
    Failed(ModelError),
}

/// What a tool call came to.
enum Called {
    Ended(ToolCallEnd),
    /// It panicked, with these words.
    Panicked(String),
}

impl Conversation {
    /// Runs the machine to its end. Never fails: every way to end is an [`End`].
    pub(crate) async fn run(&self, machine: &mut Machine) -> Talk {
        let mut talk = Talk {
            end: End::Answered(String::new()),
            usage: Usage::default(),
            tool_calls: 0,
            turns: 0,
            replies: 0,
            failures: 0,
        };
        self.record(&Record::Start {
            model: self.model.name().to_string(),
            system: self.system.to_string(),
            tools: self.specs.to_vec(),
        });
        talk.end = loop {
            self.write_down(machine);
            match machine.step() {
                Step::End(end) => break end,
                Step::CallModel { turn } => self.take_turn(turn, machine, &mut talk).await,
                Step::RunTools(calls) => self.run_tools(machine, calls, &talk.usage).await,
            }
        };
        self.write_down(machine);
        talk.turns = machine.turns();
        talk
    }

    /// Calls the model and hands in what came of it.
    async fn take_turn(&self, turn: u32, machine: &mut Machine, talk: &mut Talk) {
        self.doing("thinking", &talk.usage);
        let mut reply = Reply::default();
        let done = {
            let call = self.call_model(turn, machine, &talk.usage, &mut reply);
            tokio::select! {
                biased;
                stop = self.stopped() => Err(NoReply::Stopped(stop)),
                done = call => done.map_err(NoReply::Failed),
            }
        };
        // What a call has cost is counted whatever became of it.
        talk.usage += reply.usage;
        if done.is_ok() || reply.usage != Usage::default() {
            let (stop, usage) = (reply.stop, reply.usage);
            self.bus.emit(EventKind::TurnFinished { node: self.name.to_string(), turn, stop, usage });
        }
        match done {
            Ok(()) => {
                talk.replies += 1;
                talk.tool_calls += count_calls(&reply);
                machine.replied(reply);
            }
            Err(NoReply::Failed(error)) => {
                talk.failures += 1;
                machine.broken_off(reply);
                machine.model_failed(&error.to_string());
            }
            Err(NoReply::Stopped(stop)) => {
                machine.broken_off(reply);
                self.stop(machine, &stop, &HashSet::new());
            }
        }
    }

    async fn call_model(
        &self,
        turn: u32,
        machine: &Machine,
        usage: &Usage,
        reply: &mut Reply,
    ) -> Result<(), ModelError> {
        let request = Request {
            conversation: self.name.to_string(),
            attempt: self.attempt,
            turn,
            system: Arc::clone(&self.system),
            tools: Arc::clone(&self.specs),
            messages: machine.messages(),
            max_output: MAX_OUTPUT,
            format: None,
        };
        let so_far = usage.total();
        let observe = |delta: &Delta| self.observe(delta, so_far);
        model::receive(self.model.as_ref(), request, self.idle_timeout, reply, observe).await
    }

    fn observe(&self, delta: &Delta, so_far: u64) {
        match delta {
            Delta::Text(text) => {
                self.bus.emit(EventKind::Words { node: self.name.to_string(), text: text.clone() });
            }
            Delta::Usage(usage) => self.bus.emit(EventKind::Doing {
                node: self.name.to_string(),
                what: "thinking".to_string(),
                tokens: so_far + usage.total(),
            }),
            Delta::Waiting(_)
            | Delta::Sent
            | Delta::Switched(_)
            | Delta::Partial(_)
            | Delta::Thinking(_)
            | Delta::Call(_)
            | Delta::Cost(_)
            | Delta::Stop(_) => {}
        }
    }

    /// Runs the calls in order: neighbours that only read together, others alone.
    async fn run_tools(&self, machine: &mut Machine, calls: Vec<ToolCall>, usage: &Usage) {
        let mut rest = calls.as_slice();
        while let Some(first) = rest.first() {
            // Nothing starts after a stop.
            if let Some(stop) = self.stopped().now_or_never() {
                return self.stop(machine, &stop, &HashSet::new());
            }
            let reads = |call: &&ToolCall| self.tools.effect(&call.name).is_none_or(|effect| effect == Effect::Read);
            let together = if reads(&first) { rest.iter().take_while(reads).count() } else { 1 };
            let waits_for_it = self.drains_tools && !reads(&first);
            let (now, later) = rest.split_at(together);
            rest = later;
            // From here on they count as running, whichever is polled first.
            now.iter().for_each(|call| self.tool_started(call, usage));
            let mut running: HashSet<String> = now.iter().map(|call| call.id.clone()).collect();
            let mut work: FuturesUnordered<_> = now.iter().map(|call| self.run_tool(call)).collect();
            loop {
                let done = tokio::select! {
                    biased;
                    stop = self.stopped(), if !waits_for_it => {
                        drop(work);
                        running.iter().for_each(|id| self.tool_finished(id, true, 0));
                        return self.stop(machine, &stop, &running);
                    }
                    done = work.next() => done,
                };
                let Some((call, called)) = done else { break };
                let (kind, problem) = match called {
                    Called::Ended(ToolCallEnd::Done(text)) => {
                        running.remove(&call.id);
                        self.resolve(machine, call, text, false);
                        continue;
                    }
                    Called::Ended(ToolCallEnd::Failed(text)) => {
                        running.remove(&call.id);
                        self.resolve(machine, call, text, true);
                        continue;
                    }
                    Called::Ended(ToolCallEnd::Fatal(problem)) => (CauseKind::Tool, problem),
                    Called::Panicked(words) => (
                        CauseKind::Panic,
                        format!("its tool `{}` panicked (a bug in it or in sortie): {words}", call.name),
                    ),
                };
                drop(work);
                running.iter().for_each(|id| self.tool_finished(id, true, 0));
                return machine.stop(kind, &problem, |open| running.contains(open));
            }
        }
    }

    async fn run_tool<'c>(&self, call: &'c ToolCall) -> (&'c ToolCall, Called) {
        let begun = Instant::now();
        // A tool's panic is caught here, so that its call has an end and what the conversation came to is kept.
        let ended = AssertUnwindSafe(self.tools.call(call, &self.context)).catch_unwind().await;
        tracing::debug!(node = %self.name, tool = %call.name, took = ?begun.elapsed(), "tool");
        match ended {
            Ok(end) => (call, Called::Ended(end)),
            Err(panic) => (call, Called::Panicked(panic_words(panic.as_ref()).to_string())),
        }
    }

    fn resolve(&self, machine: &mut Machine, call: &ToolCall, text: String, is_error: bool) {
        self.tool_finished(&call.id, is_error, text.len() as u64);
        machine.resolved(ToolResult { id: call.id.clone(), text, is_error });
    }

    fn tool_started(&self, call: &ToolCall, usage: &Usage) {
        let subject = subject(&call.args);
        self.doing(&format!("{} {subject}", call.name), usage);
        self.bus.emit(EventKind::ToolStarted {
            node: self.name.to_string(),
            call: call.id.clone(),
            tool: call.name.clone(),
            subject,
        });
    }

    fn tool_finished(&self, call: &str, is_error: bool, bytes: u64) {
        self.bus.emit(EventKind::ToolFinished { node: self.name.to_string(), call: call.to_string(), is_error, bytes });
    }

    /// Resolves when the conversation must end from outside.
    async fn stopped(&self) -> Stop {
        let late = async {
            match self.deadline {
                Some((at, limit)) => {
                    tokio::time::sleep_until(at).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.stop_token().cancelled() => Stop::Told,
            limit = late => Stop::Late(limit),
        }
    }

    fn stop(&self, machine: &mut Machine, stop: &Stop, running: &HashSet<String>) {
        self.context.cancel.cancel();
        let (kind, detail) = match stop {
            Stop::Told => match self.cancel.reason() {
                Some(reason) => (reason.cause_kind(), reason.detail().to_string()),
                None => (CauseKind::Interrupted, "it was stopped".to_string()),
            },
            Stop::Late(limit) => {
                (CauseKind::Timeout, format!("its time limit of {} has passed", humantime::format_duration(*limit)))
            }
        };
        machine.stop(kind, &detail, |id| running.contains(id));
    }

    fn doing(&self, what: &str, usage: &Usage) {
        self.bus.emit(EventKind::Doing { node: self.name.to_string(), what: what.to_string(), tokens: usage.total() });
    }

    fn write_down(&self, machine: &mut Machine) {
        for record in machine.take_records() {
            self.record(&record);
        }
    }

    fn record(&self, record: &Record) {
        // A record is plain data: it always has a JSON form.
        if let Ok(value) = serde_json::to_value(record) {
            self.store.transcript(&self.name, self.attempt, value);
        }
    }
}

fn count_calls(reply: &Reply) -> u32 {
    reply.blocks.iter().filter(|block| matches!(block, model::Block::ToolCall(_))).count() as u32
}

/// What a call acts on, in a few words for screens: its first text argument.
fn subject(args: &serde_json::Value) -> String {
    let first = args.as_object().and_then(|args| args.values().find_map(|value| value.as_str()));
    text::one_line(first.unwrap_or_default(), 60)
}
