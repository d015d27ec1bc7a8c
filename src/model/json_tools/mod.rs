//! Tools for models without tool calling: the reply is a JSON object that holds either calls or the answer.
//!
//! [`rewrite`] turns a request with tools into one without: the tools stand in the system text, calls and results of
//! the history become text, and `format` is a schema that the server holds the model to. [`decode`] turns the reply
//! back into calls. Where the conversation ends by a call (`report`), an answer in words is no alternative: a model
//! that can only call cannot forget to.
//!
//! ```text
//! Request ── rewrite ──> Request without tools, with format      (before the protocol encodes it)
//! {"calls": [{"name": …, "args": {…}}]} | {"answer": …} ── decode ──> Delta::Call… | Delta::Text
//! ```

mod schema;
#[cfg(test)]
mod tests;

use super::{Block, Delta, Deltas, Message, Request, Speaker, StopKind, ToolCall, ToolSpec};
use crate::agent::report::REPORT;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Calls of one reply: few enough for a model that stops only when it must.
const MAX_CALLS: usize = 2;
/// Characters of a tool's description that a small model is given.
const MAX_DESCRIPTION: usize = 120;

/// The same request for a model without tool calling. One without tools keeps its system text and format.
pub(crate) fn rewrite(request: Request) -> Request {
    let messages = rendered(&request);
    if request.tools.is_empty() {
        return Request { messages, ..request };
    }
    let answers = request.tools.iter().all(|tool| tool.name != REPORT);
    let system = format!("{}\n\n{}", request.system, instructions(&request.tools, answers));
    let format = reply_schema(&request.tools, answers, request.format.as_deref());
    Request {
        system: system.trim_start().into(),
        tools: Vec::new().into(),
        messages,
        format: Some(Arc::new(format)),
        ..request
    }
}

fn instructions(tools: &[ToolSpec], answers: bool) -> String {
    let mut text = String::from("Reply with JSON. To use tools:\n{\"calls\": [{\"name\": \"NAME\", \"args\": {}}]}\n");
    if answers {
        text.push_str("When you are done:\n{\"answer\": \"TEXT\"}\n");
    }
    text.push_str("Tools:");
    for tool in tools {
        let description = tool.description.split(['.', '\n']).next().unwrap_or_default().trim();
        let signature = schema::signature(&tool.name, &schema::simple(&tool.schema));
        text.push_str(&format!("\n- {signature}: {}", crate::text::clip(description, MAX_DESCRIPTION)));
    }
    text
}

fn reply_schema(tools: &[ToolSpec], answers: bool, format: Option<&Value>) -> Value {
    let mut calls: Vec<Value> = tools
        .iter()
        .map(|tool| object(json!({ "name": { "const": tool.name }, "args": schema::simple(&tool.schema) })))
        .collect();
    let call = if calls.len() == 1 { calls.swap_remove(0) } else { json!({ "anyOf": calls }) };
    let list = json!({ "type": "array", "items": call, "minItems": 1, "maxItems": MAX_CALLS });
    let calls = object(json!({ "calls": list }));
    if !answers {
        return calls;
    }
    let answer = format.map_or_else(|| json!({ "type": "string" }), schema::simple);
    json!({ "anyOf": [calls, object(json!({ "answer": answer }))] })
}

/// An object that has exactly these properties.
fn object(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(|object| object.keys()).collect();
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

/// The history in words: calls as the JSON that asked for them, results as what the user says.
fn rendered(request: &Request) -> Vec<Arc<Message>> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        for block in &message.blocks {
            if let Block::ToolCall(call) = block {
                names.insert(&call.id, &call.name);
            }
        }
        let blocks = match message.speaker {
            Speaker::User => user(message, &names),
            Speaker::Assistant => assistant(message),
        };
        if !blocks.is_empty() {
            messages.push(Arc::new(Message { speaker: message.speaker, blocks }));
        }
    }
    messages
}

fn user(message: &Message, names: &HashMap<&str, &str>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { .. } => blocks.push(block.clone()),
            Block::ToolResult(result) => {
                let name = names.get(result.id.as_str()).copied().unwrap_or("the call");
                let how = if result.is_error { "failed" } else { "returned" };
                blocks.push(Block::text(format!("{name} {how}:\n{}", result.text)));
            }
            Block::Thinking(_) | Block::ToolCall(_) => {}
        }
    }
    blocks
}

fn assistant(message: &Message) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { .. } => blocks.push(block.clone()),
            Block::ToolCall(call) => calls.push(json!({ "name": call.name, "args": call.args })),
            Block::Thinking(_) | Block::ToolResult(_) => {}
        }
    }
    if !calls.is_empty() {
        blocks.push(Block::text(json!({ "calls": calls }).to_string()));
    }
    blocks
}

/// The reply of a request that [`rewrite`] made, with its calls as calls. `turn` makes their ids unique.
pub(crate) fn decode(deltas: Deltas, turn: u32) -> Deltas {
    let start = Gathering { deltas, ready: VecDeque::new(), text: String::new(), turn };
    stream::unfold(start, |mut state| async move {
        loop {
            if let Some(delta) = state.ready.pop_front() {
                return Some((delta, state));
            }
            match state.deltas.next().await {
                Some(Ok(delta)) => state.take(delta),
                // What was said until then is no JSON, but it was said.
                Some(Err(error)) => {
                    state.say_all();
                    state.ready.push_back(Err(error));
                }
                None => {
                    state.say_all();
                    if state.ready.is_empty() {
                        return None;
                    }
                }
            }
        }
    })
    .boxed()
}

/// A reply while it streams.
struct Gathering {
    deltas: Deltas,
    ready: VecDeque<Result<Delta, super::ModelError>>,
    text: String,
    turn: u32,
}

impl Gathering {
    fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Text(more) => {
                self.text.push_str(&more);
                // Shows that the model is at work.
                self.ready.push_back(Ok(Delta::Partial(more)));
            }
            Delta::Switched(_) => {
                self.text.clear();
                self.ready.push_back(Ok(delta));
            }
            Delta::Stop(stop) => self.stop(stop),
            Delta::Waiting(_)
            | Delta::Sent
            | Delta::Partial(_)
            | Delta::Thinking(_)
            | Delta::Call(_)
            | Delta::Usage(_)
            | Delta::Cost(_) => self.ready.push_back(Ok(delta)),
        }
    }

    fn stop(&mut self, stop: StopKind) {
        let stop = match read(&self.text) {
            Said::Calls(calls) => {
                self.text.clear();
                for (at, (name, args)) in calls.into_iter().enumerate() {
                    let id = format!("json_{}_{}", self.turn, at + 1);
                    self.ready.push_back(Ok(Delta::Call(ToolCall::new(id, name, args))));
                }
                match stop {
                    // The object is whole, so nothing of it was cut.
                    StopKind::End | StopKind::Tool | StopKind::Length => StopKind::Tool,
                    StopKind::Refusal
                    | StopKind::Paused
                    | StopKind::ContextFull
                    | StopKind::Filtered
                    | StopKind::StreamCut => stop,
                }
            }
            Said::Answer(answer) => {
                self.text = answer;
                stop
            }
            Said::Words => stop,
        };
        self.say_all();
        self.ready.push_back(Ok(Delta::Stop(stop)));
    }

    fn say_all(&mut self) {
        if !self.text.trim().is_empty() {
            self.ready.push_back(Ok(Delta::Text(std::mem::take(&mut self.text))));
        }
    }
}

/// What a reply is.
#[derive(Debug, PartialEq)]
enum Said {
    /// Names and arguments.
    Calls(Vec<(String, Value)>),
    Answer(String),
    /// Not what was asked for, or not whole.
    Words,
}

fn read(text: &str) -> Said {
    // A server that holds the model to nothing lets it fence its JSON.
    let text = text.trim();
    let fenced =
        text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).and_then(|rest| rest.strip_suffix("```"));
    let Ok(Value::Object(mut reply)) = serde_json::from_str(fenced.unwrap_or(text)) else { return Said::Words };
    if let Some(answer) = reply.remove("answer") {
        return Said::Answer(answer.as_str().map_or_else(|| answer.to_string(), str::to_string));
    }
    let Some(Value::Array(calls)) = reply.remove("calls") else { return Said::Words };
    let read = |mut call: Value| {
        let name = call.get("name")?.as_str()?.to_string();
        Some((name, call.get_mut("args").map_or_else(|| json!({}), Value::take)))
    };
    match calls.into_iter().map(read).collect::<Option<Vec<_>>>() {
        Some(calls) if !calls.is_empty() => Said::Calls(calls),
        Some(_) | None => Said::Words,
    }
}
