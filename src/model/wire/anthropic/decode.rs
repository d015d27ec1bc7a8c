//! One reply, from events or from a whole body to deltas.
//!
//! `message_start`, then for each block `content_block_start`, deltas, `content_block_stop`, then `message_delta` with
//! the stop reason, then `message_stop`, the only end that counts. `ping` and unknown events may come anywhere, an
//! `error` even after the status 200.

use super::super::loose::{Text, count};
use super::super::{Failure, sse};
use crate::model::{Delta, ModelErrorKind, Opaque, StopKind, ToolCall, Usage};
use crate::text;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::mem;
use std::sync::Arc;

/// Reads one reply.
#[derive(Debug)]
pub struct Decoder {
    /// Whose reasoning blocks these are.
    name: Arc<str>,
    /// Blocks that have started and not stopped; one at a time with every server seen so far.
    open: Vec<(Option<u64>, Open)>,
    /// A call without arguments that no block has followed yet: a tool without parameters, or one whose arguments were
    /// cut off by the output limit before they began. The stop reason tells.
    unsure: Option<Box<ToolCall>>,
    /// A call has come.
    called: bool,
    /// Words have come.
    spoken: bool,
    usage: Usage,
    stop: Option<Told>,
    /// What the server says of a refusal.
    refusal: Option<String>,
    /// An event of this protocol has come.
    started: bool,
    ended: bool,
    /// Types that we do not know, each told once.
    unknown: Vec<String>,
}

/// A block that has started.
#[derive(Debug)]
enum Open {
    Text,
    /// Reasoning, to be given back as it came: the block of the start event, with what its deltas add.
    Thinking {
        block: Map<String, Value>,
        thinking: String,
        signature: String,
    },
    Call {
        id: String,
        name: String,
        /// What the start event carries: all of it with servers that do not stream arguments.
        input: Value,
        json: String,
    },
    /// Of a type that we have no use for.
    Other,
}

/// A stop reason.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Known(StopKind),
    /// One that is newer than this program.
    Unknown,
}

/// Any event: one flat type, so that a text delta is read in one pass.
#[derive(Deserialize)]
struct Line<'e> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'e>,
    #[serde(default, deserialize_with = "count")]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Change<'e>>,
    #[serde(default)]
    content_block: Option<Value>,
    #[serde(default)]
    message: Option<Head>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    error: Option<Value>,
}

/// The `delta` of `content_block_delta` and of `message_delta`.
#[derive(Deserialize)]
struct Change<'e> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'e>,
    #[serde(borrow, default)]
    text: Text<'e>,
    #[serde(borrow, default)]
    partial_json: Text<'e>,
    #[serde(borrow, default)]
    thinking: Text<'e>,
    #[serde(borrow, default)]
    signature: Text<'e>,
    #[serde(borrow, default)]
    stop_reason: Text<'e>,
    #[serde(default)]
    stop_details: Option<Value>,
}

/// The `message` of `message_start`.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    usage: Option<Counts>,
}

/// A whole reply.
#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    content: Vec<Value>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    stop_details: Option<Value>,
    #[serde(default)]
    usage: Option<Counts>,
}

/// Tokens. `input_tokens` counts what was neither read from a cache nor written to one.
#[derive(Deserialize)]
struct Counts {
    #[serde(default, deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default, deserialize_with = "count")]
    thinking_tokens: Option<u64>,
}

impl Decoder {
    pub(in super::super) fn new(name: Arc<str>) -> Self {
        Decoder {
            name,
            open: Vec::new(),
            unsure: None,
            called: false,
            spoken: false,
            usage: Usage::default(),
            stop: None,
            refusal: None,
            started: false,
            ended: false,
            unknown: Vec::new(),
        }
    }

    pub(in super::super) fn event(&mut self, event: &sse::Event<'_>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        // Some gateways close every stream as OpenAI does.
        if self.ended || event.data == "[DONE]" {
            return Ok(());
        }
        let line: Line<'_> = serde_json::from_str(event.data).map_err(|error| unreadable(event, &error))?;
        if line.error.is_some() {
            return Err(Failure::in_reply(event.data));
        }
        let kind = if line.kind.is_empty() { event.name } else { line.kind.as_str() };
        match kind {
            "content_block_delta" => {
                if let Some(change) = &line.delta {
                    self.change(line.index, change, out);
                }
            }
            "content_block_start" => self.start(line.index, line.content_block.unwrap_or_default(), out),
            "content_block_stop" => self.stop_block(line.index, out),
            "message_start" => {
                if let Some(usage) = line.message.and_then(|message| message.usage) {
                    self.count(&usage, out);
                }
            }
            "message_delta" => {
                if let Some(change) = &line.delta {
                    self.told(change.stop_reason.as_str(), change.stop_details.as_ref());
                }
                if let Some(usage) = &line.usage {
                    self.count(usage, out);
                }
            }
            "message_stop" => self.finish(out),
            "error" => return Err(Failure::in_reply(event.data)),
            "ping" => return Ok(()),
            other => {
                self.note_unknown("event", other);
                return Ok(());
            }
        }
        self.started = true;
        Ok(())
    }

    pub(in super::super) fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(body);
        let body: Value = serde_json::from_str(&text).map_err(|error| Failure::no_reply(body, &error))?;
        if body.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Failure::in_reply(&text));
        }
        let whole = match Whole::deserialize(&body) {
            Ok(whole) if body.get("content").is_some() => whole,
            Ok(_) => return Err(Failure::new(ModelErrorKind::Protocol, "sent a reply without `content`")),
            Err(error) => return Err(Failure::not_protocol("a reply", &text, &error)),
        };
        for block in whole.content {
            self.start(None, block, out);
            self.stop_block(None, out);
        }
        self.told(whole.stop_reason.as_deref().unwrap_or_default(), whole.stop_details.as_ref());
        if let Some(usage) = &whole.usage {
            self.count(usage, out);
        }
        self.finish(out);
        Ok(())
    }

    pub(in super::super) fn end(&mut self, _: &mut Vec<Delta>) -> Result<(), Failure> {
        if self.ended {
            return Ok(());
        }
        let message = if self.started {
            "the stream ended without `message_stop`"
        } else {
            "the stream ended without any event of the Messages protocol: does the provider speak another one?"
        };
        Err(Failure::new(ModelErrorKind::Cut, message))
    }

    /// A block starts. One with the same index that has not stopped is over.
    fn start(&mut self, index: Option<u64>, block: Value, out: &mut Vec<Delta>) {
        self.stop_block(index, out);
        self.settle_unsure(true, out);
        let Value::Object(mut block) = block else {
            self.open.push((index, Open::Other));
            return;
        };
        let text = |block: &Map<String, Value>, field: &str| {
            block.get(field).and_then(Value::as_str).unwrap_or_default().to_string()
        };
        let open = match text(&block, "type").as_str() {
            "text" => {
                // Empty in a stream; all of it in a whole reply.
                self.say(&text(&block, "text"), out);
                Open::Text
            }
            "thinking" | "redacted_thinking" => {
                Open::Thinking { thinking: text(&block, "thinking"), signature: text(&block, "signature"), block }
            }
            "tool_use" => Open::Call {
                id: text(&block, "id"),
                name: text(&block, "name"),
                input: block.remove("input").unwrap_or_default(),
                json: String::new(),
            },
            other => {
                self.note_unknown("block", other);
                Open::Other
            }
        };
        self.open.push((index, open));
    }

    fn change(&mut self, index: Option<u64>, change: &Change<'_>, out: &mut Vec<Delta>) {
        let at = self.position(index);
        let open = at.and_then(|at| self.open.get_mut(at)).map(|(_, open)| open);
        match (change.kind.as_str(), open) {
            // Words count also where the start of their block is missing.
            ("text_delta", _) => self.say(change.text.as_str(), out),
            ("input_json_delta", Some(Open::Call { json, .. })) => {
                let more = change.partial_json.as_str();
                json.push_str(more);
                show(more, out);
            }
            ("thinking_delta", Some(Open::Thinking { thinking, .. })) => {
                let more = change.thinking.as_str();
                thinking.push_str(more);
                show(more, out);
            }
            ("signature_delta", Some(Open::Thinking { signature, .. })) => {
                signature.push_str(change.signature.as_str());
            }
            // Sources of words that are there without them; pieces of blocks that we do not read.
            ("citations_delta" | "input_json_delta" | "thinking_delta" | "signature_delta", _) => {}
            (other, _) => self.note_unknown("delta", other),
        }
    }

    /// Which open block is meant: by index, else the one that started last.
    fn position(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(_) => {
                let of = |wanted: Option<u64>| self.open.iter().rposition(|(at, _)| *at == wanted);
                of(index).or_else(|| of(None))
            }
            None => self.open.len().checked_sub(1),
        }
    }

    fn stop_block(&mut self, index: Option<u64>, out: &mut Vec<Delta>) {
        if let Some(at) = self.position(index) {
            let (_, open) = self.open.remove(at);
            self.complete(open, out);
        }
    }

    fn complete(&mut self, open: Open, out: &mut Vec<Delta>) {
        match open {
            Open::Text | Open::Other => {}
            Open::Thinking { mut block, thinking, signature } => {
                for (field, text) in [("thinking", thinking), ("signature", signature)] {
                    if !text.is_empty() {
                        block.insert(field.to_string(), text.into());
                    }
                }
                out.push(Delta::Thinking(Opaque { model: self.name.to_string(), value: Value::Object(block) }));
            }
            Open::Call { id, name, input, json } => {
                self.called = true;
                let empty = json.trim().is_empty();
                let args = match (empty, input) {
                    (true, Value::Null) => Value::Object(Map::new()),
                    (true, input) => input,
                    // Not by us: what cannot be read is told to the model as it came.
                    (false, _) => serde_json::from_str(&json).unwrap_or(Value::String(json)),
                };
                let unsure = args.as_object().is_some_and(Map::is_empty) && empty;
                let call = ToolCall::new(id, name, args);
                if unsure {
                    self.unsure = Some(Box::new(call));
                } else {
                    out.push(Delta::Call(call));
                }
            }
        }
    }

    /// The call without arguments really has none, or was cut before they began: then it is not a call that can run.
    fn settle_unsure(&mut self, whole: bool, out: &mut Vec<Delta>) {
        if let Some(mut call) = self.unsure.take() {
            if !whole {
                call.args = Value::String(String::new());
            }
            out.push(Delta::Call(*call));
        }
    }

    fn say(&mut self, text: &str, out: &mut Vec<Delta>) {
        if !text.is_empty() {
            self.spoken = true;
            out.push(Delta::Text(text.to_string()));
        }
    }

    /// The counts are those of the whole reply so far. Relatives send zeros at the start or at the end.
    fn count(&mut self, counts: &Counts, out: &mut Vec<Delta>) {
        let usage = &mut self.usage;
        let reasoning = counts.output_tokens_details.as_ref().and_then(|details| details.thinking_tokens);
        for (total, count) in [
            (&mut usage.input, counts.input_tokens),
            (&mut usage.cache_read, counts.cache_read_input_tokens),
            (&mut usage.cache_write, counts.cache_creation_input_tokens),
            (&mut usage.output, counts.output_tokens),
            (&mut usage.reasoning, reasoning),
        ] {
            *total = (*total).max(count.unwrap_or(0));
        }
        out.push(Delta::Usage(self.usage));
    }

    fn told(&mut self, reason: &str, details: Option<&Value>) {
        let told = match reason {
            "" => return,
            "end_turn" | "stop_sequence" => Told::Known(StopKind::End),
            "tool_use" => Told::Known(StopKind::Tool),
            "max_tokens" => Told::Known(StopKind::Length),
            "pause_turn" => Told::Known(StopKind::Paused),
            "refusal" => Told::Known(StopKind::Refusal),
            "model_context_window_exceeded" => Told::Known(StopKind::ContextFull),
            other => {
                let reason = text::one_line(other, 60);
                tracing::warn!(model = &*self.name, reason, "unknown stop reason, taken as an end");
                Told::Unknown
            }
        };
        self.stop = Some(told);
        let explanation = details.and_then(|details| details.get("explanation")).and_then(Value::as_str);
        self.refusal = explanation.map(str::to_string);
    }

    /// `message_stop` has come.
    fn finish(&mut self, out: &mut Vec<Delta>) {
        let cut = matches!(self.stop, Some(Told::Known(StopKind::Length | StopKind::ContextFull)));
        for (_, open) in mem::take(&mut self.open) {
            // The server stopped in it and did not say so: nothing that is missing may be run or sent back.
            match open {
                Open::Text | Open::Other | Open::Thinking { .. } => {}
                Open::Call { .. } => {
                    self.settle_unsure(true, out);
                    self.complete(open, out);
                }
            }
        }
        self.settle_unsure(!cut, out);
        let stop = match self.stop {
            // Calls that have come are to be answered whatever the server calls this end.
            Some(Told::Known(StopKind::End) | Told::Unknown) | None if self.called => StopKind::Tool,
            Some(Told::Unknown) | None => StopKind::End,
            Some(Told::Known(stop)) => stop,
        };
        if stop == StopKind::Refusal
            && !self.spoken
            && let Some(why) = self.refusal.take()
        {
            // All that there is to show of it.
            self.say(&why, out);
        }
        self.ended = true;
        out.push(Delta::Stop(stop));
    }

    /// Newer servers send types that this program does not know; that is no error. One line for each is enough.
    fn note_unknown(&mut self, what: &str, kind: &str) {
        const TOLD: usize = 16;
        if self.unknown.len() < TOLD && !self.unknown.iter().any(|seen| seen == kind) {
            let kind = text::one_line(kind, 60);
            tracing::debug!(model = &*self.name, what, kind, "unknown type passed over");
            self.unknown.push(kind);
        }
    }
}

/// What is wrong with an event that does not have the protocol's form.
fn unreadable(event: &sse::Event<'_>, error: &serde_json::Error) -> Failure {
    let body: Value = serde_json::from_str(event.data).unwrap_or_default();
    if event.name == "error" || body.get("type").is_some_and(|kind| kind == "error") {
        return Failure::in_reply(event.data);
    }
    Failure::not_protocol("an event", event.data, error)
}

/// Not words, but a sign that the model is at work.
fn show(piece: &str, out: &mut Vec<Delta>) {
    if !piece.is_empty() {
        out.push(Delta::Partial(piece.to_string()));
    }
}
