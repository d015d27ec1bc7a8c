//! A run's conversations as they were recorded: by the wire when the run was traced, else by its transcripts.

use super::super::runs::short;
use super::super::show::no_such_node;
use indexmap::IndexMap;
use serde_json::{Value, json};
use sortie::agent::history::{History, Record};
use sortie::coordinator::COORDINATOR;
use sortie::error::Error;
use sortie::event::{EventKind, Timestamp};
use sortie::model::trace::{RequestLine, ResponseLine, TRACE_FILE, Traced, read_trace, reply_of};
use sortie::model::wire::Protocol;
use sortie::model::{StopKind, Usage};
use sortie::store::{FoundRun, NodeRecord, RunRecord, TranscriptLine};
use sortie::text::one_line;
use std::path::PathBuf;

/// One model call.
pub(super) struct Call {
    pub(super) conversation: String,
    pub(super) attempt: u32,
    pub(super) turn: u32,
    /// `provider/model`.
    pub(super) model: String,
    /// What the model was sent: the body of the last try, or the conversation in its normal form.
    pub(super) request: Value,
    /// In order; none in a transcript.
    pub(super) tries: Vec<Try>,
    /// Blocks in the normal form.
    pub(super) reply: Vec<Value>,
    pub(super) stop: Option<StopKind>,
    pub(super) usage: Usage,
    /// What was wrong with the answer.
    pub(super) problem: Option<String>,
}

/// One request of a call and what became of it.
pub(super) struct Try {
    pub(super) number: u32,
    pub(super) at: Timestamp,
    pub(super) url: String,
    /// `None` when the trace ends before.
    pub(super) response: Option<ResponseLine>,
    pub(super) problem: Option<String>,
}

/// Where calls come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Wire,
    Transcript,
}

/// The calls of one conversation, in order.
pub(super) type Calls = Vec<Call>;

/// A conversation's name and attempt.
pub(super) type Key = (String, u32);

/// Where the run's trace is, if it has one.
pub(super) fn trace_of(found: &FoundRun) -> Option<PathBuf> {
    let path = found.dir.join(TRACE_FILE);
    path.is_file().then_some(path)
}

/// The conversations of a run (or one node's of it), in the order in which they began; what could not be read goes to
/// `warnings`.
pub(super) fn read(
    found: &FoundRun,
    source: Source,
    node: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<IndexMap<Key, Calls>, Error> {
    let conversations = match source {
        Source::Wire => by_wire(found, node, warnings)?,
        Source::Transcript => by_transcript(found, node, warnings),
    };
    match node {
        Some(node) if conversations.is_empty() => Err(nothing_of(found, node)),
        Some(_) | None => Ok(conversations),
    }
}

/// A node that made no call, or that there is not.
fn nothing_of(found: &FoundRun, node: &str) -> Error {
    if NodeRecord::read(found, node).is_none() {
        return no_such_node(found, node);
    }
    let (node, run) = (one_line(node, 60), short(&found.id));
    Error::usage(format!("`{node}` of run `{run}` had no answer of a model"))
        .hint(format!("`sortie show {run} {node}` tells what it did"))
}

/// The traced exchanges of a node.
pub(super) fn traced(
    found: &FoundRun,
    wanted: impl Fn(&RequestLine) -> bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Traced>, Error> {
    let Some(path) = trace_of(found) else { return Err(super::without_trace(found)) };
    let (read, problems) = read_trace(&path, wanted).map_err(|error| Error::failed(error.to_string()))?;
    warnings.extend(problems.iter().map(|problem| format!("{TRACE_FILE}, {problem}")));
    Ok(read)
}

fn by_wire(found: &FoundRun, node: Option<&str>, warnings: &mut Vec<String>) -> Result<IndexMap<Key, Calls>, Error> {
    let wanted = |request: &RequestLine| node.is_none_or(|node| request.conversation == node);
    let mut conversations: IndexMap<Key, IndexMap<u32, Vec<Traced>>> = IndexMap::new();
    for one in traced(found, wanted, warnings)? {
        let key = (one.request.conversation.clone(), one.request.attempt);
        conversations.entry(key).or_default().entry(one.request.turn).or_default().push(one);
    }
    let calls = |turns: IndexMap<u32, Vec<Traced>>| turns.into_values().filter_map(call).collect();
    Ok(conversations.into_iter().map(|(key, turns)| (key, calls(turns))).collect())
}

/// The call that these tries made.
fn call(tries: Vec<Traced>) -> Option<Call> {
    let last = &tries.last()?;
    let request = &last.request;
    let (protocol, model) = (request.protocol, request.model.as_str());
    let (reply, problem) = match &last.response {
        Some(response) => reply_of(protocol, model, response),
        None => Default::default(),
    };
    Some(Call {
        conversation: request.conversation.clone(),
        attempt: request.attempt,
        turn: request.turn,
        model: request.model.clone(),
        request: serde_json::from_str(request.body.get()).unwrap_or_default(),
        reply: reply.blocks.iter().map(|block| json!(block)).collect(),
        stop: (reply.stop != StopKind::StreamCut).then_some(reply.stop),
        usage: reply.usage,
        problem,
        tries: tries.into_iter().map(|one| Try::of(one, protocol)).collect(),
    })
}

impl Try {
    fn of(traced: Traced, protocol: Protocol) -> Self {
        let Traced { request, response } = traced;
        let problem = response.as_ref().and_then(|response| reply_of(protocol, &request.model, response).1);
        Try { number: request.try_number, at: request.at, url: request.url, response, problem }
    }

    /// When it was over.
    pub(super) fn ended(&self) -> Timestamp {
        self.response.as_ref().map_or(self.at, |response| response.at)
    }
}

fn by_transcript(found: &FoundRun, node: Option<&str>, warnings: &mut Vec<String>) -> IndexMap<Key, Calls> {
    let mut nodes = Vec::new();
    let run = RunRecord::read(found, |event| {
        if let EventKind::NodeStarted { attempt } = &event.kind
            && !nodes.contains(&attempt.node)
        {
            nodes.push(attempt.node.clone());
        }
    });
    // With a plan of the user's own the coordinator speaks last, if at all.
    let has_plan = run.header.as_ref().is_some_and(|header| header.plan.is_some());
    nodes.insert(if has_plan { nodes.len() } else { 0 }, COORDINATOR.to_string());
    let mut conversations = IndexMap::new();
    for name in nodes.into_iter().filter(|name| node.is_none_or(|node| node == name)) {
        let Some(record) = NodeRecord::read(found, &name) else { continue };
        let attempt = record.attempt.as_ref().map_or(0, |attempt| attempt.attempt);
        let calls = replay(&name, attempt, &record.transcript);
        if !calls.is_empty() {
            conversations.insert((name, attempt), calls);
        }
        warnings.extend(record.problems.into_iter().filter(|problem| problem.starts_with("transcript")));
    }
    conversations
}

/// The calls that a transcript tells of: each reply with what had been said before it.
fn replay(conversation: &str, attempt: u32, transcript: &[TranscriptLine]) -> Calls {
    let mut calls = Vec::new();
    let mut before: Vec<&Record> = Vec::new();
    let (mut of, mut frame) = (String::new(), (json!(""), json!([])));
    for line in transcript {
        let TranscriptLine::Known(record) = line else { continue };
        match record {
            Record::Start { model, system, tools } => {
                of.clone_from(model);
                frame = (json!(system), json!(tools));
            }
            Record::Assistant { turn, blocks, stop, usage } => {
                let messages = History::replay(before.iter().copied()).messages();
                calls.push(Call {
                    conversation: conversation.to_string(),
                    attempt,
                    turn: *turn,
                    model: of.clone(),
                    request: json!({
                        "model": of,
                        "system": frame.0,
                        "tools": frame.1,
                        "messages": messages.iter().map(|message| json!(**message)).collect::<Vec<_>>(),
                    }),
                    tries: Vec::new(),
                    reply: blocks.iter().map(|block| json!(block)).collect(),
                    stop: Some(*stop),
                    usage: *usage,
                    problem: None,
                });
            }
            Record::User { .. } | Record::ToolResult { .. } => {}
        }
        before.push(record);
    }
    calls
}
