//! A plan drawn: as a tree for a terminal, as Mermaid or DOT for a page, as JSON for a program.
//!
//! A plan is no tree, so each node stands once, after everything it needs, with the earliest step at which it can run. The critical path is marked by words and
//! line weight, never by colour alone. Names are escaped for each format.

use super::{Foreach, Graph, Input, Node, OnFailure, Plan, Work};
use crate::text::{one_line, plural};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Columns of a text taken from the plan.
const TEXT_WIDTH: usize = 72;
/// Nodes of a path that are spelled out in one line.
const PATH_SHOWN: usize = 12;

/// The plan for reading on a terminal.
pub fn tree(plan: &Plan) -> String {
    let graph = Graph::new(plan);
    let path = graph.critical_path();
    let mut out = String::new();
    out.push_str(&plan.name);
    if !plan.description.is_empty() {
        let _ = write!(out, ": {}", one_line(&plan.description, TEXT_WIDTH));
    }
    out.push('\n');
    if !plan.inputs.is_empty() {
        out.push_str("\ninputs\n");
        let width = plan.inputs.keys().map(String::len).max().unwrap_or(0);
        for (at, (name, input)) in plan.inputs.iter().enumerate() {
            let branch = if at + 1 == plan.inputs.len() { "└─" } else { "├─" };
            let _ = writeln!(out, "{branch} {name:width$}  {}", input_text(input));
        }
    }
    tree_nodes(plan, &graph, &path, &mut out);
    if !path.is_empty() {
        out.push_str("\n1, 2, … is the earliest step: nodes with the same number can run at once\n");
        let _ = writeln!(out, "* critical path: {} ({})", path_text(plan, &path), plural(path.len(), "node"));
    }
    out
}

fn tree_nodes(plan: &Plan, graph: &Graph, path: &[usize], out: &mut String) {
    let critical: HashSet<usize> = path.iter().copied().collect();
    let steps = graph.steps();
    let last_step = steps.iter().copied().max().unwrap_or(0);
    let _ = writeln!(out, "\n{} in {}", plural(plan.nodes.len(), "node"), plural(last_step as usize, "step"));
    let digits = last_step.to_string().len();
    let width = plan.nodes.iter().map(|node| node.id.len()).max().unwrap_or(0).min(32);
    let mut order: Vec<usize> = (0..plan.nodes.len()).collect();
    order.sort_by_key(|&node| steps[node]);
    for (at, &index) in order.iter().enumerate() {
        let last = at + 1 == order.len();
        let node = &plan.nodes[index];
        let mark = if critical.contains(&index) { '*' } else { ' ' };
        let (branch, trunk) = if last { ("└─", "  ") } else { ("├─", "│ ") };
        for (at, line) in node_lines(node).iter().enumerate() {
            let _ = if at == 0 {
                writeln!(out, "{branch} {:digits$} {mark} {:width$}  {line}", steps[index], node.id)
            } else {
                writeln!(out, "{trunk} {:digits$}   {:width$}  {line}", "", "")
            };
        }
    }
}

/// `a -> b -> c`; a long path in part.
pub fn path_text(plan: &Plan, path: &[usize]) -> String {
    let id = |index: &usize| plan.nodes.get(*index).map_or("", |node| node.id.as_str());
    if path.len() <= PATH_SHOWN {
        return path.iter().map(id).collect::<Vec<_>>().join(" -> ");
    }
    let (head, tail) = (&path[..PATH_SHOWN / 2], &path[path.len() - PATH_SHOWN / 2..]);
    let omitted = path.len() - head.len() - tail.len();
    let join = |part: &[usize]| part.iter().map(id).collect::<Vec<_>>().join(" -> ");
    format!("{} -> … {omitted} more … -> {}", join(head), join(tail))
}

fn input_text(input: &Input) -> String {
    let state = match &input.default {
        None => "required".to_owned(),
        Some(default) => format!("default {}", one_line(&default.to_string(), 40)),
    };
    if input.description.is_empty() { state } else { format!("{} ({state})", one_line(&input.description, TEXT_WIDTH)) }
}

/// What there is to say about a node, the most telling first.
fn node_lines(node: &Node) -> Vec<String> {
    let mut lines = vec![match &node.work {
        Work::Prompt(_) => match &node.model {
            Some(model) => format!("subagent, role {}, model {}", node.role, one_line(model, 40)),
            None => format!("subagent, role {}", node.role),
        },
        Work::Command(command) => format!("command: {}", one_line(command, TEXT_WIDTH)),
    }];
    if !node.needs.is_empty() {
        lines.push(format!("needs {}", list(&node.needs)));
    }
    if let Some(foreach) = &node.foreach {
        lines.push(foreach_text(foreach, node.batch));
    }
    if let Work::Prompt(prompt) = &node.work {
        lines.push(format!("“{}”", one_line(prompt.trim(), TEXT_WIDTH)));
    }
    if let Some(tools) = &node.tools {
        lines.push(if tools.is_empty() { "no tools".to_owned() } else { format!("tools {}", list(tools)) });
    }
    let mut limits = Vec::new();
    if let Some(timeout) = node.timeout {
        limits.push(format!("at most {}", humantime::format_duration(timeout)));
    }
    if let Some(turns) = node.turns {
        limits.push(format!("at most {}", plural(turns as usize, "turn")));
    }
    if !limits.is_empty() {
        lines.push(limits.join(", "));
    }
    if let Some(output) = &node.output {
        lines.push(output_text(output));
    }
    match node.on_failure {
        OnFailure::SkipDependents => {}
        OnFailure::Stop => lines.push("its failure stops the run".to_owned()),
    }
    lines
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

fn foreach_text(foreach: &Foreach, batch: Option<usize>) -> String {
    let each = match batch {
        Some(batch) => format!("once per {}", plural(batch, "item")),
        None => "once per item".to_owned(),
    };
    match foreach {
        Foreach::Items(items) => format!("{each} of {}", plural(items.len(), "listed item")),
        Foreach::Expression(expression) => format!("{each} of `{}`", one_line(expression, TEXT_WIDTH)),
    }
}

fn output_text(schema: &Value) -> String {
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) if !properties.is_empty() => {
            let names: Vec<String> = properties.keys().map(|name| one_line(name, 40)).collect();
            format!("hands back {}", list(&names))
        }
        _ => "hands back JSON".to_owned(),
    }
}

/// The plan as a Mermaid flowchart. Thick arrows and double frames are the critical path.
pub fn mermaid(plan: &Plan) -> String {
    let drawing = Drawing::new(plan);
    let mut out = String::from("flowchart TD\n");
    for (index, node) in plan.nodes.iter().enumerate() {
        let label = mermaid_text(&label(node).join("\n")).replace('\n', "<br/>");
        let (open, close) = if drawing.critical.contains(&index) { ("[[", "]]") } else { ("[", "]") };
        let _ = writeln!(out, "    n{index}{open}\"{label}\"{close}");
    }
    for (from, to, critical) in drawing.edges {
        let _ = writeln!(out, "    n{from} {} n{to}", if critical { "==>" } else { "-->" });
    }
    out.push_str("    %% double frames and thick arrows: the critical path\n");
    out
}

fn mermaid_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '`' => out.push_str("#96;"),
            c => out.push(c),
        }
    }
    out
}

/// The plan for Graphviz. Double frames and bold arrows are the critical path.
pub fn dot(plan: &Plan) -> String {
    let drawing = Drawing::new(plan);
    let mut out = format!("digraph \"{}\" {{\n    node [shape=box];\n", dot_text(&plan.name));
    out.push_str("    // double frames and bold arrows: the critical path\n");
    for (index, node) in plan.nodes.iter().enumerate() {
        let frame = if drawing.critical.contains(&index) { ", peripheries=2" } else { "" };
        let _ = writeln!(out, "    n{index} [label=\"{}\"{frame}];", dot_text(&label(node).join("\n")));
    }
    for (from, to, critical) in drawing.edges {
        let _ = writeln!(out, "    n{from} -> n{to}{};", if critical { " [style=bold]" } else { "" });
    }
    out.push_str("}\n");
    out
}

fn dot_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The plan as JSON of the same schema; it can be run again.
pub fn json(plan: &Plan) -> String {
    // Every part of a plan has string keys and finite numbers, so serialising cannot fail.
    let mut text = serde_json::to_string_pretty(plan).unwrap_or_default();
    text.push('\n');
    text
}

/// The lines of a node's box.
fn label(node: &Node) -> Vec<String> {
    let mut lines = vec![node.id.clone()];
    lines.push(match &node.work {
        Work::Prompt(_) => node.role.clone(),
        Work::Command(command) => format!("$ {}", one_line(command, 40)),
    });
    if let Some(foreach) = &node.foreach {
        lines.push(one_line(&foreach_text(foreach, node.batch), 60));
    }
    lines
}

/// What both drawings need.
struct Drawing {
    critical: HashSet<usize>,
    /// From, to, whether it lies on the critical path.
    edges: Vec<(usize, usize, bool)>,
}

impl Drawing {
    fn new(plan: &Plan) -> Self {
        let graph = Graph::new(plan);
        let path = graph.critical_path();
        let steps: HashSet<(usize, usize)> = path.windows(2).map(|step| (step[0], step[1])).collect();
        let edges = (0..plan.nodes.len())
            .flat_map(|to| graph.dependencies(to).map(move |from| (from, to)))
            .map(|(from, to)| (from, to, steps.contains(&(from, to))));
        Drawing { edges: edges.collect(), critical: path.into_iter().collect() }
    }
}
