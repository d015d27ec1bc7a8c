//! A model behind HTTP, put together by hand: what `[providers.NAME]` in a config does.
//!
//! ```text
//! cargo run --example http_model -- http://127.0.0.1:11434 qwen3:8b "where is cancellation handled?"
//! ```

use sortie::cancel::Cancel;
use sortie::config::RunConfig;
use sortie::coordinator::{self, Harness};
use sortie::model::catalog::Catalog;
use sortie::model::http::{Auth, HttpModel, NetSettings, Options, Provider, Server, ToolMode, http_client};
use sortie::model::wire::Protocol;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(base_url), Some(model)) = (arguments.next(), arguments.next()) else {
        writeln!(io::stderr(), "usage: http_model BASE_URL MODEL [TASK]")?;
        return Ok(());
    };
    let mut config = RunConfig::new();
    config.task = Some(arguments.next().unwrap_or_else(|| "where is cancellation handled?".to_string()));

    let provider = Provider {
        name: "local".to_string(),
        protocol: Protocol::OpenaiChat,
        base_url,
        auth: Auth::None, // a key goes into `Auth::Key`
        headers: Vec::new(),
        streams: config.jobs,
        rpm: None,
        tpm: None,
        idle_timeout: None,
        tool_mode: ToolMode::Auto,
        ca_file: None,
    };
    // One server per provider: its models share the gate, which alone limits and retries requests.
    let server = Server::new(provider, http_client(&NetSettings::default(), None)?, 0, None)?;
    let info = Catalog::built_in().info("local", &model);
    let model = HttpModel::new(server, &format!("local/{model}"), &model, info, Options::default());

    let harness = Harness::local(Arc::new(model), Path::new("."))?;
    let end = coordinator::run(config, harness, &Cancel::new()).await?;
    writeln!(io::stdout(), "{}", end.answer)?;
    match end.problem {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}
