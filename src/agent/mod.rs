//! ONE CONVERSATION: a model, a history, a toolset, and a way to end.
//!
//! `turn` is the pure machine that decides what comes next (`progress` tells it when a conversation goes in circles),
//! `history` keeps its messages valid, `driver` does what the
//! machine says (`calls` are the tools that run meanwhile), `subagent` turns an attempt into a conversation (or a shell) and back into a value. What it is told is
//! in `role` and `prompt`; what it hands back in `report`, looked up by `quotes`, written out by `render`.

mod attempt;
mod calls;
pub(crate) mod driver;
pub mod history;
mod progress;
pub(crate) mod prompt;
mod quotes;
pub mod render;
pub mod report;
mod role;
pub(crate) mod subagent;
pub mod turn;

pub use attempt::{Attempt, AttemptEnd, CommandRun, Facts, Task};
pub use report::{Confidence, Evidence, Finding, QuoteCheck, Report, ReportStatus};
pub use role::Role;
