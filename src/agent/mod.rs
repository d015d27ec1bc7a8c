//! ONE CONVERSATION: a model, a history, a toolset, and a way to end.

mod attempt;
pub mod history;
pub mod report;
pub mod turn;

pub use attempt::{Attempt, AttemptEnd, CommandRun, Coverage, Facts, FileRead, Searched, Task};
pub use report::{Confidence, Evidence, Finding, QuoteCheck, Report, ReportStatus};
