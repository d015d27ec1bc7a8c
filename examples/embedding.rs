//! sortie as a library, with a reporter of one's own: every node's end as a line, as it happens.
//!
//! ```text
//! cargo run --example embedding -- "where is cancellation handled?" .
//! ```

use sortie::cancel::Cancel;
use sortie::config::RunConfig;
use sortie::coordinator::{self, Harness};
use sortie::event::{Event, EventKind};
use sortie::model::Scout;
use sortie::ui::Reporter;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Prints a line when a node ends.
struct Ends;

impl Reporter for Ends {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::NodeFinished { node, end, duration_ms, .. } => {
                writeln!(io::stderr(), "{node}: {} after {duration_ms} ms", end.outcome)
            }
            _ => Ok(()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut config = RunConfig::new();
    config.task = Some(arguments.next().unwrap_or_else(|| "where is cancellation handled?".to_string()));
    let directory = arguments.next().unwrap_or_else(|| ".".to_string());

    let mut harness = Harness::local(Arc::new(Scout), Path::new(&directory))?;
    harness.reporters.push(Box::new(Ends));
    let end = coordinator::run(config, harness, &Cancel::new()).await?;

    writeln!(io::stdout(), "{}", end.answer)?;
    Ok(())
}
