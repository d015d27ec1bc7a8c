//! From text or value to a [`Plan`], or to all of its problems.
//!
//! Three passes share one list of findings: `source` reads the syntax, this file and `parse_node` read what each
//! field means (as far as they can: a broken field leaves a harmless value behind, so that the rest is still
//! checked), `lint` looks at the plan as a whole. The plan comes out only if no pass found an error.

use super::diag::{Findings, Problems, Severity};
use super::fields::{Fields, text, wrong_type};
use super::parse_node::{Defaults, read_node};
use super::source::{Entry, Format, Placed, Shape, Spot, normalise, read_json, read_toml, read_value};
use super::{Input, Node, PLAN_VERSION, Plan, lint};
use crate::text::clip;
use indexmap::IndexMap;
use serde_json::Value;

/// Names that mean something of their own in templates; an input must have another.
const RESERVED: [&str; 6] = ["item", "index", "nodes", "budget", "self", "loop"];
/// Words of the template language.
const LANGUAGE: [&str; 14] =
    ["true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else", "range"];
/// Characters of a plan's name.
const MAX_NAME: usize = 100;

/// What a plan may refer to: known to the caller, not to a pure module.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Names of roles.
    pub roles: Vec<String>,
    /// Names of tools that a node may have.
    pub tools: Vec<String>,
    /// Whether `command` nodes are allowed: not in a plan that a model wrote.
    pub commands_allowed: bool,
}

/// A plan and what there is to say about it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The plan; `None` when one of the problems is an error.
    pub plan: Option<Plan>,
    /// Errors and warnings, sorted by place.
    pub problems: Problems,
}

/// Reads a plan.
///
/// # Errors
/// All problems at once, warnings among them.
pub fn parse(text: &str, format: Format, known: &Known) -> Result<Plan, Problems> {
    let checked = check(text, format, known);
    checked.plan.ok_or(checked.problems)
}

/// Reads a plan from the arguments of a model's tool call: `{name, node: […]}`.
///
/// Two liberties for models: `version` may be left out, and `nodes` is taken for `node`.
///
/// # Errors
/// All problems at once, warnings among them; their places are JSON pointers.
pub fn parse_value(value: &Value, known: &Known) -> Result<Plan, Problems> {
    let mut findings = Findings::default();
    let root = read_value(value, &mut findings);
    let reader = Reader { known, from_model: true };
    let checked = reader.finish(Some(root), "", findings);
    checked.plan.ok_or(checked.problems)
}

/// Reads a plan; tells warnings too when it is fine.
pub fn check(text: &str, format: Format, known: &Known) -> Checked {
    let text = normalise(text);
    let mut findings = Findings::default();
    if text.trim().is_empty() {
        empty(&mut findings, "the plan is empty");
        return Checked { plan: None, problems: findings.finish(&text) };
    }
    let root = match format {
        Format::Toml => read_toml(&text, &mut findings),
        Format::Json => read_json(&text, &mut findings),
    };
    if format == Format::Toml
        && let Some(Placed { shape: Shape::Table(entries), .. }) = &root
        && entries.is_empty()
    {
        empty(&mut findings, "the plan holds nothing but comments");
        return Checked { plan: None, problems: findings.finish(&text) };
    }
    Reader { known, from_model: false }.finish(root, &text, findings)
}

fn empty(findings: &mut Findings, message: &str) {
    let hint = "a plan begins with `version = 1` and `name = \"…\"` and has at least one `[[node]]`";
    findings.error("empty-plan", &Spot::Text(0..0), message).hint(hint);
}

/// A plan as far as it could be read, and where its parts stand; for lint.
pub(super) struct Draft {
    pub(super) plan: Plan,
    /// Parallel to `plan.inputs`.
    pub(super) inputs: Vec<Spot>,
    /// Parallel to `plan.nodes`.
    pub(super) nodes: Vec<NodeSpots>,
}

/// Where the parts of a node stand.
pub(super) struct NodeSpots {
    /// The node, or what comes nearest.
    pub(super) node: Spot,
    pub(super) id: Spot,
    /// Its prompt or command.
    pub(super) text: Spot,
    /// Parallel to `needs`.
    pub(super) needs: Vec<Spot>,
    pub(super) foreach: Spot,
    pub(super) output: Spot,
}

/// What the reading of a plan depends on.
pub(super) struct Reader<'a> {
    pub(super) known: &'a Known,
    pub(super) from_model: bool,
}

impl Reader<'_> {
    fn finish(&self, root: Option<Placed>, text: &str, mut findings: Findings) -> Checked {
        let draft = root.and_then(|root| self.plan(&root, &mut findings));
        if let Some(draft) = &draft {
            lint::lint(draft, text, &mut findings);
        }
        let plan = if findings.has_errors() { None } else { draft.map(|draft| draft.plan) };
        Checked { plan, problems: findings.finish(text) }
    }

    fn plan(&self, root: &Placed, findings: &mut Findings) -> Option<Draft> {
        let mut keys = vec!["version", "name", "description", "inputs", "defaults", "node"];
        if self.from_model {
            keys.push("nodes");
        }
        let fields = Fields::new(root, "a plan", &keys, findings)?;
        self.version(root, &fields, findings);
        let name = name(root, &fields, findings);
        let description = fields.text("description", findings).unwrap_or_default();
        let (inputs, input_spots) = fields.get("inputs").map(|value| read_inputs(value, findings)).unwrap_or_default();
        let defaults = fields.get("defaults").map(|value| Defaults::read(value, self, findings)).unwrap_or_default();
        let (nodes, node_spots) = self.nodes(root, &fields, &defaults, findings);
        let plan = Plan { version: PLAN_VERSION, name, description, inputs, nodes };
        Some(Draft { plan, inputs: input_spots, nodes: node_spots })
    }

    fn version(&self, root: &Placed, fields: &Fields<'_>, findings: &mut Findings) {
        match fields.get("version") {
            None if self.from_model => {}
            None => {
                let message = "the plan does not say its `version`";
                findings.error("missing-key", &root.spot.start(), message).hint("add `version = 1` at the top");
            }
            Some(Placed { shape: Shape::Number(number), .. }) if number.as_i64() == Some(PLAN_VERSION) => {}
            Some(value @ Placed { shape: Shape::Number(number), .. }) => {
                let message = format!("version `{number}` of the plan format is unknown here");
                let hint = format!("this sortie reads `version = {PLAN_VERSION}`");
                findings.error("bad-version", &value.spot, message).hint(hint);
            }
            Some(value) => {
                wrong_type("version", &format!("the number {PLAN_VERSION}"), value, findings);
            }
        }
    }

    fn nodes(
        &self,
        root: &Placed,
        fields: &Fields<'_>,
        defaults: &Defaults,
        findings: &mut Findings,
    ) -> (Vec<Node>, Vec<NodeSpots>) {
        let hint =
            if self.from_model { "add an object to `node`" } else { "add a `[[node]]` with an `id` and a `prompt`" };
        let Some(value) = fields.get("node").or_else(|| fields.get("nodes").filter(|_| self.from_model)) else {
            findings.error("empty-plan", &root.spot.start(), "the plan has no nodes").hint(hint);
            return Default::default();
        };
        let Shape::List(items) = &value.shape else {
            let finding = wrong_type("node", "a list of tables", value, findings);
            finding.hint("in TOML each node begins with `[[node]]`, in two pairs of brackets");
            return Default::default();
        };
        if items.is_empty() {
            findings.error("empty-plan", &value.spot, "the plan has no nodes").hint(hint);
        }
        items.iter().map(|item| read_node(item, defaults, self, findings)).unzip()
    }
}

fn name(root: &Placed, fields: &Fields<'_>, findings: &mut Findings) -> String {
    let Some(value) = fields.get("name") else {
        let finding = findings.error("missing-key", &root.spot.start(), "the plan has no `name`");
        finding.hint("add a short one: `name = \"investigate\"`");
        return String::new();
    };
    let Some(name) = text("name", value, findings) else { return String::new() };
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    let good = name.chars().all(allowed)
        && name.chars().any(char::is_alphanumeric)
        && name.trim() == name
        && name.chars().count() <= MAX_NAME;
    if !good {
        let message = format!("`{}` is not a name for a plan", clip(&name.replace('\n', " "), 40));
        let hint = format!("use letters, digits, `-`, `_`, `.` and spaces within, at most {MAX_NAME} characters");
        findings.error("bad-name", &value.spot, message).hint(hint);
    }
    name
}

fn read_inputs(value: &Placed, findings: &mut Findings) -> (IndexMap<String, Input>, Vec<Spot>) {
    let (mut inputs, mut spots) = (IndexMap::new(), Vec::new());
    let Shape::Table(entries) = &value.shape else {
        wrong_type("inputs", "a table", value, findings);
        return (inputs, spots);
    };
    for entry in entries {
        input_name(entry, findings);
        inputs.insert(entry.key.clone(), read_input(entry, findings));
        spots.push(entry.key_spot.clone());
    }
    (inputs, spots)
}

fn input_name(entry: &Entry, findings: &mut Findings) {
    let key = entry.key.as_str();
    let shown = clip(key, 40);
    let starts_well = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if RESERVED.contains(&key) || LANGUAGE.contains(&key) {
        let message = format!("`{key}` cannot be an input: the word has its own meaning in templates");
        findings.error("reserved-input", &entry.key_spot, message).hint("give the input another name");
    } else if !starts_well || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let message = format!("`{shown}` is not a name for an input");
        let hint = "use ASCII letters, digits and `_`, not beginning with a digit";
        findings.error("bad-input-name", &entry.key_spot, message).hint(hint);
    }
}

fn read_input(entry: &Entry, findings: &mut Findings) -> Input {
    let example = format!("write `{} = {{ description = \"…\" }}`", clip(&entry.key, 40));
    if !matches!(entry.value.shape, Shape::Table(_)) {
        wrong_type(&entry.key, "a table", &entry.value, findings).hint(example);
        return Input::default();
    }
    let Some(fields) = Fields::new(&entry.value, "an input", &["description", "default"], findings) else {
        return Input::default();
    };
    let default = fields.get("default").and_then(|value| read_default(value, findings));
    Input { description: fields.text("description", findings).unwrap_or_default(), default }
}

fn read_default(value: &Placed, findings: &mut Findings) -> Option<Value> {
    let scalar = |value: &Placed| matches!(value.shape, Shape::Text(_) | Shape::Number(_) | Shape::Bool(_));
    let good = match &value.shape {
        Shape::List(items) => items.iter().all(scalar),
        Shape::Text(_) | Shape::Number(_) | Shape::Bool(_) => true,
        Shape::Null | Shape::Date(_) | Shape::Table(_) => false,
    };
    if !good {
        wrong_type("default", "text, a number, true, false or a list of these", value, findings);
        return None;
    }
    Some(value.to_json())
}

impl Checked {
    /// How many of the problems are warnings.
    pub fn warnings(&self) -> usize {
        self.problems.count(Severity::Warning)
    }
}
