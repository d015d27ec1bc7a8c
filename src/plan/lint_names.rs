//! What prompts, commands and `foreach` expressions speak of: every name must be there when the node starts.

use super::command::{Inside, misplaced};
use super::diag::{Finding, Findings};
use super::lint::{Lint, shown};
use super::names::{Reference, References, code_regions, expression_references, is_word, references};
use super::source::Spot;
use super::suggest::{nearest, one_of};
use super::template::TemplateError;
use super::{Foreach, Node, Work};
use serde_json::Value;
use std::collections::HashSet;

/// What a node shows of itself to templates.
const VIEW: [&str; 4] = ["outcome", "summary", "output", "findings"];
/// Functions of the template language.
const FUNCTIONS: [&str; 3] = ["range", "dict", "namespace"];

/// A template of a node with what it speaks of.
struct Template<'a> {
    node: usize,
    kind: &'static str,
    text: &'a str,
    spot: &'a Spot,
    found: References,
}

impl<'a> Lint<'a> {
    pub(super) fn names(&self, findings: &mut Findings) {
        let templates = self.templates(findings);
        let mut asked = Vec::new();
        for template in &templates {
            for name in template.found.names.iter().filter(|name| name.root == "nodes") {
                if let Some(&target) = name.path.first().and_then(|id| self.positions.get(id.as_str())) {
                    asked.push((template.node, target));
                }
            }
        }
        let ancestries = self.ancestries(&asked);
        let mut used = HashSet::new();
        for template in &templates {
            self.template(template, &ancestries, findings);
            used.extend(template.found.names.iter().map(|name| name.root.as_str()));
        }
        // Which names a broken template would have used is unknown.
        let all_readable = !findings.has_errors();
        for ((input, _), spot) in self.draft.plan.inputs.iter().zip(&self.draft.inputs) {
            if all_readable && !used.contains(input.as_str()) {
                let message = format!("no node uses the input `{}`", shown(input));
                findings
                    .warning("unused-input", spot, message)
                    .hint(format!("write `{{{{ {} }}}}` in a prompt", shown(input)));
            }
        }
    }

    fn templates(&self, findings: &mut Findings) -> Vec<Template<'a>> {
        let is_node = |id: &str| self.positions.contains_key(id);
        let mut templates = Vec::new();
        for (index, (node, spots)) in self.draft.plan.nodes.iter().zip(&self.draft.nodes).enumerate() {
            let kind = match &node.work {
                Work::Prompt(_) => "prompt",
                Work::Command(_) => "command",
            };
            let text = node.work.text();
            match references(text, is_node) {
                Ok(found) => templates.push(Template { node: index, kind, text, spot: &spots.text, found }),
                Err(error) => self.unreadable(kind, text, &spots.text, &error, findings),
            }
            let Some(Foreach::Expression(text)) = &node.foreach else { continue };
            match expression_references(text, is_node) {
                Ok(found) => {
                    templates.push(Template { node: index, kind: "foreach", text, spot: &spots.foreach, found });
                }
                Err(error) => self.unreadable("foreach", text, &spots.foreach, &error, findings),
            }
        }
        templates
    }

    fn unreadable(&self, kind: &str, text: &str, spot: &Spot, error: &TemplateError, findings: &mut Findings) {
        let spot = self.within(spot, text, error);
        let finding = findings.error("template-syntax", &spot, format!("`{kind}` cannot be read: {error}"));
        if kind != "foreach" {
            finding
                .hint("write `{{ name }}` to fill something in, `{% raw %}…{% endraw %}` around braces that are text");
        } else if text.contains("{{") {
            finding.hint("`foreach` is an expression already: leave the braces out");
        } else {
            finding.hint("write a list, an input, or a field of a report: `nodes.map.output.parts`");
        }
    }

    fn template(&self, template: &Template<'_>, ancestries: &HashSet<(usize, usize)>, findings: &mut Findings) {
        for id in &template.found.subtracted {
            let spot = self.locate(template, &[format!("nodes.{id}")]);
            findings
                .error("hyphen-in-name", &spot, format!("`nodes.{id}` reads as a subtraction"))
                .hint(format!("write `nodes['{id}']`"));
        }
        for filter in &template.found.unknown_filters {
            let spot = self.locate(template, std::slice::from_ref(filter));
            findings.error("unknown-filter", &spot, format!("templates have no filter `{}`", shown(filter)));
        }
        for name in &template.found.names {
            match name.root.as_str() {
                "nodes" => self.node_reference(template, name, ancestries, findings),
                "item" | "index" => self.item_reference(template, name, findings),
                "budget" => {
                    let spot = self.locate(template, std::slice::from_ref(&name.root));
                    findings.error("not-supported-yet", &spot, "`budget` is not supported by this version yet");
                }
                root if self.draft.plan.inputs.contains_key(root) => self.input_reference(template, name, findings),
                root if FUNCTIONS.contains(&root) => {}
                root => self.unknown_name(template, root, findings),
            }
        }
        if template.kind == "foreach" {
            self.must_be_list(template, findings);
        }
        if template.kind == "command" {
            self.must_be_words(template, findings);
        }
    }

    /// Values in a command line are quoted when they are filled in; that holds only among plain words.
    fn must_be_words(&self, template: &Template<'_>, findings: &mut Findings) {
        let Some((range, inside)) = misplaced(template.text) else { return };
        let (place, hint) = match inside {
            Inside::Quotes => ("quotes", "leave the quotes out: a value is always filled in as one word"),
            Inside::Backquotes => ("backquotes", "write `$(…)` instead of backquotes"),
            Inside::HereDocument => {
                ("a here-document", "print the value into the command: `printf '%s' {{ value }} | …`")
            }
        };
        let error = TemplateError { message: String::new(), range: Some(range) };
        let spot = self.within(template.spot, template.text, &error);
        findings
            .error("value-in-quotes", &spot, format!("a value cannot be filled into {place} of a command safely"))
            .hint(hint);
    }

    fn unknown_name(&self, template: &Template<'_>, root: &str, findings: &mut Findings) {
        let spot = self.locate(template, &[root.to_owned()]);
        let foreach = self.node(template).foreach.is_some() && template.kind != "foreach";
        let inputs = self.draft.plan.inputs.keys().map(String::as_str);
        let special = ["nodes", "item", "index"].into_iter().filter(|name| foreach || *name == "nodes");
        let names: Vec<&str> = inputs.chain(special).collect();
        let hint = if self.positions.contains_key(root) {
            format!("a node's result is `nodes.{root}`")
        } else if let Some(near) = nearest(root, names.iter().copied()) {
            format!("did you mean `{near}`?")
        } else {
            format!(
                "there is {}; add `{root}` to `[inputs]` if the caller gives it",
                one_of(names).replace(" or ", " and ")
            )
        };
        findings.error("unknown-name", &spot, format!("`{}` is not defined", shown(root))).hint(hint);
    }

    fn item_reference(&self, template: &Template<'_>, name: &Reference, findings: &mut Findings) {
        let root = &name.root;
        if template.kind == "foreach" {
            let spot = self.locate(template, std::slice::from_ref(root));
            findings
                .error(
                    "item-without-foreach",
                    &spot,
                    format!("`{root}` is what `foreach` makes; it cannot be made of it"),
                )
                .hint("write a list, an input, or a field of a report");
        } else if self.node(template).foreach.is_none() {
            let spot = self.locate(template, std::slice::from_ref(root));
            findings
                .error("item-without-foreach", &spot, format!("`{root}` exists only in a node with `foreach`"))
                .hint("add `foreach` to this node");
        }
    }

    fn input_reference(&self, template: &Template<'_>, name: &Reference, findings: &mut Findings) {
        let Some(field) = name.path.first() else { return };
        let spot = self.locate(template, &[name.dotted(), name.root.clone()]);
        let message = format!("`{}` is an input, not a table: it has no field `{}`", name.root, shown(field));
        findings.error("unknown-field", &spot, message);
    }

    fn node_reference(
        &self,
        template: &Template<'_>,
        name: &Reference,
        ancestries: &HashSet<(usize, usize)>,
        findings: &mut Findings,
    ) {
        let Some(id) = name.path.first() else { return };
        let node = self.node(template);
        let spot = self.locate(
            template,
            &[name.dotted(), format!("nodes.{id}"), format!("nodes['{id}']"), format!("nodes[\"{id}\"]"), id.clone()],
        );
        let Some(&target) = self.positions.get(id.as_str()) else {
            let hint = self.meant(id, &node.id, findings);
            findings.error("unknown-node", &spot, format!("there is no node `{}`", shown(id))).hint(hint);
            return;
        };
        if target == template.node {
            let message = format!("node `{}` speaks of its own result, which is not there yet", shown(id));
            findings.error("not-an-ancestor", &spot, message);
            return;
        }
        if !ancestries.contains(&(template.node, target)) && !self.slip_in_needs(node, id) {
            let message =
                format!("node `{}` does not wait for `{id}`, so `nodes.{id}` may not be there", shown(&node.id));
            findings.error("not-an-ancestor", &spot, message).hint(format!("add `\"{id}\"` to its `needs`"));
            return;
        }
        self.field_reference(&self.draft.plan.nodes[target], name, &spot, findings);
    }

    /// Whether a need that names no node was probably meant to be this one: that has been said already.
    fn slip_in_needs(&self, node: &Node, id: &str) -> bool {
        node.needs.iter().any(|need| !self.positions.contains_key(need.as_str()) && nearest(need, [id]).is_some())
    }

    fn field_reference(&self, target: &Node, name: &Reference, spot: &Spot, findings: &mut Findings) {
        let Some(field) = name.path.get(1) else { return };
        let id = &target.id;
        if target.foreach.is_some() {
            let message = format!("`nodes.{id}` is a list, one result per item: it has no field `{}`", shown(field));
            findings.error("list-of-results", spot, message).hint(format!(
                "loop over it: `{{% for part in nodes.{id} %}}{{{{ part.{field} }}}}{{% endfor %}}`, or take one: `nodes.{id}[0].{field}`"
            ));
            return;
        }
        let rest = &name.path[2..];
        match (field.as_str(), rest.first()) {
            ("outcome" | "summary", Some(_)) => {
                findings.error("unknown-field", spot, format!("`nodes.{id}.{field}` is text: it has no fields"));
            }
            ("findings", Some(_)) => {
                findings.error("unknown-field", spot, format!("`nodes.{id}.findings` is a list: it has no fields")).hint(
                    format!("loop over it: `{{% for finding in nodes.{id}.findings %}}{{{{ finding.claim }}}}{{% endfor %}}`"),
                );
            }
            ("output", Some(first)) => match (&target.output, &target.work) {
                (Some(schema), _) => {
                    if let Err(lack) = walk(schema, rest) {
                        lack.report(&format!("nodes.{id}.output"), rest, spot, findings);
                    }
                }
                (None, Work::Prompt(_)) => {
                    let message = format!("node `{id}` has no `output` schema, so nothing promises `{}`", shown(first));
                    findings.error("no-output-schema", spot, message).hint(format!(
                        "add to `{id}`: `output = {{ type = \"object\", required = [\"{first}\"], properties = {{ {first} = {{ … }} }} }}`"
                    ));
                }
                (None, Work::Command(_)) => {}
            },
            (field, _) if VIEW.contains(&field) => {}
            (field, _) => {
                let hint = match nearest(field, VIEW) {
                    Some(near) => format!("did you mean `nodes.{id}.{near}`?"),
                    None if target.output.is_some() => format!("did you mean `nodes.{id}.output.{field}`?"),
                    None => format!("a node has {}", one_of(VIEW).replace(" or ", " and ")),
                };
                findings.error("unknown-field", spot, format!("a node's result has no `{}`", shown(field))).hint(hint);
            }
        }
    }

    /// Where the expression is nothing but a name, what it is can often be told.
    fn must_be_list(&self, template: &Template<'_>, findings: &mut Findings) {
        let [name] = template.found.names.as_slice() else { return };
        if name.dotted() != template.text.trim() {
            return;
        }
        let path: Vec<&str> = name.path.iter().map(String::as_str).collect();
        let what = match (name.root.as_str(), path.as_slice()) {
            ("nodes", [id]) => match self.positions.get(id).map(|&at| &self.draft.plan.nodes[at]) {
                Some(node) if node.foreach.is_none() => "the whole result of a node",
                _ => return,
            },
            ("nodes", [_, "outcome" | "summary"]) => "text",
            ("nodes", [id, "output", ..]) => {
                let node = self.positions.get(id).map(|&at| &self.draft.plan.nodes[at]);
                let schema = node.and_then(|node| node.output.as_ref());
                let reached = schema.and_then(|schema| walk(schema, &name.path[2..]).ok().flatten());
                match reached.and_then(|schema| schema.get("type")).and_then(Value::as_str) {
                    Some(kind) if kind != "array" => word_of(kind),
                    _ => return,
                }
            }
            (root, []) => match self.draft.plan.inputs.get(root) {
                Some(input) => match &input.default {
                    Some(Value::Array(_)) => return,
                    Some(Value::Number(_)) => "a number",
                    Some(Value::Bool(_)) => "true or false",
                    Some(Value::String(_) | Value::Null | Value::Object(_)) | None => "text",
                },
                None => return,
            },
            _ => return,
        };
        let is_input = self.draft.plan.inputs.contains_key(&name.root);
        let finding =
            findings.error("not-a-list", template.spot, format!("`{}` is {what}, not a list", template.text.trim()));
        if is_input {
            finding.hint("give the input a default that is a list, such as `[]`: it is then read as JSON");
        }
    }

    fn node(&self, template: &Template<'_>) -> &'a Node {
        &self.draft.plan.nodes[template.node]
    }

    /// Where in the source a template says one of these, the first that can be found; else the whole template.
    fn locate(&self, template: &Template<'_>, wanted: &[String]) -> Spot {
        let Spot::Text(span) = template.spot else { return template.spot.clone() };
        let Some(source) = self.text.get(span.clone()) else { return template.spot.clone() };
        let whole = 0..source.len();
        let regions = if template.kind == "foreach" { vec![whole] } else { code_regions(source) };
        for wanted in wanted {
            for region in &regions {
                if let Some(at) = find_word(&source[region.clone()], wanted) {
                    let start = span.start + region.start + at;
                    return Spot::Text(start..start + wanted.len());
                }
            }
        }
        template.spot.clone()
    }

    /// The part of the source that a template error is about. Known only where the template stands in the source as
    /// it is, without escapes.
    fn within(&self, spot: &Spot, text: &str, error: &TemplateError) -> Spot {
        if let (Spot::Text(span), Some(range)) = (spot, &error.range)
            && let Some(at) = self.text.get(span.clone()).and_then(|source| source.find(text))
            && range.end <= text.len()
        {
            return Spot::Text(span.start + at + range.start..span.start + at + range.end);
        }
        spot.clone()
    }
}

/// Where `word` stands by itself, not as a part of a longer name.
fn find_word(code: &str, word: &str) -> Option<usize> {
    let alone = |at: usize| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(|c| is_word(c) || c == '.') && !after.is_some_and(is_word)
    };
    code.match_indices(word).map(|(at, _)| at).find(|&at| alone(at))
}

/// A field that a schema does not have.
struct Lack<'s> {
    /// How many fields of the path exist.
    depth: usize,
    /// The fields that are there instead, or what the value is.
    there: Result<Vec<&'s str>, &'static str>,
}

impl Lack<'_> {
    fn report<'f>(&self, base: &str, path: &[String], spot: &Spot, findings: &'f mut Findings) -> &'f mut Finding {
        let parent = std::iter::once(base).chain(path[..self.depth].iter().map(String::as_str));
        let parent = parent.collect::<Vec<_>>().join(".");
        let field = path.get(self.depth).map(String::as_str).unwrap_or_default();
        match &self.there {
            Err(what) => {
                let message = format!("`{parent}` is {what}: it has no field `{}`", shown(field));
                let finding = findings.error("unknown-field", spot, message);
                if *what == word_of("array") {
                    finding.hint(format!("loop over it, or take one item: `{parent}[0]`"));
                }
                finding
            }
            Ok(there) => {
                let hint = match nearest(field, there.iter().copied()) {
                    Some(near) => format!("did you mean `{parent}.{near}`?"),
                    None => format!("it has {}", one_of(there.iter().copied()).replace(" or ", " and ")),
                };
                let message = format!("the schema of `{parent}` has no field `{}`", shown(field));
                findings.error("unknown-field", spot, message).hint(hint)
            }
        }
    }
}

/// Follows a path into a JSON Schema: the schema that it reaches, or `None` where the schema leaves open what is
/// there.
fn walk<'s>(schema: &'s Value, path: &[String]) -> Result<Option<&'s Value>, Lack<'s>> {
    const OPEN: [&str; 9] =
        ["$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "not", "patternProperties", "enum"];
    let mut at = schema;
    for (depth, field) in path.iter().enumerate() {
        let Value::Object(keywords) = at else { return Ok(None) };
        if OPEN.iter().any(|keyword| keywords.contains_key(*keyword)) {
            return Ok(None);
        }
        if let Some(Value::String(kind)) = keywords.get("type")
            && kind != "object"
        {
            return Err(Lack { depth, there: Err(word_of(kind)) });
        }
        let Some(Value::Object(properties)) = keywords.get("properties") else { return Ok(None) };
        match properties.get(field) {
            Some(next) => at = next,
            None if keywords.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false)) => {
                return Ok(None);
            }
            None => return Err(Lack { depth, there: Ok(properties.keys().map(String::as_str).collect()) }),
        }
    }
    Ok(Some(at))
}

/// A JSON type in a sentence.
fn word_of(kind: &str) -> &'static str {
    match kind {
        "array" => "a list",
        "object" => "a table",
        "string" => "text",
        "integer" | "number" => "a number",
        "boolean" => "true or false",
        "null" => "null",
        _ => "something else",
    }
}
