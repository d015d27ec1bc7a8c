//! What is tried again, how often, after how long, and what is said when it is not.

use super::dice::Dice;
use crate::model::ModelErrorKind;
use crate::model::wire::Failure;
use std::time::Duration;

/// The longest that a call goes on after its first failure, and the longest pause that a provider may ask for.
pub(super) const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The first pause without a hint; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What one failure costs of the tries that a call has, when each of them is worth this much.
pub(super) const TRY: u32 = 4;

/// The most that the pause after a hint is stretched, so that those who share a limit do not come back at once.
const STRETCH: Duration = Duration::from_secs(1);

/// What follows from a failed try.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// There is another try.
    Retry,
    /// There is none.
    GiveUp(GiveUp),
}

/// A call that goes out no more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GiveUp {
    /// What went wrong last.
    pub(crate) failure: Failure,
    /// Why there is no other try.
    pub(crate) why: Why,
    /// Tries of this call that went out.
    pub(crate) tries: u32,
    /// From the first of them until now.
    pub(crate) over: Duration,
}

/// Why there is no other try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It would come to the same.
    Final,
    /// All tries are used up, or all patience.
    UsedUp,
    /// The provider asks for a longer pause than anybody waits for.
    Asks(Duration),
    /// Another call has used up its tries while nobody had an answer.
    Down {
        /// Tries of that call.
        tries: u32,
        /// Over how long.
        over: Duration,
    },
}

impl GiveUp {
    /// What to add to the failure's own words: how hard it was tried, or why not. Nothing where the first try was
    /// final.
    pub(crate) fn words(&self) -> Option<String> {
        let hard = |tries: u32, over: Duration| {
            let tries = if tries == 1 { "1 try".to_string() } else { format!("{tries} tries") };
            if over < Duration::from_secs(1) { tries } else { format!("{tries} over {}", rounded(over)) }
        };
        match &self.why {
            Why::Final if self.tries <= 1 => None,
            Why::Final | Why::UsedUp => Some(format!("given up after {}", hard(self.tries, self.over))),
            Why::Asks(pause) => Some(format!("given up: it asks for a pause of {}", rounded(*pause))),
            Why::Down { tries, over } => {
                Some(format!("given up with another call that failed after {}", hard(*tries, *over)))
            }
        }
    }
}

fn rounded(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().round() as u64))
}

/// What a failure costs its call, in parts of a [`TRY`]; nothing when it is not to be tried again.
///
/// `known` says whether the provider has ever answered in this run: while it has not, a connection that fails more
/// likely has a wrong address than a bad moment.
pub(super) fn price(failure: &Failure, known: bool, budget: u32) -> Option<u32> {
    use ModelErrorKind::{
        Auth, ContextFull, Cut, Egress, InvalidRequest, Network, NoTools, NotFound, Overloaded, Protocol, Quota,
        RateLimit, Script, Server, Silent,
    };
    // Whether the provider's own word (`x-should-retry`) may overrule what the kind says.
    let (price, overruled) = match failure.kind {
        // A queue with numbers: coming back when told to is no sign of trouble.
        RateLimit if failure.retry.after.is_some() => (Some(1), true),
        RateLimit | Overloaded => (Some(TRY), true),
        Network if !known => (Some(budget.div_ceil(3)), true),
        Network => (Some(TRY), true),
        // What broke for this request may well break for it again.
        Server | Silent | Cut => (Some(2 * TRY), true),
        InvalidRequest | NotFound | Protocol => (None, true),
        Auth | Quota | ContextFull | NoTools | Egress | Script => (None, false),
    };
    match failure.retry.should {
        Some(false) => None,
        Some(true) if overruled => price.or(Some(2 * TRY)),
        Some(true) | None => price,
    }
}

/// Whether a failure says that the provider has too much to do, for all of us.
pub(super) fn is_overload(failure: &Failure) -> bool {
    matches!(failure.kind, ModelErrorKind::RateLimit | ModelErrorKind::Overloaded)
}

/// The pause after so many failures in a row, from 1: 0.5 s, doubling up to 30 s, give or take a fifth. That is little
/// enough for each pause below the longest to be longer than the one before.
pub(super) fn pause(failures: u32, dice: &mut Dice) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE).mul_f64(0.8 + 0.4 * dice.fraction())
}

/// A pause that the provider asked for: never shorter, and up to a tenth longer.
pub(super) fn stretched(asked: Duration, dice: &mut Dice) -> Duration {
    asked.saturating_add(dice.between(Duration::ZERO, (asked / 10).min(STRETCH)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wire::RetryHint;

    #[test]
    fn what_is_tried_again() {
        use ModelErrorKind::*;
        let cost = |kind, after: Option<u64>, should, known| {
            let retry = RetryHint { after: after.map(Duration::from_secs), should };
            price(&Failure { retry, ..Failure::new(kind, "") }, known, 32)
        };
        for kind in [NotFound, Auth, Quota, InvalidRequest, NoTools, Protocol, ContextFull, Egress, Script] {
            assert_eq!(cost(kind, None, None, true), None, "{kind:?}");
        }
        assert_eq!(cost(RateLimit, None, None, true), Some(4));
        assert_eq!(cost(RateLimit, Some(2), None, true), Some(1));
        assert_eq!(cost(Overloaded, Some(2), None, true), Some(4));
        assert_eq!(cost(Server, None, None, true), Some(8));
        assert_eq!(cost(Network, None, None, true), Some(4));
        assert_eq!(cost(Network, None, None, false), Some(11), "three tries at a provider that never answered");
        // The provider's own word.
        assert_eq!(cost(Overloaded, None, Some(false), true), None);
        assert_eq!(cost(InvalidRequest, None, Some(true), true), Some(8));
        assert_eq!(cost(Quota, None, Some(true), true), None, "money does not come back by itself");
        assert_eq!(cost(Auth, None, Some(true), true), None);
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let mut dice = Dice::new(3);
        let pauses: Vec<Duration> = (1..=12).map(|failures| pause(failures, &mut dice)).collect();
        assert!(pauses[..7].windows(2).all(|two| two[0] < two[1]), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE.mul_f64(1.2)), "{pauses:?}");
        assert!(pause(u32::MAX, &mut dice) >= LONGEST_PAUSE.mul_f64(0.8));
    }

    #[test]
    fn what_is_said_when_nothing_is_tried_any_more() {
        let words = |why, tries, ms| {
            let failure = Failure::new(ModelErrorKind::Overloaded, "overloaded");
            GiveUp { failure, why, tries, over: Duration::from_millis(ms) }.words().unwrap_or_default()
        };
        assert_eq!(words(Why::Final, 1, 0), "");
        assert_eq!(words(Why::Final, 2, 900), "given up after 2 tries");
        assert_eq!(words(Why::UsedUp, 8, 62_300), "given up after 8 tries over 1m 2s");
        assert_eq!(words(Why::Asks(Duration::from_secs(86_400)), 1, 0), "given up: it asks for a pause of 1day");
        let down = Why::Down { tries: 8, over: Duration::from_secs(62) };
        assert_eq!(words(down, 0, 0), "given up with another call that failed after 8 tries over 1m 2s");
    }
}
