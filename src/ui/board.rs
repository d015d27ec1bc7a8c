//! What the live screen shows: a pure function of events and time, so that tests need no terminal.

use super::words::{self, Style, Told, duration, quantity};
use crate::event::{Event, EventKind, Timestamp};
use crate::model::Wait;
use crate::store::Summary;
use crate::text::{one_line, plural};
use indexmap::IndexMap;
use unicode_width::UnicodeWidthStr;

/// Columns of a name at most.
const NAME: usize = 30;

/// The state of the live screen.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) summary: Summary,
    style: Style,
    /// In order of their start. The coordinator is among them while it thinks.
    running: IndexMap<String, Running>,
    told: Told,
}

#[derive(Debug)]
struct Running {
    since: Timestamp,
    what: String,
    /// What it waits for, since when: said instead of `what`.
    wait: Option<(Timestamp, Wait)>,
    tokens: u64,
}

impl Board {
    pub(super) fn new(style: Style) -> Self {
        Board { style, ..Board::default() }
    }

    /// Takes an event; the line that goes above the live ones, if it is worth one.
    pub(super) fn event(&mut self, event: &Event) -> Option<String> {
        self.summary.fold(event);
        match &event.kind {
            EventKind::NodeStarted { attempt } => {
                let running = Running { since: event.at, what: "starting".to_string(), wait: None, tokens: 0 };
                self.running.insert(attempt.node.clone(), running);
                // The live line says so.
                return None;
            }
            EventKind::NodeFinished { node, .. } => {
                self.running.shift_remove(node);
            }
            EventKind::Doing { node, what, tokens } => self.doing(event.at, node, what, None, *tokens),
            EventKind::ModelWaiting { node, wait, .. } => {
                let tokens = self.running.get(node).map_or(0, |running| running.tokens);
                self.doing(event.at, node, "", Some((event.at, wait.clone())), tokens);
            }
            EventKind::PlanAccepted { .. } | EventKind::Answered { .. } | EventKind::RunFinished { .. } => {
                self.running.shift_remove("coordinator");
            }
            EventKind::RunStarted { .. }
            | EventKind::Notice { .. }
            | EventKind::PlanRejected { .. }
            | EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalAnswered { .. }
            | EventKind::NodeExpanded { .. }
            | EventKind::TurnFinished { .. }
            | EventKind::ModelSwitched { .. }
            | EventKind::Titled { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::CancelRequested { .. }
            | EventKind::Merged { .. }
            | EventKind::Words { .. } => {}
        }
        self.told.line(&event.kind, self.style)
    }

    fn doing(&mut self, at: Timestamp, node: &str, what: &str, wait: Option<(Timestamp, Wait)>, tokens: u64) {
        // A live event may be late: a node that has ended must not come back.
        let ended = self.summary.node(node).is_some_and(|node| node.outcome.is_some());
        if !ended {
            let running = self.running.entry(node.to_string()).or_insert_with(|| Running {
                since: at,
                what: String::new(),
                wait: None,
                tokens,
            });
            running.what = what.to_string();
            running.wait = wait;
            running.tokens = tokens;
        }
    }

    /// The live lines: counts, then one line per conversation that runs, as far as `rows` reach.
    pub(super) fn lines(&self, now: Timestamp, columns: usize, rows: usize) -> Vec<String> {
        let mut lines = vec![one_line(&self.head(now), columns)];
        let room = rows.saturating_sub(1);
        let shown = if self.running.len() > room { room.saturating_sub(1) } else { self.running.len() };
        let names = self.running.keys().take(shown).map(|name| one_line(name, NAME).width());
        let name_columns = names.max().unwrap_or(0).min(columns / 3);
        for (name, running) in self.running.iter().take(shown) {
            lines.push(running.line(name, name_columns, now, columns));
        }
        let hidden = self.running.len() - shown;
        if hidden > 0 && room > 0 {
            lines.push(one_line(&format!("  … and {hidden} more"), columns));
        }
        lines
    }

    fn head(&self, now: Timestamp) -> String {
        let counts = self.summary.counts();
        let mut parts = vec![format!("{} done", counts.done), format!("{} running", counts.running)];
        parts.push(format!("{} waiting", counts.waiting));
        for (count, what) in [(counts.failed, "failed"), (counts.skipped, "skipped")] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        let elapsed = self.summary.started.map_or(0, |started| now.since(started).as_millis() as u64);
        let nodes = self.summary.groups().next().is_some();
        let state = if nodes { parts.join(" · ") } else { "planning".to_string() };
        let stopping = if self.summary.cancelled.is_some() { "stopping · " } else { "" };
        format!("{stopping}{state}  {}", duration(elapsed))
    }
}

impl Running {
    fn line(&self, name: &str, name_columns: usize, now: Timestamp, columns: usize) -> String {
        let name = one_line(name, name_columns);
        let padding = " ".repeat(name_columns.saturating_sub(name.width()));
        let mut right = duration(now.since(self.since).as_millis() as u64);
        if self.tokens > 0 {
            right.push_str(&format!("  {}", plural_tokens(self.tokens)));
        }
        let left = format!("  {name}{padding}  ");
        let room = columns.saturating_sub(left.width() + right.width() + 2);
        let what = match &self.wait {
            Some((since, wait)) => one_line(&words::waiting(wait, now.since(*since)), room),
            None => one_line(&self.what, room),
        };
        let gap = " ".repeat(room.min(40).saturating_sub(what.width()));
        one_line(&format!("{left}{what}{gap}  {right}"), columns)
    }
}

fn plural_tokens(tokens: u64) -> String {
    if tokens < 1_000 { plural(tokens as usize, "token") } else { format!("{} tokens", quantity(tokens)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Attempt, AttemptEnd, Task};
    use crate::event::LOG_VERSION;
    use crate::model::{Switch, WaitCause};
    use crate::plan::{CauseKind, Outcome};
    use serde_json::json;
    use std::time::Duration;

    fn event(at: u64, kind: EventKind) -> Event {
        Event { v: LOG_VERSION, seq: 1, at: Timestamp(at), kind }
    }

    fn started(node: &str) -> EventKind {
        let task = Task::Command { command: "true".into(), output: None };
        let attempt =
            Attempt { node: node.into(), attempt: 1, task, timeout: Duration::from_secs(1), needs: Vec::new() };
        EventKind::NodeStarted { attempt }
    }

    fn doing(node: &str, what: &str, tokens: u64) -> EventKind {
        EventKind::Doing { node: node.into(), what: what.into(), tokens }
    }

    fn board() -> Board {
        let plan = json!({"name": "p", "node": [{"id": "a"}, {"id": "b"}, {"id": "你好"}, {"id": "d"}]});
        let failed = AttemptEnd::failed(CauseKind::Model, "model `x`\u{1b}[2J is gone");
        let mut board = Board::default();
        let events = [
            EventKind::RunStarted { run: "r".into(), task: None, model: "m".into(), jobs: 2 },
            doing("coordinator", "thinking", 10),
            EventKind::PlanAccepted { round: 1, plan, critical_path: vec!["a".into()] },
            started("a"),
            started("b"),
            started("你好"),
            EventKind::NodeFinished { node: "a".into(), attempt: 1, end: failed, duration_ms: 700 },
            doing("a", "too late", 5),
            doing("b", "search_code \u{1b}]0;title\u{7}cancel", 1_234),
            doing("你好", "read_file src/\nmain.rs", 1),
        ];
        let shown: Vec<String> =
            events.into_iter().zip(0..).filter_map(|(kind, at)| board.event(&event(at * 100, kind))).collect();
        assert_eq!(shown, ["plan `p`: 4 nodes, longest chain of 1", "a: failed in 0.7s: model `x` is gone"]);
        board
    }

    #[test]
    fn live_lines_say_what_runs() {
        insta::assert_snapshot!(board().lines(Timestamp(4_000), 80, 20).join("\n"), @"
        0 done · 2 running · 1 waiting · 1 failed  4.0s
          b     search_code cancel                        3.6s  1.2k tokens
          你好  read_file src/ main.rs                    3.5s  1 token
        ");
    }

    #[test]
    fn a_conversation_that_waits_says_what_for() {
        let mut board = board();
        let waits = |cause, time_ms| EventKind::ModelWaiting {
            node: "b".into(),
            turn: 1,
            wait: Wait { cause, time_ms, detail: "anthropic: 429".into() },
        };
        let shown = |board: &Board| {
            board.lines(Timestamp(4_000), 80, 20)[1]
                .split("  ")
                .filter(|part| !part.is_empty())
                .nth(1)
                .unwrap()
                .trim()
                .to_string()
        };
        let line = board.event(&event(2_000, waits(WaitCause::Cooldown, Some(12_300))));
        assert_eq!(line.as_deref(), Some("b: waits 12s for `anthropic` (429)"));
        // Two seconds of it have passed.
        assert_eq!(shown(&board), "waiting 10s more (rate limit)");
        assert_eq!(board.event(&event(2_000, waits(WaitCause::Streams, None))), None);
        assert_eq!(shown(&board), "waiting (for a free stream)");
        board.event(&event(2_100, doing("b", "thinking", 1_300)));
        assert_eq!(shown(&board), "thinking");
    }

    #[test]
    fn a_switch_that_each_call_makes_again_is_told_once() {
        let mut board = board();
        let switch = |to: &str, why: &str| EventKind::ModelSwitched {
            node: "b".into(),
            turn: 1,
            switch: Switch { to: to.into(), why: why.into() },
        };
        let events =
            [switch("b/two", "it broke"), switch("b/two", "it broke before"), switch("b/two", "it broke before")];
        let told: Vec<_> = events.into_iter().filter_map(|kind| board.event(&event(2_000, kind))).collect();
        assert_eq!(told, ["b: goes on with `b/two`: it broke", "b: goes on with `b/two`: it broke before"]);
        assert!(board.event(&event(2_000, switch("c/three", "it broke before"))).is_some());
    }

    #[test]
    fn live_lines_fit_any_terminal() {
        let mut board = board();
        board.event(&event(5_000, doing("d", "你好👩‍💻 e\u{301} 你好👩‍💻 e\u{301} 你好👩‍💻", 99_999)));
        for columns in 0..100 {
            for rows in 0..6 {
                let lines = board.lines(Timestamp(9_000), columns, rows);
                assert!(lines.len() <= rows.max(1), "{columns}x{rows}: {lines:#?}");
                for line in lines {
                    assert!(line.width() <= columns && !line.contains(char::is_control), "{columns}: {line:?}");
                }
            }
        }
        assert_eq!(board.lines(Timestamp(9_000), 80, 3).last().map(String::as_str), Some("  … and 2 more"));
    }

    #[test]
    fn colour_is_only_around_the_outcome() {
        let end = AttemptEnd::bare(Outcome::Succeeded, None);
        let kind = EventKind::NodeFinished { node: "a".into(), attempt: 1, end, duration_ms: 1 };
        let line = Board::new(Style { color: true }).event(&event(0, kind)).unwrap();
        assert_eq!(line, "a: \u{1b}[32msucceeded\u{1b}[0m in 0.0s");
    }
}
