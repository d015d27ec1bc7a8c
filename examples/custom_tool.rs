//! A tool of one's own: a struct, typed arguments, its effect and one async function.
//!
//! ```text
//! cargo run --example custom_tool
//! ```

use serde::Deserialize;
use sortie::agent::Role;
use sortie::cancel::Cancel;
use sortie::config::RunConfig;
use sortie::coordinator::{self, Harness};
use sortie::model::Scripted;
use sortie::plan::{Format, Known, parse};
use sortie::tool::{Effect, Tool, ToolContext, ToolError};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

// The tool: from here …
struct CountLines;

#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountLinesArgs {
    /// Path relative to the workspace.
    file_path: String,
}

impl Tool for CountLines {
    const NAME: &'static str = "count_lines";
    const DESCRIPTION: &'static str = "Counts the lines of a file.";
    const EFFECT: Effect = Effect::Read;
    type Args = CountLinesArgs;

    async fn call(&self, args: CountLinesArgs, context: &ToolContext) -> Result<String, ToolError> {
        let place = context.places.resolve(&args.file_path).map_err(|error| ToolError::told(error.to_string()))?;
        let text = tokio::fs::read_to_string(place.path).await.map_err(|error| ToolError::told(error.to_string()))?;
        Ok(text.lines().count().to_string())
    }
}
// … to here. What follows gives it to a subagent.

const PLAN: &str = r#"
version = 1
name = "count"
[[node]]
id = "count"
role = "counter"
prompt = "How many lines has Cargo.toml?"
"#;

const ROLE: &str =
    "---\nname: counter\ndescription: Counts.\ntools: count_lines\n---\nYou count lines with `count_lines`.\n";

/// Plays the model, so that this runs without one; it also checks what the subagent is offered.
const SCRIPT: &str = r#"
[[reply]]
node = "count"
calls = [{ name = "count_lines", args = { file_path = "Cargo.toml" } }]
expect = { tools = ["count_lines", "report"], contains = ["How many lines has Cargo.toml?"] }
[[reply]]
node = "count"
calls = [{ name = "report", args = { status = "done", summary = "Counted: see the transcript." } }]
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Arc::new(Scripted::parse("script/count", SCRIPT)?);
    let mut harness = Harness::local(model, Path::new(env!("CARGO_MANIFEST_DIR")))?;
    harness.registry.add(CountLines)?;
    harness.roles.push(Role::parse(ROLE)?);

    let known = Known { roles: vec!["counter".into()], tools: vec!["count_lines".into()], commands_allowed: false };
    let mut config = RunConfig::new();
    config.plan = Some(parse(PLAN, Format::Toml, &known).map_err(|problems| problems.for_model())?);
    let end = coordinator::run(config, harness, &Cancel::new()).await?;
    writeln!(io::stdout(), "{}", end.answer)?;
    match end.problem {
        None => Ok(()),
        Some(problem) => Err(problem.into()),
    }
}
