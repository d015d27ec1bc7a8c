//! Drives one conversation: calls the model, runs the tools, writes the transcript, until the machine says it is over.
//!
//! The loop does what [`Machine::step`] says and hands back what came of it. Whatever it waits for, it also waits for
//! the conversation's end from outside (stop, time limit), and then lets the machine close what is open. It holds no
//! permit and no lock while it waits.

use super::history::Record;
use super::turn::{End, Machine, Step};
use crate::cancel::Cancel;
use crate::event::EventKind;
use crate::model::{
    self, Delta, Model, ModelError, ModelErrorKind, Reply, Request, ToolCall, ToolResult, ToolSpec, Usage,
};
use crate::plan::CauseKind;
use crate::store::Store;
use crate::text;
use crate::tool::{Effect, ToolCallEnd, ToolContext, Toolset};
use crate::ui::Bus;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashSet;
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
    /// Whether a stop waits for the tools that run, because they see it themselves and have something to close: the
    /// coordinator, whose tool runs a plan.
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
}

/// Why a conversation must end now.
enum Stop {
    Told,
    Late(Duration),
}

impl Conversation {
    /// Runs the machine to its end. Never fails: every way to end is an [`End`].
    pub(crate) async fn run(&self, machine: &mut Machine) -> Talk {
        let mut usage = Usage::default();
        let mut tool_calls = 0;
        let mut replies = 0;
        self.record(&Record::Start {
            model: self.model.name().to_string(),
            system: self.system.to_string(),
            tools: self.specs.to_vec(),
        });
        let end = loop {
            self.write_down(machine);
            match machine.step() {
                Step::End(end) => break end,
                Step::CallModel { turn } => {
                    self.doing("thinking", &usage);
                    let call = self.call_model(turn, machine, &usage);
                    let reply = tokio::select! {
                        biased;
                        stop = self.stopped() => {
                            self.stop(machine, &stop, &HashSet::new());
                            continue;
                        }
                        reply = call => reply,
                    };
                    match reply {
                        Ok(reply) => {
                            replies += 1;
                            usage += reply.usage;
                            tool_calls += count_calls(&reply);
                            self.bus.emit(EventKind::TurnFinished {
                                node: self.name.to_string(),
                                turn,
                                stop: reply.stop,
                                usage: reply.usage,
                            });
                            machine.replied(reply);
                        }
                        Err(error) => machine.model_failed(&error.message),
                    }
                }
                Step::RunTools(calls) => self.run_tools(machine, calls, &usage).await,
            }
        };
        self.write_down(machine);
        Talk { end, usage, tool_calls, turns: machine.turns(), replies }
    }

    async fn call_model(&self, turn: u32, machine: &Machine, usage: &Usage) -> Result<Reply, ModelError> {
        let request = Request {
            conversation: self.name.to_string(),
            attempt: self.attempt,
            turn,
            system: Arc::clone(&self.system),
            tools: Arc::clone(&self.specs),
            messages: machine.messages(),
            max_output: MAX_OUTPUT,
        };
        let idle = || {
            let waited = humantime::format_duration(self.idle_timeout);
            ModelError::new(ModelErrorKind::Network, format!("`{}` sent nothing for {waited}", self.model.name()))
        };
        let so_far = usage.total();
        let work = async {
            let deltas = self.model.stream(request).await?;
            model::collect(deltas, |delta| self.observe(delta, so_far)).await
        };
        // The models of this version are local: one limit for the whole call stands for the time without content.
        tokio::time::timeout(self.idle_timeout, work).await.unwrap_or_else(|_| Err(idle()))
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
            Delta::Thinking(_) | Delta::Call(_) | Delta::Stop(_) => {}
        }
    }

    /// Runs the calls in order: neighbours that only read together, others alone.
    async fn run_tools(&self, machine: &mut Machine, calls: Vec<ToolCall>, usage: &Usage) {
        let mut rest = calls.as_slice();
        while let Some(first) = rest.first() {
            let reads = |call: &&ToolCall| self.tools.effect(&call.name).is_none_or(|effect| effect == Effect::Read);
            let together = if reads(&first) { rest.iter().take_while(reads).count() } else { 1 };
            let (now, later) = rest.split_at(together);
            rest = later;
            let mut running: HashSet<String> = now.iter().map(|call| call.id.clone()).collect();
            let mut work: FuturesUnordered<_> = now.iter().map(|call| self.run_tool(call, usage)).collect();
            loop {
                let done = tokio::select! {
                    biased;
                    stop = self.stopped(), if !self.drains_tools => {
                        drop(work);
                        for id in &running {
                            self.tool_finished(id, true, 0);
                        }
                        return self.stop(machine, &stop, &running);
                    }
                    done = work.next() => done,
                };
                let Some((id, end)) = done else { break };
                running.remove(&id);
                let (text, is_error) = match end {
                    ToolCallEnd::Done(text) => (text, false),
                    ToolCallEnd::Failed(text) => (text, true),
                    ToolCallEnd::Fatal(problem) => {
                        self.tool_finished(&id, true, 0);
                        drop(work);
                        for id in &running {
                            self.tool_finished(id, true, 0);
                        }
                        return machine.stop(CauseKind::Tool, &problem, |open| running.contains(open) || open == id);
                    }
                };
                self.tool_finished(&id, is_error, text.len() as u64);
                machine.resolved(ToolResult { id, text, is_error });
            }
        }
    }

    async fn run_tool(&self, call: &ToolCall, usage: &Usage) -> (String, ToolCallEnd) {
        let subject = subject(&call.args);
        self.bus.emit(EventKind::ToolStarted {
            node: self.name.to_string(),
            call: call.id.clone(),
            tool: call.name.clone(),
            subject: subject.clone(),
        });
        self.doing(&format!("{} {subject}", call.name), usage);
        let begun = Instant::now();
        let end = self.tools.call(call, &self.context).await;
        tracing::debug!(node = %self.name, tool = %call.name, took = ?begun.elapsed(), "tool");
        (call.id.clone(), end)
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
