//! The plan as a graph: who waits for whom, what comes first, what takes longest.
//!
//! Nodes are positions in [`Plan::nodes`]. An edge goes from a dependency to the node that needs it, the way work
//! flows. Nothing here recurses, so a chain of 100,000 nodes is as safe as a wide plan. Lint builds graphs of broken
//! plans too: needs that name no node and needs of oneself are left out, of two nodes with one id the first counts,
//! and every function copes with cycles.

use super::Plan;
use petgraph::Direction;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};

/// Cycles that [`Graph::cycles`] lists at most; a tangle has exponentially many.
const MAX_CYCLES: usize = 20;

/// The edges of a plan.
#[derive(Clone, Debug)]
pub struct Graph {
    graph: DiGraph<(), ()>,
}

impl Graph {
    /// The graph of a plan.
    pub fn new(plan: &Plan) -> Self {
        let mut positions = HashMap::with_capacity(plan.nodes.len());
        for (index, node) in plan.nodes.iter().enumerate() {
            positions.entry(node.id.as_str()).or_insert(index);
        }
        let edges: usize = plan.nodes.iter().map(|node| node.needs.len()).sum();
        let mut graph = DiGraph::with_capacity(plan.nodes.len(), edges);
        for _ in &plan.nodes {
            graph.add_node(());
        }
        // petgraph walks the newest edge first: added backwards, both directions come out in plan order.
        for (index, node) in plan.nodes.iter().enumerate().rev() {
            for need in node.needs.iter().rev() {
                if let Some(&dependency) = positions.get(need.as_str())
                    && dependency != index
                {
                    graph.add_edge(NodeIndex::new(dependency), NodeIndex::new(index), ());
                }
            }
        }
        Graph { graph }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// Whether there is no node at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What this node waits for, in the order of its `needs`.
    pub fn dependencies(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.graph.neighbors_directed(NodeIndex::new(node), Direction::Incoming).map(NodeIndex::index)
    }

    /// What waits for this node, in plan order.
    pub fn dependents(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.graph.neighbors_directed(NodeIndex::new(node), Direction::Outgoing).map(NodeIndex::index)
    }

    /// Everything that this node waits for, directly or not, in plan order.
    pub fn ancestors(&self, node: usize) -> Vec<usize> {
        let mut seen: HashSet<usize> = HashSet::new();
        let mut open: Vec<usize> = self.dependencies(node).collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(self.dependencies(next));
            }
        }
        let mut ancestors: Vec<usize> = seen.into_iter().collect();
        ancestors.sort_unstable();
        ancestors
    }

    /// Those of `candidates` that wait for `node`, directly or not. Looks no further than it has to.
    pub(super) fn descendants_among(&self, node: usize, candidates: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut seen: HashSet<usize> = HashSet::new();
        let mut open: VecDeque<usize> = self.dependents(node).collect();
        while let Some(next) = open.pop_front() {
            if !seen.insert(next) {
                continue;
            }
            if candidates.contains(&next) {
                found.insert(next);
                if found.len() == candidates.len() {
                    break;
                }
            }
            open.extend(self.dependents(next));
        }
        found
    }

    /// Every node after all that it waits for; among those that may come next, the first declared.
    ///
    /// Nodes on a cycle, and those that wait for one, are missing.
    pub fn topological(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> = (0..self.len()).map(|node| self.dependencies(node).count()).collect();
        let mut free: BinaryHeap<Reverse<usize>> =
            waiting.iter().enumerate().filter(|(_, count)| **count == 0).map(|(node, _)| Reverse(node)).collect();
        let mut order = Vec::with_capacity(self.len());
        while let Some(Reverse(node)) = free.pop() {
            order.push(node);
            for dependent in self.dependents(node) {
                waiting[dependent] -= 1;
                if waiting[dependent] == 0 {
                    free.push(Reverse(dependent));
                }
            }
        }
        order
    }

    /// For every node, the number of nodes on the longest way to it, itself included: the earliest step at which it
    /// may start, from 1. Nodes that [`Graph::topological`] leaves out have 0.
    pub fn steps(&self) -> Vec<u32> {
        let mut steps: Vec<u32> = vec![0; self.len()];
        for node in self.topological() {
            steps[node] = 1 + self.dependencies(node).map(|dependency| steps[dependency]).max().unwrap_or(0);
        }
        steps
    }

    /// For every node, the number of nodes on the longest way from it to a sink, itself included: what may start
    /// first should be what has most still to come.
    pub fn hops_to_sink(&self) -> Vec<u32> {
        let ways = self.ways_to_sink(|_| 1);
        ways.into_iter().map(|way| u32::try_from(way).unwrap_or(u32::MAX)).collect()
    }

    /// The longest chain of nodes; of several, the one declared first.
    pub fn critical_path(&self) -> Vec<usize> {
        self.longest(|_| 1).0
    }

    /// The chain whose weights add up to most, with their sum; of several, the one declared first. Weights that are
    /// missing count as 0; sums saturate.
    pub fn longest_path(&self, weights: &[u64]) -> (Vec<usize>, u64) {
        self.longest(|node| weights.get(node).copied().unwrap_or(0))
    }

    fn ways_to_sink(&self, weight: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut ways = vec![0; self.len()];
        for node in self.topological().into_iter().rev() {
            let onward = self.dependents(node).map(|dependent| ways[dependent]).max().unwrap_or(0);
            ways[node] = weight(node).saturating_add(onward);
        }
        ways
    }

    fn longest(&self, weight: impl Fn(usize) -> u64) -> (Vec<usize>, u64) {
        let ways = self.ways_to_sink(weight);
        let order = self.topological();
        // `max_by_key` keeps the last of equals: going backwards, that is the first declared.
        let sources = order.iter().copied().filter(|&node| self.dependencies(node).next().is_none());
        let Some(start) = sources.max_by_key(|&node| (ways[node], Reverse(node))) else { return (Vec::new(), 0) };
        let mut path = vec![start];
        let mut node = start;
        while let Some(next) = self.dependents(node).max_by_key(|&dependent| (ways[dependent], Reverse(dependent))) {
            path.push(next);
            node = next;
        }
        (path, ways[start])
    }

    /// Circles of nodes that wait for each other, each named whole in the order of work, its first declared node
    /// first, and none twice. Every edge that lies on a cycle is on a listed one, up to 20 cycles.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut tangles: Vec<Vec<usize>> = kosaraju_scc(&self.graph)
            .into_iter()
            .filter(|component| component.len() > 1)
            .map(|component| {
                let mut nodes: Vec<usize> = component.into_iter().map(NodeIndex::index).collect();
                nodes.sort_unstable();
                nodes
            })
            .collect();
        tangles.sort_unstable();
        let mut cycles = Vec::new();
        for tangle in tangles {
            self.cycles_within(&tangle, &mut cycles);
        }
        cycles
    }

    fn cycles_within(&self, tangle: &[usize], cycles: &mut Vec<Vec<usize>>) {
        let inside: HashSet<usize> = tangle.iter().copied().collect();
        let mut covered: HashSet<(usize, usize)> = HashSet::new();
        for &from in tangle {
            for to in self.dependents(from).filter(|to| inside.contains(to)) {
                if cycles.len() == MAX_CYCLES {
                    return;
                }
                if covered.contains(&(from, to)) {
                    continue;
                }
                let mut cycle = self.shortest_way(to, from, &inside);
                for (at, &node) in cycle.iter().enumerate() {
                    covered.insert((node, cycle[(at + 1) % cycle.len()]));
                }
                let first = cycle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
                cycle.rotate_left(first);
                cycles.push(cycle);
            }
        }
    }

    /// The nodes of a shortest way, both ends included; it exists within a strongly connected component.
    fn shortest_way(&self, from: usize, to: usize, inside: &HashSet<usize>) -> Vec<usize> {
        let mut came_from: HashMap<usize, usize> = HashMap::from([(from, from)]);
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            if node == to {
                break;
            }
            for next in self.dependents(node).filter(|next| inside.contains(next)) {
                came_from.entry(next).or_insert_with(|| {
                    open.push_back(next);
                    node
                });
            }
        }
        let mut way = vec![to];
        let mut node = to;
        while node != from {
            let Some(&before) = came_from.get(&node) else { break };
            way.push(before);
            node = before;
        }
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Node, Work};
    use super::*;
    use indexmap::IndexMap;

    fn node(id: String, needs: Vec<String>) -> Node {
        Node { needs, ..Node::new(id, Work::Prompt("go".into())) }
    }

    fn plan(nodes: Vec<Node>) -> Plan {
        Plan { version: 1, name: "t".into(), description: String::new(), inputs: IndexMap::new(), nodes }
    }

    /// `a<-b,c` means that `a` needs `b` and `c`.
    fn graph(text: &str) -> Graph {
        let nodes = text.split_whitespace().map(|part| {
            let (id, needs) = part.split_once("<-").unwrap_or((part, ""));
            let needs = needs.split(',').filter(|need| !need.is_empty()).map(str::to_owned).collect();
            node(id.to_owned(), needs)
        });
        Graph::new(&plan(nodes.collect()))
    }

    #[test]
    fn edges_come_in_plan_order_both_ways() {
        let graph = graph("a b d<-b,a c<-a");
        assert_eq!(graph.dependencies(2).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(graph.dependents(0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(graph.ancestors(2), [0, 1]);
        assert_eq!(graph.topological(), [0, 1, 2, 3]);
    }

    #[test]
    fn the_critical_path_is_the_longest_chain_and_ties_go_to_the_first_declared() {
        let diamond = graph("a left<-a right<-a end<-left,right");
        assert_eq!(diamond.critical_path(), [0, 1, 3]);
        assert_eq!(diamond.hops_to_sink(), [3, 2, 2, 1]);
        assert_eq!(diamond.steps(), [1, 2, 2, 3]);
        assert_eq!(diamond.longest_path(&[1, 1, 9, 1]), (vec![0, 2, 3], 11));
        assert_eq!(graph("b a").critical_path(), [0]);
        assert_eq!(graph("").critical_path(), Vec::<usize>::new());
    }

    #[test]
    fn each_cycle_is_named_whole_and_once() {
        assert_eq!(graph("a<-c b<-a c<-b d").cycles(), [[0, 1, 2]]);
        assert_eq!(graph("c<-b b<-a a<-c").cycles(), [[0, 2, 1]]);
        // Two circles that share a node, and one apart.
        assert_eq!(graph("a<-b,c b<-a c<-a x<-y y<-x").cycles(), [[0, 1], [0, 2], [3, 4]]);
        assert!(graph("a b<-a").cycles().is_empty());
        assert!(graph("a<-a b<-zzz").cycles().is_empty(), "self and dangling needs are reported apart");
    }

    #[test]
    fn a_cycle_leaves_the_other_functions_standing() {
        let graph = graph("a<-b b<-a c<-b d");
        assert_eq!(graph.topological(), [3]);
        assert_eq!(graph.ancestors(0), [0, 1]);
        assert_eq!(graph.critical_path(), [3]);
        assert_eq!(graph.hops_to_sink().len(), 4);
    }

    #[test]
    fn long_and_wide_plans_take_linear_time_and_no_stack() {
        const N: usize = 100_000;
        let chain =
            (0..N).map(|i| node(format!("n{i}"), i.checked_sub(1).map(|p| format!("n{p}")).into_iter().collect()));
        let ring = (0..N / 4).map(|i| node(format!("n{i}"), vec![format!("n{}", (i + N / 4 - 1) % (N / 4))]));
        let mut wide: Vec<Node> = (0..N).map(|i| node(format!("n{i}"), vec![])).collect();
        wide.push(node("end".into(), (0..N).map(|i| format!("n{i}")).collect()));

        let chain = Graph::new(&plan(chain.collect()));
        assert_eq!(chain.critical_path().len(), N);
        assert_eq!(chain.ancestors(N - 1).len(), N - 1);
        assert_eq!(chain.hops_to_sink()[0] as usize, N);
        let wide = Graph::new(&plan(wide));
        assert_eq!(wide.critical_path(), [0, N]);
        assert_eq!(wide.topological().len(), N + 1);
        assert_eq!(Graph::new(&plan(ring.collect())).cycles()[0].len(), N / 4);
    }
}
