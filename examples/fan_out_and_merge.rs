//! Fan-out and merge: one question to three subagents at once, one message back, in plan order whatever ends first.
//!
//! ```text
//! cargo run --example fan_out_and_merge
//! ```

use sortie::cancel::Cancel;
use sortie::config::RunConfig;
use sortie::coordinator::{self, Harness};
use sortie::model::Scripted;
use sortie::plan::{Format, Known, parse};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const PLAN: &str = r#"
version = 1
name = "three_at_once"
[[node]]
id = "ask"
foreach = ["src/plan", "src/agent", "src/tool"]
prompt = "What is {{ item }} for?"
"#;

/// The first subagent is the slowest: its section still comes first.
const SCRIPT: &str = r#"
[[reply]]
node = "ask[0]"
delay = "300ms"
calls = [{ name = "report", args = { status = "done", summary = "It holds what is to be done." } }]
expect = { contains = ["What is src/plan for?"], absent = ["src/agent"] }
[[reply]]
node = "ask[1]"
delay = "200ms"
calls = [{ name = "report", args = { status = "done", summary = "It holds one conversation." } }]
[[reply]]
node = "ask[2]"
delay = "100ms"
calls = [{ name = "report", args = { status = "done", summary = "It holds what a model may call." } }]
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Arc::new(Scripted::parse("script/three", SCRIPT)?);
    let harness = Harness::local(model, Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let known = Known { roles: vec!["explorer".into()], tools: Vec::new(), commands_allowed: false };
    let mut config = RunConfig::new();
    config.plan = Some(parse(PLAN, Format::Toml, &known).map_err(|problems| problems.for_model())?);

    let started = Instant::now();
    let end = coordinator::run(config, harness, &Cancel::new()).await?;
    writeln!(io::stdout(), "{}", end.answer)?;
    writeln!(io::stdout(), "600 ms of model time took {} ms", started.elapsed().as_millis())?;
    match end.problem {
        None => Ok(()),
        Some(problem) => Err(problem.into()),
    }
}
