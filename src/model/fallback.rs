//! Another model where the first one cannot: after overload that the gate could not wait out, and after a refusal.
//!
//! Which failures move on is a matter of what the user wants to know. Overload, rate limits and a broken server pass, and
//! nobody can do anything about them: the next model answers, and for [`MEMORY`] the overloaded one is not even asked,
//! in the whole run. A wrong key, an empty account, a model that does not exist, a request that is not accepted are for
//! the user to put right: they end the call as they would without a fallback. So does a connection that fails: most
//! often it is our own line or a wrong address.
//!
//! What a reply said before the switch is void. What it cost is not: usage and cost begin anew at a switch, and whoever
//! reads them adds up.

#[cfg(test)]
mod tests;

use super::{Delta, Deltas, Model, ModelError, ModelErrorKind, Request, StopKind, Switch};
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

    /// The first choice's, and longer where another one needs it: a fallback makes nobody less patient with the first.
    fn idle_timeout(&self) -> Option<Duration> {
        let first = self.models().next()?.idle_timeout()?;
        self.models().filter_map(|model| model.idle_timeout()).max().or(Some(first))
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
    /// Whether it has said anything, and whether that was a complete tool call, which may be running already.
    spoke: bool,
    called: bool,
    over: bool,
}

impl Call {
    fn new(chain: Arc<Chain>, request: Request) -> Self {
        let mut call = Call {
            chain,
            request,
            at: 0,
            deltas: None,
            tell: VecDeque::new(),
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
            Delta::Text(_) | Delta::Partial(_) | Delta::Thinking(_) => self.spoke |= delta.is_content(),
            Delta::Call(_) => (self.spoke, self.called) = (true, true),
            Delta::Stop(StopKind::Refusal) if !self.called => {
                if let Some(next) = self.following() {
                    self.switch(next, format!("`{}` declined to answer", self.name()));
                    return None;
                }
                self.over = true;
            }
            Delta::Stop(_) => self.over = true,
            Delta::Waiting(_) | Delta::Sent | Delta::Switched(_) | Delta::Usage(_) | Delta::Cost(_) => {}
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
