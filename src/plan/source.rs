//! The two spellings of a plan as one tree of values that know their places.
//!
//! TOML and JSON files give byte spans, a value from a model gives JSON pointers. Syntax errors, keys given twice and
//! numbers that fit nowhere are found here; what the values mean is for `parse` to say. Depth is bounded, so nothing
//! that walks the tree can run out of stack.

use super::diag::Findings;
use crate::text::clip;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use toml::de::{DeInteger, DeTable, DeValue};

/// How deeply values may be nested.
const MAX_DEPTH: usize = 100;

/// How a plan is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// By hand.
    Toml,
    /// From a model, or from `plan show --format json`.
    Json,
}

impl Format {
    /// The format of a file: by the end of its name, else by how its text begins.
    pub fn of(name: &str, text: &str) -> Self {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match extension.as_deref() {
            Some("json") => Format::Json,
            Some("toml") => Format::Toml,
            _ if normalise(text).trim_start().starts_with('{') => Format::Json,
            _ => Format::Toml,
        }
    }
}

/// The text that spans refer to: without byte-order mark, with `\n` at the end of lines.
pub(crate) fn normalise(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Where a value stands: bytes of the normalised text, or a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Text(Range<usize>),
    Pointer(String),
}

impl Spot {
    /// The start of the whole plan.
    pub(crate) fn start(&self) -> Spot {
        match self {
            Spot::Text(_) => Spot::Text(0..0),
            Spot::Pointer(_) => Spot::Pointer(String::new()),
        }
    }
}

/// A value and its place.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) spot: Spot,
    pub(crate) shape: Shape,
}

/// What the value is.
#[derive(Debug)]
pub(crate) enum Shape {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    /// TOML only.
    Date(String),
    List(Vec<Placed>),
    Table(Vec<Entry>),
}

/// A key with its value. No table holds a key twice.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_spot: Spot,
    pub(crate) value: Placed,
}

impl Placed {
    /// What it is, in words that read after "not": ``the text `x` ``, `a list`.
    pub(crate) fn describe(&self) -> String {
        match &self.shape {
            Shape::Null => "null".to_owned(),
            Shape::Bool(value) => format!("`{value}`"),
            Shape::Number(number) => format!("the number `{number}`"),
            Shape::Text(text) => format!("the text `{}`", clip(&text.replace('\n', " "), 40)),
            Shape::Date(date) => format!("the date `{date}`"),
            Shape::List(_) => "a list".to_owned(),
            Shape::Table(_) => "a table".to_owned(),
        }
    }

    /// The same without places. A date becomes text.
    pub(crate) fn to_json(&self) -> Value {
        match &self.shape {
            Shape::Null => Value::Null,
            Shape::Bool(value) => Value::Bool(*value),
            Shape::Number(number) => Value::Number(number.clone()),
            Shape::Text(text) | Shape::Date(text) => Value::String(text.clone()),
            Shape::List(items) => items.iter().map(Placed::to_json).collect(),
            Shape::Table(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect())
            }
        }
    }
}

/// Reads TOML. `None` when its syntax is broken; every error that the parser recovers from has then been found.
pub(crate) fn read_toml(text: &str, findings: &mut Findings) -> Option<Placed> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let newlines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let mut lines: HashSet<usize> = HashSet::new();
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        // One slip makes the parser stumble more than once in a row: the first stumble of a line says it best.
        if lines.insert(newlines.partition_point(|&newline| newline < span.start)) {
            findings.error("syntax", &Spot::Text(span), format!("this is not TOML: {}", error.message()));
        }
    }
    if !errors.is_empty() {
        return None;
    }
    let span = document.span();
    let shape = toml_table(document.get_ref(), 0, findings);
    Some(Placed { spot: Spot::Text(span), shape })
}

fn toml_table(table: &DeTable<'_>, depth: usize, findings: &mut Findings) -> Shape {
    let entries = table.iter().map(|(key, value)| Entry {
        key: key.get_ref().to_string(),
        key_spot: Spot::Text(key.span()),
        value: toml_value(value.get_ref(), Spot::Text(value.span()), depth + 1, findings),
    });
    Shape::Table(entries.collect())
}

fn toml_value(value: &DeValue<'_>, spot: Spot, depth: usize, findings: &mut Findings) -> Placed {
    if depth > MAX_DEPTH {
        too_deep(&spot, findings);
        return Placed { spot, shape: Shape::Null };
    }
    let shape = match value {
        DeValue::String(text) => Shape::Text(text.to_string()),
        DeValue::Integer(integer) => toml_integer(integer, &spot, findings),
        DeValue::Float(float) => match float.as_str().parse().ok().and_then(Number::from_f64) {
            Some(number) => Shape::Number(number),
            None => no_such_number(float.as_str(), &spot, findings),
        },
        DeValue::Boolean(value) => Shape::Bool(*value),
        DeValue::Datetime(date) => Shape::Date(date.to_string()),
        DeValue::Array(items) => Shape::List(
            items.iter().map(|item| toml_value(item.get_ref(), Spot::Text(item.span()), depth + 1, findings)).collect(),
        ),
        DeValue::Table(table) => toml_table(table, depth, findings),
    };
    Placed { spot, shape }
}

fn toml_integer(integer: &DeInteger<'_>, spot: &Spot, findings: &mut Findings) -> Shape {
    match i64::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(number) => Shape::Number(number.into()),
        Err(_) => no_such_number(&integer.to_string(), spot, findings),
    }
}

fn no_such_number(text: &str, spot: &Spot, findings: &mut Findings) -> Shape {
    findings.error("bad-number", spot, format!("`{}` is not a number that fits here", clip(text, 40)));
    // As if it were not there: one mistake, one problem.
    Shape::Null
}

fn too_deep(spot: &Spot, findings: &mut Findings) {
    findings.error("too-deep", spot, format!("values are nested more than {MAX_DEPTH} deep"));
}

/// Reads JSON. `None` when its syntax is broken.
pub(crate) fn read_json(text: &str, findings: &mut Findings) -> Option<Placed> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Some(json_value(text, raw.get(), 0, findings)),
        Err(error) => {
            let at = offset(text, error.line(), error.column());
            // serde_json ends its messages with the place, which is told apart here.
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
            findings.error("syntax", &Spot::Text(at..at), format!("this is not JSON: {message}"));
            None
        }
    }
}

/// The byte offset of a 1-based line and byte column.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}

/// Where `part`, a slice of `text`, lies in it.
fn span_of(text: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    start..(start + part.len()).min(text.len())
}

/// `raw` is a slice of `text` that serde_json has already walked over, one value without space around it. Each level
/// is split into raw slices, whose addresses tell their spans.
fn json_value(text: &str, raw: &str, depth: usize, findings: &mut Findings) -> Placed {
    let spot = Spot::Text(span_of(text, raw));
    if depth > MAX_DEPTH {
        too_deep(&spot, findings);
        return Placed { spot, shape: Shape::Null };
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    let parts = match raw.as_bytes().first() {
        Some(b'{') => deserializer.deserialize_map(Parts),
        Some(b'[') => deserializer.deserialize_seq(Parts),
        _ => serde_json::from_str(raw).map(Split::Leaf),
    };
    let shape = match parts {
        Ok(Split::Leaf(value)) => json_leaf(value),
        Ok(Split::List(items)) => {
            Shape::List(items.iter().map(|item| json_value(text, item.get(), depth + 1, findings)).collect())
        }
        Ok(Split::Table(fields)) => json_table(text, &fields, depth, findings),
        Err(_) => no_such_number(raw, &spot, findings),
    };
    Placed { spot, shape }
}

fn json_leaf(value: Value) -> Shape {
    match value {
        Value::Bool(value) => Shape::Bool(value),
        Value::Number(number) => Shape::Number(number),
        Value::String(text) => Shape::Text(text),
        Value::Null | Value::Array(_) | Value::Object(_) => Shape::Null,
    }
}

fn json_table(text: &str, fields: &[(&RawValue, &RawValue)], depth: usize, findings: &mut Findings) -> Shape {
    let mut entries: Vec<Entry> = Vec::with_capacity(fields.len());
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (raw_key, raw) in fields {
        let key_spot = Spot::Text(span_of(text, raw_key.get()));
        let key: String = serde_json::from_str(raw_key.get()).unwrap_or_else(|_| raw_key.get().to_owned());
        if let Some(&at) = positions.get(&key) {
            findings
                .error("duplicate-key", &key_spot, format!("`{key}` is given twice"))
                .related(&entries[at].key_spot, "first here");
            continue;
        }
        positions.insert(key.clone(), entries.len());
        entries.push(Entry { key, key_spot, value: json_value(text, raw.get(), depth + 1, findings) });
    }
    Shape::Table(entries)
}

/// One level of a JSON text.
enum Split<'a> {
    Leaf(Value),
    List(Vec<&'a RawValue>),
    Table(Vec<(&'a RawValue, &'a RawValue)>),
}

/// Splits a list or table into its raw parts.
struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Split<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Split::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Split::Table(fields))
    }
}

/// A value from a model's tool call; its places are JSON pointers.
pub(crate) fn read_value(value: &Value, findings: &mut Findings) -> Placed {
    from_value(value, String::new(), 0, findings)
}

fn from_value(value: &Value, pointer: String, depth: usize, findings: &mut Findings) -> Placed {
    let spot = Spot::Pointer(pointer.clone());
    if depth > MAX_DEPTH {
        too_deep(&spot, findings);
        return Placed { spot, shape: Shape::Null };
    }
    let shape = match value {
        Value::Null => Shape::Null,
        Value::Bool(value) => Shape::Bool(*value),
        Value::Number(number) => Shape::Number(number.clone()),
        Value::String(text) => Shape::Text(text.clone()),
        Value::Array(items) => {
            let item = |(index, item)| from_value(item, format!("{pointer}/{index}"), depth + 1, findings);
            Shape::List(items.iter().enumerate().map(item).collect())
        }
        Value::Object(fields) => pointer_table(fields, &pointer, depth, findings),
    };
    Placed { spot, shape }
}

fn pointer_table(fields: &Map<String, Value>, pointer: &str, depth: usize, findings: &mut Findings) -> Shape {
    let entries = fields.iter().map(|(key, value)| {
        let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        Entry {
            key: key.clone(),
            key_spot: Spot::Pointer(pointer.clone()),
            value: from_value(value, pointer, depth + 1, findings),
        }
    });
    Shape::Table(entries.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(format: Format, text: &str) -> Vec<&'static str> {
        let mut findings = Findings::default();
        match format {
            Format::Toml => read_toml(text, &mut findings),
            Format::Json => read_json(text, &mut findings),
        };
        findings.finish(text).iter().map(|problem| problem.code).collect()
    }

    /// Every value with the text that its span covers.
    fn spans(text: &str, value: &Placed, out: &mut Vec<String>) {
        if let Spot::Text(span) = &value.spot {
            out.push(text[span.clone()].to_owned());
        }
        match &value.shape {
            Shape::List(items) => items.iter().for_each(|item| spans(text, item, out)),
            Shape::Table(entries) => entries.iter().for_each(|entry| spans(text, &entry.value, out)),
            Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Text(_) | Shape::Date(_) => {}
        }
    }

    #[test]
    fn every_json_value_knows_its_place() {
        let text = "{ \"a\" : [ 1 , \"é\" , { \"b\": null } ] ,\n \"c\\n\": true }";
        let mut findings = Findings::default();
        let value = read_json(text, &mut findings).unwrap();
        let mut found = Vec::new();
        spans(text, &value, &mut found);
        assert_eq!(found, [text, "[ 1 , \"é\" , { \"b\": null } ]", "1", "\"é\"", "{ \"b\": null }", "null", "true"]);
        assert_eq!(value.to_json(), serde_json::from_str::<Value>(text).unwrap());
        assert!(!findings.has_errors());
    }

    #[test]
    fn depth_and_size_are_bounded_in_every_spelling() {
        let deep = 50_000;
        assert_eq!(codes(Format::Json, &("[".repeat(deep) + &"]".repeat(deep))), ["too-deep"]);
        assert_eq!(codes(Format::Toml, &format!("a = {}{}", "[".repeat(deep), "]".repeat(deep))), ["syntax"]);
        assert_eq!(codes(Format::Toml, &format!("a = {}", "{a=".repeat(deep))), ["syntax"]);
        assert_eq!(codes(Format::Toml, &format!("[{}]", ["a"; 10_000].join("."))), ["syntax"]);
        let dotted = format!("{} = ", ["a"; 70].join("."));
        let crossed = (0..70).fold("1".to_owned(), |inner, _| format!("{{ {dotted} {inner} }}"));
        assert_eq!(codes(Format::Toml, &format!("a = {crossed}")), ["too-deep"]);
        for number in ["1e999", "-1e999"] {
            assert_eq!(codes(Format::Json, number), ["bad-number"], "{number}");
        }
        for number in ["9223372036854775808", "nan", "inf", "1e999", "0xffffffffffffffffffff"] {
            assert_eq!(codes(Format::Toml, &format!("a = {number}")), ["bad-number"], "{number}");
        }
        let mut value = Value::Null;
        for _ in 0..500 {
            value = Value::Array(vec![value]);
        }
        let mut findings = Findings::default();
        read_value(&value, &mut findings);
        assert!(findings.has_errors());
    }

    #[test]
    fn a_key_given_twice_is_told_with_both_places() {
        let mut findings = Findings::default();
        let text = "{\"a\": 1, \"\\u0061\": 2}";
        read_json(text, &mut findings);
        assert_eq!(
            findings.finish(text).for_model(),
            "1:10: `a` is given twice (first here: 1:2)\n1 problem in the plan\n"
        );
        assert_eq!(codes(Format::Toml, "a = 1\na = 2"), ["syntax"]);
    }

    #[test]
    fn toml_tells_all_syntax_errors_it_can_recover_from() {
        let mut findings = Findings::default();
        let text = "a = \nb = 1\nc = [1,,2]\n[d\ne = 'x\n";
        assert!(read_toml(text, &mut findings).is_none());
        assert_eq!(
            findings.finish(text).for_model(),
            "1:5: this is not TOML: string values must be quoted, expected literal string\n\
             3:8: this is not TOML: extra comma in array, expected value\n\
             4:3: this is not TOML: unclosed table, expected `]`\n\
             3 problems in the plan\n"
        );
    }

    #[test]
    fn the_format_is_told_by_name_then_by_text() {
        for (name, text, format) in [
            ("a.json", "", Format::Json),
            ("a.JSON", "", Format::Json),
            ("a.toml", "{", Format::Toml),
            ("<stdin>", "\u{feff} \r\n{}", Format::Json),
            ("plan", "version = 1", Format::Toml),
        ] {
            assert_eq!(Format::of(name, text), format, "{name}");
        }
    }
}
