//! A pipeline: each node rests on the one before it, through structured `output` and through its report.
//!
//! ```text
//! cargo run --example pipeline
//! ```

use sortie::cancel::Cancel;
use sortie::config::RunConfig;
use sortie::coordinator::{self, Harness};
use sortie::model::Scripted;
use sortie::plan::{Format, Known, parse, tree};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

const PLAN: &str = r#"
version = 1
name = "pipeline"

[[node]]
id = "size"
command = "wc -l < Cargo.toml | awk '{ print \"{\\\"lines\\\":\" $1 \"}\" }'"
output = { type = "object", required = ["lines"], properties = { lines = { type = "integer" } } }

[[node]]
id = "judge"
needs = ["size"]
prompt = "Cargo.toml has {{ nodes.size.output.lines }} lines. Is that much?"

[[node]]
id = "sum_up"
needs = ["judge"]
prompt = "Say it in three words."
"#;

const SCRIPT: &str = r###"
[[reply]]
node = "judge"
calls = [{ name = "report", args = { status = "done", summary = "It is a normal size for its number of dependencies." } }]
expect = { contains = ["Cargo.toml has ", " lines. Is that much?"], absent = ["{{"] }
[[reply]]
node = "sum_up"
calls = [{ name = "report", args = { status = "done", summary = "Size is fine.", used_inputs = ["judge"] } }]
expect = { contains = ["## judge: succeeded", "It is a normal size"] }
"###;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let known = Known { roles: vec!["explorer".into()], tools: Vec::new(), commands_allowed: true };
    let plan = parse(PLAN, Format::Toml, &known).map_err(|problems| problems.render("pipeline", PLAN, false))?;
    writeln!(io::stdout(), "{}", tree(&plan))?;

    let model = Arc::new(Scripted::parse("script/pipeline", SCRIPT)?);
    let harness = Harness::local(model, Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let mut config = RunConfig::new();
    config.plan = Some(plan);
    config.environment = std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
    let end = coordinator::run(config, harness, &Cancel::new()).await?;
    writeln!(io::stdout(), "{}", end.answer)?;
    match end.problem {
        None => Ok(()),
        Some(problem) => Err(problem.into()),
    }
}
