//! How a run is told to stop: in two stages, for an ordered list of reasons.
//!
//! First *stop*: nothing new starts, conversations drop their model call, commands get SIGTERM and the grace period.
//! Then *kill*: what is left ends at once. The highest reason given so far is the one that is told; a reason is never
//! lost and never lowered.

use crate::plan::CauseKind;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Stands for a time limit that no clock reaches.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The moment this long from now. A limit of any length is fine: `Duration::MAX` means no limit.
pub(crate) fn from_now(limit: Duration) -> Instant {
    Instant::now() + limit.min(FAR)
}

/// Why a run stops, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A node with `on_failure = "stop"` did not succeed.
    SiblingFailed,
    /// The run's time limit.
    Deadline,
    /// The run's record cannot be written.
    Storage,
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// Ctrl-C or SIGTERM again: no grace.
    Second,
}

const REASONS: [CancelReason; 6] = [
    CancelReason::SiblingFailed,
    CancelReason::Deadline,
    CancelReason::Storage,
    CancelReason::Interrupt,
    CancelReason::Terminate,
    CancelReason::Second,
];

impl CancelReason {
    /// The word in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            CancelReason::SiblingFailed => "sibling_failed",
            CancelReason::Deadline => "deadline",
            CancelReason::Storage => "storage",
            CancelReason::Interrupt => "interrupt",
            CancelReason::Terminate => "terminate",
            CancelReason::Second => "second_interrupt",
        }
    }

    /// The reason that logs call so.
    pub fn of_word(word: &str) -> Option<Self> {
        REASONS.into_iter().find(|reason| reason.as_str() == word)
    }

    /// The cause of a node that ends because of this.
    pub fn cause_kind(self) -> CauseKind {
        match self {
            CancelReason::SiblingFailed => CauseKind::SiblingFailed,
            CancelReason::Deadline => CauseKind::Deadline,
            CancelReason::Storage => CauseKind::Storage,
            CancelReason::Interrupt | CancelReason::Terminate | CancelReason::Second => CauseKind::Interrupted,
        }
    }

    /// The fragment in a node's cause.
    pub fn detail(self) -> &'static str {
        match self {
            CancelReason::SiblingFailed => "another node did not succeed and stops the run",
            CancelReason::Deadline => "the run's time limit has passed",
            CancelReason::Storage => "the run's record cannot be written",
            CancelReason::Interrupt => "interrupted",
            CancelReason::Terminate => "told to terminate",
            CancelReason::Second => "interrupted twice",
        }
    }
}

/// The two tokens of a run, or of a part of it, with the reason. A part stops with the whole, not the other way.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    stop: CancellationToken,
    kill: CancellationToken,
    reason: Arc<Reason>,
}

#[derive(Debug, Default)]
struct Reason {
    /// A bit per reason, by its place in `REASONS`. Atomic, since signals, deadline and nodes may all ask at once.
    own: AtomicU8,
    whole: Option<Arc<Reason>>,
}

impl Reason {
    fn given(&self) -> u8 {
        self.own.load(Ordering::SeqCst) | self.whole.as_ref().map_or(0, |whole| whole.given())
    }
}

impl Cancel {
    /// Nothing is cancelled.
    pub fn new() -> Self {
        Cancel::default()
    }

    /// A part that can be stopped alone and stops with the whole.
    #[must_use]
    pub fn child(&self) -> Self {
        let reason = Reason { own: AtomicU8::new(0), whole: Some(Arc::clone(&self.reason)) };
        Cancel { stop: self.stop.child_token(), kill: self.kill.child_token(), reason: Arc::new(reason) }
    }

    /// Asks everything to stop. [`CancelReason::Second`] kills at once.
    pub fn request(&self, reason: CancelReason) {
        self.reason.own.fetch_or(1 << reason as u8, Ordering::SeqCst);
        self.stop.cancel();
        if reason == CancelReason::Second {
            self.kill.cancel();
        }
    }

    /// The grace is over: what is left ends at once.
    pub fn kill(&self) {
        self.stop.cancel();
        self.kill.cancel();
    }

    /// The highest reason given so far, for this part or the whole.
    pub fn reason(&self) -> Option<CancelReason> {
        REASONS.into_iter().rev().find(|reason| self.was_given(*reason))
    }

    /// Whether this reason is among those given so far, for this part or the whole.
    pub fn was_given(&self, reason: CancelReason) -> bool {
        self.reason.given() & (1 << reason as u8) != 0
    }

    /// Whether a stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// The token that fires when a stop is asked for.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// The token that fires when the grace is over.
    pub fn kill_token(&self) -> &CancellationToken {
        &self.kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_reason_wins_and_is_never_lowered() {
        let cancel = Cancel::new();
        assert_eq!(cancel.reason(), None);
        for (given, told) in [
            (CancelReason::Deadline, CancelReason::Deadline),
            (CancelReason::SiblingFailed, CancelReason::Deadline),
            (CancelReason::Interrupt, CancelReason::Interrupt),
            (CancelReason::Storage, CancelReason::Interrupt),
            (CancelReason::Second, CancelReason::Second),
        ] {
            cancel.request(given);
            assert_eq!(cancel.reason(), Some(told));
        }
        assert!(cancel.kill_token().is_cancelled());
        assert!(cancel.was_given(CancelReason::Storage) && !cancel.was_given(CancelReason::Terminate));
        assert!(REASONS.iter().enumerate().all(|(at, reason)| *reason as usize == at), "order of the list");
    }

    #[test]
    fn a_part_stops_with_the_whole_but_not_the_other_way() {
        let whole = Cancel::new();
        let part = whole.child();
        part.request(CancelReason::SiblingFailed);
        assert!(part.is_stopped() && !whole.is_stopped());
        assert_eq!((part.reason(), whole.reason()), (Some(CancelReason::SiblingFailed), None));
        let other = whole.child();
        whole.request(CancelReason::Interrupt);
        assert!(other.is_stopped());
        assert_eq!(other.reason(), Some(CancelReason::Interrupt));
    }
}
