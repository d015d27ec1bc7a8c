//! What models over HTTP cost: the client beside the library under it, many streams at once, and whole runs.
//!
//! ```text
//! cargo bench --bench http
//! ```
//!
//! - CPU of a streamed chunk through `HttpModel` (one event a chunk, read on its own) beside reqwest alone reading the
//!   same bytes, per protocol, interleaved rounds, medians. At most 1.5 times.
//! - Memory of a stream: resident set with 1,000 of them open, over that number. At most 64 KiB each.
//! - 128 subagents over loopback HTTP with `--jobs 128`: 3 turns of 280 ms, two file reads, a model that caches nothing.
//!   Efficiency is the ideal of 840 ms over the time from first dispatch to last terminal event. At least 0.95.
//! - The hold on a model that caches prefixes: how much later a fan-out of 16 ends, and what its input costs then.
//!
//! The server is this program again (`--serve`), so that its CPU is not counted; what must be measured in a fresh
//! process (`--hold`) is too. Fails when a figure is over its limit.

mod client;
mod fan_out;
mod serve;

#[expect(dead_code, clippy::expect_used, clippy::unwrap_used, reason = "shared with the tests, which need more of it")]
#[path = "../../tests/it/wire/server.rs"]
mod server;

#[expect(dead_code, clippy::unwrap_used, reason = "shared with the tests, which need more of it")]
#[path = "../../tests/it/wire/say.rs"]
mod say;

#[path = "../../tests/it/wire/cache.rs"]
mod cache;

use sortie::model::wire::Protocol;
use std::process::ExitCode;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// All protocols, by the names that child processes get.
const PROTOCOLS: [(&str, Protocol); 3] = [
    ("anthropic", Protocol::Anthropic),
    ("openai-chat", Protocol::OpenaiChat),
    ("openai-responses", Protocol::OpenaiResponses),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().skip(1).map(String::as_str).filter(|arg| *arg != "--bench").collect();
    let done = match &*args {
        ["--serve", what, name] => serve::serve(what, protocol(name)).map(|()| true),
        ["--hold", url, name] => client::hold(url, protocol(name)).map(|()| true),
        _ => all(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print(&format!("could not measure: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn all() -> Result<bool, Failure> {
    let mut within = true;
    for (name, protocol) in PROTOCOLS {
        within &= client::cpu(name, protocol)?;
    }
    for (name, _) in PROTOCOLS {
        within &= client::memory(name)?;
    }
    within &= fan_out::wide()?;
    fan_out::cached()?;
    Ok(within)
}

fn protocol(name: &str) -> Protocol {
    PROTOCOLS.iter().find(|(known, _)| *known == name).map_or(Protocol::Anthropic, |(_, protocol)| *protocol)
}

fn verdict(within: bool) -> &'static str {
    if within { "within" } else { "OVER" }
}

#[expect(clippy::print_stdout, reason = "what a benchmark is for, and how a child tells its parent")]
fn print(line: &str) {
    println!("{line}");
}
