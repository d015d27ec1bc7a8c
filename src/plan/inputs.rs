//! From the texts that a caller gives to the values of a plan's inputs.

use super::suggest::{nearest, one_of};
use super::{Input, Plan};
use crate::text::clip;
use indexmap::IndexMap;
use serde_json::Value;

impl Plan {
    /// The value of every input, in declaration order.
    ///
    /// A text stays text, unless the input's default is a number, a boolean or a list: then it is read as JSON.
    ///
    /// # Errors
    /// One line each for every input that is missing, unknown or of another type.
    pub fn resolve_inputs(&self, given: &IndexMap<String, String>) -> Result<IndexMap<String, Value>, Vec<String>> {
        let mut errors = Vec::new();
        let mut values = IndexMap::new();
        for (name, input) in &self.inputs {
            match (given.get(name), &input.default) {
                (Some(text), default) => match read(text, default.as_ref()) {
                    Ok(value) => {
                        values.insert(name.clone(), value);
                    }
                    Err(expected) => {
                        errors.push(format!("input `{name}` must be {expected}, not `{}`", clip(text, 40)));
                    }
                },
                (None, Some(default)) => {
                    values.insert(name.clone(), default.clone());
                }
                (None, None) => errors.push(missing(name, input)),
            }
        }
        for name in given.keys().filter(|name| !self.inputs.contains_key(*name)) {
            errors.push(self.unknown_input(name));
        }
        if errors.is_empty() { Ok(values) } else { Err(errors) }
    }

    fn unknown_input(&self, name: &str) -> String {
        let known = || self.inputs.keys().map(String::as_str);
        let name = clip(name, 40);
        match nearest(&name, known()) {
            Some(near) => format!("the plan has no input `{name}`; did you mean `{near}`?"),
            None if self.inputs.is_empty() => format!("the plan has no input `{name}`; it takes none"),
            None => {
                format!("the plan has no input `{name}`; it takes {}", one_of(known()).replace(" or ", " and "))
            }
        }
    }
}

fn missing(name: &str, input: &Input) -> String {
    if input.description.is_empty() {
        format!("input `{name}` is missing")
    } else {
        format!("input `{name}` is missing: {}", input.description)
    }
}

/// The value of a given text; else what it should have been.
fn read(text: &str, default: Option<&Value>) -> Result<Value, &'static str> {
    let json = || serde_json::from_str::<Value>(text.trim()).ok();
    match default {
        None | Some(Value::String(_) | Value::Null | Value::Object(_)) => Ok(Value::String(text.to_owned())),
        Some(Value::Number(_)) => json().filter(Value::is_number).ok_or("a number"),
        Some(Value::Bool(_)) => json().filter(Value::is_boolean).ok_or("`true` or `false`"),
        Some(Value::Array(_)) => json().filter(Value::is_array).ok_or("a list in JSON, such as `[\"a\", \"b\"]`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan(inputs: &[(&str, Option<Value>)]) -> Plan {
        let inputs = inputs.iter().map(|(name, default)| {
            let input = Input { description: format!("the {name}"), default: default.clone() };
            ((*name).to_owned(), input)
        });
        Plan { version: 1, name: "t".into(), description: String::new(), inputs: inputs.collect(), nodes: vec![] }
    }

    fn given(pairs: &[(&str, &str)]) -> IndexMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn texts_are_read_by_the_type_of_the_default() {
        let plan = plan(&[
            ("question", None),
            ("path", Some(json!("."))),
            ("depth", Some(json!(2))),
            ("deep", Some(json!(false))),
            ("paths", Some(json!([]))),
        ]);
        let values = plan
            .resolve_inputs(&given(&[("question", "12"), ("depth", "3"), ("deep", "true"), ("paths", "[\"a\"]")]))
            .unwrap();
        assert_eq!(
            serde_json::to_value(values).unwrap(),
            json!({"question": "12", "path": ".", "depth": 3, "deep": true, "paths": ["a"]})
        );
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let plan = plan(&[("question", None), ("topic", None), ("depth", Some(json!(2)))]);
        let errors = plan.resolve_inputs(&given(&[("qestion", "x"), ("zzz", "y"), ("depth", "deep")])).unwrap_err();
        assert_eq!(
            errors,
            [
                "input `question` is missing: the question",
                "input `topic` is missing: the topic",
                "input `depth` must be a number, not `deep`",
                "the plan has no input `qestion`; did you mean `question`?",
                "the plan has no input `zzz`; it takes `question`, `topic` and `depth`",
            ]
        );
    }
}
