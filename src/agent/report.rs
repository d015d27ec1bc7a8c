//! What a subagent hands back: the `report` tool's arguments, their limits and their text form.
//!
//! Limits are checked, never applied silently: a report over a limit goes back to the model with the limit's name.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Characters of `summary`.
pub const MAX_SUMMARY: usize = 1_500;
/// Number of `findings`.
pub const MAX_FINDINGS: usize = 40;
/// Characters of a finding's `claim`.
pub const MAX_CLAIM: usize = 400;
/// Pieces of `evidence` per finding.
pub const MAX_EVIDENCE: usize = 5;
/// Characters of a `quote`.
pub const MAX_QUOTE: usize = 200;
/// Number of `decisions`, and of `open_questions`.
pub const MAX_NOTES: usize = 20;
/// Characters of each of these.
pub const MAX_NOTE: usize = 300;
/// Bytes of `output` as JSON.
pub const MAX_OUTPUT: usize = 32 * 1024;
/// Characters of `body`.
pub const MAX_BODY: usize = 200_000;

/// What a subagent says it did and found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// How far it got.
    pub status: ReportStatus,
    /// The answer in short, at most [`MAX_SUMMARY`] characters.
    pub summary: String,
    /// Claims with evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Choices made that others should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
    /// What stays open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_questions: Vec<String>,
    /// Ids of the nodes whose reports it used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_inputs: Vec<String>,
    /// The structured result that the node's `output` schema asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Markdown of any length up to [`MAX_BODY`] characters: kept as an artifact, never merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// How far the subagent got, in its own judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// All of it.
    Done,
    /// Some of it.
    Partial,
    /// It cannot go on without help.
    Blocked,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What is so, at most [`MAX_CLAIM`] characters.
    pub claim: String,
    /// Where that can be seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// How sure the subagent is.
    #[serde(default)]
    pub confidence: Confidence,
}

/// A place that supports a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Relative to the workspace.
    pub path: String,
    /// 1-based.
    pub line: u64,
    /// Text that stands there, at most [`MAX_QUOTE`] characters; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub quote: String,
    /// What the runtime found when it looked the quote up. Logs hold it, so it is read; what a model writes here is
    /// overwritten by the look-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<QuoteCheck>,
}

/// What the runtime found at a piece of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuoteCheck {
    /// The quote stands within 3 lines of the place.
    Verified,
    /// It stands elsewhere in the file; `line` was corrected.
    Moved,
    /// It does not stand in the file, the file cannot be read, or no quote was given.
    Unverified,
}

/// How sure a claim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Seen in the evidence itself.
    High,
    /// Follows from it.
    #[default]
    Medium,
    /// A guess worth checking.
    Low,
}
