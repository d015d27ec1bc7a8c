//! One node of a plan: what its fields mean, each by itself. How nodes fit together is for `lint`.

use super::diag::Findings;
use super::fields::{Fields, text, wrong_type};
use super::parse::{NodeSpots, Reader};
use super::source::{Placed, Shape, Spot};
use super::suggest::{nearest, one_of};
use super::{DEFAULT_ROLE, Foreach, MAX_FOREACH, Node, OnFailure, Work};
use crate::text::{clip, plural};
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use std::time::Duration;

const KEYS: [&str; 13] = [
    "id",
    "prompt",
    "command",
    "needs",
    "role",
    "model",
    "tools",
    "timeout",
    "turns",
    "output",
    "foreach",
    "batch",
    "on_failure",
];
const DEFAULT_KEYS: [&str; 6] = ["role", "model", "tools", "timeout", "turns", "on_failure"];
/// Characters of an id: it becomes part of file names.
const MAX_ID: usize = 100;

/// What `[defaults]` gives to nodes that say nothing else.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    role: Option<String>,
    model: Option<String>,
    tools: Option<Vec<String>>,
    timeout: Option<Duration>,
    turns: Option<u32>,
    on_failure: Option<OnFailure>,
}

impl Defaults {
    pub(super) fn read(value: &Placed, reader: &Reader<'_>, findings: &mut Findings) -> Self {
        match Fields::new(value, "`defaults`", &DEFAULT_KEYS, findings) {
            Some(fields) => Defaults::of(&fields, reader, findings),
            None => Defaults::default(),
        }
    }

    /// The fields that a node and `[defaults]` have in common.
    fn of(fields: &Fields<'_>, reader: &Reader<'_>, findings: &mut Findings) -> Self {
        let turns = fields.count("turns", u64::from(u32::MAX), findings);
        Defaults {
            role: role(fields, reader, findings),
            model: model(fields, findings),
            tools: tools(fields, reader, findings),
            timeout: fields.duration("timeout", findings),
            turns: turns.and_then(|turns| u32::try_from(turns).ok()),
            on_failure: on_failure(fields, findings),
        }
    }
}

/// Reads a node as far as it goes.
pub(super) fn read_node(
    value: &Placed,
    defaults: &Defaults,
    reader: &Reader<'_>,
    findings: &mut Findings,
) -> (Node, NodeSpots) {
    let mut spots = NodeSpots {
        node: value.spot.clone(),
        id: value.spot.clone(),
        text: value.spot.clone(),
        needs: Vec::new(),
        foreach: value.spot.clone(),
        output: value.spot.clone(),
    };
    let mut node = Node::new(String::new(), Work::Prompt(String::new()));
    let Some(fields) = Fields::new(value, "a node", &KEYS, findings) else { return (node, spots) };
    node.id = id(&fields, &mut spots, findings);
    work(&fields, reader, &mut node, &mut spots, findings);
    let needs = fields.texts("needs", "node ids", findings).unwrap_or_default();
    (node.needs, spots.needs) = needs.into_iter().unzip();

    let own = Defaults::of(&fields, reader, findings);
    node.timeout = own.timeout.or(defaults.timeout);
    node.on_failure = own.on_failure.or(defaults.on_failure).unwrap_or_default();
    let role = own.role.or_else(|| defaults.role.clone());
    node.role = role.unwrap_or_else(|| DEFAULT_ROLE.to_owned());
    match &node.work {
        Work::Prompt(_) => {
            node.model = own.model.or_else(|| defaults.model.clone());
            node.tools = own.tools.or_else(|| defaults.tools.clone());
            node.turns = own.turns.or(defaults.turns);
        }
        Work::Command(_) => without_effect(&fields, findings),
    }

    if let Some(value) = fields.get("output") {
        spots.output = value.spot.clone();
        node.output = output(value, findings);
    }
    if let Some(value) = fields.get("foreach") {
        spots.foreach = value.spot.clone();
        node.foreach = foreach(value, findings);
    }
    let batch = fields.count("batch", u64::MAX, findings);
    node.batch = batch.and_then(|batch| usize::try_from(batch).ok());
    if let Some(entry) = fields.entry("batch")
        && fields.get("foreach").is_none()
    {
        let finding =
            findings.error("batch-without-foreach", &entry.key_spot, "`batch` without `foreach` means nothing");
        finding.hint("add `foreach` with the list whose items go in batches, or remove `batch`");
    }
    (node, spots)
}

fn id(fields: &Fields<'_>, spots: &mut NodeSpots, findings: &mut Findings) -> String {
    let Some(value) = fields.get("id") else {
        let finding = findings.error("missing-key", &spots.node, "this node has no `id`");
        finding.hint("add a short one: `id = \"map\"`");
        return String::new();
    };
    spots.id = value.spot.clone();
    let Some(id) = text("id", value, findings) else { return String::new() };
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if !id.starts_with(|c: char| c.is_ascii_lowercase()) || !id.chars().all(rest) || id.len() > MAX_ID {
        let message = format!("`{}` is not an id", clip(&id.replace('\n', " "), 40));
        let rule = format!("use lower-case letters, digits, `-` and `_`, a letter first, at most {MAX_ID} characters");
        let better = fitting_id(&id);
        let hint = if better.is_empty() { rule } else { format!("{rule}: `{better}`") };
        findings.error("bad-id", &value.spot, message).hint(hint);
    } else if RESERVED_IDS.contains(&id.as_str()) {
        findings
            .error("bad-id", &value.spot, format!("`{id}` is the name of a conversation of sortie itself"))
            .hint("give the node another id");
    }
    id
}

/// Conversations that are no nodes, in events, transcripts and scripts.
const RESERVED_IDS: [&str; 3] = ["coordinator", "summary", "goal"];

/// The id that this text was probably meant to be; empty when nothing is left of it.
fn fitting_id(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let joined = words.join("-");
    let joined = joined.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    joined.chars().take(40).collect()
}

fn work(fields: &Fields<'_>, reader: &Reader<'_>, node: &mut Node, spots: &mut NodeSpots, findings: &mut Findings) {
    let (prompt, command) = (fields.entry("prompt"), fields.entry("command"));
    if let (Some(prompt), Some(command)) = (prompt, command) {
        findings
            .error("two-kinds", &command.key_spot, "a node has either a `prompt` or a `command`, not both")
            .related(&prompt.key_spot, "the prompt")
            .hint("make two nodes of it, the second with `needs`");
    }
    if let Some(command) = command
        && !reader.known.commands_allowed
    {
        findings
            .error("command-not-allowed", &command.key_spot, "a plan from a model may not hold `command` nodes")
            .hint("give a subagent a `prompt` instead");
    }
    let Some((kind, entry)) = prompt.map(|entry| ("prompt", entry)).or(command.map(|entry| ("command", entry))) else {
        // A kind of node that a later version brings has been told already.
        if fields.get("approval").is_none() && fields.get("plan").is_none() {
            let message = format!("{} has neither `prompt` nor `command`", called(&node.id));
            let finding = findings.error("missing-key", &spots.node, message);
            finding.hint("say what it is to do: `prompt = \"…\"`, or `command = \"…\"` for a shell command");
        }
        return;
    };
    spots.text = entry.value.spot.clone();
    let Some(text) = text(kind, &entry.value, findings) else { return };
    if text.trim().is_empty() {
        findings.error("empty-text", &entry.value.spot, format!("`{kind}` is empty"));
    }
    node.work = if kind == "prompt" { Work::Prompt(text) } else { Work::Command(text) };
}

fn called(id: &str) -> String {
    if id.is_empty() { "this node".to_owned() } else { format!("node `{id}`") }
}

fn role(fields: &Fields<'_>, reader: &Reader<'_>, findings: &mut Findings) -> Option<String> {
    let role = fields.text("role", findings)?;
    let spot = &fields.get("role")?.spot;
    known("role", &role, spot, &reader.known.roles, findings);
    Some(role)
}

fn tools(fields: &Fields<'_>, reader: &Reader<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    let tools = fields.texts("tools", "tool names", findings)?;
    for (tool, spot) in &tools {
        known("tool", tool, spot, &reader.known.tools, findings);
    }
    Some(tools.into_iter().map(|(tool, _)| tool).collect())
}

fn known(what: &'static str, name: &str, spot: &Spot, names: &[String], findings: &mut Findings) {
    if names.iter().any(|known| known == name) {
        return;
    }
    let names = || names.iter().map(String::as_str);
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there is {}", one_of(names()).replace(" or ", " and ")),
    };
    let code = if what == "role" { "unknown-role" } else { "unknown-tool" };
    findings.error(code, spot, format!("there is no {what} `{}`", clip(name, 40))).hint(hint);
}

fn model(fields: &Fields<'_>, findings: &mut Findings) -> Option<String> {
    let model = fields.text("model", findings)?;
    if model.trim().is_empty() {
        let spot = &fields.get("model")?.spot;
        findings.error("empty-text", spot, "`model` is empty").hint("leave it out for the run's model");
        return None;
    }
    Some(model)
}

fn on_failure(fields: &Fields<'_>, findings: &mut Findings) -> Option<OnFailure> {
    let value = fields.get("on_failure")?;
    match &value.shape {
        Shape::Text(text) if text == "skip_dependents" => Some(OnFailure::SkipDependents),
        Shape::Text(text) if text == "stop" => Some(OnFailure::Stop),
        Shape::Text(_)
        | Shape::Null
        | Shape::Bool(_)
        | Shape::Number(_)
        | Shape::Date(_)
        | Shape::List(_)
        | Shape::Table(_) => {
            wrong_type("on_failure", "`\"skip_dependents\"` or `\"stop\"`", value, findings);
            None
        }
    }
}

/// A command calls no model, so what only steers a subagent is a mistake there.
fn without_effect(fields: &Fields<'_>, findings: &mut Findings) {
    for key in ["model", "tools", "turns"] {
        if let Some(entry) = fields.entry(key) {
            let message = format!("`{key}` has no effect here: a `command` node calls no model");
            findings.error("no-effect", &entry.key_spot, message).hint(format!("remove `{key}`"));
        }
    }
}

fn output(value: &Placed, findings: &mut Findings) -> Option<Value> {
    if !matches!(value.shape, Shape::Table(_) | Shape::Bool(_)) {
        let finding = wrong_type("output", "a JSON Schema, a table", value, findings);
        finding.hint("for example `{ type = \"object\", required = [\"parts\"], properties = { parts = { type = \"array\" } } }`");
        return None;
    }
    let schema = value.to_json();
    // The meta-schema first: it says what is wrong where. Building the validator finds the rest, such as a pattern
    // that is no regular expression or a reference to elsewhere.
    let wrong = match jsonschema::meta::validate(&schema) {
        Err(error) => Some(error.to_owned()),
        Ok(()) => jsonschema::validator_for(&schema).err(),
    };
    if let Some(error) = wrong {
        let path = error.instance_path().to_string();
        let (reason, hint) = match error.kind() {
            ValidationErrorKind::Referencing(_) => (
                "it refers to something that is not in it".to_owned(),
                "only references within the schema work: `#/$defs/NAME`",
            ),
            _ if path.ends_with("/type") => {
                let hint = "types are `string`, `number`, `integer`, `boolean`, `array`, `object` and `null`";
                (format!("{} is not a type", error.instance()), hint)
            }
            _ => (error.to_string().replace('\n', " "), ""),
        };
        let message = format!("`output` is not a valid JSON Schema: {}", clip(&reason, 200));
        findings.error("bad-output-schema", at_pointer(value, &path), message).hint(hint);
        return None;
    }
    Some(schema)
}

/// The part of a value that a JSON pointer leads to, or the last part on the way.
fn at_pointer<'a>(value: &'a Placed, pointer: &str) -> &'a Spot {
    let mut at = value;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let next = match &at.shape {
            Shape::Table(entries) => entries.iter().find(|entry| entry.key == part).map(|entry| &entry.value),
            Shape::List(items) => part.parse().ok().and_then(|index: usize| items.get(index)),
            Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Text(_) | Shape::Date(_) => None,
        };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    &at.spot
}

fn foreach(value: &Placed, findings: &mut Findings) -> Option<Foreach> {
    match &value.shape {
        Shape::Text(text) => Some(Foreach::Expression(text.clone())),
        Shape::List(items) => {
            if items.len() > MAX_FOREACH {
                let message = format!("`foreach` lists {}; at most {MAX_FOREACH} are run", plural(items.len(), "item"));
                findings.error("too-many-items", &value.spot, message).hint("split the list over several nodes");
            } else if items.is_empty() {
                let message = "`foreach` lists nothing, so the node does nothing";
                findings.warning("empty-foreach", &value.spot, message);
            }
            Some(Foreach::Items(items.iter().map(Placed::to_json).collect()))
        }
        Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Date(_) | Shape::Table(_) => {
            wrong_type("foreach", "a list or an expression in quotes", value, findings)
                .hint("for example `foreach = [\"a\", \"b\"]` or `foreach = \"nodes.map.output.parts\"`");
            None
        }
    }
}
