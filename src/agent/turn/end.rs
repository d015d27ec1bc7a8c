//! How a conversation that does not end by itself is brought to its end: limits, circles, and replies that lack something.

use super::{End, Ending, Machine, Phase};
use crate::model::{Block, Reply, StopKind};
use crate::plan::CauseKind;

/// Turns in a row with the same calls and results before only the end is accepted.
pub const MAX_REPEATS: u32 = 4;
/// Turns in a row without anything new before only the end is accepted.
pub const MAX_IDLE: u32 = 6;
/// Replies in a row that may break in transit before the conversation ends with the error.
pub const MAX_CUTS: u32 = 2;
/// Replies in a row that were cut at their output limit and may be continued.
pub const MAX_CONTINUED: u32 = 2;
/// Replies in a row that the server may pause.
pub const MAX_PAUSES: u32 = 3;

/// Why only the end is accepted from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastTurn {
    Limit,
    Repetition,
    NoProgress,
}

/// What a reply without calls lacks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lack {
    /// The `report` call, of a subagent that ended in words.
    Report,
    /// Anything at all.
    Words,
    /// The call that its stop reason speaks of.
    Call,
}

/// Replies in a row that ended in the same unfinished way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InARow {
    at_limit: u32,
    cuts: u32,
    pauses: u32,
}

impl InARow {
    /// Takes in how a reply ended.
    pub(super) fn count(&mut self, stop: StopKind) {
        *self = match stop {
            StopKind::Length => InARow { at_limit: self.at_limit + 1, ..InARow::default() },
            StopKind::StreamCut => InARow { cuts: self.cuts + 1, ..InARow::default() },
            StopKind::Paused => InARow { pauses: self.pauses + 1, ..InARow::default() },
            StopKind::End | StopKind::Tool | StopKind::Refusal | StopKind::ContextFull | StopKind::Filtered => {
                InARow::default()
            }
        };
    }
}

impl Machine {
    /// All calls of the turn have their results: what now?
    pub(super) fn turn_is_over(&mut self) {
        if let Some(report) = self.accepted.take() {
            self.phase = Phase::Over(End::Reported(report));
            return;
        }
        if let Some(last) = self.last {
            return self.end_last(last);
        }
        self.progress.note(&self.current);
        if self.progress.repeats >= MAX_REPEATS {
            self.last = Some(LastTurn::Repetition);
            self.say(&format!(
                "You have made the same calls with the same results {MAX_REPEATS} times. {}",
                self.how_to_end()
            ));
        } else if self.progress.idle >= MAX_IDLE {
            self.last = Some(LastTurn::NoProgress);
            self.say(&format!("The last {MAX_IDLE} turns brought nothing new. {}", self.how_to_end()));
        }
        self.phase = Phase::Ask;
    }

    /// A whole reply of words alone: the coordinator's answer, but no end of a subagent.
    pub(super) fn ended_in_words(&mut self) {
        match self.ending {
            Ending::Text => self.phase = Phase::Over(End::Answered(std::mem::take(&mut self.last_text))),
            Ending::Report(_) => self.ended_without_call(Lack::Report),
        }
    }

    /// Whether the output limit can be raised, once; it is then.
    pub(super) fn raises(&mut self) -> bool {
        let raises = self.can_raise && !self.raised && self.turn < self.limit;
        self.raised |= raises;
        raises
    }

    /// The limit was raised: the cut reply is not kept, and the same is asked again.
    pub(super) fn ask_again(&mut self, cut: &Reply) {
        // Its words are only for the case that nothing better comes; what they were to be joined to stays.
        if self.joined_by.is_none() {
            let words = cut.blocks.iter().filter_map(|block| match block {
                Block::Text { text } if !text.trim().is_empty() => Some(text.clone()),
                Block::Text { .. } | Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => None,
            });
            self.hear(words.collect());
        }
        self.phase = Phase::Ask;
    }

    /// The limit was raised, but calls of the cut reply have started, and their results need their place: it is kept.
    pub(super) fn make_again(&mut self) {
        self.in_a_row = InARow::default();
        self.close_unstarted("your reply was cut at its output limit, so this call was not run: make it again");
        self.wait_for_early();
    }

    /// The reply was cut at its output limit: it is gone on with, [`MAX_CONTINUED`] times in a row.
    pub(super) fn cut_at_limit(&mut self, no_calls: bool) {
        self.close_unstarted(
            "your reply was cut at its output limit, so this call was not run: make it again, smaller",
        );
        if self.in_a_row.at_limit > MAX_CONTINUED {
            self.close("");
            return self.end_short(CauseKind::CutShort, "the reply was cut at its output limit");
        }
        if !no_calls {
            return self.wait_for_early();
        }
        if let Some(last) = self.last {
            return self.end_last(last);
        }
        let next = match self.ending {
            Ending::Report(_) => "Call `report` now with a short summary and leave out what is long.",
            Ending::Text => {
                self.joined_by = Some("");
                "Go on exactly where you stopped: what you have written is kept and yours is joined to it. Be brief."
            }
        };
        self.say(&format!("Your reply was cut at its output limit. {next}"));
        self.phase = Phase::Ask;
    }

    /// The stream broke: the conversation goes on from what was said, [`MAX_CUTS`] times in a row.
    pub(super) fn cut_in_transit(&mut self, no_calls: bool, spoke: bool, why: &str) {
        let not_run = "your reply was cut in transit, so this call was not run: make it again";
        if self.in_a_row.cuts > MAX_CUTS || self.turn >= self.limit {
            self.close(not_run);
            return self.end_short(CauseKind::Model, why);
        }
        if !no_calls {
            self.close_unstarted(not_run);
            return self.wait_for_early();
        }
        if spoke {
            self.joined_by = Some("");
            self.say("Your reply was cut in transit. Go on exactly where it stopped: what came before is kept.");
        }
        self.phase = Phase::Ask;
    }

    /// The server paused the reply: the same is sent again, for it to go on.
    pub(super) fn paused(&mut self) {
        if let Some(last) = self.last {
            return self.end_last(last);
        }
        if self.in_a_row.pauses > MAX_PAUSES {
            let detail = format!("its reply was paused more than {MAX_PAUSES} times in a row");
            return self.end_short(CauseKind::CutShort, &detail);
        }
        self.joined_by = Some("\n\n");
        self.phase = Phase::Ask;
    }

    /// The reply neither calls a tool nor ends the conversation: it is asked to, once.
    pub(super) fn ended_without_call(&mut self, lack: Lack) {
        if let Some(last) = self.last {
            return self.end_last(last);
        }
        if self.asked_to_end {
            let detail = match self.ending {
                Ending::Report(_) => "it ended without a report, also after it was asked for one",
                Ending::Text => "it ended without an answer, also after it was asked for one",
            };
            return self.end_short(CauseKind::NoReport, detail);
        }
        self.asked_to_end = true;
        let what = match lack {
            Lack::Report => "You ended your turn without calling `report`. Nothing you write outside it is kept.",
            Lack::Words => "Your reply was empty.",
            Lack::Call => "Your reply announced a tool call but held none.",
        };
        let next = match self.ending {
            Ending::Report(_) => "Call `report` now with what you have; if work remains, do it first.",
            Ending::Text => "Answer the user's request now.",
        };
        self.say(&format!("{what} {next}"));
        self.phase = Phase::Ask;
    }

    /// One turn is left: the model must know before it answers.
    pub(super) fn announce_last_turn(&mut self) {
        if self.last.is_none() && self.turn + 1 == self.limit {
            self.last = Some(LastTurn::Limit);
            self.say(&format!("This is your last turn. {}", self.how_to_end()));
        }
    }

    fn how_to_end(&self) -> &'static str {
        match self.ending {
            Ending::Report(_) => {
                "Only `report` is accepted now: call it with what you have, status `partial` if work remains."
            }
            Ending::Text => "No tool is accepted now: answer the user's request with what you have.",
        }
    }

    pub(super) fn end_last(&mut self, last: LastTurn) {
        let (kind, detail) = match last {
            LastTurn::Limit => (
                CauseKind::TurnLimit,
                match (self.limit, &self.ending) {
                    (1, Ending::Report(_)) => "its only turn brought no report".to_string(),
                    (1, Ending::Text) => "its only turn brought no answer".to_string(),
                    (limit, Ending::Report(_)) => format!("{limit} turns were used up without a report"),
                    (limit, Ending::Text) => format!("{limit} turns were used up without an answer"),
                },
            ),
            LastTurn::Repetition => (CauseKind::Repetition, "it kept making the same calls".to_string()),
            LastTurn::NoProgress => (CauseKind::NoProgress, format!("{MAX_IDLE} turns in a row brought nothing new")),
        };
        self.end_short(kind, &detail);
    }

    pub(super) fn end_short(&mut self, kind: CauseKind, detail: &str) {
        let salvaged = std::mem::take(&mut self.last_text);
        self.phase = Phase::Over(End::Short { kind, detail: detail.to_string(), salvaged });
    }
}
