//! Fills a node's `output` from the shape of its schema alone: types and nesting, never names or wording. Pure.
//!
//! Strings become paths, passages and sentences, integers lines or counts, arrays one entry per finding; an array of
//! strings is the parts of the scope for a node that comes first, and the files found for one that follows others. What
//! needs a judgement (a choice from an `enum`, a yes or no, a pattern to meet) is not made up: it is named as the part
//! that cannot be filled.

use crate::agent::Finding;
use crate::text;
use serde_json::{Map, Value, json};

/// References followed at most; schemas may refer to themselves.
const MAX_DEPTH: usize = 24;

/// What there is to fill in.
pub(super) struct Material<'m> {
    /// The scope in parts of similar size.
    pub(super) parts: &'m [String],
    /// What was found, best first.
    pub(super) findings: &'m [Finding],
    /// The answer in a sentence.
    pub(super) answer: &'m str,
    /// Whether reports of others were there to build on.
    pub(super) follows_others: bool,
}

/// Where strings and numbers are taken from.
#[derive(Clone, Copy)]
enum Source<'m> {
    /// The whole result.
    Whole,
    /// One finding.
    One(&'m Finding),
}

/// A value that fits the schema.
///
/// # Errors
/// Which part cannot be filled, and why, as a fragment.
pub(super) fn fill(schema: &Value, material: &Material<'_>) -> Result<Value, String> {
    let filler = Filler { root: schema, material };
    let value = filler.value(schema, "output", Source::Whole, &mut 0, 0)?;
    let validator = jsonschema::validator_for(schema).map_err(|error| format!("its schema cannot be used: {error}"))?;
    match crate::tool::complaints(&validator, &value) {
        None => Ok(value),
        Some(complaint) => Err(format!("what was found does not fit the schema: {complaint}")),
    }
}

struct Filler<'m> {
    root: &'m Value,
    material: &'m Material<'m>,
}

impl<'m> Filler<'m> {
    /// `strings` counts the strings already taken from this source: the next one says something else.
    fn value(
        &self,
        schema: &Value,
        at: &str,
        source: Source<'m>,
        strings: &mut usize,
        depth: usize,
    ) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("`{at}` refers to itself without end"));
        }
        if schema.as_bool() == Some(true) {
            return Ok(json!(self.string(source, strings)));
        }
        let Some(keys) = schema.as_object() else { return Err(format!("`{at}` allows no value")) };
        for (key, why) in [
            ("enum", "asks for a choice"),
            ("const", "asks for a fixed value"),
            ("pattern", "asks for text of a certain form"),
            ("format", "asks for text of a certain form"),
            ("not", "has conditions"),
            ("if", "has conditions"),
            ("allOf", "has conditions"),
            ("dependentRequired", "has conditions"),
            ("dependentSchemas", "has conditions"),
            ("patternProperties", "has open property names"),
            ("propertyNames", "has open property names"),
            ("prefixItems", "asks for a tuple"),
            ("contains", "has conditions"),
        ] {
            if keys.contains_key(key) {
                return Err(format!("`{at}` {why} (`{key}`), which scout does not make up"));
            }
        }
        if let Some(reference) = keys.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let target = target.ok_or_else(|| format!("`{at}` refers to `{reference}`, which is not in the schema"))?;
            return self.value(target, at, source, strings, depth + 1);
        }
        if let Some(choices) = keys.get("anyOf").or_else(|| keys.get("oneOf")).and_then(Value::as_array) {
            let tried: Vec<_> =
                choices.iter().map(|choice| self.value(choice, at, source, strings, depth + 1)).collect();
            let failed = || Err(format!("`{at}` has no alternative that scout can fill"));
            return tried.into_iter().find(Result::is_ok).unwrap_or_else(failed);
        }
        match kind(keys) {
            Some("object") => self.object(keys, at, source, depth),
            Some("array") => self.array(keys, at, source, depth),
            Some("string") | None => Ok(json!(self.bounded_string(keys, source, strings))),
            Some("integer" | "number") => Ok(json!(self.number(source))),
            Some("null") => Ok(Value::Null),
            Some("boolean") => Err(format!("`{at}` asks for yes or no, which scout does not judge")),
            Some(other) => Err(format!("`{at}` has the type `{other}`")),
        }
    }

    fn object(&self, keys: &Map<String, Value>, at: &str, source: Source<'m>, depth: usize) -> Result<Value, String> {
        let required: Vec<&str> =
            keys.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Map::new();
        let mut strings = 0;
        let properties = keys.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            match self.value(schema, &format!("{at}.{name}"), source, &mut strings, depth + 1) {
                Ok(value) => {
                    object.insert(name.clone(), value);
                }
                Err(why) if required.contains(&name.as_str()) => return Err(why),
                Err(_) => {}
            }
        }
        match required.iter().find(|name| !object.contains_key(**name)) {
            Some(name) => Err(format!("`{at}.{name}` is required but not described")),
            None => Ok(Value::Object(object)),
        }
    }

    fn array(&self, keys: &Map<String, Value>, at: &str, source: Source<'m>, depth: usize) -> Result<Value, String> {
        let any = Value::Bool(true);
        let items = self.resolved(keys.get("items").unwrap_or(&any));
        let most = keys.get("maxItems").and_then(Value::as_u64).map_or(usize::MAX, |most| most as usize);
        let of_strings = items.as_bool() == Some(true)
            || items.as_object().is_some_and(|keys| {
                matches!(kind(keys), Some("string") | None)
                    && !keys.contains_key("anyOf")
                    && !keys.contains_key("oneOf")
            });
        let at = format!("{at}[]");
        let values: Vec<Value> = if of_strings {
            // The item's own limits and conditions count as for any string.
            self.value(items, &at, source, &mut 0, depth + 1)?;
            let longest = items.get("maxLength").and_then(Value::as_u64).map_or(usize::MAX, |max| max as usize);
            let fits = |text: &String| text.chars().count() <= longest;
            self.strings(source).into_iter().filter(fits).map(Value::from).collect()
        } else {
            let findings: Vec<&'m Finding> = match source {
                Source::Whole => self.material.findings.iter().collect(),
                Source::One(finding) => vec![finding],
            };
            let one = |finding: &&'m Finding| self.value(items, &at, Source::One(finding), &mut 0, depth + 1);
            // Without findings the item still says whether scout could fill it.
            if findings.is_empty() {
                self.value(items, &at, Source::Whole, &mut 0, depth + 1)?;
            }
            findings.iter().map(one).collect::<Result<_, _>>()?
        };
        Ok(Value::Array(values.into_iter().take(most).collect()))
    }

    fn resolved<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    /// The strings of an array of strings.
    fn strings(&self, source: Source<'m>) -> Vec<String> {
        let mut strings: Vec<String> = match source {
            Source::Whole if !self.material.follows_others && !self.material.parts.is_empty() => {
                self.material.parts.to_vec()
            }
            Source::Whole => self.material.findings.iter().flat_map(paths).collect(),
            Source::One(finding) => paths(finding).collect(),
        };
        let mut seen = std::collections::HashSet::new();
        strings.retain(|text| seen.insert(text.clone()));
        strings
    }

    fn bounded_string(&self, keys: &Map<String, Value>, source: Source<'m>, strings: &mut usize) -> String {
        let text = self.string(source, strings);
        let most = keys.get("maxLength").and_then(Value::as_u64).map_or(2_000, |max| max.min(2_000) as usize);
        text.chars().take(most).collect()
    }

    fn string(&self, source: Source<'m>, strings: &mut usize) -> String {
        let finding = match source {
            Source::Whole => self.material.findings.first(),
            Source::One(finding) => Some(finding),
        };
        let place = finding.and_then(|finding| finding.evidence.first());
        let path = place.map(|place| place.path.clone());
        let quote = place.map(|place| place.quote.clone());
        let claim = finding.map(|finding| finding.claim.clone());
        let answer = Some(text::clip(self.material.answer, 1_500).into_owned());
        let turns = match source {
            Source::Whole => [answer.clone(), path, quote],
            Source::One(_) => [path, quote, claim],
        };
        let turn = *strings % turns.len();
        *strings += 1;
        turns.into_iter().nth(turn).flatten().or(answer).unwrap_or_default()
    }

    fn number(&self, source: Source<'m>) -> u64 {
        match source {
            Source::Whole => self.material.findings.len() as u64,
            Source::One(finding) => finding.evidence.first().map_or(1, |place| place.line),
        }
    }
}

fn paths(finding: &Finding) -> impl Iterator<Item = String> + '_ {
    finding.evidence.iter().map(|place| place.path.clone())
}

/// The type that will be filled in: the first that is not `null`.
fn kind(keys: &Map<String, Value>) -> Option<&str> {
    match keys.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            let first = kinds.clone().find(|kind| *kind != "null");
            first.or_else(|| kinds.next())
        }
        Some(_) | None if keys.contains_key("properties") => Some("object"),
        Some(_) | None if keys.contains_key("items") => Some("array"),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Confidence, Evidence};

    fn findings() -> Vec<Finding> {
        let finding = |path: &str, line| Finding {
            claim: format!("it is in {path}"),
            evidence: vec![Evidence { path: path.to_string(), line, quote: "let x".to_string(), check: None }],
            confidence: Confidence::Medium,
        };
        vec![finding("src/a.rs", 3), finding("src/b.rs", 9)]
    }

    fn filled(schema: Value, follows_others: bool) -> Result<Value, String> {
        let parts = ["src/x".to_string(), "src/y, src/z".to_string()];
        fill(&schema, &Material { parts: &parts, findings: &findings(), answer: "Most likely there.", follows_others })
    }

    #[test]
    fn only_the_shape_counts() {
        let of = |name: &str| json!({ "type": "object", "required": [name], "properties": { name: { "type": "array", "items": { "type": "string" } } } });
        for name in ["parts", "wibble", "x"] {
            assert_eq!(filled(of(name), false).unwrap(), json!({ name: ["src/x", "src/y, src/z"] }));
            assert_eq!(filled(of(name), true).unwrap(), json!({ name: ["src/a.rs", "src/b.rs"] }));
        }
    }

    #[test]
    fn shapes_that_can_be_filled() {
        let item = json!({ "type": "object", "properties": { "p": { "type": "string" }, "n": { "type": "integer" }, "q": { "type": "string" } } });
        let table = [
            (json!({ "type": "string" }), json!("Most likely there.")),
            (json!({ "type": "string", "maxLength": 4 }), json!("Most")),
            (json!({ "type": ["null", "integer"] }), json!(2)),
            (
                json!({ "type": "array", "items": item, "maxItems": 1 }),
                json!([{ "p": "src/a.rs", "n": 3, "q": "let x" }]),
            ),
            (json!({ "type": "array", "items": { "type": "integer" } }), json!([3, 9])),
            (json!({ "$ref": "#/$defs/x", "$defs": { "x": { "type": "number" } } }), json!(2)),
            (
                json!({ "properties": { "maybe": { "type": "boolean" }, "s": {} } }),
                json!({ "s": "Most likely there." }),
            ),
            (json!({ "anyOf": [{ "type": "boolean" }, { "type": "integer" }] }), json!(2)),
        ];
        for (schema, wanted) in table {
            assert_eq!(filled(schema.clone(), true).unwrap(), wanted, "{schema}");
        }
    }

    #[test]
    fn what_cannot_be_filled_is_named() {
        let table = [
            (json!({ "type": "string", "enum": ["left", "right"] }), "`output` asks for a choice"),
            (
                json!({ "type": "object", "required": ["ok"], "properties": { "ok": { "type": "boolean" } } }),
                "`output.ok` asks for yes or no",
            ),
            (json!({ "type": "object", "required": ["ghost"] }), "`output.ghost` is required"),
            (json!({ "type": "array", "items": { "type": "string", "pattern": "^a" } }), "`output[]` asks for text"),
            (json!({ "type": "array", "items": { "type": "integer" }, "minItems": 9 }), "does not fit the schema"),
            (json!({ "$ref": "#" }), "refers to itself"),
            (json!({ "type": "string", "format": "uri" }), "`format`"),
            (json!({ "type": "string", "minLength": 5_000 }), "does not fit the schema"),
            (json!({ "$ref": "https://example.org/x" }), "not in the schema"),
            (json!(false), "allows no value"),
        ];
        for (schema, wanted) in table {
            let why = filled(schema.clone(), true).unwrap_err();
            assert!(why.contains(wanted), "{schema}: {why}");
        }
    }
}
