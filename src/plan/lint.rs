//! The plan as a whole: ids, edges and cycles here, what templates speak of in `lint_names`.

use super::diag::Findings;
use super::graph::Graph;
use super::parse::Draft;
use super::suggest::nearest;
use crate::text::clip;
use std::collections::{HashMap, HashSet};

/// Nodes of a cycle that are spelled out; longer ones are a program's.
const MAX_NAMED: usize = 100;

/// What the checks look at.
pub(super) struct Lint<'a> {
    pub(super) draft: &'a Draft,
    /// The normalised text; empty for a value.
    pub(super) text: &'a str,
    pub(super) graph: Graph,
    /// The first node of each id.
    pub(super) positions: HashMap<&'a str, usize>,
}

/// Finds everything that is wrong between the parts of a plan.
pub(super) fn lint(draft: &Draft, text: &str, findings: &mut Findings) {
    let mut positions = HashMap::with_capacity(draft.plan.nodes.len());
    for (index, node) in draft.plan.nodes.iter().enumerate() {
        positions.entry(node.id.as_str()).or_insert(index);
    }
    let lint = Lint { draft, text, graph: Graph::new(&draft.plan), positions };
    lint.ids(findings);
    lint.needs(findings);
    lint.cycles(findings);
    lint.names(findings);
}

impl<'a> Lint<'a> {
    pub(super) fn ids_of(&self) -> impl Iterator<Item = &'a str> {
        self.draft.plan.nodes.iter().map(|node| node.id.as_str()).filter(|id| !id.is_empty())
    }

    fn ids(&self, findings: &mut Findings) {
        for (index, node) in self.draft.plan.nodes.iter().enumerate() {
            let first = self.positions.get(node.id.as_str()).copied().unwrap_or(index);
            if first != index && !node.id.is_empty() {
                findings
                    .error(
                        "duplicate-id",
                        &self.draft.nodes[index].id,
                        format!("two nodes are called `{}`", shown(&node.id)),
                    )
                    .related(&self.draft.nodes[first].id, "the first of them")
                    .hint("ids are unique in a plan; rename one, and the `needs` that mean it");
            }
            // Capitals are refused by themselves; here because two such ids would be one file on some systems.
            if let Some(&other) = self.positions.get(node.id.to_lowercase().as_str())
                && self.draft.plan.nodes[other].id != node.id
            {
                let other_id = &self.draft.plan.nodes[other].id;
                let message = format!("`{}` and `{}` differ only in case", shown(&node.id), shown(other_id));
                findings
                    .error("duplicate-id", &self.draft.nodes[index].id, message)
                    .related(&self.draft.nodes[other].id, "the other");
            }
        }
    }

    fn needs(&self, findings: &mut Findings) {
        for (node, spots) in self.draft.plan.nodes.iter().zip(&self.draft.nodes) {
            for (need, spot) in node.needs.iter().zip(&spots.needs) {
                if *need == node.id {
                    findings
                        .error("self-need", spot, format!("node `{}` needs itself", shown(need)))
                        .hint("remove it from `needs`");
                } else if !self.positions.contains_key(need.as_str()) {
                    let message = format!("node `{}` needs `{}`, which is no node", shown(&node.id), shown(need));
                    let hint = self.meant(need, &node.id, findings);
                    findings.error("dangling-need", spot, message).hint(hint);
                }
            }
        }
    }

    /// A hint for a reference to a node that is not there.
    pub(super) fn meant(&self, wanted: &str, own: &str, findings: &Findings) -> String {
        let others = self.ids_of().filter(|id| *id != own);
        let near = if findings.crowded() { None } else { nearest(wanted, others) };
        match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add a node with the id `{}`, or remove it here", shown(wanted)),
        }
    }

    fn cycles(&self, findings: &mut Findings) {
        for cycle in self.graph.cycles() {
            let ids: Vec<&str> = cycle.iter().map(|&node| self.draft.plan.nodes[node].id.as_str()).collect();
            let chain = match ids.get(..MAX_NAMED) {
                Some(head) if ids.len() > MAX_NAMED => {
                    format!("{} -> … {} more … -> {}", head.join(" -> "), ids.len() - MAX_NAMED, ids[0])
                }
                _ => format!("{} -> {}", ids.join(" -> "), ids[0]),
            };
            let (Some(&first), Some(&last)) = (cycle.first(), cycle.last()) else { continue };
            let spot = self.need_spot(first, last);
            let finding = findings.error("cycle", &spot, format!("nodes wait for each other in a circle: `{chain}`"));
            for pair in cycle.windows(2).take(5) {
                finding.related(
                    &self.need_spot(pair[1], pair[0]),
                    format!("`{}` waits for `{}`", ids_at(self, pair[1]), ids_at(self, pair[0])),
                );
            }
            finding.hint("remove one of these `needs`");
        }
    }

    /// Where `node` says that it needs `dependency`.
    fn need_spot(&self, node: usize, dependency: usize) -> super::source::Spot {
        let spots = &self.draft.nodes[node];
        let wanted = ids_at(self, dependency);
        let at = self.draft.plan.nodes[node].needs.iter().position(|need| need == wanted);
        at.and_then(|at| spots.needs.get(at)).unwrap_or(&spots.node).clone()
    }

    /// Which of the wanted (node, ancestor) pairs hold. One walk per ancestor that is not a direct need, and that
    /// walk ends when it has met all nodes that ask.
    pub(super) fn ancestries(&self, wanted: &[(usize, usize)]) -> HashSet<(usize, usize)> {
        let mut held = HashSet::new();
        let mut open: HashMap<usize, std::collections::BTreeSet<usize>> = HashMap::new();
        for &(node, ancestor) in wanted {
            let id = ids_at(self, ancestor);
            if self.draft.plan.nodes[node].needs.iter().any(|need| need == id) {
                held.insert((node, ancestor));
            } else {
                open.entry(ancestor).or_default().insert(node);
            }
        }
        for (ancestor, nodes) in open {
            held.extend(self.graph.descendants_among(ancestor, &nodes).into_iter().map(|node| (node, ancestor)));
        }
        held
    }
}

fn ids_at<'a>(lint: &Lint<'a>, node: usize) -> &'a str {
    &lint.draft.plan.nodes[node].id
}

/// An id as a message shows it.
pub(super) fn shown(id: &str) -> String {
    clip(&id.replace('\n', " "), 60).into_owned()
}
