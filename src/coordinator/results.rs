//! What the nodes of a plan came to so far, and what others may see of it.

use crate::agent::AttemptEnd;
use crate::plan::{self, Foreach, Graph, Job, NodeResult, NodeView, Plan, TemplateError, Values, Work};
use indexmap::IndexMap;
use serde_json::Value;
use tokio::time::Instant;

/// One plan's results, by node in declaration order.
pub struct Results<'a> {
    plan: &'a Plan,
    graph: &'a Graph,
    prefix: &'a str,
    inputs: IndexMap<String, Value>,
    slots: Vec<Slot>,
}

/// A node's results.
#[derive(Default)]
struct Slot {
    end: Option<AttemptEnd>,
    /// Items and results of a `foreach` node that was expanded.
    items: Vec<Value>,
    instances: Vec<Option<AttemptEnd>>,
    span: Option<(Instant, Instant)>,
}

impl<'a> Results<'a> {
    /// Nothing has ended yet.
    pub(super) fn new(plan: &'a Plan, graph: &'a Graph, prefix: &'a str, inputs: IndexMap<String, Value>) -> Self {
        let slots = plan.nodes.iter().map(|_| Slot::default()).collect();
        Results { plan, graph, prefix, inputs, slots }
    }

    /// The full name of a job: `r2.part[3]`.
    pub fn name(&self, job: Job) -> String {
        let id = &self.plan.nodes[job.node as usize].id;
        match job.instance {
            None => format!("{}{id}", self.prefix),
            Some(instance) => format!("{}{id}[{instance}]", self.prefix),
        }
    }

    /// A `foreach` node has these items, one instance each.
    pub(super) fn expand(&mut self, node: u32, items: Vec<Value>) {
        let slot = &mut self.slots[node as usize];
        slot.instances = items.iter().map(|_| None).collect();
        slot.items = items;
    }

    /// A job ran in this time and ended so.
    pub(super) fn finish(&mut self, job: Job, end: AttemptEnd, span: Option<(Instant, Instant)>) {
        let slot = &mut self.slots[job.node as usize];
        if let Some((from, to)) = span {
            let (first, last) = slot.span.unwrap_or((from, to));
            slot.span = Some((first.min(from), last.max(to)));
        }
        match job.instance {
            None => slot.end = Some(end),
            Some(instance) => slot.instances[instance as usize] = Some(end),
        }
    }

    /// How long a node took from its first start to its last end, in microseconds; 0 when it never started.
    pub fn duration_us(&self, node: usize) -> u64 {
        self.slots[node].span.map_or(0, |(from, to)| (to - from).as_micros() as u64)
    }

    /// A template of this job, filled.
    ///
    /// # Errors
    /// What is wrong with the template or its values.
    pub(super) fn render(&self, job: Job, work: &Work) -> Result<String, TemplateError> {
        if !work.text().contains('{') {
            return Ok(work.text().to_string());
        }
        let values = self.values(job, work.text());
        match work {
            Work::Prompt(text) => plan::render(text, &values),
            Work::Command(text) => plan::render_command(text, &values),
        }
    }

    /// The items of a `foreach` node.
    ///
    /// # Errors
    /// When there is no list of items, or it is too long.
    pub(super) fn items(&self, job: Job, foreach: &Foreach) -> Result<Vec<Value>, TemplateError> {
        let text = match foreach {
            Foreach::Items(_) => "",
            Foreach::Expression(expression) => expression,
        };
        plan::items(foreach, &self.values(job, text))
    }

    /// What the template of this job may name. Reports of other nodes only where the text speaks of them.
    fn values(&self, job: Job, text: &str) -> Values {
        let mut values = Values { inputs: self.inputs.clone(), ..Values::default() };
        if let Some(instance) = job.instance {
            let item = self.slots[job.node as usize].items.get(instance as usize).cloned().unwrap_or_default();
            values.item = Some((instance as usize, item));
        }
        if text.contains("nodes") {
            for node in self.graph.ancestors(job.node as usize) {
                values.nodes.insert(self.plan.nodes[node].id.clone(), self.view(node));
            }
        }
        values
    }

    fn view(&self, node: usize) -> NodeResult {
        let slot = &self.slots[node];
        if self.plan.nodes[node].foreach.is_some() {
            return NodeResult::Many(slot.instances.iter().flatten().map(view).collect());
        }
        match &slot.end {
            Some(end) => NodeResult::One(view(end)),
            None => NodeResult::Many(Vec::new()),
        }
    }

    /// Full names and ends of the nodes that this one needs, in plan order, instances in item order.
    pub fn needs(&self, node: u32) -> Vec<(String, &AttemptEnd)> {
        let mut needs: Vec<usize> = self.graph.dependencies(node as usize).collect();
        needs.sort_unstable();
        needs.into_iter().flat_map(|need| self.of(need)).collect()
    }

    /// All that can be told of a node: its instances when it has any, else itself.
    pub fn of(&self, node: usize) -> Vec<(String, &AttemptEnd)> {
        let slot = &self.slots[node];
        let job = |instance| Job { node: node as u32, instance };
        if slot.instances.is_empty() {
            return slot.end.iter().map(|end| (self.name(job(None)), end)).collect();
        }
        let instances = slot.instances.iter().enumerate();
        instances.filter_map(|(at, end)| Some((self.name(job(Some(at as u32))), end.as_ref()?))).collect()
    }

    /// How the node itself ended; for a `foreach` node, its instances together.
    pub fn end(&self, node: usize) -> Option<&AttemptEnd> {
        self.slots[node].end.as_ref()
    }
}

fn view(end: &AttemptEnd) -> NodeView {
    let report = end.report.as_ref();
    NodeView {
        outcome: end.outcome,
        summary: report.map(|report| report.summary.clone()).unwrap_or_default(),
        output: report.and_then(|report| report.output.clone()),
        findings: report
            .map(|report| report.findings.iter().filter_map(|finding| serde_json::to_value(finding).ok()).collect())
            .unwrap_or_default(),
    }
}
