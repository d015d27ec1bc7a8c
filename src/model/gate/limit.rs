//! How many streams may be open at once: what is configured, and less while the provider is overloaded.
//!
//! Additive increase, multiplicative decrease, as TCP does it. What counts as one sign of overload is a *round*: all
//! requests that were under way when the limit was halved belong to the round that ended then, and their failures say
//! nothing about the new limit.

/// The limit as it is now.
#[derive(Debug)]
pub(super) struct Limit {
    /// As configured.
    most: usize,
    /// From 1 up to `most`.
    now: usize,
    /// Requests of this round that were answered since the last change.
    answered: usize,
    round: u64,
}

impl Limit {
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        Limit { most, now: most, answered: 0, round: 0 }
    }

    /// Streams that may be open now.
    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// Whether the provider's overload lowers it.
    pub(super) fn is_lowered(&self) -> bool {
        self.now < self.most
    }

    /// The round that a request belongs to which goes out now.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// A request of this round was answered: one stream more for every as many as the limit.
    pub(super) fn answered(&mut self, round: u64) {
        if round != self.round || !self.is_lowered() {
            return;
        }
        self.answered += 1;
        if self.answered >= self.now {
            self.now += 1;
            self.answered = 0;
        }
    }

    /// A request of this round was turned away; `under_way` is how many were then. Returns whether it is the first of
    /// its round, which alone halves: not the limit, which may be far above what was tried, but what was under way.
    pub(super) fn turned_away(&mut self, round: u64, under_way: usize) -> bool {
        if round != self.round {
            return false;
        }
        self.round += 1;
        self.answered = 0;
        self.now = (self.now.min(under_way) / 2).max(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_of_failures_halves_once_and_successes_raise_by_one_per_window() {
        let mut limit = Limit::new(8);
        assert!(limit.turned_away(0, 8), "the first of its round");
        assert!(!limit.turned_away(0, 8), "the others say the same");
        assert_eq!(limit.now(), 4);
        limit.answered(0);
        for _ in 0..3 {
            limit.answered(1);
        }
        assert_eq!(limit.now(), 4, "three of this round and one of the last are no window of four");
        limit.answered(1);
        assert_eq!(limit.now(), 5);
        for _ in 0..5 + 6 + 7 {
            limit.answered(1);
        }
        assert_eq!((limit.now(), limit.is_lowered()), (8, false));
        limit.answered(1);
        assert_eq!(limit.now(), 8, "never above what is configured");
    }

    #[test]
    fn it_starts_from_what_was_under_way_and_never_falls_below_one() {
        let mut limit = Limit::new(64);
        limit.turned_away(0, 6);
        assert_eq!(limit.now(), 3);
        for round in 1..5 {
            limit.turned_away(round, 3);
        }
        assert_eq!(limit.now(), 1);
        assert_eq!(Limit::new(0).now(), 1);
    }
}
