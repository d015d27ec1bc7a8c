//! What a provider keeps of the prefixes that it has read: how much of a request would have come from its cache.

use serde_json::{Value, json};
use sortie::model::wire::Protocol;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use tokio::time::Instant;

/// A request's body in the order in which providers read it: tools, system text, then each block of the messages.
pub(crate) struct Blocks {
    /// Tools and system text.
    pub(crate) shared: Vec<String>,
    /// The conversation.
    pub(crate) own: Vec<String>,
    /// Of both together, those with a cache mark, counted from 1.
    pub(crate) marks: Vec<usize>,
}

impl Blocks {
    pub(crate) fn of(protocol: Protocol, body: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut shared = list(&body["tools"]);
        let mut own = Vec::new();
        match protocol {
            Protocol::Anthropic => {
                match &body["system"] {
                    Value::Array(blocks) => shared.extend(blocks.clone()),
                    text => shared.push(text.clone()),
                }
                for message in list(&body["messages"]) {
                    let said = list(&message["content"]).into_iter();
                    own.extend(said.map(|block| json!({ "role": message["role"], "block": block })));
                }
            }
            Protocol::OpenaiChat => {
                let mut messages = list(&body["messages"]).into_iter();
                shared.extend(messages.next());
                own.extend(messages);
            }
            Protocol::OpenaiResponses => {
                shared.push(body["instructions"].clone());
                own.extend(list(&body["input"]));
            }
        }
        let mut marks = Vec::new();
        for (at, block) in shared.iter_mut().chain(&mut own).enumerate() {
            let inner = if block.get("block").is_some() { &mut block["block"] } else { block };
            if inner.as_object_mut().and_then(|inner| inner.remove("cache_control")).is_some() {
                marks.push(at + 1);
            }
        }
        let text = |blocks: Vec<Value>| blocks.iter().map(Value::to_string).collect();
        Blocks { shared: text(shared), own: text(own), marks }
    }

    /// Bytes of all of it.
    pub(crate) fn size(&self) -> u64 {
        self.shared.iter().chain(&self.own).map(String::len).sum::<usize>() as u64
    }

    /// Each prefix, the shortest first: what it is known by, and its bytes.
    fn prefixes(&self) -> Vec<(u64, u64)> {
        let (mut hasher, mut size) = (DefaultHasher::new(), 0);
        let grow = |block: &String| {
            block.hash(&mut hasher);
            size += block.len() as u64;
            (hasher.finish(), size)
        };
        self.shared.iter().chain(&self.own).map(grow).collect()
    }
}

/// A provider's cache.
#[derive(Default)]
pub(crate) struct Cache {
    /// Prefixes, and when each can be read: not before the reply to the request that wrote it has begun.
    kept: HashMap<u64, Instant>,
    /// Bytes of all requests that came from the cache.
    pub(crate) read: u64,
    /// Bytes of all requests.
    pub(crate) total: u64,
}

impl Cache {
    /// Bytes of this request that come from the cache; its own prefixes can be read from `begins` on.
    ///
    /// A mark finds what was kept at most 20 blocks before it; a provider that wants no marks keeps and finds every
    /// prefix.
    pub(crate) fn serve(&mut self, protocol: Protocol, blocks: &Blocks, now: Instant, begins: Instant) -> u64 {
        let prefixes = blocks.prefixes();
        let ends: Vec<usize> = match protocol {
            Protocol::Anthropic => blocks.marks.clone(),
            Protocol::OpenaiChat | Protocol::OpenaiResponses => (1..=prefixes.len()).collect(),
        };
        let reach = |end: &usize| prefixes[end.saturating_sub(20)..*end].iter();
        let readable = |(prefix, _): &&(u64, u64)| self.kept.get(prefix).is_some_and(|from| *from <= now);
        let found = ends.iter().flat_map(reach).filter(readable).map(|(_, size)| *size).max().unwrap_or(0);
        for end in ends {
            self.kept.entry(prefixes[end - 1].0).or_insert(begins);
        }
        self.read += found;
        self.total += blocks.size();
        found
    }
}
