//! `builtin/scout`: finds where something is done, by fixed rules. It needs no key and no network, and it is not a
//! language model.
//!
//! It behaves as a model does: it sees nothing but the request, streams words and tool calls, and learns about the
//! workspace through `list_files`, `search_code` and `read_file` alone. It holds no state: each turn reads the whole
//! conversation again and goes on where results are missing, so the same request always gets the same reply.
//!
//! ```text
//! conversation   which part it plays, what is asked, what tools have said    ─┐
//! coordinator    split the tree, submit a plan, compare, answer               │ each ends in the next step:
//! subagent       look at a part (or weigh the reports of others), report      │ calls to make, or words
//!   place, split   which part of the tree; parts of similar size             ─┘
//!   survey         counts for every word over the part, then the best files
//!   query, source, rank   pure: words and stems, lines and kinds, scores
//!   findings, fill        pure: claims with quotes; an output from its schema's shape
//! ```

mod change;
mod conversation;
mod coordinator;
mod evidence;
mod fill;
mod findings;
mod place;
mod query;
mod rank;
mod source;
mod split;
mod stem;
mod subagent;
mod survey;

use super::{Delta, Deltas, Model, ModelError, Request, StopKind, ToolCall, Usage};
use crate::text;
use async_trait::async_trait;
use conversation::{Next, Part, Talk};
use futures_util::StreamExt;
use futures_util::stream;

/// Characters of one text delta.
const CHUNK: usize = 48;
/// It reads by rules and has no window of its own; this only keeps a harness from cutting its history.
const CONTEXT_WINDOW: u64 = 4_000_000;

/// The built-in model that needs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scout;

impl Scout {
    /// How it is named where models are named.
    pub const NAME: &'static str = "builtin/scout";
}

#[async_trait]
impl Model for Scout {
    fn name(&self) -> &str {
        Scout::NAME
    }

    fn context_window(&self) -> u64 {
        CONTEXT_WINDOW
    }

    fn disclosure(&self) -> Option<&str> {
        Some(findings::DISCLOSURE)
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        let deltas = deltas(&request, next(&request));
        Ok(stream::iter(deltas.into_iter().map(Ok)).boxed())
    }
}

/// What scout does with a request.
fn next(request: &Request) -> Next {
    let mut talk = Talk::new(request);
    match talk.part.clone() {
        Part::Subagent(output) => subagent::next(&talk, output.as_ref()),
        Part::Coordinator => coordinator::coordinate(&mut talk),
        Part::Reader => coordinator::read_and_answer(&talk),
    }
}

fn deltas(request: &Request, next: Next) -> Vec<Delta> {
    let (say, calls) = match next {
        Next::Call { say, calls } => (say, calls),
        Next::Say(say) => (say, Vec::new()),
    };
    let mut deltas: Vec<Delta> = chunks(&say).map(Delta::Text).collect();
    let stop = if calls.is_empty() { StopKind::End } else { StopKind::Tool };
    let mut output = text::tokens(&say);
    // The number of messages makes ids unique in the conversation, and the same for the same request.
    let turn = request.messages.len();
    for (at, call) in calls.into_iter().enumerate() {
        output += text::tokens(&call.args.to_string());
        deltas.push(Delta::Call(ToolCall::new(format!("scout-{turn}-{at}"), call.name, call.args)));
    }
    // It costs nothing; these are the tokens that the same words would be to a language model.
    deltas.push(Delta::Usage(Usage { input: text::tokens(&request.text()), output, ..Usage::default() }));
    deltas.push(Delta::Stop(stop));
    deltas
}

fn chunks(words: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = words;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(CHUNK).map_or(rest.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        rest = after;
        (!chunk.is_empty()).then(|| chunk.to_string())
    })
}
