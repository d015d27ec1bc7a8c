//! From a stream of deltas to a reply.
//!
//! A [`Reply`] grows as it streams, so what has come stays there when the stream breaks, goes silent or is dropped.

use super::{Block, Cost, Delta, Deltas, Model, ModelError, ModelErrorKind, Request, StopKind, Usage};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What a model has said so far; complete once [`Reply::push`] has said so.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Text, thinking and calls in order. May be empty.
    pub blocks: Vec<Block>,
    /// Why it ended; [`StopKind::StreamCut`] until it has.
    pub stop: StopKind,
    /// Tokens.
    pub usage: Usage,
    /// What it cost, where the price is known.
    pub cost: Option<Cost>,
}

impl Default for Reply {
    fn default() -> Self {
        Reply { blocks: Vec::new(), stop: StopKind::StreamCut, usage: Usage::default(), cost: None }
    }
}

impl Reply {
    /// Takes in the next delta. Returns whether the reply is complete.
    pub fn push(&mut self, delta: Delta) -> bool {
        match delta {
            Delta::Text(more) => match self.blocks.last_mut() {
                Some(Block::Text { text }) => text.push_str(&more),
                Some(Block::Thinking { .. } | Block::ToolCall(_) | Block::ToolResult(_)) | None => {
                    self.blocks.push(Block::Text { text: more });
                }
            },
            Delta::Thinking(blob) => self.blocks.push(Block::Thinking(blob)),
            Delta::Call(call) => self.blocks.push(Block::ToolCall(call)),
            Delta::Usage(latest) => self.usage = latest,
            Delta::Cost(latest) => self.cost = Some(latest),
            Delta::Switched(_) => self.blocks.clear(),
            Delta::Waiting(_) | Delta::Sent | Delta::Partial(_) => {}
            Delta::Stop(stop) => {
                self.stop = stop;
                return true;
            }
        }
        false
    }
}

impl Delta {
    /// Whether the model has said something by it. Blank text and usage may only keep a connection open.
    fn is_content(&self) -> bool {
        match self {
            Delta::Text(text) | Delta::Partial(text) => !text.trim().is_empty(),
            Delta::Thinking(_) | Delta::Call(_) | Delta::Stop(_) => true,
            Delta::Waiting(_) | Delta::Sent | Delta::Switched(_) | Delta::Usage(_) | Delta::Cost(_) => false,
        }
    }
}

/// Reads a reply to its end, however long that takes; `observe` sees each delta as it comes.
///
/// # Errors
/// The stream's own error, or [`ModelErrorKind::Network`] when it ends without [`Delta::Stop`].
pub async fn collect(mut deltas: Deltas, mut observe: impl FnMut(&Delta)) -> Result<Reply, ModelError> {
    let mut reply = Reply::default();
    while let Some(delta) = deltas.next().await {
        let delta = delta?;
        observe(&delta);
        if reply.push(delta) {
            return Ok(reply);
        }
    }
    Err(without_end())
}

/// Makes a call and reads its reply into `reply`, which keeps what has come whatever happens then.
///
/// `idle` is the time without content that ends the call, the wait for the stream's start included.
///
/// # Errors
/// As [`collect`], and [`ModelErrorKind::Network`] when no content came for too long.
pub(crate) async fn receive(
    model: &dyn Model,
    request: Request,
    idle: Duration,
    reply: &mut Reply,
    mut observe: impl FnMut(&Delta),
) -> Result<(), ModelError> {
    let silent = || {
        let waited = humantime::format_duration(idle);
        ModelError::new(ModelErrorKind::Network, format!("`{}` sent nothing for {waited}", model.name()))
    };
    let mut last_content = Instant::now();
    let mut deltas = timeout(idle, model.stream(request)).await.map_err(|_| silent())??;
    loop {
        let left = idle.saturating_sub(last_content.elapsed());
        let delta = timeout(left, deltas.next()).await.map_err(|_| silent())?.ok_or_else(without_end)??;
        if delta.is_content() {
            last_content = Instant::now();
        }
        observe(&delta);
        if reply.push(delta) {
            return Ok(());
        }
    }
}

fn without_end() -> ModelError {
    ModelError::new(ModelErrorKind::Network, "the reply ended without its end mark")
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use futures_util::stream;
    use std::sync::Mutex;

    /// Waits, then sends one delta after the other, each after its time.
    struct Trickle {
        start: Duration,
        deltas: Mutex<Vec<(u64, Delta)>>,
    }

    #[async_trait]
    impl Model for Trickle {
        fn name(&self) -> &str {
            "test/trickle"
        }

        async fn stream(&self, _: Request) -> Result<Deltas, ModelError> {
            tokio::time::sleep(self.start).await;
            let deltas = std::mem::take(&mut *self.deltas.lock().unwrap());
            let after = |(wait, delta)| async move {
                tokio::time::sleep(Duration::from_secs(wait)).await;
                Ok(delta)
            };
            Ok(stream::iter(deltas).then(after).boxed())
        }
    }

    async fn play(start: u64, deltas: Vec<(u64, Delta)>) -> (Result<(), String>, Reply) {
        let model = Trickle { start: Duration::from_secs(start), deltas: Mutex::new(deltas) };
        let request = Request {
            conversation: "a".into(),
            attempt: 1,
            turn: 1,
            system: "s".into(),
            tools: Vec::new().into(),
            messages: Vec::new(),
            max_output: 1,
            format: None,
        };
        let mut reply = Reply::default();
        let done = receive(&model, request, Duration::from_secs(10), &mut reply, |_| {}).await;
        (done.map_err(|error| error.message), reply)
    }

    fn text(text: &str) -> Delta {
        Delta::Text(text.into())
    }

    #[tokio::test(start_paused = true)]
    async fn every_piece_of_content_starts_the_idle_time_anew() {
        let call = crate::model::ToolCall::new("1", "x", serde_json::json!({}));
        let deltas = vec![
            (1, text("a")),
            (9, Delta::Partial("{".into())),
            (9, Delta::Call(call)),
            (9, text("b")),
            (9, Delta::Stop(StopKind::End)),
        ];
        let (done, reply) = play(8, deltas).await;
        assert_eq!((done, reply.blocks.len()), (Ok(()), 3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_only_keeps_the_connection_open_does_not_and_what_was_said_stays() {
        let usage = Usage { output: 3, ..Usage::default() };
        let silent = Err("`test/trickle` sent nothing for 10s".to_string());
        let deltas = vec![(0, text("half")), (6, text(" \n")), (3, Delta::Usage(usage)), (6, text("late"))];
        let (done, reply) = play(0, deltas).await;
        assert_eq!(done, silent);
        assert_eq!(reply, Reply { blocks: vec![Block::text("half \n")], stop: StopKind::StreamCut, usage, cost: None });
        assert_eq!(play(11, vec![(0, text("late"))]).await.0, silent, "the wait for the start counts");
        assert_eq!(play(6, vec![(6, text("late"))]).await.0, silent, "and is not forgotten when the stream starts");
        let (done, reply) = play(0, vec![(0, text("cut"))]).await;
        assert!(done.unwrap_err().contains("without its end mark"));
        assert_eq!(reply.blocks, [Block::text("cut")]);
    }
}
