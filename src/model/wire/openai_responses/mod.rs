//! OpenAI's Responses.
//!
//! [`encode`] renders a request that leaves nothing on the server: reasoning comes encrypted and goes back as it came.
//! [`Decoder`] reads the events. An item is complete at its `output_item.done`, so a call is passed on while the reply
//! still streams. A reply has ended with `response.completed`, `response.incomplete` or `response.failed`.

mod encode;
mod event;
#[cfg(test)]
mod tests;

pub(super) use encode::encode;

use super::{Failure, openai, sse};
use crate::model::{Delta, ModelErrorKind, Opaque, StopKind, ToolCall};
use crate::text;
use event::{Event, Item, Part, Response};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::sync::Arc;

/// Reads one reply.
#[derive(Debug)]
pub struct Decoder {
    name: Arc<str>,
    /// Items that were done. They are done in order.
    items: usize,
    /// Words of the item that is not done yet have been passed on.
    spoke: bool,
    refused: bool,
    ids: HashSet<String>,
    done: bool,
}

impl Decoder {
    pub(super) fn new(name: Arc<str>) -> Self {
        Decoder { name, items: 0, spoke: false, refused: false, ids: HashSet::new(), done: false }
    }

    pub(super) fn event(&mut self, event: &sse::Event<'_>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let data = event.data.trim();
        // Not of this protocol, but proxies send it.
        if self.done || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let event: Event<'_> =
            serde_json::from_str(data).map_err(|error| Failure::not_protocol("an event", data, &error))?;
        match event.kind.as_str() {
            "response.output_text.delta" => {
                self.spoke = true;
                out.push(Delta::Text(event.delta.into_owned()));
            }
            "response.refusal.delta" => {
                (self.spoke, self.refused) = (true, true);
                out.push(Delta::Text(event.delta.into_owned()));
            }
            "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning_summary_text.delta" => {
                out.push(Delta::Partial(event.delta.into_owned()));
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.item(item, false, out)?;
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let Some(response) = event.response else {
                    return Err(Failure::new(
                        ModelErrorKind::Protocol,
                        format!("`{}` has no response", event.kind.as_str()),
                    ));
                };
                self.response(response.get(), out)?;
            }
            "error" => return Err(Failure::in_reply(data)),
            // Begins and ends of parts, whose content came or comes otherwise; tools that we do not ask for; whatever
            // is new.
            _ => {
                if let Some(error) = event.error {
                    return Err(Failure::in_reply(error.get()));
                }
            }
        }
        Ok(())
    }

    pub(super) fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.response(&String::from_utf8_lossy(body), out)
    }

    pub(super) fn end(&mut self, _: &mut Vec<Delta>) -> Result<(), Failure> {
        if self.done { Ok(()) } else { Err(cut("the stream ended before the response did")) }
    }

    /// The reply at its end: what was not passed on yet, usage, why it ended.
    fn response(&mut self, json: &str, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let response: Response<'_> =
            serde_json::from_str(json).map_err(|error| Failure::no_reply(json.as_bytes(), &error))?;
        let status = response.status.as_str();
        if let Some(error) = response.error {
            return Err(Failure::in_reply(error.get()));
        }
        if !matches!(status, "completed" | "incomplete") {
            return Err(match status {
                "failed" => Failure::new(ModelErrorKind::Server, "the response failed without a reason"),
                "cancelled" => cut("the response was cancelled on the server"),
                _ => Failure::new(
                    ModelErrorKind::Protocol,
                    format!("the reply is no response: `{}`", text::one_line(json, 200)),
                ),
            });
        }
        let incomplete = status == "incomplete";
        // Items without an event of their own: those that the end cut, and all of a server that streams no items.
        let missing = response.output.unwrap_or_default();
        for item in missing.into_iter().skip(self.items) {
            self.item(item, incomplete, out)?;
        }
        if let Some(usage) = response.usage {
            out.push(Delta::Usage(usage.normal()));
        }
        let reason = response.incomplete_details.map(|details| details.reason.into_owned()).unwrap_or_default();
        let stop = match reason.as_str() {
            "max_output_tokens" if incomplete => StopKind::Length,
            "content_filter" if incomplete => StopKind::Filtered,
            _ if incomplete => StopKind::StreamCut,
            _ if !self.ids.is_empty() => StopKind::Tool,
            _ if self.refused => StopKind::Refusal,
            _ => StopKind::End,
        };
        self.done = true;
        out.push(Delta::Stop(stop));
        Ok(())
    }

    /// An item is done, or as done as it gets (`cut`).
    fn item(&mut self, raw: &RawValue, cut: bool, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let item: Item<'_> =
            serde_json::from_str(raw.get()).map_err(|error| Failure::not_protocol("an item", raw.get(), &error))?;
        let spoke = std::mem::take(&mut self.spoke);
        self.items += 1;
        match item.kind.as_str() {
            // The words came as deltas, or come now.
            "message" if !spoke => self.message(item.content, out),
            "function_call" => {
                let mut id = if item.call_id.is_empty() { item.id } else { item.call_id }.into_owned();
                if id.is_empty() || self.ids.contains(&id) {
                    id = format!("call_{}", self.items);
                }
                self.ids.insert(id.clone());
                let cut = cut || item.status.as_str() == "incomplete";
                let args = openai::parse_arguments(item.arguments.as_str(), cut);
                out.push(Delta::Call(ToolCall::new(id, item.name.into_owned(), args)));
            }
            "reasoning" => {
                let opaque = Opaque { model: self.name.to_string(), value: whole_value(raw.get()) };
                out.push(Delta::Thinking(opaque));
            }
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, content: Option<&RawValue>, out: &mut Vec<Delta>) {
        let Some(parts) = content.and_then(|raw| serde_json::from_str::<Vec<Part<'_>>>(raw.get()).ok()) else { return };
        for part in parts {
            self.refused |= !part.refusal.is_empty();
            for words in [part.text, part.refusal] {
                if !words.is_empty() {
                    out.push(Delta::Text(words.into_owned()));
                }
            }
        }
    }
}

fn cut(message: &str) -> Failure {
    Failure::new(ModelErrorKind::Cut, message)
}

/// JSON as a value; it was parsed before, so it is one.
fn whole_value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_string()))
}
