//! The client alone: CPU of a chunk and memory of a stream.

use crate::serve::{EVENTS, Served, raise_file_limit};
use crate::{Failure, print, verdict};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use rustix::time::{ClockId, clock_gettime};
use sortie::model::catalog::ModelInfo;
use sortie::model::http::{Auth, Http, HttpModel, NetSettings, Options, Provider, Server, ToolMode, http_client};
use sortie::model::wire::Protocol;
use sortie::model::{Block, Delta, Deltas, Message, Model, Request, Speaker};
use std::process::Command;
use std::sync::Arc;

/// Streams at once, and rounds of each kind.
const STREAMS: usize = 50;
const ROUNDS: usize = 9;
const CPU_RATIO: f64 = 1.5;
const OPEN: usize = 1000;
const MEMORY_KIB: f64 = 64.0;

/// CPU of a chunk through the client, over that of reqwest alone.
pub(crate) fn cpu(name: &str, protocol: Protocol) -> Result<bool, Failure> {
    let served = Served::start("stream", name)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let http = http_client(&NetSettings::default(), None)?;
    let model = model(&served.url, protocol, http.clone())?;
    let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first of each warms up connections and caches.
    for round in 0..=ROUNDS {
        let one = runtime.block_on(used(try_join_all((0..STREAMS).map(|_| read_all(&model)))))?;
        let other = runtime.block_on(used(try_join_all((0..STREAMS).map(|_| read_bare(&http, &served.url)))))?;
        if round > 0 {
            ours.push(one);
            bare.push(other);
            ratios.push(one / other);
        }
    }
    let chunks = (STREAMS * (EVENTS + 1)) as f64;
    let (ours, bare, ratio) = (median(&mut ours), median(&mut bare), median(&mut ratios));
    let within = ratio <= CPU_RATIO;
    print(&format!(
        "{name}: CPU of a chunk {:.1} µs, reqwest alone {:.1} µs, ratio {ratio:.2} (at most {CPU_RATIO}; median of {ROUNDS})  ({})",
        ours / chunks * 1e6,
        bare / chunks * 1e6,
        verdict(within)
    ));
    Ok(within)
}

/// Seconds of this process's CPU that the future takes.
async fn used<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<f64, Failure> {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let begun = now();
    work.await?;
    Ok(now() - begun)
}

async fn read_all(model: &HttpModel) -> Result<(), Failure> {
    let mut deltas = model.stream(request()).await?;
    while let Some(delta) = deltas.next().await {
        delta?;
    }
    Ok(())
}

async fn read_bare(http: &Http, url: &str) -> Result<(), Failure> {
    let url = format!("{url}/v1/messages").parse()?;
    let mut response = http.post(&url)?.body("{}").send().await?;
    while response.chunk().await?.is_some() {}
    Ok(())
}

/// Memory of a stream, measured in a process that does nothing else.
pub(crate) fn memory(name: &str) -> Result<bool, Failure> {
    let served = Served::start("stall", name)?;
    let output = Command::new(std::env::current_exe()?).args(["--hold", &served.url, name]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let each: f64 = text.trim().parse().map_err(|_| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))?;
    let within = each <= MEMORY_KIB;
    print(&format!("{name}: {OPEN} streams at once, {each:.1} KiB each (at most {MEMORY_KIB})  ({})", verdict(within)));
    Ok(within)
}

/// Opens the streams, keeps them, and prints KiB of the resident set for each.
pub(crate) fn hold(url: &str, protocol: Protocol) -> Result<(), Failure> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let model = model(url, protocol, http_client(&NetSettings::default(), None)?)?;
        // What is there once for all of them is not theirs.
        let _first = open(&model).await?;
        let before = resident()?;
        let streams = try_join_all((0..OPEN).map(|_| open(&model))).await?;
        let after = resident()?;
        drop(streams);
        print(&format!("{}", (after - before) / OPEN as f64));
        Ok(())
    })
}

/// A stream that has begun to speak.
async fn open(model: &HttpModel) -> Result<Deltas, Failure> {
    let mut deltas = model.stream(request()).await?;
    while let Some(delta) = deltas.next().await {
        if let Delta::Text(_) = delta? {
            return Ok(deltas);
        }
    }
    Err("the stream ended".into())
}

/// KiB.
fn resident() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn model(url: &str, protocol: Protocol, http: Http) -> Result<HttpModel, Failure> {
    let provider = Provider {
        name: "bench".into(),
        protocol,
        base_url: url.into(),
        auth: Auth::None,
        headers: Vec::new(),
        ca_file: None,
        streams: 2 * OPEN,
        rpm: None,
        tpm: None,
        idle_timeout: None,
        tool_mode: ToolMode::Native,
    };
    Ok(HttpModel::new(Server::new(provider, http, 1, None)?, "bench/m", "m", ModelInfo::default(), Options::default()))
}

fn request() -> Request {
    let message = Message { speaker: Speaker::User, blocks: vec![Block::text("Look.")] };
    Request {
        conversation: "a".into(),
        attempt: 1,
        turn: 1,
        system: "You read.".into(),
        tools: Vec::new().into(),
        messages: vec![Arc::new(message)],
        max_output: 1000,
        format: None,
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
