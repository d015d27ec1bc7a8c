//! A run for programs: one object at the end, or the events as they come and that object last.

use super::Reporter;
use crate::event::Event;
use crate::model::{Bill, Cost, Usage};
use crate::plan::{Cause, Outcome};
use crate::store::{NodeSummary, Summary, push_line};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// Version of [`RunResult`].
const RESULT_VERSION: u32 = 1;

/// What `--output json` prints.
#[derive(Debug, Serialize)]
pub struct RunResult<'a> {
    version: u32,
    run: &'a str,
    /// `unfinished` when the run has no last event: it runs, or was killed.
    status: &'a str,
    exit_code: Option<u8>,
    /// What went wrong with the run as a whole, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    /// The coordinator's answer, or the merged message of a run without one.
    answer: Option<&'a str>,
    /// In plan order.
    nodes: Vec<NodeResult<'a>>,
    usage: Usage,
    #[serde(flatten)]
    cost: CostResult,
}

/// Left out where no price is known.
#[derive(Debug, Serialize)]
struct CostResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    /// Whether the price of some calls is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cost_at_least: bool,
}

impl From<Bill> for CostResult {
    fn from(bill: Bill) -> Self {
        CostResult { cost_usd: bill.known.map(Cost::usd), cost_at_least: bill.at_least && !bill.is_unknown() }
    }
}

#[derive(Debug, Serialize)]
struct NodeResult<'a> {
    id: &'a str,
    /// `null` for a node that has not ended.
    outcome: Option<Outcome>,
    cause: Option<&'a Cause>,
    cached: bool,
    attempts: u32,
    summary: Option<&'a str>,
    output: Option<&'a Value>,
    usage: Usage,
    #[serde(flatten)]
    cost: CostResult,
    duration_ms: Option<u64>,
}

impl<'a> From<&'a Summary> for RunResult<'a> {
    fn from(summary: &'a Summary) -> Self {
        RunResult {
            version: RESULT_VERSION,
            run: &summary.run,
            status: summary.ended.as_ref().map_or("unfinished", |(status, _)| status),
            exit_code: summary.ended.as_ref().map(|(_, code)| *code),
            problem: summary.problem.as_deref(),
            answer: summary.result_text(),
            nodes: summary.nodes().map(NodeResult::from).collect(),
            usage: summary.usage,
            cost: summary.cost.into(),
        }
    }
}

impl<'a> From<&'a NodeSummary> for NodeResult<'a> {
    fn from(node: &'a NodeSummary) -> Self {
        NodeResult {
            id: &node.id,
            outcome: node.outcome,
            cause: node.cause.as_ref(),
            cached: false,
            attempts: node.attempts,
            summary: node.summary.as_deref(),
            output: node.output.as_ref(),
            usage: node.usage,
            cost: node.cost.into(),
            duration_ms: node.duration_ms,
        }
    }
}

/// Prints one object when the run has ended.
pub struct Json<W> {
    out: W,
    summary: Summary,
}

impl<W: Write + Send + 'static> Json<W> {
    /// Prints to `out`, usually standard output.
    pub fn new(out: W) -> Self {
        Json { out, summary: Summary::default() }
    }
}

impl<W: Write + Send + 'static> Reporter for Json<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.summary.fold(event);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        print_line(&mut self.out, &RunResult::from(&self.summary))
    }
}

/// Prints each durable event as it is logged, then the object of [`Json`] with `type: "result"`.
pub struct JsonLines<W> {
    out: W,
    summary: Summary,
}

impl<W: Write + Send + 'static> JsonLines<W> {
    /// Prints to `out`, usually standard output.
    pub fn new(out: W) -> Self {
        JsonLines { out, summary: Summary::default() }
    }
}

impl<W: Write + Send + 'static> Reporter for JsonLines<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.summary.fold(event);
        if event.kind.is_durable() { print_line(&mut self.out, event) } else { Ok(()) }
    }

    fn end(&mut self) -> io::Result<()> {
        #[derive(Serialize)]
        struct Tagged<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            result: RunResult<'a>,
        }
        print_line(&mut self.out, &Tagged { r#type: "result", result: RunResult::from(&self.summary) })
    }
}

fn print_line(out: &mut impl Write, record: &impl Serialize) -> io::Result<()> {
    let mut line = Vec::new();
    push_line(&mut line, record)?;
    out.write_all(&line)?;
    out.flush()
}
