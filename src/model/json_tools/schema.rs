//! A tool's schema as a grammar can take it.
//!
//! llama.cpp turns a schema into a grammar. What it does not know it passes over in silence or gets wrong: references
//! inside references, patterns without anchors, `not`, conditions, properties beside `anyOf`; a long `maxLength`
//! becomes as many rules and slows every token (its `grammars/README.md`). Engines behind vLLM and Ollama differ in the
//! same corners. So only what all of them know is left, with references put in place. What is taken away is still
//! checked when the tool is called.
//!
//! Under a grammar a small model goes on for as long as it may: given the chance, it fills every list with the same
//! item. So arguments that may be missing are left out where they are lists, structures or long texts.

use serde_json::{Map, Value, json};

/// Items of a list that a grammar lets through: a small model ends a list only when it must.
const MAX_ITEMS: u64 = 8;
/// Characters of a text that has a limit: a larger one is lowered to this, for the same reason.
const MAX_LENGTH: u64 = 400;
/// References inside references that are followed: a schema may contain itself.
const MAX_DEPTH: usize = 8;

/// The schema in the words that every engine knows.
pub(super) fn simple(schema: &Value) -> Value {
    shrink(schema, schema, 0)
}

fn shrink(schema: &Value, root: &Value, depth: usize) -> Value {
    // `true`, and what is nested too deep: anything.
    let Some(schema) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return json!({}) };
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or_else(|| json!({}), |found| shrink(found, root, depth + 1));
    }
    for key in ["const", "enum"] {
        if let Some(value) = schema.get(key) {
            return json!({ key: value });
        }
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(options)) = schema.get(key) {
            let options: Vec<Value> = options.iter().map(|option| shrink(option, root, depth + 1)).collect();
            return json!({ "anyOf": options });
        }
    }
    // What has one part is that part; what has more cannot be said in a grammar.
    if let Some(Value::Array(parts)) = schema.get("allOf")
        && let [part] = parts.as_slice()
    {
        return shrink(part, root, depth + 1);
    }
    let mut out = Map::new();
    for key in ["type", "minimum", "maximum", "minItems", "required"] {
        if let Some(value) = schema.get(key) {
            out.insert(key.into(), value.clone());
        }
    }
    // Only whole numbers have limits in a grammar.
    if schema.get("type").and_then(Value::as_str) != Some("integer") {
        out.shift_remove("minimum");
        out.shift_remove("maximum");
    }
    if let Some(most) = schema.get("maxLength").and_then(Value::as_u64) {
        out.insert("maxLength".into(), most.min(MAX_LENGTH).into());
    }
    if let Some(items) = schema.get("items") {
        out.insert("items".into(), shrink(items, root, depth + 1));
        let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(MAX_ITEMS).min(MAX_ITEMS);
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        out.insert("maxItems".into(), most.max(least).into());
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let required = required(schema.get("required"));
        let properties: Map<String, Value> = properties
            .iter()
            .map(|(name, property)| (name.clone(), shrink(property, root, depth + 1)))
            .filter(|(name, property)| required.contains(&name.as_str()) || is_short(property))
            .collect();
        out.insert("properties".into(), properties.into());
        out.insert("additionalProperties".into(), false.into());
    }
    Value::Object(out)
}

fn required(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether a value of this simplified schema is a word or a number, as far as the schema says.
fn is_short(schema: &Value) -> bool {
    if let Some(Value::Array(options)) = schema.get("anyOf") {
        return options.iter().all(is_short);
    }
    let scalar = |kind: &Value| !matches!(kind.as_str(), Some("array" | "object") | None);
    let short = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().all(scalar),
        Some(kind) => scalar(kind),
        None => schema.get("const").or_else(|| schema.get("enum")).is_some(),
    };
    short && schema.get("maxLength").and_then(Value::as_u64).is_none_or(|most| most < MAX_LENGTH)
}

/// A tool as one line that a small model can read: `read_file(file_path: string, offset?: integer)`. Its schema has
/// been simplified.
pub(super) fn signature(name: &str, schema: &Value) -> String {
    let required = required(schema.get("required"));
    let arguments: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(argument, property)| {
            let mark = if required.contains(&argument.as_str()) { "" } else { "?" };
            format!("{argument}{mark}: {}", kind(property))
        })
        .collect();
    format!("{name}({})", arguments.join(", "))
}

/// A type in a word or two, of a schema that has been simplified.
fn kind(schema: &Value) -> String {
    if let Some(Value::Array(words)) = schema.get("enum") {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        return words.join("|");
    }
    if let Some(Value::Array(options)) = schema.get("anyOf") {
        let options: Vec<String> = options.iter().map(kind).filter(|kind| kind != "null").collect();
        return options.join("|");
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => {
            format!("[{}]", schema.get("items").map_or_else(String::new, kind))
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect();
            names.join("|")
        }
        Some(_) | None => "any".to_string(),
    }
}
