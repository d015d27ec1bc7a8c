//! Another model where the first one cannot: after overload that the gate could not wait out, and after a refusal.
//!
//! Which failures move on is a matter of what the user wants to know. Overload, rate limits and a broken server pass, and
//! nobody can do anything about them: the next model answers, and for [`MEMORY`] the overloaded one is not even asked,
//! in the whole run. A wrong key, an empty account, a model that does not exist, a request that is not accepted are for
//! the user to put right: they end the call as they would without a fallback. So does a connection that fails: most
//! often it is our own line or a wrong address.
//!
//! What a reply said before the switch is void, what it cost is not: usage and cost go on from what was spent.

use super::{Cost, Delta, Deltas, Model, ModelError, ModelErrorKind, Request, StopKind, Switch, Usage};
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long an overloaded model is passed over.
const MEMORY: Duration = Duration::from_secs(5 * 60);

/// A model with others behind it.
pub struct Fallback {
    chain: Arc<Chain>,
}

/// The models in order, the first choice first, and which of them were overloaded.
struct Chain {
    links: Vec<Link>,
}

struct Link {
    model: Arc<dyn Model>,
    /// Until when it is passed over. Behind a lock because all calls of the run share it; held for one look.
    overloaded: Mutex<Option<Instant>>,
}

impl Fallback {
    /// `first`, and `others` in the order in which they are asked when it cannot answer.
    pub fn new(first: Arc<dyn Model>, others: Vec<Arc<dyn Model>>) -> Self {
        let models = std::iter::once(first).chain(others);
        let links = models.map(|model| Link { model, overloaded: Mutex::new(None) }).collect();
        Fallback { chain: Arc::new(Chain { links }) }
    }

    fn models(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        self.chain.links.iter().map(|link| &link.model)
    }
}

#[async_trait]
impl Model for Fallback {
    /// The first choice's.
    fn name(&self) -> &str {
        self.chain.links.first().map_or("", |link| link.model.name())
    }

    /// The smallest of all: a conversation must fit whoever answers.
    fn context_window(&self) -> u64 {
        self.models().map(|model| model.context_window()).min().unwrap_or_default()
    }

    /// The smallest of all.
    fn max_output(&self) -> Option<u32> {
        self.models().filter_map(|model| model.max_output()).min()
    }

    fn disclosure(&self) -> Option<&str> {
        self.chain.links.iter().find_map(|link| link.model.disclosure())
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        let call = Call::new(Arc::clone(&self.chain), request);
        Ok(stream::unfold(call, |mut call| async move { call.next().await.map(|delta| (delta, call)) }).boxed())
    }

    fn complaints(&self) -> Vec<String> {
        self.models().flat_map(|model| model.complaints()).collect()
    }
}

impl Link {
    fn is_overloaded(&self) -> bool {
        let until = *self.overloaded.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn note_overload(&self) {
        *self.overloaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + MEMORY);
    }
}

/// One call on its way down the chain.
struct Call {
    chain: Arc<Chain>,
    request: Request,
    /// Who answers.
    at: usize,
    /// What comes of it; nothing before it was asked.
    deltas: Option<Deltas>,
    /// What is to be told before that.
    tell: VecDeque<Delta>,
    /// What those before it have used.
    spent: Spent,
    /// What it has used.
    latest: Spent,
    /// Whether it has said anything, and whether that was a complete tool call, which may be running already.
    spoke: bool,
    called: bool,
    over: bool,
}

/// What a reply has used.
#[derive(Clone, Copy, Default)]
struct Spent {
    usage: Usage,
    cost: Option<Cost>,
}

impl Spent {
    fn add(&mut self, more: Spent) {
        self.usage += more.usage;
        if let Some(cost) = more.cost {
            *self.cost.get_or_insert_default() += cost;
        }
    }
}

impl Call {
    fn new(chain: Arc<Chain>, request: Request) -> Self {
        let mut call = Call {
            chain,
            request,
            at: 0,
            deltas: None,
            tell: VecDeque::new(),
            spent: Spent::default(),
            latest: Spent::default(),
            spoke: false,
            called: false,
            over: false,
        };
        // When all are overloaded, the first choice is as good as any.
        let first = call.chain.links.iter().position(|link| !link.is_overloaded()).unwrap_or(0);
        if first > 0 {
            let minutes = MEMORY.as_secs() / 60;
            let why = format!("`{}` was overloaded less than {minutes} minutes ago", call.name());
            call.switch(first, why);
        }
        call
    }

    fn name(&self) -> String {
        self.chain.links.get(self.at).map_or_else(String::new, |link| link.model.name().to_string())
    }

    /// The next delta, whoever it comes from.
    async fn next(&mut self) -> Option<Result<Delta, ModelError>> {
        loop {
            if let Some(delta) = self.tell.pop_front() {
                return Some(Ok(delta));
            }
            if self.over {
                return None;
            }
            let came = match &mut self.deltas {
                Some(deltas) => deltas.next().await,
                None => match self.chain.links.get(self.at)?.model.stream(self.request.clone()).await {
                    Ok(deltas) => {
                        self.deltas = Some(deltas);
                        continue;
                    }
                    Err(error) => Some(Err(error)),
                },
            };
            match came {
                Some(Ok(delta)) => {
                    if let Some(delta) = self.pass_on(delta) {
                        return Some(Ok(delta));
                    }
                }
                Some(Err(error)) => {
                    if let Some(error) = self.failed(error) {
                        self.over = true;
                        return Some(Err(error));
                    }
                }
                None => self.over = true,
            }
        }
    }

    /// The delta as the caller sees it; nothing when another model goes on instead.
    fn pass_on(&mut self, delta: Delta) -> Option<Delta> {
        match &delta {
            Delta::Text(_) | Delta::Partial(_) | Delta::Thinking(_) => self.spoke = true,
            Delta::Call(_) => (self.spoke, self.called) = (true, true),
            Delta::Usage(usage) => {
                self.latest.usage = *usage;
                let mut all = self.spent.usage;
                all += *usage;
                return Some(Delta::Usage(all));
            }
            Delta::Cost(cost) => {
                self.latest.cost = Some(*cost);
                let mut all = self.spent.cost.unwrap_or_default();
                all += *cost;
                return Some(Delta::Cost(all));
            }
            Delta::Stop(StopKind::Refusal) if !self.called => {
                if let Some(next) = self.following() {
                    self.switch(next, format!("`{}` declined to answer", self.name()));
                    return None;
                }
                self.over = true;
            }
            Delta::Stop(_) => self.over = true,
            Delta::Waiting(_) | Delta::Sent | Delta::Switched(_) => {}
        }
        Some(delta)
    }

    /// The error as the caller sees it; nothing when another model goes on instead.
    fn failed(&mut self, error: ModelError) -> Option<ModelError> {
        // Once it has spoken, whoever asked goes on from what was said.
        if self.spoke || !is_overload(error.kind) {
            return Some(error);
        }
        if let Some(link) = self.chain.links.get(self.at) {
            link.note_overload();
        }
        match self.following() {
            Some(next) => {
                self.switch(next, error.message);
                None
            }
            None => Some(error),
        }
    }

    /// The next of the chain that is worth asking.
    fn following(&self) -> Option<usize> {
        (self.at + 1..self.chain.links.len()).find(|at| self.chain.links.get(*at).is_some_and(|l| !l.is_overloaded()))
    }

    fn switch(&mut self, to: usize, why: String) {
        self.spent.add(std::mem::take(&mut self.latest));
        self.deltas = None;
        (self.spoke, self.called) = (false, false);
        self.at = to;
        self.tell.push_back(Delta::Switched(Switch { to: self.name(), why }));
    }
}

/// Whether waiting would have been the answer, had the gate not waited enough.
fn is_overload(kind: ModelErrorKind) -> bool {
    match kind {
        ModelErrorKind::RateLimit | ModelErrorKind::Overloaded | ModelErrorKind::Server => true,
        ModelErrorKind::NotFound
        | ModelErrorKind::Auth
        | ModelErrorKind::Quota
        | ModelErrorKind::Network
        | ModelErrorKind::Silent
        | ModelErrorKind::Cut
        | ModelErrorKind::InvalidRequest
        | ModelErrorKind::NoTools
        | ModelErrorKind::Protocol
        | ModelErrorKind::ContextFull
        | ModelErrorKind::Egress
        | ModelErrorKind::Script => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, Opaque, Reply, ToolCall, Wait, WaitCause, collect};
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A model whose calls come out as written, one after the other; the last one again and again.
    struct Fake {
        name: &'static str,
        window: u64,
        calls: Vec<Vec<Result<Delta, ModelError>>>,
        asked: AtomicUsize,
    }

    impl Fake {
        fn new(name: &'static str, calls: impl IntoIterator<Item = Vec<Result<Delta, ModelError>>>) -> Arc<Self> {
            Arc::new(Fake { name, window: 1000, calls: calls.into_iter().collect(), asked: AtomicUsize::new(0) })
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    #[async_trait]
    impl Model for Fake {
        fn name(&self) -> &str {
            self.name
        }

        fn context_window(&self) -> u64 {
            self.window
        }

        async fn stream(&self, _: Request) -> Result<Deltas, ModelError> {
            let nth = self.asked.fetch_add(1, Ordering::Relaxed);
            let call = self.calls[nth.min(self.calls.len() - 1)].clone();
            match call.as_slice() {
                [Err(error)] => Err(error.clone()),
                _ => Ok(stream::iter(call).boxed()),
            }
        }
    }

    fn says(words: &str) -> Vec<Result<Delta, ModelError>> {
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        [Delta::Sent, Delta::Text(words.into()), Delta::Usage(usage), Delta::Cost(Cost(7)), Delta::Stop(StopKind::End)]
            .map(Ok)
            .to_vec()
    }

    fn fails(kind: ModelErrorKind) -> Vec<Result<Delta, ModelError>> {
        vec![Err(ModelError::new(kind, format!("it failed: {kind:?}")))]
    }

    fn declines_after(before: Delta) -> Vec<Result<Delta, ModelError>> {
        let usage = Usage { input: 100, output: 1, ..Usage::default() };
        [before, Delta::Usage(usage), Delta::Cost(Cost(30)), Delta::Stop(StopKind::Refusal)].map(Ok).to_vec()
    }

    fn call() -> Delta {
        Delta::Call(ToolCall::new("call_1", "read_file", json!({ "file_path": "a" })))
    }

    async fn ask(model: &Fallback) -> (Result<Reply, ModelError>, Vec<Switch>) {
        let request = Request {
            conversation: "map".into(),
            attempt: 1,
            turn: 1,
            system: "".into(),
            tools: Vec::new().into(),
            messages: Vec::new(),
            max_output: 100,
            format: None,
        };
        let mut switches = Vec::new();
        let deltas = model.stream(request).await.unwrap();
        let reply = collect(deltas, |delta| {
            if let Delta::Switched(switch) = delta {
                switches.push(switch.clone());
            }
        });
        (reply.await, switches)
    }

    fn words(reply: &Reply) -> &str {
        match reply.blocks.as_slice() {
            [Block::Text { text }] => text,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn overload_moves_on_and_is_remembered_for_five_minutes() {
        for kind in [ModelErrorKind::Overloaded, ModelErrorKind::RateLimit, ModelErrorKind::Server] {
            let first = Fake::new("a/one", [fails(kind), says("first")]);
            let second = Fake::new("b/two", [says("second")]);
            let model = Fallback::new(first.clone(), vec![second.clone()]);
            let (reply, switches) = ask(&model).await;
            assert_eq!(words(&reply.unwrap()), "second");
            assert_eq!(switches, [Switch { to: "b/two".into(), why: format!("it failed: {kind:?}") }]);

            tokio::time::sleep(MEMORY - Duration::from_secs(1)).await;
            let (reply, switches) = ask(&model).await;
            assert_eq!(words(&reply.unwrap()), "second");
            assert_eq!((first.asked(), switches.len()), (1, 1), "not asked again");
            assert_eq!(switches[0].why, "`a/one` was overloaded less than 5 minutes ago");

            tokio::time::sleep(Duration::from_secs(1)).await;
            let (reply, switches) = ask(&model).await;
            assert_eq!((words(&reply.unwrap()), switches), ("first", vec![]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_user_has_to_put_right_ends_the_call() {
        for kind in [
            ModelErrorKind::Auth,
            ModelErrorKind::Quota,
            ModelErrorKind::NotFound,
            ModelErrorKind::InvalidRequest,
            ModelErrorKind::ContextFull,
            ModelErrorKind::NoTools,
            ModelErrorKind::Egress,
            ModelErrorKind::Network,
            ModelErrorKind::Protocol,
        ] {
            let second = Fake::new("b/two", [says("second")]);
            let model = Fallback::new(Fake::new("a/one", [fails(kind)]), vec![second.clone()]);
            let (reply, switches) = ask(&model).await;
            assert_eq!((reply.unwrap_err().kind, switches), (kind, vec![]));
            assert_eq!(second.asked(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_moves_on_what_was_said_is_void_and_what_it_cost_is_not() {
        let blob = Opaque { model: "a/one".into(), value: json!("no") };
        for before in [Delta::Text("I".into()), Delta::Thinking(blob.clone())] {
            let first = Fake::new("a/one", [declines_after(before), says("first")]);
            let model = Fallback::new(first, vec![Fake::new("b/two", [says("second")])]);
            let (reply, switches) = ask(&model).await;
            let reply = reply.unwrap();
            assert_eq!((words(&reply), reply.stop), ("second", StopKind::End));
            assert_eq!((reply.usage.input, reply.usage.output, reply.cost), (110, 6, Some(Cost(37))));
            assert_eq!(switches, [Switch { to: "b/two".into(), why: "`a/one` declined to answer".into() }]);
            let (reply, switches) = ask(&model).await;
            assert_eq!((words(&reply.unwrap()), switches), ("first", vec![]), "another question, another answer");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_after_a_tool_call_or_of_the_last_model_stands() {
        let second = Fake::new("b/two", [says("second")]);
        let model = Fallback::new(Fake::new("a/one", [declines_after(call())]), vec![second.clone()]);
        let (reply, switches) = ask(&model).await;
        let reply = reply.unwrap();
        assert_eq!((reply.stop, reply.blocks.len(), switches.len()), (StopKind::Refusal, 1, 0));
        assert_eq!(second.asked(), 0);

        let alone = Fallback::new(Fake::new("a/one", [declines_after(Delta::Sent)]), Vec::new());
        assert_eq!(ask(&alone).await.0.unwrap().stop, StopKind::Refusal);
    }

    #[tokio::test(start_paused = true)]
    async fn after_content_an_overload_is_for_the_conversation_to_go_on_from() {
        let overload = ModelError::new(ModelErrorKind::Overloaded, "overloaded");
        let first = Fake::new("a/one", [vec![Ok(Delta::Text("half".into())), Err(overload.clone())], says("first")]);
        let model = Fallback::new(first, vec![Fake::new("b/two", [says("second")])]);
        let (reply, switches) = ask(&model).await;
        assert_eq!((reply.unwrap_err(), switches), (overload, vec![]));
        assert_eq!(words(&ask(&model).await.0.unwrap()), "first", "it is not passed over either");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_error_counts_when_all_are_overloaded_and_the_first_choice_is_asked_again() {
        let busy = || fails(ModelErrorKind::Overloaded);
        let first = Fake::new("a/one", [busy(), says("first")]);
        let wait = Wait { cause: WaitCause::Retry, time_ms: Some(500), detail: "b".into() };
        let mut waits = vec![Ok(Delta::Waiting(wait))];
        waits.extend(busy());
        let model = Fallback::new(first.clone(), vec![Fake::new("b/two", [waits]), Fake::new("c/three", [busy()])]);
        let (reply, switches) = ask(&model).await;
        assert_eq!(reply.unwrap_err().kind, ModelErrorKind::Overloaded);
        assert_eq!(switches.iter().map(|switch| switch.to.as_str()).collect::<Vec<_>>(), ["b/two", "c/three"]);
        let (reply, switches) = ask(&model).await;
        assert_eq!((words(&reply.unwrap()), switches), ("first", vec![]));
    }

    #[test]
    fn it_has_the_first_ones_name_and_the_smallest_window() {
        let mut small = Fake::new("b/two", [says("")]);
        Arc::get_mut(&mut small).unwrap().window = 500;
        let model = Fallback::new(Fake::new("a/one", [says("")]), vec![small]);
        assert_eq!((model.name(), model.context_window(), model.max_output()), ("a/one", 500, None));
    }
}
