//! The tool calls of a conversation that run now: each has one start, one end and one result.
//!
//! It may hold calls of a reply that still streams. A panic of a tool is caught here, so that its call has an end and
//! what the conversation came to is kept.

use super::driver::Conversation;
use crate::error::panic_words;
use crate::event::EventKind;
use crate::model::{ToolCall, ToolResult, Usage};
use crate::plan::CauseKind;
use crate::text;
use crate::tool::ToolCallEnd;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use indexmap::IndexSet;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

/// The calls of a conversation that run.
pub(super) struct Calls<'c> {
    conversation: &'c Conversation,
    work: FuturesUnordered<BoxFuture<'c, (String, Called)>>,
    /// Ids in the order of their start: those that have an end still to come.
    running: IndexSet<String>,
}

/// What a call came to.
enum Called {
    Ended(ToolCallEnd),
    /// The conversation cannot go on, for this reason.
    Panicked(String),
}

/// What is to be done because of a call that has ended.
pub(super) enum Ended {
    /// Hand in its result.
    Result(ToolResult),
    /// End the conversation: nobody in it can do anything about this. The call counts as running until
    /// [`Calls::abandon`].
    Broken { kind: CauseKind, problem: String },
}

impl<'c> Calls<'c> {
    /// None.
    pub(super) fn new(conversation: &'c Conversation) -> Self {
        Calls { conversation, work: FuturesUnordered::new(), running: IndexSet::new() }
    }

    /// Starts a call.
    pub(super) fn start(&mut self, call: ToolCall, usage: &Usage) {
        let conversation = self.conversation;
        let subject = subject(&call.args);
        conversation.doing(&format!("{} {subject}", call.name), usage);
        conversation.bus.emit(EventKind::ToolStarted {
            node: conversation.name.to_string(),
            call: call.id.clone(),
            tool: call.name.clone(),
            subject,
        });
        self.running.insert(call.id.clone());
        self.work.push(run(conversation, call).boxed());
    }

    /// The next call that ends; `None` when none runs.
    pub(super) async fn next(&mut self) -> Option<Ended> {
        let (id, called) = self.work.next().await?;
        let (text, is_error) = match called {
            Called::Ended(ToolCallEnd::Done(text)) => (text, false),
            Called::Ended(ToolCallEnd::Failed(text)) => (text, true),
            Called::Ended(ToolCallEnd::Fatal(problem)) => {
                return Some(Ended::Broken { kind: CauseKind::Tool, problem });
            }
            Called::Panicked(problem) => return Some(Ended::Broken { kind: CauseKind::Panic, problem }),
        };
        self.running.shift_remove(&id);
        self.finished(&id, is_error, text.len() as u64);
        Some(Ended::Result(ToolResult { id, text, is_error }))
    }

    /// Drops what runs. Returns the ids: these calls may or may not have had an effect.
    pub(super) fn abandon(&mut self) -> IndexSet<String> {
        self.work.clear();
        let running = std::mem::take(&mut self.running);
        running.iter().for_each(|id| self.finished(id, true, 0));
        running
    }

    fn finished(&self, call: &str, is_error: bool, bytes: u64) {
        let node = self.conversation.name.to_string();
        self.conversation.bus.emit(EventKind::ToolFinished { node, call: call.to_string(), is_error, bytes });
    }
}

async fn run(conversation: &Conversation, call: ToolCall) -> (String, Called) {
    let begun = Instant::now();
    let ended = AssertUnwindSafe(conversation.tools.call(&call, &conversation.context)).catch_unwind().await;
    tracing::debug!(node = %conversation.name, tool = %call.name, took = ?begun.elapsed(), "tool");
    let called = match ended {
        Ok(end) => Called::Ended(end),
        Err(panic) => {
            let words = panic_words(panic.as_ref());
            Called::Panicked(format!("its tool `{}` panicked (a bug in it or in sortie): {words}", call.name))
        }
    };
    (call.id, called)
}

/// What a call acts on, in a few words for screens: its first text argument.
fn subject(args: &serde_json::Value) -> String {
    let first = args.as_object().and_then(|args| args.values().find_map(|value| value.as_str()));
    text::one_line(first.unwrap_or_default(), 60)
}
