//! What a gate knows, and its decisions. Time is handed in; nothing here waits.

use super::dice::Dice;
use super::limit::Limit;
use super::pace::{Requests, Tokens};
use super::retry::{self, GiveUp, PATIENCE, TRY, Verdict, Why};
use super::{Call, GateSettings};
use crate::model::wire::{Failure, RateState};
use crate::model::{ModelErrorKind, Usage, Wait, WaitCause};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The longest that the rate-limit headers of a successful answer close the gate: a limit that lasts longer says so
/// again, and some servers write nonsense there.
const LONGEST_RESET: Duration = Duration::from_secs(60);

/// The longest cooldown, which no run outlives; servers can ask for times that no clock holds.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long after a cooldown requests are kept apart, and by how much.
const SPREAD_FOR: Duration = Duration::from_secs(2);
const SPREAD: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(60));

/// The state of a gate.
pub(super) struct State {
    provider: String,
    max_tries: u32,
    /// Permits that are out.
    open: usize,
    limit: Limit,
    requests: Option<Requests>,
    tokens: Option<Tokens>,
    /// The last cooldown, kept when it is over.
    cooldown: Option<Cooldown>,
    /// When the next request may go after one that went right after a cooldown.
    spread: Option<Instant>,
    /// Rounds of overload since the last answer: what the pause for all grows with.
    in_a_row: u32,
    /// When a request was answered with success last.
    last_answer: Option<Instant>,
    /// Whether the provider has answered at all, be it with an error.
    known: bool,
    next_ticket: u64,
    /// Who waits, in the order of their calls.
    waiting: BTreeMap<u64, Waiter>,
    dice: Dice,
}

/// A time in which nobody sends.
struct Cooldown {
    until: Instant,
    /// Whether the provider gave the time; else it is ours.
    asked: bool,
    /// What made it necessary; nothing when it was the headers of a success.
    failure: Option<Failure>,
}

/// One who waits.
struct Waiter {
    wake: Arc<Notify>,
    /// Rests after a failure of its own, so others go first.
    rests: bool,
    /// Why it need not wait any longer.
    down: Option<(Failure, Why)>,
}

/// What one who wants to go is told.
pub(super) enum Answer {
    Go(Pass),
    GiveUp(GiveUp),
    /// Ask again when woken, and at this time.
    Wait {
        word: Option<Wait>,
        until: Option<Instant>,
    },
}

/// What is known of a request that goes out.
#[derive(Debug)]
pub(super) struct Pass {
    round: u64,
    /// How many were under way when it went out, itself included.
    under_way: usize,
    /// The number of what it reserved of the tokens per minute.
    reserved: Option<u64>,
    /// Whether it was answered, and the rounds in a row that its answer ended.
    answered: Option<u32>,
}

/// Why one who is next may not go now.
struct Block {
    cause: WaitCause,
    until: Option<Instant>,
    detail: String,
}

impl State {
    pub(super) fn new(provider: &str, settings: &GateSettings) -> Self {
        State {
            provider: provider.to_string(),
            max_tries: settings.max_tries.max(1),
            open: 0,
            limit: Limit::new(settings.streams),
            requests: settings.rpm.map(Requests::new),
            tokens: settings.tpm.map(Tokens::new),
            cooldown: None,
            spread: None,
            in_a_row: 0,
            last_answer: None,
            known: false,
            next_ticket: 0,
            waiting: BTreeMap::new(),
            dice: Dice::new(settings.seed),
        }
    }

    /// A place at the end of the order.
    pub(super) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Takes in one who waits. It counts as resting until it asks.
    pub(super) fn queue(&mut self, ticket: u64, wake: Arc<Notify>) {
        self.waiting.insert(ticket, Waiter { wake, rests: true, down: None });
    }

    /// One waits no more, whatever the reason: the next may have its turn.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.waiting.remove(&ticket);
        self.wake_next();
    }

    /// Whether the call may go now.
    pub(super) fn ask(&mut self, call: &mut Call, now: Instant) -> Answer {
        if let Some(give_up) = self.hopeless(call, now) {
            return Answer::GiveUp(give_up);
        }
        let rest = call.not_before.filter(|until| *until > now);
        if let Some(waiter) = self.waiting.get_mut(&call.ticket) {
            waiter.rests = rest.is_some();
        }
        if let Some(until) = rest {
            return Answer::Wait { word: Some(self.rest_word(until, call, now)), until: Some(until) };
        }
        let ahead = self.waiting.range(..call.ticket).filter(|(_, waiter)| !waiter.rests).count();
        if let Some(block) = self.block(call, ahead, now) {
            // Those further back are woken when it is their turn, but told at once that a cooldown is over.
            let until = block.until.filter(|_| ahead == 0 || block.cause == WaitCause::Cooldown);
            return Answer::Wait { word: self.word(block, call, now), until };
        }
        if ahead > 0 {
            // One that is older and larger may wait for tokens that this one would have.
            let word = self.tokens.as_ref().map(|_| Wait {
                cause: WaitCause::Rate,
                time_ms: None,
                detail: self.provider.clone(),
            });
            return Answer::Wait { word, until: None };
        }
        if let Some(until) = self.spread.filter(|until| *until > now) {
            return Answer::Wait { word: None, until: Some(until) };
        }
        Answer::Go(self.start(call, now))
    }

    /// Why the call goes out no more, if so.
    fn hopeless(&mut self, call: &Call, now: Instant) -> Option<GiveUp> {
        let give_up = |failure, why| GiveUp { failure, why, tries: call.tries, over: call.over(now) };
        if let Some((failure, why)) = self.waiting.get_mut(&call.ticket).and_then(|waiter| waiter.down.take()) {
            return Some(give_up(failure, why));
        }
        let cooldown = self.cooldown.as_ref()?;
        let left = cooldown.until.saturating_duration_since(now);
        let failure = cooldown.failure.as_ref().filter(|_| left > PATIENCE)?;
        Some(give_up(failure.clone(), Why::Asks(left)))
    }

    fn start(&mut self, call: &mut Call, now: Instant) -> Pass {
        self.waiting.remove(&call.ticket);
        self.open += 1;
        call.tries += 1;
        call.first_try.get_or_insert(now);
        call.not_before = None;
        if let Some(requests) = &mut self.requests {
            requests.start(now);
        }
        let reserved = self.tokens.as_mut().map(|tokens| tokens.reserve(now, call.tokens));
        if self.cooldown.as_ref().is_some_and(|cooldown| now < cooldown.until + SPREAD_FOR) {
            self.spread = Some(now + self.dice.between(SPREAD.0, SPREAD.1));
        }
        Pass { round: self.limit.round(), under_way: self.open, reserved, answered: None }
    }

    /// Why nobody may go now, or this call may not; `ahead` go before it.
    fn block(&mut self, call: &Call, ahead: usize, now: Instant) -> Option<Block> {
        if let Some(cooldown) = self.cooldown.as_ref().filter(|cooldown| cooldown.until > now) {
            let detail = match &cooldown.failure {
                Some(failure) => format!("{}: {}", self.provider, failure.message),
                None => format!("{}: its limit is used up until it resets", self.provider),
            };
            return Some(Block { cause: WaitCause::Cooldown, until: Some(cooldown.until), detail });
        }
        if self.open >= self.limit.now() {
            let detail = match self.limit.is_lowered() {
                true => format!("{}: only {} at once since it was overloaded", self.provider, self.limit.now()),
                false => self.provider.clone(),
            };
            return Some(Block { cause: WaitCause::Streams, until: None, detail });
        }
        let requests = self.requests.as_ref().and_then(|requests| {
            let next = requests.next(now)?;
            Some(next + requests.time_for(ahead))
        });
        let tokens = self.tokens.as_mut().and_then(|tokens| tokens.next(now, call.tokens));
        let until = requests.max(tokens)?;
        Some(Block { cause: WaitCause::Rate, until: Some(until), detail: self.provider.clone() })
    }

    /// What a resting call is told: its own pause, or that of all when it is longer.
    fn rest_word(&self, until: Instant, call: &Call, now: Instant) -> Wait {
        let cooldown = self.cooldown.as_ref().filter(|cooldown| cooldown.until > now);
        let asked = cooldown.is_some_and(|cooldown| cooldown.asked && cooldown.until >= until);
        let until = cooldown.map_or(until, |cooldown| cooldown.until.max(until));
        let of_all = cooldown.and_then(|cooldown| cooldown.failure.as_ref());
        let why = of_all.map_or(call.failure.as_str(), |failure| failure.message.as_str());
        let detail = if why.is_empty() { self.provider.clone() } else { format!("{}: {why}", self.provider) };
        let cause = if asked { WaitCause::Cooldown } else { WaitCause::Retry };
        Wait { cause, time_ms: Some(millis(until - now)), detail }
    }

    /// What a blocked call is told. To one that failed, a pause that is ours is one before its next try.
    fn word(&self, block: Block, call: &Call, now: Instant) -> Option<Wait> {
        let ours = self.cooldown.as_ref().is_some_and(|cooldown| !cooldown.asked);
        let cause = match block.cause {
            WaitCause::Cooldown if ours && call.tries > 0 => WaitCause::Retry,
            cause => cause,
        };
        Some(Wait { cause, time_ms: block.until.map(|until| millis(until - now)), detail: block.detail })
    }

    /// The head of a 2xx answer is there.
    pub(super) fn answered(&mut self, pass: &mut Pass, rates: &RateState, now: Instant) {
        pass.answered.get_or_insert(self.in_a_row);
        self.in_a_row = 0;
        self.last_answer = Some(now);
        self.known = true;
        self.limit.answered(pass.round);
        let used_up = rates.remaining_requests == Some(0) || rates.remaining_tokens == Some(0);
        match rates.reset.filter(|_| used_up) {
            Some(reset) => {
                let until = now + retry::stretched(reset.min(LONGEST_RESET), &mut self.dice);
                self.cool_down(Cooldown { until, asked: true, failure: None });
            }
            None => self.wake_next(),
        }
    }

    /// A request used this much. Where nobody counted, what was reserved stands.
    pub(super) fn settle(&mut self, pass: &Pass, usage: &Usage) {
        if usage.total() > 0 {
            // What was read from a cache does not count, with most models of those who have one.
            self.correct(pass, usage.total().saturating_sub(usage.cache_read));
        }
    }

    fn correct(&mut self, pass: &Pass, used: u64) {
        if let (Some(tokens), Some(number)) = (&mut self.tokens, pass.reserved) {
            tokens.settle(number, used);
        }
    }

    /// A stream is closed.
    pub(super) fn closed(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.wake_next();
    }

    /// What a failure says about the provider: how many streams it bears, and when anybody may come back.
    pub(super) fn learn(&mut self, pass: &Pass, failure: &Failure, now: Instant) {
        if pass.answered.is_none() {
            // It was not let in, so it used nothing.
            self.correct(pass, 0);
        }
        if !retry::is_overload(failure) {
            return;
        }
        // An answer that turned out to be a failure has ended nothing.
        self.in_a_row = self.in_a_row.max(pass.answered.unwrap_or(0));
        let first = self.limit.turned_away(pass.round, pass.under_way.max(self.open));
        if first {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
        let pause = match failure.retry.after {
            // A hint that was too short before is not believed for ever.
            Some(after) if self.in_a_row > 1 => {
                retry::stretched(after, &mut self.dice).max(retry::pause(self.in_a_row - 1, &mut self.dice))
            }
            Some(after) => retry::stretched(after, &mut self.dice),
            None if first => retry::pause(self.in_a_row, &mut self.dice),
            None => return,
        };
        let asked = failure.retry.after.is_some();
        let until = now + pause.min(LONGEST_COOLDOWN);
        self.cool_down(Cooldown { until, asked, failure: Some(failure.clone()) });
    }

    /// A try of this call failed before content.
    pub(super) fn failed(&mut self, call: &mut Call, pass: &Pass, failure: Failure, now: Instant) -> Verdict {
        self.learn(pass, &failure, now);
        let first_failure = *call.first_failure.get_or_insert(now);
        let give_up = |failure, why| Verdict::GiveUp(GiveUp { failure, why, tries: call.tries, over: call.over(now) });
        let budget = self.max_tries.saturating_mul(TRY);
        self.known |= failure.status.is_some();
        let Some(price) = retry::price(&failure, self.known, budget) else { return give_up(failure, Why::Final) };
        let spent = call.spent.saturating_add(price);
        let pause = match failure.retry.after {
            Some(after) if after > PATIENCE => return give_up(failure, Why::Asks(after)),
            // How fast hints are believed less and less is for all to share, unless the trouble is this call's own.
            Some(after) if retry::is_overload(&failure) || call.tries == 1 => after,
            Some(after) => after.max(retry::pause(call.tries - 1, &mut self.dice)),
            None => retry::pause(call.tries, &mut self.dice),
        };
        let late = now + pause > first_failure + PATIENCE;
        if self.max_tries == 1 || spent >= budget || late {
            self.give_up_all(call, &failure, first_failure, now);
            return give_up(failure, Why::UsedUp);
        }
        call.spent = spent;
        call.not_before = Some(now + pause);
        call.failure = failure.message;
        Verdict::Retry
    }

    /// A call has used up its tries. If nobody had an answer since its first failure, those who wait need not find out
    /// one by one that there is none.
    fn give_up_all(&mut self, call: &Call, failure: &Failure, since: Instant, now: Instant) {
        let of_all = retry::is_overload(failure) || failure.kind == ModelErrorKind::Network;
        if !of_all || self.max_tries == 1 || self.last_answer.is_some_and(|answer| answer >= since) {
            return;
        }
        let why = Why::Down { tries: call.tries, over: call.over(now) };
        for waiter in self.waiting.values_mut() {
            waiter.down = Some((failure.clone(), why.clone()));
        }
        self.wake_all();
    }

    /// Nobody sends before the end of this cooldown, unless there is one that is longer.
    fn cool_down(&mut self, new: Cooldown) {
        if self.cooldown.as_ref().is_none_or(|old| old.until < new.until) {
            self.cooldown = Some(new);
            self.wake_all();
        }
    }

    fn wake_next(&self) {
        if let Some(next) = self.waiting.values().find(|waiter| !waiter.rests) {
            next.wake.notify_one();
        }
    }

    fn wake_all(&self) {
        self.waiting.values().for_each(|waiter| waiter.wake.notify_one());
    }

    /// Permits that are out and calls that wait.
    #[cfg(test)]
    pub(super) fn load(&self) -> (usize, usize) {
        (self.open, self.waiting.len())
    }

    /// Streams that may be open now.
    #[cfg(test)]
    pub(super) fn limit(&self) -> usize {
        self.limit.now()
    }
}

/// Rounded up, so that nobody who waits as long as told comes too early.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
