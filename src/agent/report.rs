//! What a subagent hands back: the `report` tool's arguments, their limits and their text form.
//!
//! Limits are checked, never applied silently: a report over a limit goes back to the model with the limit's name.

use super::turn::arguments;
use crate::model::ToolSpec;
use crate::text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The tool that ends a subagent.
pub const REPORT: &str = "report";

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
    /// What the runtime found when it looked the quote up; [`ReportRules::check`] refuses it from a model.
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

const EXAMPLE: &str = r#"{"status": "done", "summary": "…", "findings": [{"claim": "…", "evidence": [{"path": "src/lib.rs", "line": 1, "quote": "…"}], "confidence": "high"}]}"#;
const SHORT_EXAMPLE: &str = r#"{"status": "done", "summary": "…"}"#;

/// What a node's report must fulfil: the limits above and, where the node has one, its `output` schema.
#[derive(Debug)]
pub struct ReportRules {
    output: Option<(Value, jsonschema::Validator)>,
    compact: bool,
}

/// Why a report was not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportProblem {
    /// Everything that is wrong, for the model.
    pub message: String,
    /// The report without its output, if only `output` is wrong.
    pub without_output: Option<Box<Report>>,
}

impl ReportRules {
    /// The rules of a node with this `output` schema.
    ///
    /// # Errors
    /// When the schema is not a valid JSON Schema; plans are checked for that before they run.
    pub fn new(output: Option<&Value>) -> Result<Self, String> {
        let output = match output {
            None => None,
            Some(schema) => {
                let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
                Some((schema.clone(), validator))
            }
        };
        Ok(ReportRules { output, compact: false })
    }

    /// The same for a small model: it is offered only what every report must have. What else it sends is taken.
    #[must_use]
    pub fn compact(self) -> Self {
        ReportRules { compact: true, ..self }
    }

    /// Whether the node asks for an output.
    pub fn wants_output(&self) -> bool {
        self.output.is_some()
    }

    /// The `report` tool as the model sees it.
    pub fn spec(&self) -> ToolSpec {
        if self.compact {
            return self.compact_spec();
        }
        let notes = json!({
            "type": "array", "maxItems": MAX_NOTES, "items": { "type": "string", "maxLength": MAX_NOTE }
        });
        let mut properties = json!({
            "status": {
                "type": "string", "enum": ["done", "partial", "blocked"],
                "description": "done: all that was asked. partial: some of it; say in open_questions what is missing. blocked: you cannot go on without a decision or access that you do not have."
            },
            "summary": {
                "type": "string", "maxLength": MAX_SUMMARY,
                "description": "The result in short, understandable alone: its reader has not seen your conversation."
            },
            "findings": {
                "type": "array", "maxItems": MAX_FINDINGS,
                "description": "What you found, the most important first.",
                "items": {
                    "type": "object", "additionalProperties": false, "required": ["claim"],
                    "properties": {
                        "claim": {
                            "type": "string", "maxLength": MAX_CLAIM,
                            "description": "one statement that its evidence shows"
                        },
                        "confidence": {
                            "type": "string", "enum": ["high", "medium", "low"],
                            "description": "high: seen in the evidence itself; medium (default): follows from it; low: worth checking"
                        },
                        "evidence": {
                            "type": "array", "maxItems": MAX_EVIDENCE,
                            "items": {
                                "type": "object", "additionalProperties": false, "required": ["path", "line"],
                                "properties": {
                                    "path": { "type": "string", "description": "relative to the workspace" },
                                    "line": { "type": "integer", "minimum": 1 },
                                    "quote": {
                                        "type": "string", "maxLength": MAX_QUOTE,
                                        "description": "text exactly as it stands at that line, without the line number; it is checked against the file"
                                    }
                                }
                            }
                        }
                    }
                }
            },
            "decisions": { "description": "Choices you made that others should know; a sentence each." },
            "open_questions": { "description": "What stays open; a sentence each." },
            "used_inputs": {
                "type": "array", "items": { "type": "string" },
                "description": "Ids of the nodes whose reports you used."
            },
            "body": {
                "type": "string", "maxLength": MAX_BODY,
                "description": "Optional long text (Markdown), kept as a file that others can read. The merged result never holds it, so nothing that matters may stand only here."
            }
        });
        for name in ["decisions", "open_questions"] {
            if let (Some(target), Some(rules)) = (properties[name].as_object_mut(), notes.as_object()) {
                target.extend(rules.clone());
            }
        }
        let mut required = vec!["status", "summary"];
        if let Some((schema, _)) = &self.output {
            properties["output"] = schema.clone();
            required.push("output");
        }
        ToolSpec {
            name: REPORT.to_string(),
            description: "Hands in your result and ends your work. Call it exactly once, alone, when you are done or cannot go on. Limits are checked: a report that breaks one is returned to you.".to_string(),
            schema: json!({
                "type": "object", "additionalProperties": false, "required": required, "properties": properties
            }),
        }
    }

    fn compact_spec(&self) -> ToolSpec {
        let mut properties = json!({
            "status": { "type": "string", "enum": ["done", "partial", "blocked"] },
            "summary": { "type": "string", "maxLength": MAX_SUMMARY, "description": "Your result." }
        });
        let mut required = vec!["status", "summary"];
        if let Some((schema, _)) = &self.output {
            properties["output"] = schema.clone();
            required.push("output");
        }
        ToolSpec {
            name: REPORT.to_string(),
            description: "Hands in your result and ends your work.".to_string(),
            schema: json!({
                "type": "object", "additionalProperties": false, "required": required, "properties": properties
            }),
        }
    }

    /// Takes the arguments of a `report` call.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once.
    pub fn check(&self, args: &Value) -> Result<Report, ReportProblem> {
        let read = match arguments::unusable(args) {
            Some(problem) => Err(problem),
            None => Report::deserialize(args).map_err(|error| error.to_string()),
        };
        let mut report = read.map_err(|problem| {
            let example = if self.compact { SHORT_EXAMPLE } else { EXAMPLE };
            let message = format!("the report was not taken: {problem}. Example: {example}");
            ReportProblem { message, without_output: None }
        })?;
        let mut problems = over_limits(&report);
        problems.extend(misplaced(&report));
        let output_problem = self.output_problem(&report);
        if problems.is_empty() && output_problem.is_none() {
            return Ok(report);
        }
        let only_output = problems.is_empty();
        let all: Vec<String> = problems.into_iter().chain(output_problem).collect();
        let message = format!("the report was not taken: {}. Call `report` again with this mended.", all.join("; "));
        report.output = None;
        Err(ReportProblem { message, without_output: only_output.then(|| Box::new(report)) })
    }

    fn output_problem(&self, report: &Report) -> Option<String> {
        match (&self.output, &report.output) {
            (Some(_), Some(output)) if output.to_string().len() > MAX_OUTPUT => {
                let bytes = output.to_string().len();
                Some(format!("`output` has {bytes} bytes of JSON, at most {MAX_OUTPUT} are allowed"))
            }
            (Some((_, validator)), Some(output)) => crate::tool::complaints(validator, output)
                .map(|complaint| format!("`output` does not fit its schema: {complaint}")),
            // Whoever could not finish need not make an output up.
            (Some(_), None) if report.status == ReportStatus::Done => {
                Some("`output` is missing; this task demands one that fits its schema".to_string())
            }
            (Some(_) | None, None) => None,
            (None, Some(_)) => Some("`output` is not asked for here; use `summary`, `findings` or `body`".to_string()),
        }
    }
}

/// Which limits a report breaks, each with its number.
fn over_limits(report: &Report) -> Vec<String> {
    let mut problems = Vec::new();
    let mut chars = |what: String, text: &str, max: usize| {
        let count = text.chars().count();
        if count > max {
            problems.push(format!("`{what}` has {count} characters, at most {max} are allowed"));
        }
    };
    chars("summary".to_string(), &report.summary, MAX_SUMMARY);
    for (at, finding) in report.findings.iter().enumerate() {
        chars(format!("findings[{at}].claim"), &finding.claim, MAX_CLAIM);
        for (piece, evidence) in finding.evidence.iter().enumerate() {
            chars(format!("findings[{at}].evidence[{piece}].quote"), &evidence.quote, MAX_QUOTE);
        }
    }
    for (name, notes) in [("decisions", &report.decisions), ("open_questions", &report.open_questions)] {
        for (at, note) in notes.iter().enumerate() {
            chars(format!("{name}[{at}]"), note, MAX_NOTE);
        }
    }
    chars("body".to_string(), report.body.as_deref().unwrap_or_default(), MAX_BODY);
    let mut count = |what: String, count: usize, max: usize| {
        if count > max {
            problems.push(format!("`{what}` has {count} entries, at most {max} are allowed"));
        }
    };
    count("findings".to_string(), report.findings.len(), MAX_FINDINGS);
    for (at, finding) in report.findings.iter().enumerate() {
        count(format!("findings[{at}].evidence"), finding.evidence.len(), MAX_EVIDENCE);
    }
    count("decisions".to_string(), report.decisions.len(), MAX_NOTES);
    count("open_questions".to_string(), report.open_questions.len(), MAX_NOTES);
    if report.summary.trim().is_empty() {
        problems.push("`summary` is empty".to_string());
    }
    problems
}

/// Evidence that points nowhere, or claims to have been checked already.
fn misplaced(report: &Report) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, finding) in report.findings.iter().enumerate() {
        for (piece, evidence) in finding.evidence.iter().enumerate() {
            if evidence.line == 0 {
                problems.push(format!("`findings[{at}].evidence[{piece}].line` is 0, lines count from 1"));
            }
            if evidence.check.is_some() {
                problems.push(format!("`findings[{at}].evidence[{piece}].check` is not yours to set, leave it out"));
            }
        }
    }
    problems
}

/// What is left of a conversation that ended without a report: its last words. Everything is kept: what does not fit
/// the summary is in `body`. `None` when there are no words.
pub fn salvage(words: &str) -> Option<Report> {
    let words = words.trim();
    if words.is_empty() {
        return None;
    }
    let long = words.chars().count() > MAX_SUMMARY;
    let summary = if long { text::clip(words, MAX_SUMMARY - 60).into_owned() } else { words.to_string() };
    Some(Report {
        status: ReportStatus::Partial,
        summary,
        findings: Vec::new(),
        decisions: Vec::new(),
        open_questions: Vec::new(),
        used_inputs: Vec::new(),
        output: None,
        body: long.then(|| words.to_string()),
    })
}
