//! What a server says, in the form of any of the three protocols: well-formed streams for tests to send, cut or spoil.
//!
//! ```text
//! say::text("Looking.").call("read_file", json!({ "file_path": "a.rs" })).events(Protocol::Anthropic)
//! ```
//!
//! Words and arguments go out in small pieces that end in the middle of anything but a character. The shapes are those
//! of the vendors' documents, with the fields that clients have no use for left in where servers send them.

use serde_json::{Value, json};
use sortie::model::wire::Protocol;

/// All that there are.
pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Anthropic, Protocol::OpenaiChat, Protocol::OpenaiResponses];

/// Characters of one piece.
const PIECE: usize = 7;

/// A reply to be.
#[derive(Clone, Debug)]
pub(crate) struct Say {
    parts: Vec<Part>,
    usage: [u64; 3],
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Call { id: String, name: String, args: String },
}

/// An empty reply.
pub(crate) fn nothing() -> Say {
    Say { parts: Vec::new(), usage: [100, 0, 20] }
}

/// A reply that begins with these words.
pub(crate) fn text(words: &str) -> Say {
    nothing().text(words)
}

/// A reply that begins with this call.
pub(crate) fn call(name: &str, args: Value) -> Say {
    nothing().call(name, args)
}

/// A reply that ends a subagent's conversation.
pub(crate) fn report(summary: &str) -> Say {
    call("report", json!({ "status": "done", "summary": summary }))
}

impl Say {
    pub(crate) fn text(mut self, words: &str) -> Self {
        self.parts.push(Part::Text(words.into()));
        self
    }

    /// A call whose id is its place in the reply, as some servers number them.
    pub(crate) fn call(self, name: &str, args: Value) -> Self {
        let id = format!("call_{}", self.parts.len());
        self.call_as(&id, name, &args.to_string())
    }

    /// A call with the text of its arguments as it is.
    pub(crate) fn call_as(mut self, id: &str, name: &str, args: &str) -> Self {
        self.parts.push(Part::Call { id: id.into(), name: name.into(), args: args.into() });
        self
    }

    /// Tokens: input that was not cached, input read from the cache, output.
    pub(crate) fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage = [input, cached, output];
        self
    }

    /// The events of the stream, each with its blank line.
    pub(crate) fn events(&self, protocol: Protocol) -> Vec<String> {
        self.parts(protocol).concat()
    }

    /// The same by part: the head, each text or call, the end.
    pub(crate) fn parts(&self, protocol: Protocol) -> Vec<Vec<String>> {
        match protocol {
            Protocol::Anthropic => self.anthropic(),
            Protocol::OpenaiChat => self.chat(),
            Protocol::OpenaiResponses => self.responses(),
        }
    }

    /// The events up to the end, which is left out: what a cut stream has sent.
    pub(crate) fn cut(&self, protocol: Protocol) -> Vec<String> {
        let mut parts = self.parts(protocol);
        parts.pop();
        parts.concat()
    }

    /// The reply in one piece, as servers send it that do not stream.
    pub(crate) fn whole(&self, protocol: Protocol) -> Value {
        let [input, cached, output] = self.usage;
        match protocol {
            Protocol::Anthropic => {
                let content: Vec<Value> = self.parts.iter().map(Part::anthropic).collect();
                let mut message = self.message(self.anthropic_stop());
                message["content"] = content.into();
                message["usage"]["output_tokens"] = output.into();
                message
            }
            Protocol::OpenaiChat => {
                let words: String = self.parts.iter().filter_map(Part::words).collect();
                let calls: Vec<Value> = self.parts.iter().filter_map(Part::chat_call).collect();
                let mut message = json!({ "role": "assistant", "content": words, "refusal": null });
                if !calls.is_empty() {
                    message["tool_calls"] = calls.into();
                }
                let choice =
                    json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": self.chat_stop() });
                json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
                    "usage": self.chat_usage() })
            }
            Protocol::OpenaiResponses => self.response(input, cached, output),
        }
    }

    fn calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call { .. }))
    }

    fn anthropic_stop(&self) -> &'static str {
        if self.calls() { "tool_use" } else { "end_turn" }
    }

    fn message(&self, stop: impl Into<Value>) -> Value {
        let [input, cached, _] = self.usage;
        json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": stop.into(), "stop_sequence": null,
            "usage": { "input_tokens": input, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached,
                "output_tokens": 1 } })
    }

    fn anthropic(&self) -> Vec<Vec<String>> {
        let event = |kind: &str, mut data: Value| {
            data["type"] = kind.into();
            format!("event: {kind}\ndata: {data}\n\n")
        };
        let head =
            vec![event("message_start", json!({ "message": self.message(Value::Null) })), event("ping", json!({}))];
        let mut parts = vec![head];
        for (index, part) in self.parts.iter().enumerate() {
            let (start, deltas): (Value, Vec<Value>) = match part {
                Part::Text(words) => (
                    json!({ "type": "text", "text": "" }),
                    pieces(words).map(|piece| json!({ "type": "text_delta", "text": piece })).collect(),
                ),
                Part::Call { id, name, args } => (
                    json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
                    pieces(args).map(|piece| json!({ "type": "input_json_delta", "partial_json": piece })).collect(),
                ),
            };
            let mut events = vec![event("content_block_start", json!({ "index": index, "content_block": start }))];
            let delta = |delta| event("content_block_delta", json!({ "index": index, "delta": delta }));
            events.extend(deltas.into_iter().map(delta));
            events.push(event("content_block_stop", json!({ "index": index })));
            parts.push(events);
        }
        let delta = json!({ "stop_reason": self.anthropic_stop(), "stop_sequence": null });
        let usage = json!({ "output_tokens": self.usage[2] });
        parts.push(vec![
            event("message_delta", json!({ "delta": delta, "usage": usage })),
            event("message_stop", json!({})),
        ]);
        parts
    }

    fn chat_stop(&self) -> &'static str {
        if self.calls() { "tool_calls" } else { "stop" }
    }

    fn chat_usage(&self) -> Value {
        let [input, cached, output] = self.usage;
        json!({ "prompt_tokens": input + cached, "completion_tokens": output, "total_tokens": input + cached + output,
            "prompt_tokens_details": { "cached_tokens": cached } })
    }

    fn chat(&self) -> Vec<Vec<String>> {
        let chunk = |choices: Value, usage: Value| {
            let data = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": choices, "usage": usage });
            format!("data: {data}\n\n")
        };
        let choice = |delta: Value, stop: Value| {
            chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": stop }]), Value::Null)
        };
        let mut parts = vec![vec![choice(json!({ "role": "assistant", "content": "" }), Value::Null)]];
        let mut index = 0;
        for part in &self.parts {
            parts.push(match part {
                Part::Text(words) => {
                    pieces(words).map(|piece| choice(json!({ "content": piece }), Value::Null)).collect()
                }
                Part::Call { id, name, args } => {
                    let function = json!({ "name": name, "arguments": "" });
                    let first = json!({ "index": index, "id": id, "type": "function", "function": function });
                    let more = |piece| json!({ "index": index, "function": { "arguments": piece } });
                    let calls = std::iter::once(first).chain(pieces(args).map(more));
                    let events = calls.map(|call| choice(json!({ "tool_calls": [call] }), Value::Null)).collect();
                    index += 1;
                    events
                }
            });
        }
        parts.push(vec![
            choice(json!({}), self.chat_stop().into()),
            chunk(json!([]), self.chat_usage()),
            "data: [DONE]\n\n".to_string(),
        ]);
        parts
    }

    fn response(&self, input: u64, cached: u64, output: u64) -> Value {
        let items: Vec<Value> = self.parts.iter().enumerate().map(|(index, part)| part.item(index)).collect();
        let usage = json!({ "input_tokens": input + cached, "input_tokens_details": { "cached_tokens": cached },
            "output_tokens": output, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": input + cached + output });
        json!({ "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "error": null,
            "incomplete_details": null, "output": items, "usage": usage })
    }

    fn responses(&self) -> Vec<Vec<String>> {
        let mut number = 0;
        let mut event = |kind: &str, mut data: Value| {
            data["type"] = kind.into();
            data["sequence_number"] = number.into();
            number += 1;
            format!("event: {kind}\ndata: {data}\n\n")
        };
        let begun = json!({ "response": { "id": "resp_1", "object": "response", "created_at": 1, "model": "m",
            "status": "in_progress", "output": [], "usage": null } });
        let head = vec![event("response.created", begun.clone()), event("response.in_progress", begun)];
        let mut parts = vec![head];
        for (index, part) in self.parts.iter().enumerate() {
            let whole = part.item(index);
            let item = |item: &Value| json!({ "output_index": index, "item": item });
            let mut events = Vec::new();
            match part {
                Part::Text(words) => {
                    let place = |more: Value| {
                        let mut place =
                            json!({ "item_id": format!("item_{index}"), "output_index": index, "content_index": 0 });
                        for (key, value) in more.as_object().unwrap() {
                            place[key] = value.clone();
                        }
                        place
                    };
                    let mut open = whole.clone();
                    open["status"] = "in_progress".into();
                    open["content"] = json!([]);
                    let empty = json!({ "type": "output_text", "text": "", "annotations": [] });
                    events.push(event("response.output_item.added", item(&open)));
                    events.push(event("response.content_part.added", place(json!({ "part": empty }))));
                    for piece in pieces(words) {
                        events.push(event("response.output_text.delta", place(json!({ "delta": piece }))));
                    }
                    events.push(event("response.output_text.done", place(json!({ "text": words }))));
                    events.push(event("response.content_part.done", place(json!({ "part": whole["content"][0] }))));
                }
                Part::Call { args, .. } => {
                    let place = |key: &str, text: &str| json!({ "item_id": format!("item_{index}"), "output_index": index, key: text });
                    let mut open = whole.clone();
                    open["status"] = "in_progress".into();
                    open["arguments"] = "".into();
                    events.push(event("response.output_item.added", item(&open)));
                    for piece in pieces(args) {
                        events.push(event("response.function_call_arguments.delta", place("delta", piece)));
                    }
                    events.push(event("response.function_call_arguments.done", place("arguments", args)));
                }
            }
            events.push(event("response.output_item.done", item(&whole)));
            parts.push(events);
        }
        let [input, cached, output] = self.usage;
        parts.push(vec![event("response.completed", json!({ "response": self.response(input, cached, output) }))]);
        parts
    }
}

impl Part {
    fn words(&self) -> Option<&str> {
        match self {
            Part::Text(words) => Some(words),
            Part::Call { .. } => None,
        }
    }

    fn anthropic(&self) -> Value {
        match self {
            Part::Text(words) => json!({ "type": "text", "text": words }),
            Part::Call { id, name, args } => {
                json!({ "type": "tool_use", "id": id, "name": name, "input": parsed(args) })
            }
        }
    }

    fn chat_call(&self) -> Option<Value> {
        match self {
            Part::Text(_) => None,
            Part::Call { id, name, args } => {
                Some(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": args } }))
            }
        }
    }

    fn item(&self, index: usize) -> Value {
        let own = format!("item_{index}");
        match self {
            Part::Text(words) => {
                let part = json!({ "type": "output_text", "text": words, "annotations": [] });
                json!({ "type": "message", "id": own, "status": "completed", "role": "assistant", "content": [part] })
            }
            Part::Call { id, name, args } => json!({ "type": "function_call", "id": own, "call_id": id, "name": name,
                "arguments": args, "status": "completed" }),
        }
    }
}

/// The error that a server sends in its 200.
pub(crate) fn error(protocol: Protocol, kind: &str, message: &str) -> String {
    match protocol {
        Protocol::Anthropic => {
            let data = json!({ "type": "error", "error": { "type": kind, "message": message } });
            format!("event: error\ndata: {data}\n\n")
        }
        Protocol::OpenaiChat => format!("data: {}\n\n", json!({ "error": { "type": kind, "message": message } })),
        Protocol::OpenaiResponses => {
            let data =
                json!({ "type": "error", "code": kind, "message": message, "param": null, "sequence_number": 9 });
            format!("event: error\ndata: {data}\n\n")
        }
    }
}

fn parsed(args: &str) -> Value {
    serde_json::from_str(args).unwrap_or_else(|_| json!({}))
}

/// A text in pieces; none for an empty one.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(PIECE).map_or(rest.len(), |(at, _)| at);
        let (piece, later) = rest.split_at(end);
        rest = later;
        (!piece.is_empty()).then_some(piece)
    })
}
