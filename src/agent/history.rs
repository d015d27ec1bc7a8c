//! A conversation's messages, valid at every moment.
//!
//! Pure. The one place that keeps calls and results paired: every tool call has exactly one result, in the message
//! right after it, in call order; ids are unique; no block is blank; speakers alternate and the user is first. What a
//! model gets is always [`History::messages`], also after a cut in the middle: calls without a result then read as
//! interrupted. The user is last too, but for a reply that the server paused: it goes back as it is.
//!
//! A transcript is the list of [`Record`]s that made a history. [`History::replay`] of any prefix of it gives a
//! history whose messages are a valid request.

use crate::model::{Block, Message, Speaker, StopKind, ToolCall, ToolResult, ToolSpec, Usage};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// What stays the same for the whole conversation. The first record.
    Start {
        /// `provider/model`.
        model: String,
        /// The system text.
        system: String,
        /// The tools.
        tools: Vec<ToolSpec>,
    },
    /// The prompt, or a note of the harness.
    User {
        /// The words.
        text: String,
    },
    /// A reply of the model.
    Assistant {
        /// Which model call, from 1.
        turn: u32,
        /// As they came, with ids made unique.
        blocks: Vec<Block>,
        /// Why it ended.
        stop: StopKind,
        /// What it cost.
        usage: Usage,
    },
    /// The result of a call.
    ToolResult {
        /// The result.
        #[serde(flatten)]
        result: ToolResult,
    },
}

/// What a result says when its call was running at the moment of a cut.
pub const INTERRUPTED: &str = "interrupted while it ran: it may or may not have had an effect";

/// A conversation's messages.
#[derive(Clone, Debug, Default)]
pub struct History {
    messages: Vec<Arc<Message>>,
    /// Calls of the last reply in call order, with the results that are there; empty when all have theirs.
    open: IndexMap<String, Option<ToolResult>>,
    /// What the harness said while calls were open: goes after their results.
    notes: Vec<String>,
    ids: HashSet<String>,
    /// Ids that [`History::admit`] gave to calls of the reply that streams.
    admitted: HashSet<String>,
    /// Whether the last message is a reply that the server paused.
    paused: bool,
}

impl History {
    /// An empty conversation.
    pub fn new() -> Self {
        History::default()
    }

    /// The history that these records made. Records that cannot follow what came before (a result without its call)
    /// are passed over.
    pub fn replay<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut history = History::new();
        for record in records {
            match record {
                Record::Start { .. } => {}
                Record::User { text } => history.say(text),
                Record::Assistant { blocks, stop, .. } => {
                    history.reply(blocks.clone(), *stop);
                }
                Record::ToolResult { result } => {
                    history.resolve(result.clone());
                }
            }
        }
        history
    }

    /// The user's side says something. Blank text is passed over. While calls are open it waits for their results.
    pub fn say(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if self.open.is_empty() {
            self.add_user(vec![Block::text(text)]);
        } else {
            self.notes.push(text.to_string());
        }
    }

    /// A call of the reply that streams is whole: gives it the id that it keeps, so that it can run before the rest of
    /// the reply is there.
    pub fn admit(&mut self, call: ToolCall) -> ToolCall {
        let call = self.unique(call);
        self.admitted.insert(call.id.clone());
        call
    }

    /// The model replied with these blocks. Returns them as they were kept: blank text left out, ids of calls made
    /// unique where that was not done before. Calls of an earlier reply that are still open are closed as interrupted.
    pub fn reply(&mut self, blocks: Vec<Block>, stop: StopKind) -> Vec<Block> {
        self.close_open(|_| INTERRUPTED.to_string());
        let kept: Vec<Block> = blocks
            .into_iter()
            .filter_map(|block| match block {
                Block::Text { text } if text.trim().is_empty() => None,
                Block::ToolCall(call) if self.admitted.remove(&call.id) => Some(Block::ToolCall(call)),
                Block::ToolCall(call) => Some(Block::ToolCall(self.unique(call))),
                // A model does not speak results.
                Block::ToolResult(_) => None,
                Block::Text { .. } | Block::Thinking { .. } => Some(block),
            })
            .collect();
        self.admitted.clear();
        // Thinking alone cannot be sent back: a message needs words or calls.
        if kept.iter().any(|block| !matches!(block, Block::Thinking { .. })) {
            if self.messages.is_empty() {
                self.add_user(vec![Block::text("Begin.")]);
            }
            self.add(Speaker::Assistant, kept.clone());
            for block in &kept {
                if let Block::ToolCall(call) = block {
                    self.open.insert(call.id.clone(), None);
                }
            }
            self.paused = stop == StopKind::Paused && self.open.is_empty();
        }
        kept
    }

    /// A call has its result. Returns whether there was such a call without one.
    pub fn resolve(&mut self, result: ToolResult) -> bool {
        match self.open.get_mut(&result.id) {
            Some(slot @ None) => *slot = Some(result),
            Some(Some(_)) | None => return false,
        }
        if self.open.values().all(Option::is_some) {
            let results = std::mem::take(&mut self.open);
            let mut blocks: Vec<Block> = results.into_values().flatten().map(Block::ToolResult).collect();
            blocks.extend(std::mem::take(&mut self.notes).into_iter().map(Block::text));
            self.add_user(blocks);
        }
        true
    }

    /// Ids of calls that have no result yet, in call order.
    pub fn open_calls(&self) -> Vec<String> {
        self.open.iter().filter(|(_, result)| result.is_none()).map(|(id, _)| id.clone()).collect()
    }

    /// Gives every open call an error result with this text. Returns the results.
    pub fn close_open(&mut self, text: impl Fn(&str) -> String) -> Vec<ToolResult> {
        let results: Vec<ToolResult> =
            self.open_calls().into_iter().map(|id| ToolResult { text: text(&id), id, is_error: true }).collect();
        for result in &results {
            self.resolve(result.clone());
        }
        results
    }

    /// The messages of a valid request that goes on from here.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        let users_last = self.messages.last().is_some_and(|last| last.speaker == Speaker::User);
        if self.open.is_empty() && (users_last || self.paused) {
            return self.messages.clone();
        }
        let mut copy = self.clone();
        copy.close_open(|_| INTERRUPTED.to_string());
        if copy.messages.last().is_none_or(|last| last.speaker == Speaker::Assistant) {
            copy.say("Go on.");
        }
        copy.messages
    }

    fn add(&mut self, speaker: Speaker, blocks: Vec<Block>) {
        self.paused = false;
        match self.messages.last_mut() {
            Some(last) if last.speaker == speaker => Arc::make_mut(last).blocks.extend(blocks),
            _ => self.messages.push(Arc::new(Message { speaker, blocks })),
        }
    }

    fn add_user(&mut self, blocks: Vec<Block>) {
        self.add(Speaker::User, blocks);
    }

    /// Models and servers reuse ids (`call_0` in every turn); a request must not.
    fn unique(&mut self, call: ToolCall) -> ToolCall {
        let base = if call.id.is_empty() { "call".to_string() } else { call.id.clone() };
        let mut id = base.clone();
        let mut copy = 1;
        while !self.ids.insert(id.clone()) {
            copy += 1;
            id = format!("{base}_{copy}");
        }
        ToolCall { id, ..call }
    }
}

/// What is wrong with the messages of a request, for tests and debug builds: the rules of the strictest provider.
///
/// # Errors
/// The first rule that is broken, with the message's number.
pub fn check(messages: &[Arc<Message>]) -> Result<(), String> {
    if messages.last().is_none_or(|message| message.speaker == Speaker::Assistant) {
        return Err("the last message is not the user's".to_string());
    }
    check_pairs(messages)
}

/// The same for a request that sends a paused reply back: it ends with the assistant's message.
///
/// # Errors
/// The first rule that is broken, with the message's number.
pub fn check_paused(messages: &[Arc<Message>]) -> Result<(), String> {
    let Some(last) = messages.last().filter(|message| message.speaker == Speaker::Assistant) else {
        return Err("the last message is not the assistant's".to_string());
    };
    if last.blocks.iter().any(|block| matches!(block, Block::ToolCall(_))) {
        return Err("the last message has calls without results".to_string());
    }
    check_pairs(messages)
}

fn check_pairs(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut asked: Vec<&str> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let wanted = if number % 2 == 0 { Speaker::User } else { Speaker::Assistant };
        if message.speaker != wanted {
            return Err(format!("message {number} is spoken by {:?}", message.speaker));
        }
        if message.blocks.is_empty() {
            return Err(format!("message {number} is empty"));
        }
        let answered: Vec<&str> = message
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::ToolResult(result) => Some(result.id.as_str()),
                Block::Text { .. } | Block::Thinking { .. } | Block::ToolCall(_) => None,
            })
            .collect();
        if answered != asked {
            return Err(format!("message {number} answers {answered:?}, asked was {asked:?}"));
        }
        if !message.blocks.iter().take(answered.len()).all(|block| matches!(block, Block::ToolResult(_))) {
            return Err(format!("message {number} has something before its results"));
        }
        asked.clear();
        for block in &message.blocks {
            match block {
                Block::Text { text } if text.trim().is_empty() => {
                    return Err(format!("message {number} has blank text"));
                }
                Block::ToolCall(call) if message.speaker == Speaker::User => {
                    return Err(format!("message {number}: the user calls `{}`", call.name));
                }
                Block::ToolCall(call) if !ids.insert(call.id.as_str()) => {
                    return Err(format!("message {number}: the id `{}` is used twice", call.id));
                }
                Block::ToolCall(call) => asked.push(&call.id),
                Block::ToolResult(_) if message.speaker == Speaker::Assistant => {
                    return Err(format!("message {number}: the assistant speaks a result"));
                }
                Block::Text { .. } | Block::Thinking { .. } | Block::ToolResult(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Opaque;
    use serde_json::json;

    fn call(id: &str) -> Block {
        Block::ToolCall(ToolCall::new(id, "read_file", json!({})))
    }

    fn result(id: &str) -> ToolResult {
        ToolResult { id: id.into(), text: "ok".into(), is_error: false }
    }

    #[test]
    fn results_keep_call_order_and_notes_come_after_them() {
        let mut history = History::new();
        history.say("task");
        history.reply(vec![call("a"), call("b")], StopKind::Tool);
        history.say("a note while tools run");
        assert!(history.resolve(result("b")));
        assert!(history.resolve(result("a")));
        let messages = history.messages();
        assert_eq!(check(&messages), Ok(()));
        assert_eq!(messages[2].blocks[0], Block::ToolResult(result("a")));
        assert_eq!(messages[2].blocks[2], Block::text("a note while tools run"));
    }

    #[test]
    fn a_call_has_one_result_whatever_is_said() {
        let mut history = History::new();
        history.say("task");
        history.reply(vec![call("a")], StopKind::Tool);
        assert!(history.resolve(result("a")));
        assert!(!history.resolve(result("a")), "a second result is refused");
        assert!(!history.resolve(result("zzz")), "a result without a call is refused");
    }

    #[test]
    fn ids_that_a_server_reuses_are_made_unique() {
        let mut history = History::new();
        history.say("task");
        for _ in 0..3 {
            let kept = history.reply(vec![call("call_0"), call("call_0"), call("")], StopKind::Tool);
            for block in kept {
                let Block::ToolCall(call) = block else { panic!("only calls") };
                assert!(history.resolve(result(&call.id)));
            }
        }
        assert_eq!(check(&history.messages()), Ok(()));
    }

    #[test]
    fn a_blank_or_thinking_only_reply_leaves_no_blank_message() {
        let mut history = History::new();
        history.say("task");
        history.reply(vec![Block::text("  \n")], StopKind::End);
        let thinking = Opaque { model: "m".into(), value: json!({"signature": "s"}) };
        history.reply(vec![Block::Thinking(thinking)], StopKind::End);
        history.say("again");
        let messages = history.messages();
        assert_eq!(check(&messages), Ok(()));
        assert_eq!(messages.len(), 1);
    }

    #[test]
    fn a_call_keeps_the_id_that_it_was_admitted_with() {
        let mut history = History::new();
        history.say("task");
        history.reply(vec![call("call_0")], StopKind::Tool);
        history.resolve(result("call_0"));
        let void = history.admit(ToolCall::new("call_0", "read_file", json!({})));
        let first = history.admit(ToolCall::new("call_0", "read_file", json!({})));
        assert_eq!((void.id.as_str(), first.id.as_str()), ("call_0_2", "call_0_3"));
        let kept = history.reply(vec![Block::ToolCall(first.clone()), call("call_0_3")], StopKind::Tool);
        assert_eq!(kept, [Block::ToolCall(first), call("call_0_3_2")], "each once, whoever made the id");
        assert_eq!(history.open_calls(), ["call_0_3", "call_0_3_2"]);
    }

    #[test]
    fn a_paused_reply_goes_back_as_it_is_and_grows() {
        let mut history = History::new();
        history.say("task");
        for text in ["one", "two"] {
            history.reply(vec![Block::text(text)], StopKind::Paused);
            assert_eq!(check_paused(&history.messages()), Ok(()));
        }
        assert_eq!(history.messages()[1].blocks, [Block::text("one"), Block::text("two")]);
        history.reply(vec![call("a")], StopKind::Tool);
        assert!(check_paused(&history.messages()).is_err() && check(&history.messages()).is_ok());
        history.resolve(result("a"));
        assert_eq!(check(&history.messages()), Ok(()));
    }
}
