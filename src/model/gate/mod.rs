//! The gate: the one place that limits and retries requests to a provider. One per provider, for the whole run, shared
//! by all its models and conversations. Nothing else retries HTTP.
//!
//! A model call is a [`Call`] over all its tries, and each try needs a [`Permit`], which lives exactly as long as the
//! try's HTTP stream:
//!
//! ```text
//! gate.enter(&mut call) ──> Permit ──> send ──┬─ 2xx ──> permit.answered(headers) ──> permit.settle(usage)
//!        ^                                    └─ failed before any content ──> gate.failed(call, permit, failure)
//!        └──────────────────────────────────────────────────────────────────────── Retry │ GiveUp
//! ```
//!
//! Who may go, and when, follows from five rules, each in a file of its own or in [`state`]:
//!
//! - *In order* ([`state`]): calls go in the order in which they were made. A call that failed keeps its place, so the
//!   oldest gets done first and nobody starves. One that must rest after a failure holds up nobody.
//! - *Streams* ([`limit`]): at most as many at once as are configured, and fewer while the provider is overloaded.
//! - *Rate* ([`pace`]): configured requests and tokens per minute are never exceeded in any minute.
//! - *Cooldown* ([`state`]): when the provider tells one of us to come back later, nobody sends before that. Without
//!   such a hint the pause grows with every round of failures.
//! - *Tries* ([`retry`]): what is tried again, how often and after how long.
//!
//! It must not know: protocols, messages, conversations, sockets. Time is tokio's, chance comes from one seed.

mod dice;
mod hold;
mod limit;
mod pace;
mod retry;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use hold::{Hold, Lead, Turn};
pub(crate) use retry::{GiveUp, Verdict};

use super::wire::{Failure, RateState};
use super::{Usage, Wait};
use state::{Answer, Pass, State};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How fast a provider may be asked.
#[derive(Clone, Debug)]
pub(crate) struct GateSettings {
    /// Streams that may be open at once; 0 counts as 1.
    pub(crate) streams: usize,
    /// Requests that may start in any minute, where the user limits them; 0 counts as 1.
    pub(crate) rpm: Option<u32>,
    /// Tokens that may be used in any minute, where the user limits them.
    pub(crate) tpm: Option<u64>,
    /// Tries that a call has when the provider is overloaded; other failures use them up faster or slower.
    pub(crate) max_tries: u32,
    /// What chance begins with.
    pub(crate) seed: u64,
}

impl Default for GateSettings {
    fn default() -> Self {
        GateSettings { streams: 8, rpm: None, tpm: None, max_tries: 8, seed: 0 }
    }
}

/// One provider's gate.
pub(crate) struct Gate {
    /// Behind a lock because permits come back from wherever a stream is dropped. Held for some steps of computing,
    /// never across an await.
    state: Mutex<State>,
    hold: Arc<Hold>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

/// One model call over its tries.
#[derive(Debug)]
pub(crate) struct Call {
    /// Its place in the order of calls.
    ticket: u64,
    /// Estimated input and the most output: what it reserves of the tokens per minute.
    tokens: u64,
    /// Tries that went out.
    tries: u32,
    /// When the first of them did.
    first_try: Option<Instant>,
    /// When the first of them failed.
    first_failure: Option<Instant>,
    /// What failures have used up of the tries it has, in the unit of [`retry::price`].
    spent: u32,
    /// When its next try may go out, after a failure.
    not_before: Option<Instant>,
    /// The words of that failure.
    failure: String,
}

impl Call {
    /// How long ago the first try went out.
    fn over(&self, now: Instant) -> Duration {
        self.first_try.map_or(Duration::ZERO, |first| now.duration_since(first))
    }
}

impl Gate {
    /// The gate of the provider of this name.
    pub(crate) fn new(provider: &str, settings: &GateSettings) -> Self {
        Gate { state: Mutex::new(State::new(provider, settings)), hold: Arc::new(Hold::new(provider)) }
    }

    /// Where siblings wait for the first that writes their prefix, before they come to the gate.
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// A new call. `tokens` is its estimated input and the most output it may have.
    pub(crate) fn call(&self, tokens: u64) -> Call {
        let ticket = self.state().ticket();
        Call {
            ticket,
            tokens,
            tries: 0,
            first_try: None,
            first_failure: None,
            spent: 0,
            not_before: None,
            failure: String::new(),
        }
    }

    /// Waits until the call's next try may go out. Each cause of a wait is told once, before the wait; no wait, no
    /// word. Dropping the future gives the place up.
    ///
    /// # Errors
    /// It goes out no more: the provider wants a longer pause than anybody waits for, or it has failed another call so
    /// long that those behind it need not find out one by one.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        call: &mut Call,
        tell: &(dyn Fn(Wait) + Sync),
    ) -> Result<Permit, GiveUp> {
        let place = Place::take(self, call.ticket);
        let mut told = Vec::new();
        loop {
            let answer = self.state().ask(call, Instant::now());
            match answer {
                Answer::Go(pass) => return Ok(Permit { gate: Arc::clone(self), pass }),
                Answer::GiveUp(give_up) => return Err(give_up),
                Answer::Wait { word, until } => {
                    if let Some(wait) = word.filter(|wait| !told.contains(&wait.cause)) {
                        told.push(wait.cause);
                        tell(wait);
                    }
                    match until {
                        Some(until) => tokio::select! {
                            () = place.wake.notified() => {}
                            () = sleep_until(until) => {}
                        },
                        None => place.wake.notified().await,
                    }
                }
            }
        }
    }

    /// A try failed before any content came: whether there is another one. The call's next
    /// [`enter`](Gate::enter) waits as long as it must.
    pub(crate) fn failed(&self, call: &mut Call, permit: Permit, failure: Failure) -> Verdict {
        let verdict = self.state().failed(call, &permit.pass, failure, Instant::now());
        // Only now: whoever gets this stream next must know what the failure taught.
        drop(permit);
        verdict
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is behind the lock is whole at every step, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who wait; given up on drop, whatever ends the wait.
struct Place<'g> {
    gate: &'g Gate,
    ticket: u64,
    wake: Arc<Notify>,
}

impl<'g> Place<'g> {
    fn take(gate: &'g Gate, ticket: u64) -> Self {
        let wake = Arc::new(Notify::new());
        gate.state().queue(ticket, Arc::clone(&wake));
        Place { gate, ticket, wake }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gate.state().leave(self.ticket);
    }
}

/// The right to one open stream. Lives exactly as long as the stream; nobody who holds one waits for anything else.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    pass: Pass,
}

impl Permit {
    /// The head of a 2xx answer is there, with these rate-limit headers.
    pub(crate) fn answered(&mut self, rates: &RateState) {
        self.gate.state().answered(&mut self.pass, rates, Instant::now());
    }

    /// The stream has ended as it should, with this usage.
    pub(crate) fn settle(self, usage: &Usage) {
        self.gate.state().settle(&self.pass, usage);
    }

    /// The stream failed after content had come: there is nothing to try again, but others must know how the provider
    /// is.
    pub(crate) fn lost(self, failure: &Failure) {
        self.gate.state().learn(&self.pass, failure, Instant::now());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.state().closed();
    }
}
