//! All tools of a run, and the subset that one conversation may call.

use super::{Effect, MAX_RESULT, Tool, ToolContext, ToolError};
use crate::model::{ToolCall, ToolSpec};
use crate::text;
use async_trait::async_trait;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Names that would start subagents: never part of a subagent's toolset, whatever a registry holds.
const SPAWNERS: [&str; 1] = ["submit_plan"];

/// All tools of a run. Every schema has been checked.
#[derive(Clone, Default)]
pub struct Registry {
    tools: IndexMap<&'static str, Arc<dyn ErasedTool>>,
}

/// Why a tool cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The name is not `[a-zA-Z0-9_-]{1,64}`.
    #[error("tool name `{0}` is not 1 to 64 letters, digits, `_` or `-`")]
    Name(String),
    /// Another tool has the name.
    #[error("there are two tools named `{0}`")]
    Duplicate(String),
    /// The schema is not a valid JSON Schema of an object.
    #[error("the arguments of tool `{tool}` have no valid schema: {problem}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong.
        problem: String,
    },
}

impl Registry {
    /// No tools.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// When its name or schema is not usable, or the name is taken.
    pub fn add<T: Tool>(&mut self, tool: T) -> Result<(), RegistryError> {
        let schema = argument_schema::<T>();
        check_name(T::NAME)?;
        let validator = check_schema(T::NAME, &schema)?;
        if self.tools.contains_key(T::NAME) {
            return Err(RegistryError::Duplicate(T::NAME.to_string()));
        }
        let spec = ToolSpec { name: T::NAME.to_string(), description: T::DESCRIPTION.trim().to_string(), schema };
        let compact = compact(&spec, T::ESSENTIAL);
        self.tools.insert(T::NAME, Arc::new(Typed { tool, spec, compact, validator }));
        Ok(())
    }

    /// Names of all tools, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.tools.keys().copied()
    }

    /// Whether there is a tool of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// The effect of the tool of this name.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.tools.get(name).map(|tool| tool.effect())
    }

    /// The tools of a subagent: those named that exist, in registry order. A tool that starts subagents is never among
    /// them.
    pub fn subagent(&self, names: &[String]) -> Toolset {
        self.toolset(|name| !SPAWNERS.contains(&name) && names.iter().any(|wanted| wanted == name))
    }

    /// The tools of the coordinator: those that only read, and what starts a plan.
    pub(crate) fn coordinator(&self) -> Toolset {
        self.toolset(|name| SPAWNERS.contains(&name) || self.effect(name) == Some(Effect::Read))
    }

    fn toolset(&self, keep: impl Fn(&str) -> bool) -> Toolset {
        let tools: IndexMap<_, _> =
            self.tools.iter().filter(|(name, _)| keep(name)).map(|(name, tool)| (*name, Arc::clone(tool))).collect();
        Toolset { tools, room: None }
    }
}

/// The tools that one conversation has.
#[derive(Clone, Default)]
pub struct Toolset {
    tools: IndexMap<&'static str, Arc<dyn ErasedTool>>,
    /// Bytes that any result may have, where that is less than its tool allows.
    room: Option<usize>,
}

/// What a tool call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCallEnd {
    /// It worked; this is what the model reads.
    Done(String),
    /// It did not; this is what the model reads.
    Failed(String),
    /// The node must end.
    Fatal(String),
}

impl Toolset {
    /// What the model sees, in registry order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.spec().clone()).collect()
    }

    /// The same for a small model: of descriptions the first sentence, and only the arguments that matter.
    pub fn compact_specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.compact().clone()).collect()
    }

    /// The same tools with results of at most this many bytes each: for a model with a small window.
    #[must_use]
    pub fn within(self, room: usize) -> Self {
        Toolset { room: Some(room), ..self }
    }

    /// Names in registry order.
    pub fn names(&self) -> Vec<&'static str> {
        self.tools.keys().copied().collect()
    }

    /// The effect of a tool, if it is in the set.
    pub fn effect(&self, name: &str) -> Option<Effect> {
        self.tools.get(name).map(|tool| tool.effect())
    }

    /// Makes one call: checks the name and the arguments, runs the tool, bounds the result.
    pub async fn call(&self, call: &ToolCall, context: &ToolContext) -> ToolCallEnd {
        let Some(tool) = self.tools.get(call.name.as_str()) else {
            return ToolCallEnd::Failed(self.unknown(&call.name));
        };
        match tool.call(call.args.clone(), context).await {
            Ok(text) if text.is_empty() => ToolCallEnd::Done("(no output)".to_string()),
            Ok(text) => ToolCallEnd::Done(self.bounded(&text, tool.max_result())),
            Err(ToolError::Told(message)) => ToolCallEnd::Failed(self.bounded(&message, MAX_RESULT)),
            Err(ToolError::Fatal(message)) => ToolCallEnd::Fatal(message),
        }
    }

    fn bounded(&self, text: &str, most: usize) -> String {
        text::clip_middle(text, self.room.map_or(most, |room| room.min(most))).into_owned()
    }

    fn unknown(&self, name: &str) -> String {
        let names = self.names().join("`, `");
        format!("there is no tool `{}` here; the tools are `{names}` and `report`", text::clip(name, 64))
    }
}

/// A tool with its types erased.
#[async_trait]
trait ErasedTool: Send + Sync {
    fn spec(&self) -> &ToolSpec;
    fn compact(&self) -> &ToolSpec;
    fn effect(&self) -> Effect;
    fn max_result(&self) -> usize;
    async fn call(&self, args: Value, context: &ToolContext) -> Result<String, ToolError>;
}

struct Typed<T> {
    tool: T,
    spec: ToolSpec,
    compact: ToolSpec,
    validator: jsonschema::Validator,
}

#[async_trait]
impl<T: Tool> ErasedTool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn compact(&self) -> &ToolSpec {
        &self.compact
    }

    fn effect(&self) -> Effect {
        T::EFFECT
    }

    fn max_result(&self) -> usize {
        T::MAX_RESULT
    }

    async fn call(&self, args: Value, context: &ToolContext) -> Result<String, ToolError> {
        let complaint = match complaints(&self.validator, &args) {
            Some(problems) => problems,
            None => match T::Args::deserialize(&args) {
                Ok(args) => return self.tool.call(args, context).await,
                Err(error) => error.to_string(),
            },
        };
        let example = example(&self.spec.schema);
        let complaint = format!("the arguments of `{}` are not valid: {complaint}. Example: {example}", T::NAME);
        Err(self.tool.misused(&args, complaint))
    }
}

/// What a schema has against a value, each with its place; `None` when it fits.
pub(crate) fn complaints(validator: &jsonschema::Validator, value: &Value) -> Option<String> {
    let problems: Vec<String> = validator
        .iter_errors(value)
        .take(10)
        .map(|error| {
            let place = error.instance_path().to_string();
            let message = text::clip(&error.to_string(), 300).into_owned();
            if place.is_empty() { message } else { format!("{message} (at `{place}`)") }
        })
        .collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn argument_schema<T: Tool>() -> Value {
    let mut schema = schemars::schema_for!(T::Args).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.entry("type").or_insert_with(|| json!("object"));
    }
    unwrap_descriptions(&mut schema);
    schema
}

/// A tool as small models see it. What fits the smaller schema fits the whole one.
fn compact(spec: &ToolSpec, essential: &[&str]) -> ToolSpec {
    let mut schema = spec.schema.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| essential.is_empty() || essential.contains(&name.as_str()));
        for property in properties.values_mut() {
            if let Some(Value::String(text)) = property.get_mut("description") {
                *text = first_sentence(text).to_string();
            }
        }
    }
    ToolSpec { name: spec.name.clone(), description: first_sentence(&spec.description).to_string(), schema }
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// Doc comments break lines for editors; a model gets them as the sentences they are.
fn unwrap_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(text) if key == "description" => {
                        *text = text.split_whitespace().collect::<Vec<_>>().join(" ")
                    }
                    _ => unwrap_descriptions(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unwrap_descriptions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_name(name: &str) -> Result<(), RegistryError> {
    let fits =
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(()) } else { Err(RegistryError::Name(name.to_string())) }
}

fn check_schema(tool: &str, schema: &Value) -> Result<jsonschema::Validator, RegistryError> {
    let problem = |problem: String| RegistryError::Schema { tool: tool.to_string(), problem };
    if schema.get("type") != Some(&json!("object")) {
        return Err(problem("its type is not `object`".to_string()));
    }
    jsonschema::meta::validate(schema).map_err(|error| problem(error.to_string()))?;
    jsonschema::validator_for(schema).map_err(|error| problem(error.to_string()))
}

/// A small valid-looking value of a schema: required properties only.
fn example(schema: &Value) -> Value {
    let mut object = Map::new();
    if let Some(required) = schema.get("required").and_then(Value::as_array) {
        for name in required.iter().filter_map(Value::as_str) {
            let kind = schema.pointer(&format!("/properties/{name}/type"));
            let value = match kind.and_then(Value::as_str) {
                Some("integer" | "number") => json!(1),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => json!("…"),
            };
            object.insert(name.to_string(), value);
        }
    }
    Value::Object(object)
}
