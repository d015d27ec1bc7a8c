//! Drives one conversation: calls the model, runs the tools, writes the transcript, until the machine says it is over.
//!
//! The loop does what [`Machine::step`] says and hands back what came of it. While a reply streams, calls that the
//! machine lets start already run beside it. Whatever it waits for, it also waits for the conversation's end from outside
//! (stop, time limit), and then lets the machine close what is open. It holds no lock while it waits, and no stream while
//! it waits for tools alone.

use super::calls::{Calls, Ended};
use super::history::Record;
use super::turn::{End, Machine, Step};
use crate::cancel::Cancel;
use crate::event::EventKind;
use crate::model::{
    self, Bill, Delta, Incoming, Model, ModelError, ModelErrorKind, Reply, Request, StopKind, ToolCall, ToolSpec, Usage,
};
use crate::plan::CauseKind;
use crate::store::Store;
use crate::tool::{Effect, ToolContext, Toolset};
use crate::ui::Bus;
use futures_util::FutureExt;
use indexmap::IndexSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Tokens that a reply may have at first. A model that can give more is allowed to once a reply was cut.
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
    /// What they have cost.
    pub(crate) cost: Bill,
    /// Tool calls made, `report` included.
    pub(crate) tool_calls: u32,
    /// Model calls made.
    pub(crate) turns: u32,
    /// Model calls that gave a whole reply.
    pub(crate) replies: u32,
    /// Model calls that failed or broke; those that a stop cut off did not.
    pub(crate) failures: u32,
}

/// Why a conversation must end now.
enum Stop {
    Told,
    Late(Duration),
}

/// How a model call ended.
enum Heard {
    /// With a whole reply.
    Whole,
    /// The stream broke after the model had begun to speak, in a way that may pass.
    Cut(ModelError),
    /// For good.
    Failed(ModelError),
    /// The conversation must end.
    Stopped(Stop),
    /// A tool that ran meanwhile ends the conversation.
    Broken { kind: CauseKind, problem: String },
}

impl Conversation {
    /// Runs the machine to its end. Never fails: every way to end is an [`End`].
    pub(crate) async fn run(&self, machine: &mut Machine) -> Talk {
        let mut talk = Talk {
            end: End::Answered(String::new()),
            usage: Usage::default(),
            cost: Bill::default(),
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
        if self.model.max_output().is_some_and(|most| most > MAX_OUTPUT) {
            machine.can_raise_output();
        }
        let mut calls = Calls::new(self);
        talk.end = loop {
            self.write_down(machine);
            match machine.step() {
                Step::End(end) => break end,
                Step::CallModel { turn } => self.take_turn(turn, machine, &mut calls, &mut talk).await,
                Step::RunTools(now) => self.run_tools(machine, &mut calls, now, &talk.usage).await,
            }
        };
        calls.abandon();
        self.write_down(machine);
        talk.turns = machine.turns();
        talk
    }

    /// Calls the model and hands in what came of it.
    async fn take_turn(&self, turn: u32, machine: &mut Machine, calls: &mut Calls<'_>, talk: &mut Talk) {
        self.doing("thinking", &talk.usage);
        let mut reply = Reply::default();
        let (heard, started) = self.listen(turn, machine, calls, &mut reply, &talk.usage).await;
        // What a call has cost is counted whatever became of it.
        let (stop, usage, cost) = (reply.stop, reply.usage, reply.bill());
        talk.usage += usage;
        talk.cost += cost;
        if matches!(heard, Heard::Whole | Heard::Cut(_)) || usage != Usage::default() {
            self.bus.emit(EventKind::TurnFinished { node: self.name.to_string(), turn, stop, usage, cost });
        }
        match heard {
            Heard::Whole => {
                talk.replies += 1;
                talk.tool_calls += count_calls(&reply);
                if is_cut_below(&reply, self.max_output(machine)) {
                    machine.cannot_raise_output();
                }
                machine.replied(reply);
            }
            Heard::Cut(error) => {
                talk.failures += 1;
                talk.tool_calls += started;
                machine.cut(reply, &error.to_string());
            }
            Heard::Failed(error) => {
                talk.failures += 1;
                talk.tool_calls += started;
                calls.abandon();
                machine.broken_off(reply);
                machine.model_failed(&error.to_string());
            }
            Heard::Stopped(stop) => {
                talk.tool_calls += started;
                machine.broken_off(reply);
                self.stop(machine, &stop, calls);
            }
            Heard::Broken { kind, problem } => {
                talk.tool_calls += started;
                machine.broken_off(reply);
                self.broken(machine, kind, &problem, calls);
            }
        }
    }

    /// Reads a reply, and starts those of its calls that need not wait for the rest of it. Returns how many.
    async fn listen(
        &self,
        turn: u32,
        machine: &mut Machine,
        calls: &mut Calls<'_>,
        reply: &mut Reply,
        before: &Usage,
    ) -> (Heard, u32) {
        let mut started = 0;
        let mut incoming = Incoming::new(self.model.as_ref(), self.request(turn, machine), self.idle_timeout);
        let stopped = self.stopped();
        tokio::pin!(stopped);
        let heard = loop {
            tokio::select! {
                biased;
                stop = &mut stopped => break Heard::Stopped(stop),
                Some(ended) = calls.next() => match ended {
                    Ended::Result(result) => machine.resolved(result),
                    Ended::Broken { kind, problem } => break Heard::Broken { kind, problem },
                },
                delta = incoming.next() => match delta {
                    Ok(Delta::Call(call)) => {
                        // Nothing starts after a stop, also when this loop has not seen it yet.
                        if let Some(stop) = self.stopped().now_or_never() {
                            reply.push(Delta::Call(call));
                            break Heard::Stopped(stop);
                        }
                        let effect = self.tools.effect(&call.name);
                        let (call, starts) = machine.admit(call, effect);
                        if starts {
                            started += 1;
                            calls.start(call.clone(), before);
                        }
                        reply.push(Delta::Call(call));
                    }
                    Ok(delta) => {
                        if let Delta::Switched(_) = delta {
                            calls.abandon();
                            machine.void();
                        }
                        self.observe(turn, &delta, before);
                        if reply.push(delta) {
                            break Heard::Whole;
                        }
                    }
                    Err(error) if incoming.has_spoken() && may_pass(error.kind) => break Heard::Cut(error),
                    Err(error) => break Heard::Failed(error),
                },
            }
        };
        (heard, started)
    }

    /// Tokens that the next reply may have.
    fn max_output(&self, machine: &Machine) -> u32 {
        match self.model.max_output() {
            Some(most) if machine.is_raised() => most,
            Some(most) => most.min(MAX_OUTPUT),
            None => MAX_OUTPUT,
        }
    }

    fn request(&self, turn: u32, machine: &Machine) -> Request {
        Request {
            conversation: self.name.to_string(),
            attempt: self.attempt,
            turn,
            system: Arc::clone(&self.system),
            tools: Arc::clone(&self.specs),
            messages: machine.messages(),
            max_output: self.max_output(machine),
            format: None,
        }
    }

    /// Tells what there is to see of a delta.
    fn observe(&self, turn: u32, delta: &Delta, before: &Usage) {
        let node = || self.name.to_string();
        match delta {
            Delta::Text(text) => self.bus.emit(EventKind::Words { node: node(), text: text.clone() }),
            Delta::Usage(usage) => {
                let mut sum = *before;
                sum += *usage;
                self.doing("thinking", &sum);
            }
            Delta::Waiting(wait) => self.bus.emit(EventKind::ModelWaiting { node: node(), turn, wait: wait.clone() }),
            Delta::Sent => self.doing("thinking", before),
            Delta::Switched(switch) => {
                self.bus.emit(EventKind::ModelSwitched { node: node(), turn, switch: switch.clone() });
            }
            Delta::Partial(_) | Delta::Thinking(_) | Delta::Call(_) | Delta::Cost(_) | Delta::Stop(_) => {}
        }
    }

    /// Waits for what runs already, then runs these calls in order: neighbours that only read together, others alone.
    async fn run_tools(&self, machine: &mut Machine, calls: &mut Calls<'_>, now: Vec<ToolCall>, usage: &Usage) {
        if !self.drain(machine, calls, false).await {
            return;
        }
        let mut rest = now.as_slice();
        while let Some(first) = rest.first() {
            // Nothing starts after a stop.
            if let Some(stop) = self.stopped().now_or_never() {
                return self.stop(machine, &stop, calls);
            }
            let reads = |call: &&ToolCall| self.tools.effect(&call.name).is_none_or(|effect| effect == Effect::Read);
            let together = if reads(&first) { rest.iter().take_while(reads).count() } else { 1 };
            let waits_for_it = self.drains_tools && !reads(&first);
            let (now, later) = rest.split_at(together);
            rest = later;
            // From here on they count as running, whichever is polled first.
            now.iter().for_each(|call| calls.start(call.clone(), usage));
            if !self.drain(machine, calls, waits_for_it).await {
                return;
            }
        }
    }

    /// Hands in the results of what runs until nothing does. Returns whether the conversation goes on.
    async fn drain(&self, machine: &mut Machine, calls: &mut Calls<'_>, through_a_stop: bool) -> bool {
        let stopped = self.stopped();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                biased;
                stop = &mut stopped, if !through_a_stop => {
                    self.stop(machine, &stop, calls);
                    return false;
                }
                ended = calls.next() => match ended {
                    None => return true,
                    Some(Ended::Result(result)) => machine.resolved(result),
                    Some(Ended::Broken { kind, problem }) => {
                        self.broken(machine, kind, &problem, calls);
                        return false;
                    }
                },
            }
        }
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

    fn stop(&self, machine: &mut Machine, stop: &Stop, calls: &mut Calls<'_>) {
        let (kind, detail) = match stop {
            Stop::Told => match self.cancel.reason() {
                Some(reason) => (reason.cause_kind(), reason.detail().to_string()),
                None => (CauseKind::Interrupted, "it was stopped".to_string()),
            },
            Stop::Late(limit) => {
                (CauseKind::Timeout, format!("its time limit of {} has passed", humantime::format_duration(*limit)))
            }
        };
        self.context.cancel.cancel();
        self.broken(machine, kind, &detail, calls);
    }

    /// Ends the conversation with what runs dropped.
    fn broken(&self, machine: &mut Machine, kind: CauseKind, detail: &str, calls: &mut Calls<'_>) {
        let running: IndexSet<String> = calls.abandon();
        machine.stop(kind, detail, |id| running.contains(id));
    }

    pub(super) fn doing(&self, what: &str, usage: &Usage) {
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

/// Whether a stream that broke so is worth going on from what it said. What was wrong before the model spoke has been
/// tried again already where that helps.
fn may_pass(kind: ModelErrorKind) -> bool {
    match kind {
        ModelErrorKind::Cut
        | ModelErrorKind::Server
        | ModelErrorKind::Network
        | ModelErrorKind::Overloaded
        | ModelErrorKind::RateLimit
        | ModelErrorKind::Silent => true,
        ModelErrorKind::NotFound
        | ModelErrorKind::Auth
        | ModelErrorKind::Quota
        | ModelErrorKind::InvalidRequest
        | ModelErrorKind::NoTools
        | ModelErrorKind::Protocol
        | ModelErrorKind::ContextFull
        | ModelErrorKind::Egress
        | ModelErrorKind::Script => false,
    }
}

/// Whether a reply was cut well below the limit that it was given. Then it is the model's window that is nearly full: the
/// same request with a higher limit would go out with the same one, and be cut again.
fn is_cut_below(reply: &Reply, limit: u32) -> bool {
    let output = reply.usage.output.saturating_sub(reply.before.0.output);
    reply.stop == StopKind::Length && output > 0 && output < u64::from(limit) / 10 * 9
}

fn count_calls(reply: &Reply) -> u32 {
    reply.blocks.iter().filter(|block| matches!(block, model::Block::ToolCall(_))).count() as u32
}
