//! The end table: what each node came to, and how well they ran together.

use super::words::{duration, quantity};
use crate::model::Bill;
use crate::plan::Outcome;
use crate::store::{Group, MergeSummary, NodeSummary, Summary};
use crate::text::{one_line, plural};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Nodes up to which each instance of a `foreach` has a row.
const UNFOLDED: usize = 60;
/// Rows at most; nodes that succeeded give way first.
const MAX_ROWS: usize = 200;
/// Columns of a name where the width is not limited.
const NAME: usize = 60;
/// Columns that the other columns of the table may take together.
const NUMBERS: usize = 42;
/// Columns that costs take beside them.
const COST: usize = 10;
/// Columns of a line of words where the width is not limited.
const LINE: usize = 400;
/// Nodes of the critical path that are named at most.
const PATH: usize = 8;

/// The end table of a run with its critical path and parallel efficiency, at most `columns` wide.
///
/// One line when the run has no nodes; empty when it has called no model either.
pub fn table(summary: &Summary, columns: Option<usize>) -> String {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let fold = summary.nodes().count() > UNFOLDED;
    for group in summary.groups() {
        rows.extend(Row::of_group(group, fold));
    }
    if rows.is_empty() {
        return match summary.usage.total() {
            0 => String::new(),
            _ => format!("{}\n", totals(summary)),
        };
    }
    let left_out = shorten(&mut rows);

    let numbers = if summary.cost.is_unknown() { NUMBERS } else { NUMBERS + COST };
    let name_room = columns.map_or(NAME, |columns| columns.saturating_sub(numbers).clamp(8, NAME));
    let mut cells = vec![["node", "outcome", "time", "tokens", "cost", "calls"].map(str::to_string)];
    cells.extend(rows.iter().map(|row| row.cells(name_room)));
    let grid = if summary.cost.is_unknown() {
        let without: Vec<[String; 5]> = cells.into_iter().map(|[a, b, c, d, _, e]| [a, b, c, d, e]).collect();
        self::columns(&without, columns, &[2, 3, 4])
    } else {
        self::columns(&cells, columns, &[2, 3, 4, 5])
    };

    let width = columns.unwrap_or(LINE);
    let mut grid_lines = grid.lines().map(str::to_string);
    let mut lines: Vec<String> = grid_lines.next().into_iter().collect();
    for (line, row) in grid_lines.zip(&rows) {
        lines.push(line);
        if let Some(cause) = row.node.cause.as_ref() {
            lines.push(format!("{:indent$}  {}", "", cause.detail, indent = row.indent()));
        }
    }
    if left_out > 0 {
        lines.push(format!("… and {} that succeeded", plural(left_out, "node")));
    }
    lines.push(String::new());
    lines.extend(summary.merge.as_ref().into_iter().flat_map(together));
    lines.push(totals(summary));
    lines.iter().map(|line| one_line(line, width).trim_end().to_string() + "\n").collect()
}

/// Rows of cells as lines, aligned by display width, those of `right` to the right; no line is wider than `width`.
pub fn columns<const N: usize>(rows: &[[String; N]], width: Option<usize>, right: &[usize]) -> String {
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for row in rows {
        grid.add_row(row.iter().map(|cell| one_line(cell, LINE)));
    }
    for (at, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.lines().map(|line| one_line(line.trim_end(), width.unwrap_or(usize::MAX)) + "\n").collect()
}

/// One line of the table.
struct Row<'a> {
    node: &'a NodeSummary,
    /// Instances of a `foreach` node.
    instances: &'a [NodeSummary],
    is_instance: bool,
    tokens: u64,
    cost: Bill,
    calls: u32,
}

impl<'a> Row<'a> {
    fn of_group(group: &'a Group, fold: bool) -> Vec<Row<'a>> {
        let mut rows = vec![Row {
            node: &group.node,
            instances: &group.instances,
            is_instance: false,
            tokens: group.usage().total(),
            cost: group.cost(),
            calls: group.tool_calls(),
        }];
        let shown = group.instances.iter().filter(|instance| !fold || went_wrong(instance));
        rows.extend(shown.map(|node| Row {
            node,
            instances: &[],
            is_instance: true,
            tokens: node.usage.total(),
            cost: node.cost,
            calls: node.tool_calls,
        }));
        rows
    }

    fn indent(&self) -> usize {
        if self.is_instance { 2 } else { 0 }
    }

    fn cells(&self, name_room: usize) -> [String; 6] {
        let instances = self.instances.len();
        let times = if instances > 0 { format!(" ×{instances}") } else { String::new() };
        let name = one_line(&self.node.id, name_room.saturating_sub(times.chars().count() + self.indent()));
        let started = std::iter::once(self.node).chain(self.instances).any(|node| node.started.is_some());
        let outcome = match self.node.outcome {
            Some(outcome) => outcome.as_str(),
            None if started => "running",
            None => "waiting",
        };
        let time = self.node.duration_ms.filter(|_| started);
        let or_blank = |zero: bool, text: String| if zero { String::new() } else { text };
        [
            format!("{:indent$}{name}{times}", "", indent = self.indent()),
            outcome.to_string(),
            time.map_or_else(String::new, duration),
            or_blank(self.tokens == 0, quantity(self.tokens)),
            self.cost.known.map_or_else(String::new, |cost| {
                if self.cost.at_least { format!("≥{cost}") } else { cost.to_string() }
            }),
            or_blank(self.calls == 0, self.calls.to_string()),
        ]
    }
}

fn went_wrong(node: &NodeSummary) -> bool {
    match node.outcome {
        None | Some(Outcome::Succeeded | Outcome::Skipped) => false,
        Some(Outcome::Partial | Outcome::Failed | Outcome::Cancelled | Outcome::TimedOut | Outcome::OverBudget) => true,
    }
}

/// Leaves out rows that tell least until [`MAX_ROWS`] are left; returns how many.
fn shorten(rows: &mut Vec<Row<'_>>) -> usize {
    let before = rows.len();
    if before > MAX_ROWS {
        let mut room = MAX_ROWS - rows.iter().filter(|row| went_wrong(row.node)).count().min(MAX_ROWS);
        rows.retain(|row| {
            went_wrong(row.node) || {
                let keep = room > 0;
                room = room.saturating_sub(1);
                keep
            }
        });
        rows.truncate(MAX_ROWS);
    }
    before - rows.len()
}

fn together(merge: &MergeSummary) -> Vec<String> {
    let path = &merge.critical_path;
    let total = path.iter().map(|(_, ms)| ms).sum();
    let name = |(node, ms): &(String, u64)| format!("{} {}", one_line(node, 40), duration(*ms));
    let mut names: Vec<String> = path.iter().map(name).collect();
    if names.len() > PATH {
        let hidden = names.len() - PATH + 1;
        names.splice(PATH / 2..PATH / 2 + hidden, [format!("… {} …", plural(hidden, "more node"))]);
    }
    let mut lines = Vec::new();
    if !path.is_empty() {
        lines.push(format!("critical path {}: {}", duration(total), names.join(" → ")));
    }
    let efficiency = (merge.efficiency * 100.0).round();
    lines.push(format!("makespan {}, parallel efficiency {efficiency}%", duration(merge.makespan_ms)));
    lines
}

fn totals(summary: &Summary) -> String {
    let counts = summary.counts();
    let parts = [
        (counts.done, "done"),
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (counts.running, "running"),
        (counts.waiting, "waiting"),
    ];
    let all = parts.iter().map(|(count, _)| count).sum();
    let told: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let nodes = match all {
        0 => String::new(),
        _ => format!("{}: {}; ", plural(all, "node"), told.join(", ")),
    };
    let cost = if summary.cost.is_unknown() { String::new() } else { format!(", {}", summary.cost) };
    let (tokens, time) = (super::token_count(&summary.usage), duration(summary.duration_ms()));
    let line = format!("{nodes}{tokens}{cost}, {time}");
    match &summary.ended {
        Some((status, code)) => line + &format!("; run {status} (exit code {code})"),
        None => line + "; run unfinished",
    }
}
