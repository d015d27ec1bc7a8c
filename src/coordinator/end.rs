//! How a run ended: status, exit code and what there is to read.

use super::Answer;
use super::runner::{PlanRunner, Sink};
use crate::cancel::{Cancel, CancelReason};
use crate::error::exit;
use crate::event::EventKind;
use crate::model::{Bill, Usage};
use crate::plan::{CauseKind, Outcome};
use crate::store::StoreError;
use crate::text;

/// How a run ended, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// Every sink succeeded, and the coordinator answered where there was one.
    Succeeded,
    /// A sink did not, or the coordinator could not answer.
    Failed,
    /// The coordinator's plans were not valid.
    PlanRejected,
    /// The run's time limit passed.
    Deadline,
    /// No model call ever succeeded.
    NoModel,
    /// The run's record could not be written.
    Storage,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// Something of ours panicked outside the nodes.
    Bug,
}

impl RunStatus {
    /// The word in JSON and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Succeeded => "succeeded",
            RunStatus::Failed => "failed",
            RunStatus::PlanRejected => "plan_rejected",
            RunStatus::Deadline => "deadline",
            RunStatus::NoModel => "no_model",
            RunStatus::Storage => "storage",
            RunStatus::Interrupted => "interrupted",
            RunStatus::Terminated => "terminated",
            RunStatus::Bug => "bug",
        }
    }

    /// The exit code of the process.
    pub fn exit_code(self) -> u8 {
        match self {
            RunStatus::Succeeded => exit::OK,
            RunStatus::Failed | RunStatus::Storage => exit::FAILED,
            RunStatus::PlanRejected => exit::USAGE,
            RunStatus::Deadline => exit::LIMIT,
            RunStatus::NoModel => exit::MODEL,
            RunStatus::Interrupted => exit::INTERRUPTED,
            RunStatus::Terminated => exit::TERMINATED,
            RunStatus::Bug => exit::BUG,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The run's id.
    pub run: String,
    /// How it ended.
    pub status: RunStatus,
    /// What there is to read: the answer, the merged message, or what was saved of them.
    pub answer: String,
    /// What went wrong with the run as a whole, if anything: for people, without the nodes' own causes.
    pub problem: Option<String>,
    /// All model calls together.
    pub usage: Usage,
    /// What they have cost, as far as prices are known.
    pub cost: Bill,
    /// Reporters that could not report, and why.
    pub unreported: Vec<String>,
}

impl RunEnd {
    /// Puts it together.
    pub(super) fn of(runner: &PlanRunner, answer: Answer, gave_up: bool, cancel: &Cancel) -> Self {
        let totals = runner.kit.totals();
        let mut problems = Vec::new();
        let mut panicked = false;
        let (text, answered) = match answer {
            Answer::Words(words) | Answer::Merged(words) => (words, true),
            Answer::None { kind, detail, rest } => {
                panicked = kind == CauseKind::Panic;
                // A stop has its own status; the coordinator's cause would only repeat it.
                if panicked || !cancel.is_stopped() {
                    problems.push(match kind {
                        CauseKind::Blocked => detail,
                        _ => format!("the coordinator could not answer: {detail}"),
                    });
                }
                (rest, false)
            }
        };
        // What a script did not foresee says more than that no call of it succeeded.
        let complaints: Vec<String> = match cancel.is_stopped() {
            true => Vec::new(),
            false => runner.kit.models.all().flat_map(|model| model.complaints()).collect(),
        };
        let no_model = totals.failures > 0 && totals.replies == 0 && complaints.is_empty();
        // The coordinator may have failed of one of them, and has said so.
        let untold = |complaint: &String| !problems.iter().any(|problem| problem.contains(complaint.as_str()));
        let untold: Vec<String> = complaints.into_iter().filter(untold).collect();
        problems.extend(untold);
        // When several apply the first of these is told.
        let status = if panicked {
            RunStatus::Bug
        } else if let Some(signal) = signalled(cancel) {
            signal
        } else if gave_up {
            RunStatus::PlanRejected
        } else if no_model {
            if problems.is_empty() {
                problems.push("no model call succeeded".to_string());
            }
            RunStatus::NoModel
        } else if cancel.was_given(CancelReason::Deadline) {
            RunStatus::Deadline
        } else if cancel.was_given(CancelReason::Storage) {
            RunStatus::Storage
        } else if !answered || !problems.is_empty() {
            RunStatus::Failed
        } else if let Some(problem) = bad_sinks(&runner.latest().sinks) {
            problems.push(problem);
            RunStatus::Failed
        } else {
            RunStatus::Succeeded
        };
        RunEnd {
            run: runner.config.id.to_string(),
            status,
            answer: text,
            problem: (!problems.is_empty()).then(|| problems.join("\n")),
            usage: totals.usage,
            cost: totals.cost,
            unreported: Vec::new(),
        }
    }

    pub(super) fn answered(&self) -> EventKind {
        EventKind::Answered { text: self.answer.clone() }
    }

    pub(super) fn finished(&self) -> EventKind {
        EventKind::RunFinished {
            status: self.status.as_str().to_string(),
            exit_code: self.status.exit_code(),
            problem: self.problem.clone(),
            usage: self.usage,
            cost: self.cost,
        }
    }

    /// The text for people in the run directory.
    pub(super) fn report(&self) -> String {
        let problem = self.problem.as_ref().map(|problem| format!("> {}\n\n", problem.replace('\n', "\n> ")));
        format!("{}{}\n", problem.unwrap_or_default(), self.answer.trim_end())
    }

    /// With what came of the record and the reporters, which is known last.
    pub(super) fn recorded(mut self, stored: Result<(), StoreError>, unreported: Vec<std::io::Error>) -> Self {
        if let Err(error) = stored {
            if self.status == RunStatus::Succeeded {
                self.status = RunStatus::Storage;
            }
            let before = self.problem.map(|problem| problem + "\n").unwrap_or_default();
            self.problem = Some(format!("{before}{error}"));
        }
        self.unreported = unreported.iter().map(ToString::to_string).collect();
        self
    }
}

/// How the run ends because of a signal, if there was one. A second press does not say which kind it was.
fn signalled(cancel: &Cancel) -> Option<RunStatus> {
    if cancel.was_given(CancelReason::Terminate) {
        return Some(RunStatus::Terminated);
    }
    let pressed = cancel.was_given(CancelReason::Interrupt) || cancel.was_given(CancelReason::Second);
    // A stop without a reason comes from whoever embeds us.
    (pressed || (cancel.is_stopped() && cancel.reason().is_none())).then_some(RunStatus::Interrupted)
}

/// Which results of the last plan are not what was asked for, if any.
fn bad_sinks(sinks: &[Sink]) -> Option<String> {
    let bad: Vec<String> = sinks
        .iter()
        .filter(|sink| sink.outcome != Outcome::Succeeded)
        .map(|sink| format!("`{}` ({})", sink.name, sink.outcome.as_str().replace('_', " ")))
        .collect();
    let more = if bad.len() > 5 { format!(" and {} more", bad.len() - 5) } else { String::new() };
    let shown = bad.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    let what = text::plural(bad.len(), "result");
    (!bad.is_empty()).then(|| format!("{what} of the plan did not fully succeed: {shown}{more}"))
}
