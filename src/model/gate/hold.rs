//! The prefix hold: siblings that share a prefix wait until the first of them has it written to the provider's cache.
//!
//! A provider can read a cached prefix only once the reply to the request that wrote it has begun. Siblings that go out
//! together would all pay for writing it. So the first leads, and the others wait for the beginning of its reply, or
//! for its failure, and never longer than [`LONGEST`]. Who waits holds no permit.

use crate::model::{Wait, WaitCause};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// The longest that a sibling waits.
const LONGEST: Duration = Duration::from_secs(5);

/// How long a prefix stays cached after its last use, with the default of the providers that cache.
const WARM: Duration = Duration::from_secs(5 * 60);

/// The prefixes that are being written or are in the cache of one provider.
#[derive(Debug)]
pub(crate) struct Hold {
    provider: String,
    /// Behind a lock because leads end wherever they are dropped; never held across an await.
    prefixes: Mutex<Prefixes>,
}

#[derive(Debug, Default)]
struct Prefixes {
    states: HashMap<u64, Prefix>,
    leads: u64,
}

#[derive(Debug)]
enum Prefix {
    /// This lead is under way. Those who wait are woken when the channel is dropped, together with this state.
    Written { lead: u64, over: watch::Sender<()> },
    /// In the cache until then, unless it is used again.
    Warm(Instant),
}

/// Whose turn it is.
#[derive(Debug)]
pub(crate) enum Turn {
    /// This one writes the prefix: others wait for it.
    Lead(Lead),
    /// The prefix is there.
    Follow,
}

/// Writes a prefix. Dropped without a beginning, it hands the lead to one of those who wait.
#[derive(Debug)]
pub(crate) struct Lead {
    hold: Arc<Hold>,
    prefix: u64,
    /// Its number; none for one that waited long enough for another, and may still be the first to have a reply.
    number: Option<u64>,
}

impl Hold {
    pub(super) fn new(provider: &str) -> Self {
        Hold { provider: provider.to_string(), prefixes: Mutex::default() }
    }

    /// Waits while a sibling writes this prefix. The wait is told before it begins; no wait, no word.
    pub(crate) async fn enter(self: &Arc<Self>, prefix: u64, tell: &(dyn Fn(Wait) + Sync)) -> Turn {
        let deadline = Instant::now() + LONGEST;
        let mut told = false;
        loop {
            let mut written = match self.look(prefix) {
                Ok(turn) => return turn,
                Err(written) => written,
            };
            if !told {
                told = true;
                let time_ms = u64::try_from(LONGEST.as_millis()).ok();
                tell(Wait { cause: WaitCause::Prefix, time_ms, detail: self.provider.clone() });
            }
            if timeout_at(deadline, written.changed()).await.is_err() {
                return Turn::Lead(Lead { hold: Arc::clone(self), prefix, number: None });
            }
        }
    }

    /// The turn, or what to wait for.
    fn look(self: &Arc<Self>, prefix: u64) -> Result<Turn, watch::Receiver<()>> {
        let now = Instant::now();
        let mut prefixes = self.prefixes();
        match prefixes.states.get_mut(&prefix) {
            Some(Prefix::Written { over, .. }) => return Err(over.subscribe()),
            Some(Prefix::Warm(until)) if now < *until => {
                *until = now + WARM;
                return Ok(Turn::Follow);
            }
            Some(Prefix::Warm(_)) | None => {}
        }
        // So that a long run remembers only what is still cached.
        prefixes.states.retain(|_, state| match state {
            Prefix::Written { .. } => true,
            Prefix::Warm(until) => now < *until,
        });
        prefixes.leads += 1;
        let lead = prefixes.leads;
        prefixes.states.insert(prefix, Prefix::Written { lead, over: watch::Sender::new(()) });
        Ok(Turn::Lead(Lead { hold: Arc::clone(self), prefix, number: Some(lead) }))
    }

    fn prefixes(&self) -> MutexGuard<'_, Prefixes> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// The reply has begun: from now on the prefix can be read.
    pub(crate) fn began(self) {
        self.hold.prefixes().states.insert(self.prefix, Prefix::Warm(Instant::now() + WARM));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut prefixes = self.hold.prefixes();
        if let Some(Prefix::Written { lead, .. }) = prefixes.states.get(&self.prefix)
            && Some(*lead) == self.number
        {
            prefixes.states.remove(&self.prefix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gate::{Gate, GateSettings};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    fn silent(_: Wait) {}

    fn hold() -> Arc<Hold> {
        Arc::clone(Gate::new("some", &GateSettings::default()).hold())
    }

    /// A sibling that enters now; gives how long it waited, and its turn.
    fn sibling(hold: &Arc<Hold>, prefix: u64) -> JoinHandle<(Duration, Turn)> {
        let hold = Arc::clone(hold);
        let begun = Instant::now();
        tokio::spawn(async move {
            let turn = hold.enter(prefix, &silent).await;
            (begun.elapsed(), turn)
        })
    }

    async fn lead(hold: &Arc<Hold>) -> Lead {
        match hold.enter(1, &|wait| panic!("{wait:?}")).await {
            Turn::Lead(lead) => lead,
            Turn::Follow => panic!("nobody is ahead"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn siblings_go_when_the_reply_of_the_first_begins() {
        let hold = hold();
        let first = lead(&hold).await;
        let told = Arc::new(AtomicUsize::new(0));
        let siblings: Vec<_> = (0..7).map(|_| sibling(&hold, 1)).collect();
        let stranger = sibling(&hold, 2).await.unwrap();
        assert!(matches!(stranger, (Duration::ZERO, Turn::Lead(_))), "another prefix has nothing to wait for");
        let count = {
            let (hold, told) = (Arc::clone(&hold), Arc::clone(&told));
            tokio::spawn(async move {
                let tell = |wait: Wait| {
                    assert_eq!((wait.cause, wait.time_ms), (WaitCause::Prefix, Some(5000)));
                    told.fetch_add(1, Ordering::Relaxed);
                };
                hold.enter(1, &tell).await
            })
        };
        sleep(Duration::from_secs(2)).await;
        first.began();
        for sibling in siblings {
            let (waited, turn) = sibling.await.unwrap();
            assert!(matches!(turn, Turn::Follow));
            assert_eq!(waited, Duration::from_secs(2));
        }
        assert!(matches!(count.await.unwrap(), Turn::Follow));
        assert_eq!(told.load(Ordering::Relaxed), 1, "one wait, one word");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_five_seconds_and_whoever_has_a_reply_first_ends_the_wait_of_all() {
        let hold = hold();
        let first = lead(&hold).await;
        let second = sibling(&hold, 1);
        sleep(Duration::from_secs(4)).await;
        let third = sibling(&hold, 1);
        let (waited, turn) = second.await.unwrap();
        assert_eq!(waited, LONGEST);
        let Turn::Lead(second) = turn else { panic!("it went without the prefix") };
        sleep(Duration::from_secs(1)).await;
        second.began();
        let (waited, turn) = third.await.unwrap();
        assert!(matches!(turn, Turn::Follow));
        assert_eq!(waited, Duration::from_secs(2));
        drop(first);
        assert!(matches!(sibling(&hold, 1).await.unwrap(), (Duration::ZERO, Turn::Follow)), "still warm");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lead_that_fails_hands_over_to_one_of_those_who_wait() {
        let hold = hold();
        let first = lead(&hold).await;
        let waiting = (0..3).map(|_| {
            let sibling = sibling(&hold, 1);
            tokio::spawn(async move {
                let (waited, turn) = sibling.await.unwrap();
                let led = matches!(turn, Turn::Lead(_));
                if let Turn::Lead(second) = turn {
                    sleep(Duration::from_secs(2)).await;
                    second.began();
                }
                (led, waited)
            })
        });
        let waiting: Vec<_> = waiting.collect();
        sleep(Duration::from_secs(1)).await;
        drop(first);
        let mut turns = Vec::new();
        for sibling in waiting {
            turns.push(sibling.await.unwrap());
        }
        turns.sort();
        let seconds = Duration::from_secs;
        assert_eq!(turns, [(false, seconds(3)), (false, seconds(3)), (true, seconds(1))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_stays_warm_for_five_minutes_after_its_last_use() {
        let hold = hold();
        lead(&hold).await.began();
        for _ in 0..3 {
            sleep(Duration::from_secs(299)).await;
            assert!(matches!(sibling(&hold, 1).await.unwrap(), (Duration::ZERO, Turn::Follow)));
        }
        sleep(Duration::from_secs(300)).await;
        let cold = lead(&hold).await;
        cold.began();
        sleep(Duration::from_secs(301)).await;
        drop(hold.enter(2, &silent).await);
        assert_eq!(hold.prefixes().states.len(), 0, "what has gone cold is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_stops_waiting_leaves_nothing_behind() {
        let hold = hold();
        let first = lead(&hold).await;
        let waiting = sibling(&hold, 1);
        sleep(Duration::from_secs(1)).await;
        waiting.abort();
        drop(first);
        drop(lead(&hold).await);
        assert!(hold.prefixes().states.is_empty());
    }
}
