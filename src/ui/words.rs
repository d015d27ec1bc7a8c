//! How numbers and events read.

use crate::cancel::CancelReason;
use crate::event::EventKind;
use crate::model::{Switch, Usage, Wait, WaitCause};
use crate::plan::{Cause, Outcome};
use crate::text::{one_line, plural};
use std::collections::HashMap;
use std::time::Duration;

/// Columns that a cause or notice may take in a line.
const SENTENCE: usize = 400;
/// Milliseconds up to which a wait that is nobody's fault is not worth a line.
const SHORT_WAIT: u64 = 1_000;

/// `0.4s`, `12.3s`, `2m05s`, `1h02m`.
pub fn duration(ms: u64) -> String {
    // Rounded first, so that 59.96 s is a minute and not `60.0s`.
    let tenths = (ms + 50) / 100;
    let seconds = (ms + 500) / 1_000;
    match () {
        () if tenths < 600 => format!("{}.{}s", tenths / 10, tenths % 10),
        () if seconds < 3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        () => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// `950`, `12.3k`, `1.2M`.
pub fn quantity(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..999_950 => format!("{}.{}k", (count + 50) / 1_000, (count + 50) % 1_000 / 100),
        _ => format!("{}.{}M", (count + 50_000) / 1_000_000, (count + 50_000) % 1_000_000 / 100_000),
    }
}

/// `12.3k tokens`.
pub fn token_count(usage: &Usage) -> String {
    match usage.total() {
        1 => "1 token".to_string(),
        total => format!("{} tokens", quantity(total)),
    }
}

/// Whether outcomes are coloured. Colour never says more than the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences for colour may be used.
    pub color: bool,
}

impl Style {
    fn outcome(self, outcome: Outcome) -> String {
        let color = match outcome {
            _ if !self.color => return outcome.to_string(),
            Outcome::Succeeded => 32,
            Outcome::Partial => 33,
            Outcome::Failed | Outcome::TimedOut | Outcome::OverBudget => 31,
            Outcome::Cancelled | Outcome::Skipped => 2,
        };
        format!("\u{1b}[{color}m{outcome}\u{1b}[0m")
    }
}

/// What has been told already: calls that keep going to another model say so each time, and once is enough.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By conversation, the latest.
    switches: HashMap<String, Switch>,
}

impl Told {
    /// The line on an event, when it is worth one and no repetition.
    pub(super) fn line(&mut self, kind: &EventKind, style: Style) -> Option<String> {
        if let EventKind::ModelSwitched { node, switch, .. } = kind
            && self.switches.insert(node.clone(), switch.clone()).as_ref() == Some(switch)
        {
            return None;
        }
        line(kind, style)
    }
}

/// One line on an event, for people; `None` when it is not worth one.
pub(crate) fn line(kind: &EventKind, style: Style) -> Option<String> {
    let name = |name: &str| one_line(name, 80);
    Some(match kind {
        EventKind::Notice { message } => format!("note: {}", one_line(message, SENTENCE)),
        EventKind::PlanRejected { attempt, problems } => {
            let first = problems.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            format!("plan try {attempt} was not valid and went back to the model: {}", one_line(first, SENTENCE))
        }
        EventKind::PlanAccepted { round, plan, critical_path } => {
            let nodes = plan.get("node").and_then(|node| node.as_array()).map_or(0, Vec::len);
            let title = plan.get("name").and_then(|name| name.as_str()).unwrap_or("without a name");
            let which = if *round > 1 { format!("follow-up plan {round}") } else { "plan".to_string() };
            format!("{which} `{}`: {}, longest chain of {}", name(title), plural(nodes, "node"), critical_path.len())
        }
        EventKind::ApprovalAsked { question, .. } => format!("asks: {}", one_line(question, SENTENCE)),
        EventKind::ApprovalAnswered { approved, comment, .. } => {
            let answer = if *approved { "approved" } else { "declined" };
            if comment.is_empty() { answer.to_string() } else { format!("{answer}: {}", one_line(comment, SENTENCE)) }
        }
        EventKind::NodeExpanded { node, count } => format!("{}: {}", name(node), plural(*count, "instance")),
        EventKind::NodeStarted { attempt } => match attempt.attempt {
            0 | 1 => format!("{}: started", name(&attempt.node)),
            again => format!("{}: started, attempt {again}", name(&attempt.node)),
        },
        EventKind::NodeFinished { node, attempt, end, duration_ms } => {
            let mut line = format!("{}: {}", name(node), style.outcome(end.outcome));
            if *attempt > 0 {
                line.push_str(&format!(" in {}", duration(*duration_ms)));
            }
            if end.usage.total() > 0 {
                line.push_str(&format!(", {}", token_count(&end.usage)));
            }
            if !end.cost.is_unknown() {
                line.push_str(&format!(", {}", end.cost));
            }
            if end.tool_calls > 0 {
                line.push_str(&format!(", {}", plural(end.tool_calls as usize, "tool call")));
            }
            line + &because(end.cause.as_ref())
        }
        EventKind::ModelWaiting { node, wait, .. } => return waits(&name(node), wait),
        EventKind::ModelSwitched { node, switch, .. } => {
            format!("{}: goes on with `{}`: {}", name(node), name(&switch.to), one_line(&switch.why, SENTENCE))
        }
        EventKind::CancelRequested { reason } => match CancelReason::of_word(reason) {
            Some(reason) => stopping(reason).to_string(),
            None => format!("stopping: {}", one_line(reason, SENTENCE)),
        },
        EventKind::RunStarted { .. }
        | EventKind::Titled { .. }
        | EventKind::TurnFinished { .. }
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::Merged { .. }
        | EventKind::Answered { .. }
        | EventKind::RunFinished { .. }
        | EventKind::Words { .. }
        | EventKind::Doing { .. } => return None,
    })
}

/// A wait that is long enough, or whose cause users should know.
fn waits(node: &str, wait: &Wait) -> Option<String> {
    let worth_a_line = match wait.cause {
        WaitCause::Cooldown | WaitCause::Retry => true,
        WaitCause::Streams | WaitCause::Rate | WaitCause::Prefix => wait.time_ms.is_some_and(|ms| ms > SHORT_WAIT),
    };
    let time = wait.time_ms.map_or_else(String::new, |ms| format!(" {}", wait_time(ms)));
    let for_whom = match wait.detail.split_once(": ") {
        Some((provider, why)) => format!("`{}` ({})", one_line(provider, 80), one_line(why, SENTENCE)),
        None => format!("`{}`", one_line(&wait.detail, 80)),
    };
    worth_a_line.then(|| format!("{node}: waits{time} for {for_whom}"))
}

/// What a conversation does that has waited for some time: `waiting 12s more (rate limit)`.
pub(crate) fn waiting(wait: &Wait, waited: Duration) -> String {
    let left = |ms: u64| ms.saturating_sub(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
    let time = wait.time_ms.map_or_else(String::new, |ms| format!(" {} more", wait_time(left(ms))));
    let cause = match wait.cause {
        WaitCause::Streams => "for a free stream",
        WaitCause::Rate | WaitCause::Cooldown => "rate limit",
        WaitCause::Retry => "to try again",
        WaitCause::Prefix => "for a sibling's prompt cache",
    };
    format!("waiting{time} ({cause})")
}

/// `0.4s`, `12s`, `2m05s`: tenths only where they matter.
fn wait_time(ms: u64) -> String {
    if (9_950..59_950).contains(&ms) { format!("{}s", (ms + 500) / 1_000) } else { duration(ms) }
}

/// What happens now, and what the user can do about it.
fn stopping(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::SiblingFailed => "stopping: a node with `on_failure = \"stop\"` did not succeed",
        CancelReason::Deadline => "stopping: the run's time limit has passed",
        CancelReason::Storage => "stopping: the run's record cannot be written",
        // Short enough for one line of 80 columns.
        CancelReason::Interrupt => "interrupted: stopping, what was found is kept; press Ctrl-C again to kill",
        CancelReason::Terminate => "told to terminate: stopping, what was found is kept; a signal again kills",
        CancelReason::Second => "interrupted again: what still runs is killed",
    }
}

fn because(cause: Option<&Cause>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {}", one_line(&cause.detail, SENTENCE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_quantities_are_short() {
        let durations = [0, 49, 50, 999, 59_949, 59_950, 125_000, 3_599_499, 3_599_500, 36_000_000];
        let shown = durations.map(duration).join(" ");
        assert_eq!(shown, "0.0s 0.0s 0.1s 1.0s 59.9s 1m00s 2m05s 59m59s 1h00m 10h00m");
        let quantities = [0, 999, 1_000, 12_345, 999_949, 999_950, 1_250_000];
        assert_eq!(quantities.map(quantity).join(" "), "0 999 1.0k 12.3k 999.9k 1.0M 1.3M");
    }
}
