//! Configured rates: requests and tokens per minute.
//!
//! Both are kept on our side so that they hold on the provider's, where requests arrive later than they go out, one
//! sooner and one later. So what counts as a minute here is a little longer.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Requests per minute, spread evenly: a virtual schedule (GCRA) gives every request a slot.
///
/// In any 60 s no more than `rpm` go out: `60 / interval` slots and what may be ahead of them, which is
/// `rpm * 60/62 + rpm/60 < rpm`; for rates under 120 nothing is ahead, and `floor(rpm * 60/62) + 1 <= rpm`. Two per cent
/// of a minute, more than a second, are left for requests that arrive later than others.
#[derive(Debug)]
pub(super) struct Requests {
    interval: Duration,
    /// How far ahead of its slot a request may go: a second's worth, so that high rates are not cut into single
    /// requests.
    ahead: Duration,
    /// The slot of the next request.
    slot: Option<Instant>,
}

impl Requests {
    /// What is set to 0 counts as 1.
    pub(super) fn new(rpm: u32) -> Self {
        let rpm = rpm.max(1);
        let interval = Duration::from_secs(62) / rpm;
        Requests { interval, ahead: interval * (rpm / 60).saturating_sub(1), slot: None }
    }

    /// When the next request may go, if not now.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        // Before the process's clock began there was no request.
        let next = self.slot?.checked_sub(self.ahead)?;
        (next > now).then_some(next)
    }

    /// A request goes.
    pub(super) fn start(&mut self, now: Instant) {
        self.slot = Some(self.slot.map_or(now, |slot| slot.max(now)) + self.interval);
    }

    /// How long the schedule takes for this many requests.
    pub(super) fn time_for(&self, requests: usize) -> Duration {
        self.interval.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX))
    }
}

/// Tokens per minute: a request reserves what it may use when it goes out and is corrected when it is known.
///
/// They count for the moment in which the request went out, as with the providers.
#[derive(Debug)]
pub(super) struct Tokens {
    most: u64,
    /// What went out in the last minute, the oldest first, numbered without a gap.
    log: VecDeque<(Instant, u64)>,
    /// The number of the oldest.
    first: u64,
    /// All of the log.
    sum: u64,
}

impl Tokens {
    const MINUTE: Duration = Duration::from_secs(61);

    pub(super) fn new(most: u64) -> Self {
        Tokens { most, log: VecDeque::new(), first: 0, sum: 0 }
    }

    /// When a request of this many tokens may go, if not now. One that is larger than the limit goes when there is no
    /// other in its minute: late is better than never.
    pub(super) fn next(&mut self, now: Instant, tokens: u64) -> Option<Instant> {
        while let Some(&(_, used)) = self.log.front().filter(|(at, _)| *at + Self::MINUTE <= now) {
            self.log.pop_front();
            self.first += 1;
            self.sum = self.sum.saturating_sub(used);
        }
        let mut left = self.sum;
        let fits = |left: u64| left == 0 || left.saturating_add(tokens) <= self.most;
        let mut next = None;
        for &(at, used) in &self.log {
            if fits(left) {
                break;
            }
            left = left.saturating_sub(used);
            next = Some(at + Self::MINUTE);
        }
        next
    }

    /// A request goes; returns its number.
    pub(super) fn reserve(&mut self, now: Instant, tokens: u64) -> u64 {
        self.log.push_back((now, tokens));
        self.sum = self.sum.saturating_add(tokens);
        self.first + self.log.len() as u64 - 1
    }

    /// What the request of this number has used in fact.
    pub(super) fn settle(&mut self, number: u64, used: u64) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some((_, tokens)) = index.and_then(|index| self.log.get_mut(index)) {
            self.sum = self.sum.saturating_sub(*tokens).saturating_add(used);
            *tokens = used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// The starts of a sender that goes as soon as it may, for some minutes.
    fn eager(rpm: u32, minutes: f64) -> Vec<Duration> {
        let begin = Instant::now();
        let mut requests = Requests::new(rpm);
        let mut now = begin;
        let mut starts = Vec::new();
        while now - begin < seconds(60.0 * minutes) {
            now = requests.next(now).unwrap_or(now);
            requests.start(now);
            starts.push(now - begin);
        }
        starts
    }

    #[test]
    fn no_minute_holds_more_requests_than_configured_even_if_some_arrive_late() {
        for rpm in [1, 2, 7, 30, 59, 60, 61, 119, 120, 121, 600, 1000, 6000] {
            let starts = eager(rpm, 3.0);
            // Each request and the one that is `rpm` after it.
            for few in starts.windows(rpm as usize + 1) {
                assert!(few[rpm as usize] - few[0] > seconds(60.9), "too many in a minute at {rpm}");
            }
            let wanted = f64::from(rpm) * 3.0 * 0.96;
            assert!(starts.len() as f64 >= wanted.floor(), "only {} of {wanted} at {rpm}", starts.len());
        }
    }

    #[test]
    fn a_high_rate_may_begin_with_a_seconds_worth_and_a_pause_saves_nothing_up() {
        let begin = Instant::now();
        let mut requests = Requests::new(600);
        let burst = |requests: &mut Requests, now| {
            std::iter::from_fn(|| requests.next(now).is_none().then(|| requests.start(now))).count()
        };
        assert_eq!(burst(&mut requests, begin), 10);
        assert_eq!(burst(&mut requests, begin + seconds(600.0)), 10);
    }

    #[test]
    fn tokens_are_reserved_corrected_and_forgotten_after_a_minute() {
        let begin = Instant::now();
        let mut tokens = Tokens::new(1000);
        let first = tokens.reserve(begin, 600);
        assert_eq!(tokens.next(begin, 400), None);
        assert_eq!(tokens.next(begin, 401), Some(begin + seconds(61.0)));
        tokens.settle(first, 100);
        assert_eq!(tokens.next(begin, 900), None);
        let second = tokens.reserve(begin + seconds(10.0), 900);
        assert_eq!(tokens.next(begin + seconds(20.0), 100), Some(begin + seconds(61.0)));
        assert_eq!(tokens.next(begin + seconds(20.0), 101), Some(begin + seconds(71.0)));
        assert_eq!(tokens.next(begin + seconds(61.0), 101), Some(begin + seconds(71.0)));
        tokens.settle(first, 5000);
        assert_eq!(tokens.next(begin + seconds(61.0), 100), None, "what is forgotten is not corrected");
        tokens.settle(second, 0);
        assert_eq!(tokens.next(begin + seconds(62.0), 1000), None);
    }

    #[test]
    fn a_request_larger_than_the_limit_goes_alone() {
        let begin = Instant::now();
        let mut tokens = Tokens::new(1000);
        assert_eq!(tokens.next(begin, 5000), None);
        tokens.reserve(begin, 5000);
        assert_eq!(tokens.next(begin, 1), Some(begin + seconds(61.0)));
        assert_eq!(tokens.next(begin + seconds(61.0), 5000), None);
    }
}
