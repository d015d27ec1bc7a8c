//! ONE CONVERSATION: a model, a history, a toolset, and a way to end.

mod attempt;
mod report;

pub use attempt::{Attempt, AttemptEnd, CommandRun, Coverage, Facts, FileRead, Searched, Task};
pub use report::{
    Confidence, Evidence, Finding, MAX_BODY, MAX_CLAIM, MAX_EVIDENCE, MAX_FINDINGS, MAX_NOTE, MAX_NOTES, MAX_OUTPUT,
    MAX_QUOTE, MAX_SUMMARY, QuoteCheck, Report, ReportStatus,
};
