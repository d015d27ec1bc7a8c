//! From a stream of deltas to a reply.
//!
//! A [`Reply`] grows as it streams, so what has come stays there when the stream breaks, goes silent or is dropped.
//! [`Incoming`] is the stream with its idle clock: content winds it, a wait at the gate stops it.

use super::{Bill, Block, Cost, Delta, Deltas, Model, ModelError, ModelErrorKind, Request, StopKind, Usage};
use crate::cancel::from_now;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// What a model has said so far; complete once [`Reply::push`] has said so.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Text, thinking and calls in order. May be empty.
    pub blocks: Vec<Block>,
    /// Why it ended; [`StopKind::StreamCut`] until it has.
    pub stop: StopKind,
    /// Tokens, those of models that were switched away from included.
    pub usage: Usage,
    /// What the model that answers now has cost, where its price is known.
    pub cost: Option<Cost>,
    /// What models used and cost that were switched away from.
    pub before: (Usage, Bill),
}

impl Default for Reply {
    fn default() -> Self {
        Reply {
            blocks: Vec::new(),
            stop: StopKind::StreamCut,
            usage: Usage::default(),
            cost: None,
            before: Default::default(),
        }
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
            Delta::Usage(latest) => {
                self.usage = self.before.0;
                self.usage += latest;
            }
            Delta::Cost(latest) => self.cost = Some(latest),
            Delta::Switched(_) => {
                self.before = (self.usage, self.bill());
                self.cost = None;
                self.blocks.clear();
            }
            Delta::Waiting(_) | Delta::Sent | Delta::Partial(_) => {}
            Delta::Stop(stop) => {
                self.stop = stop;
                return true;
            }
        }
        false
    }

    /// What all models that had a part in it have cost. A call that used nothing and said nothing is free.
    pub fn bill(&self) -> Bill {
        let mut bill = self.before.1;
        if self.cost.is_some() || self.usage != self.before.0 || !self.blocks.is_empty() {
            bill += Bill::of(self.cost);
        }
        bill
    }
}

impl Delta {
    /// Whether the model has said something by it. Blank text and usage may only keep a connection open.
    pub(in crate::model) fn is_content(&self) -> bool {
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
/// The stream's own error, or [`ModelErrorKind::Cut`] when it ends without [`Delta::Stop`].
pub async fn collect(mut deltas: Deltas, mut observe: impl FnMut(&Delta)) -> Result<Reply, ModelError> {
    let mut reply = Reply::default();
    while let Some(delta) = deltas.next().await {
        let delta = delta?;
        observe(&delta);
        if reply.push(delta) {
            return Ok(reply);
        }
    }
    Err(ModelError::new(ModelErrorKind::Cut, "the reply ended without its end mark"))
}

/// A reply on its way. Dropping it cancels the call.
pub(crate) struct Incoming<'m> {
    model: &'m dyn Model,
    stage: Stage<'m>,
    /// The time without content that ends the call, the wait for the stream's start included.
    idle: Duration,
    /// When content came last; `None` while the call waits at the gate, which is no silence of the provider.
    quiet_since: Option<Instant>,
    /// Rings at the earliest when the call has been silent for too long. Set anew only when it rings too soon: content
    /// comes often, and a timer is not free.
    alarm: Pin<Box<Sleep>>,
    spoke: bool,
}

enum Stage<'m> {
    Opening(BoxFuture<'m, Result<Deltas, ModelError>>),
    Open(Deltas),
}

impl<'m> Incoming<'m> {
    /// Makes a call. Nothing happens before [`Incoming::next`]. `idle` counts unless the model has a limit of its own.
    pub(crate) fn new(model: &'m dyn Model, request: Request, idle: Duration) -> Self {
        let idle = model.idle_timeout().unwrap_or(idle);
        Incoming {
            model,
            stage: Stage::Opening(model.stream(request)),
            idle,
            quiet_since: Some(Instant::now()),
            alarm: Box::pin(sleep_until(from_now(idle))),
            spoke: false,
        }
    }

    /// The next delta. Nothing is lost when the future is dropped before it is ready.
    ///
    /// # Errors
    /// The stream's own error, [`ModelErrorKind::Silent`] when no content came for too long, and
    /// [`ModelErrorKind::Cut`] when it ends without [`Delta::Stop`].
    pub(crate) async fn next(&mut self) -> Result<Delta, ModelError> {
        loop {
            tokio::select! {
                biased;
                delta = self.stage.next() => {
                    let delta = delta.unwrap_or_else(|| Err(self.without_end()))?;
                    self.note(&delta);
                    return Ok(delta);
                }
                () = &mut self.alarm, if self.quiet_since.is_some() => self.rung()?,
            }
        }
    }

    /// Whether the model that answers now has said anything.
    pub(crate) fn has_spoken(&self) -> bool {
        self.spoke
    }

    fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Waiting(_) => self.quiet_since = None,
            Delta::Sent => self.quiet_since = Some(Instant::now()),
            Delta::Switched(_) => {
                self.quiet_since = Some(Instant::now());
                self.spoke = false;
            }
            Delta::Text(_)
            | Delta::Partial(_)
            | Delta::Thinking(_)
            | Delta::Call(_)
            | Delta::Usage(_)
            | Delta::Cost(_)
            | Delta::Stop(_) => {
                if delta.is_content() {
                    self.quiet_since = Some(Instant::now());
                    self.spoke = true;
                }
            }
        }
    }

    fn without_end(&self) -> ModelError {
        ModelError::new(ModelErrorKind::Cut, format!("a reply of `{}` ended without its end mark", self.model.name()))
    }

    /// The alarm has rung: too late, or only to be set anew?
    fn rung(&mut self) -> Result<(), ModelError> {
        let quiet = self.quiet_since.map_or(Duration::ZERO, |since| since.elapsed());
        if quiet >= self.idle {
            let waited = humantime::format_duration(self.idle);
            let message = format!("`{}` sent nothing for {waited}", self.model.name());
            let hint = "a model that thinks for long needs a longer `idle_timeout`";
            return Err(ModelError::new(ModelErrorKind::Silent, message).hint(hint));
        }
        self.alarm.as_mut().reset(from_now(self.idle - quiet));
        Ok(())
    }
}

impl Stage<'_> {
    async fn next(&mut self) -> Option<Result<Delta, ModelError>> {
        loop {
            match self {
                Stage::Opening(opening) => match opening.await {
                    Ok(deltas) => *self = Stage::Open(deltas),
                    Err(error) => return Some(Err(error)),
                },
                Stage::Open(deltas) => return deltas.next().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Switch, Wait, WaitCause};
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
        let mut incoming = Incoming::new(&model, request, Duration::from_secs(10));
        let mut reply = Reply::default();
        loop {
            match incoming.next().await {
                Ok(delta) => {
                    if reply.push(delta) {
                        return (Ok(()), reply);
                    }
                }
                Err(error) => return (Err(error.message), reply),
            }
        }
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
        assert_eq!(reply, Reply { blocks: vec![Block::text("half \n")], usage, ..Reply::default() });
        assert_eq!(play(11, vec![(0, text("late"))]).await.0, silent, "the wait for the start counts");
        assert_eq!(play(6, vec![(6, text("late"))]).await.0, silent, "and is not forgotten when the stream starts");
        let (done, reply) = play(0, vec![(0, text("cut"))]).await;
        assert!(done.unwrap_err().contains("without its end mark"));
        assert_eq!(reply.blocks, [Block::text("cut")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_at_the_gate_is_not_silence_and_a_model_may_have_a_limit_of_its_own() {
        let wait = || Delta::Waiting(Wait { cause: WaitCause::Cooldown, time_ms: None, detail: "`x`".into() });
        let deltas =
            vec![(1, wait()), (500, wait()), (500, Delta::Sent), (9, text("a")), (9, Delta::Stop(StopKind::End))];
        assert_eq!(play(1, deltas).await.0, Ok(()));
        let deltas = vec![(1, wait()), (500, Delta::Sent), (11, text("late"))];
        assert!(play(1, deltas).await.0.is_err(), "from then on the provider is waited for");
    }

    #[test]
    fn what_was_used_before_a_switch_is_counted_and_what_was_said_is_void() {
        let used = |output| Delta::Usage(Usage { output, ..Usage::default() });
        let to = || Delta::Switched(Switch { to: "b/b".into(), why: "overloaded".into() });
        let mut reply = Reply::default();
        for delta in [text("void"), used(1), used(3), Delta::Cost(Cost(30)), to(), text("kept"), used(2), used(4)] {
            assert!(!reply.push(delta));
        }
        assert_eq!((reply.blocks.as_slice(), reply.usage.output), (&[Block::text("kept")][..], 7));
        assert_eq!(reply.bill(), Bill { known: Some(Cost(30)), at_least: true });
        reply.push(Delta::Cost(Cost(4)));
        assert_eq!(reply.bill(), Bill { known: Some(Cost(34)), at_least: false });
    }
}
