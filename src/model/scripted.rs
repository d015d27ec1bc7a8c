//! `script/FILE`: replies from a TOML file, and what each request is expected to hold.
//!
//! For testing plans, demos, examples and benchmarks. A request is answered by the reply that fits it best: one that
//! names the conversation exactly (`part[2]`) goes before one for all its instances (`part`), and that before `*`;
//! among equals one with this `turn` goes first, then those without a `turn`, one after the other in each
//! conversation. A request without a reply or against its expectation fails, and the run with it; so does a reply that
//! nobody used, unless it is `optional`.
//!
//! ```toml
//! [[reply]]
//! node = "map"                 # node id, instance, `coordinator` or `*`
//! turn = 1                     # model call of the conversation, from 1
//! text = "looking"
//! calls = [{ name = "read_file", args = { file_path = "src/lib.rs" } }]
//! delay = "200ms"              # before the reply begins
//! expect = { contains = ["cancellation"], absent = ["secret"], tools = ["read_file", "report"] }
//!
//! [[reply]]
//! node = "*"
//! fault = "529"
//! ```
//!
//! Faults: an HTTP status (`401`, `429`, `500`, `529`), `cut` (the stream ends after all that the reply says), `length`,
//! `refusal`, `paused`, `hang` (never answers) and `panic`.

use super::{Block, Delta, Deltas, Model, ModelError, ModelErrorKind, Request, StopKind, ToolCall, Usage};
use crate::text;
use async_trait::async_trait;
use dashmap::{DashMap, DashSet};
use futures_util::StreamExt;
use futures_util::stream;
use serde::Deserialize;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of one text delta, up to the next character's end.
const CHUNK: usize = 40;

/// A model that plays a script.
pub struct Scripted {
    name: String,
    replies: Vec<ScriptReply>,
    used: Vec<AtomicBool>,
    /// How many replies without a `turn` each conversation has had, by conversation and attempt, and how exactly they
    /// name it: those that name it loosely are still to come when the exact ones are used up.
    cursors: DashMap<(String, u32), [usize; 3]>,
    mismatches: DashSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default)]
    reply: Vec<ScriptReply>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptReply {
    node: String,
    turn: Option<u32>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<ScriptCall>,
    #[serde(default, deserialize_with = "duration")]
    delay: Duration,
    fault: Option<Fault>,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptCall {
    name: String,
    #[serde(default = "empty_object")]
    args: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// Each stands in the request's text.
    #[serde(default)]
    contains: Vec<String>,
    /// None stands there.
    #[serde(default)]
    absent: Vec<String>,
    /// Exactly these tools are offered, in any order.
    tools: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Fault {
    #[serde(rename = "401")]
    Unauthorised,
    #[serde(rename = "429")]
    RateLimit,
    #[serde(rename = "500")]
    Broken,
    #[serde(rename = "529")]
    Overloaded,
    #[serde(rename = "cut")]
    Cut,
    #[serde(rename = "length")]
    Length,
    #[serde(rename = "refusal")]
    Refusal,
    #[serde(rename = "paused")]
    Paused,
    #[serde(rename = "hang")]
    Hang,
    #[serde(rename = "panic")]
    Panic,
}

impl Scripted {
    /// Reads a script; `name` is how errors and reports call it (`script/FILE`).
    ///
    /// # Errors
    /// The place and the cause, when the text is not a script.
    pub fn parse(name: &str, script: &str) -> Result<Self, String> {
        let script: Script =
            toml::from_str(script.trim_start_matches('\u{feff}')).map_err(|error| error.to_string())?;
        Ok(Scripted {
            name: name.to_string(),
            used: script.reply.iter().map(|_| AtomicBool::new(false)).collect(),
            replies: script.reply,
            cursors: DashMap::new(),
            mismatches: DashSet::new(),
        })
    }

    fn pick(&self, request: &Request) -> Result<&ScriptReply, String> {
        let of_instance = |node: &str| node == request.conversation;
        let of_node = |node: &str| Some(node) == request.conversation.split_once('[').map(|(id, _)| id);
        let of_any = |node: &str| node == "*";
        let ranks: [&dyn Fn(&str) -> bool; 3] = [&of_instance, &of_node, &of_any];
        for (rank, fits) in ranks.into_iter().enumerate() {
            let fitting = || self.replies.iter().enumerate().filter(|(_, reply)| fits(&reply.node));
            let mut found = fitting().find(|(_, reply)| reply.turn == Some(request.turn));
            if found.is_none() && fitting().any(|(_, reply)| reply.turn.is_none()) {
                let mut cursors = self.cursors.entry((request.conversation.clone(), request.attempt)).or_default();
                found = fitting().filter(|(_, reply)| reply.turn.is_none()).nth(cursors[rank]);
                cursors[rank] += usize::from(found.is_some());
            }
            if let Some((at, reply)) = found {
                self.used[at].store(true, Ordering::Relaxed);
                return Ok(reply);
            }
        }
        Err(format!("it has no reply for turn {} of `{}`", request.turn, request.conversation))
    }

    fn unmet(reply: &ScriptReply, request: &Request) -> Option<String> {
        let expect = &reply.expect;
        let place = format!("turn {} of `{}`", request.turn, request.conversation);
        if !expect.contains.is_empty() || !expect.absent.is_empty() {
            let text = request.text();
            if let Some(missing) = expect.contains.iter().find(|wanted| !text.contains(wanted.as_str())) {
                return Some(format!("the request of {place} lacks `{}`", text::clip(missing, 200)));
            }
            if let Some(found) = expect.absent.iter().find(|unwanted| text.contains(unwanted.as_str())) {
                return Some(format!("the request of {place} holds `{}`", text::clip(found, 200)));
            }
        }
        let mut wanted = expect.tools.clone()?;
        let mut offered: Vec<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
        wanted.sort();
        offered.sort();
        (wanted != offered)
            .then(|| format!("the request of {place} offers the tools {offered:?}, expected are {wanted:?}"))
    }

    fn deltas(reply: &ScriptReply, request: &Request) -> Vec<Result<Delta, ModelError>> {
        let mut deltas = Vec::new();
        let mut rest = reply.text.as_str();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(text::ceil_boundary(rest, CHUNK));
            deltas.push(Ok(Delta::Text(chunk.to_string())));
            rest = after;
        }
        let mut output = text::tokens(&reply.text);
        for (at, call) in reply.calls.iter().enumerate() {
            output += text::tokens(&call.args.to_string());
            deltas.push(Ok(Delta::Call(ToolCall::new(
                format!("call_{}_{at}", request.turn),
                call.name.clone(),
                call.args.clone(),
            ))));
        }
        let stop = match reply.fault {
            Some(Fault::Length) => StopKind::Length,
            Some(Fault::Refusal) => StopKind::Refusal,
            Some(Fault::Paused) => StopKind::Paused,
            None if reply.calls.is_empty() => StopKind::End,
            None => StopKind::Tool,
            // The stream just ends; the others never get here.
            Some(
                Fault::Cut
                | Fault::Unauthorised
                | Fault::RateLimit
                | Fault::Broken
                | Fault::Overloaded
                | Fault::Hang
                | Fault::Panic,
            ) => return deltas,
        };
        deltas.push(Ok(Delta::Usage(Usage { input: input_tokens(request), output, ..Usage::default() })));
        deltas.push(Ok(Delta::Stop(stop)));
        deltas
    }
}

#[async_trait]
impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        let picked = self.pick(&request).and_then(|reply| match Self::unmet(reply, &request) {
            Some(problem) => Err(problem),
            None => Ok(reply),
        });
        let reply = picked.map_err(|problem| {
            self.mismatches.insert(problem.clone());
            ModelError::new(ModelErrorKind::Script, format!("`{}` does not match: {problem}", self.name))
        })?;
        tokio::time::sleep(reply.delay).await;
        let failed = |kind, what: &str| Err(ModelError::new(kind, format!("`{}` {what}", self.name)));
        match reply.fault {
            Some(Fault::Unauthorised) => failed(ModelErrorKind::Auth, "refused the key (401)"),
            Some(Fault::RateLimit) => failed(ModelErrorKind::RateLimit, "has had too many requests (429)"),
            Some(Fault::Broken) => failed(ModelErrorKind::Server, "broke (500)"),
            Some(Fault::Overloaded) => failed(ModelErrorKind::Overloaded, "is overloaded (529)"),
            Some(Fault::Hang) => std::future::pending().await,
            #[expect(clippy::panic, reason = "the fault that scripts ask for, to show that a run survives it")]
            Some(Fault::Panic) => panic!("the script asked for a panic"),
            Some(Fault::Cut | Fault::Length | Fault::Refusal | Fault::Paused) | None => {
                Ok(stream::iter(Self::deltas(reply, &request)).boxed())
            }
        }
    }

    fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.mismatches.iter().map(|mismatch| mismatch.clone()).collect();
        complaints.sort();
        for (reply, used) in self.replies.iter().zip(&self.used) {
            if !reply.optional && !used.load(Ordering::Relaxed) {
                let turn = reply.turn.map(|turn| format!(" (turn {turn})")).unwrap_or_default();
                complaints.push(format!("the reply for `{}`{turn} was never asked for", reply.node));
            }
        }
        complaints.into_iter().map(|complaint| format!("`{}`: {complaint}", self.name)).collect()
    }
}

fn input_tokens(request: &Request) -> u64 {
    let blocks = request.messages.iter().flat_map(|message| &message.blocks);
    let bytes: usize = blocks
        .map(|block| match block {
            Block::Text { text } => text.len(),
            Block::Thinking { .. } => 0,
            Block::ToolCall(call) => call.name.len() + call.args.to_string().len(),
            Block::ToolResult(result) => result.text.len(),
        })
        .sum();
    (request.system.len() as u64 + bytes as u64).div_ceil(4)
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|error| serde::de::Error::custom(format!("`{text}` is no duration: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Message, Speaker, ToolSpec, collect};
    use std::sync::Arc;

    fn request(conversation: &str, turn: u32) -> Request {
        let tool = ToolSpec { name: "read_file".into(), description: String::new(), schema: empty_object() };
        Request {
            conversation: conversation.into(),
            attempt: 1,
            turn,
            system: "system".into(),
            tools: vec![tool].into(),
            messages: vec![Arc::new(Message { speaker: Speaker::User, blocks: vec![Block::text("find it")] })],
            max_output: 1000,
            format: None,
        }
    }

    async fn say(model: &Scripted, conversation: &str, turn: u32) -> Result<String, ModelError> {
        let reply = collect(model.stream(request(conversation, turn)).await?, |_| {}).await?;
        Ok(reply.blocks.iter().map(|block| if let Block::Text { text } = block { text.as_str() } else { "" }).collect())
    }

    #[tokio::test]
    async fn the_best_fitting_reply_answers() {
        let script = r#"
            [[reply]]
            node = "*"
            text = "anyone"
            [[reply]]
            node = "part"
            turn = 1
            text = "all parts"
            [[reply]]
            node = "part[2]"
            turn = 1
            text = "the third part"
            [[reply]]
            node = "a"
            text = "first"
            [[reply]]
            node = "a"
            text = "second"
        "#;
        let model = Scripted::parse("script/x", script).unwrap();
        assert_eq!(say(&model, "part[0]", 1).await.unwrap(), "all parts");
        assert_eq!(say(&model, "part[2]", 1).await.unwrap(), "the third part");
        assert_eq!(say(&model, "b", 1).await.unwrap(), "anyone");
        assert_eq!(say(&model, "a", 1).await.unwrap(), "first");
        assert_eq!(say(&model, "a", 2).await.unwrap(), "second");
        assert_eq!(say(&model, "a", 3).await.unwrap(), "anyone", "the exact ones are used up, the loose one is not");
        assert_eq!(model.complaints(), Vec::<String>::new());
        assert!(say(&model, "b", 2).await.unwrap_err().message.contains("no reply for turn 2 of `b`"));
        assert_eq!(model.complaints().len(), 1, "a request that the script did not foresee fails the run");
    }

    #[tokio::test]
    async fn expectations_are_checked_and_unused_replies_told() {
        let script = r#"
            [[reply]]
            node = "a"
            text = "ok"
            expect = { contains = ["find it"], absent = ["secret"], tools = ["read_file"] }
            [[reply]]
            node = "b"
            expect = { tools = ["edit_file"] }
            [[reply]]
            node = "c"
            turn = 3
            [[reply]]
            node = "d"
            optional = true
        "#;
        let model = Scripted::parse("script/x", script).unwrap();
        assert!(say(&model, "a", 1).await.is_ok());
        assert_eq!(say(&model, "b", 1).await.unwrap_err().kind, ModelErrorKind::Script);
        let complaints = model.complaints();
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[1].contains("`c` (turn 3)"), "{complaints:?}");
    }

    #[tokio::test]
    async fn faults_are_what_they_say() {
        let script = "[[reply]]\nnode = 'a'\ntext = 'half of'\nfault = 'cut'\n[[reply]]\nnode = 'b'\nfault = '429'\n";
        let model = Scripted::parse("script/x", script).unwrap();
        assert_eq!(say(&model, "a", 1).await.unwrap_err().kind, ModelErrorKind::Cut);
        assert_eq!(say(&model, "b", 1).await.unwrap_err().kind, ModelErrorKind::RateLimit);
    }

    #[test]
    fn a_script_with_a_mistake_names_its_place() {
        let error = Scripted::parse("script/x", "[[reply]]\nnode = 'a'\ntxt = 'b'\n").err().unwrap();
        assert!(error.contains("line 3") && error.contains("txt"), "{error}");
    }
}
