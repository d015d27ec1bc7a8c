//! The servers, each in a process of its own: it prints its address and ends with its standard input.

use crate::cache::{Blocks, Cache};
use crate::say::{self, Say};
use crate::server::{Plan, Received, Server};
use crate::{Failure, print};
use serde_json::json;
use sortie::model::wire::Protocol;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Events of one reply of the server `stream`.
pub(crate) const EVENTS: usize = 200;
/// Between two of them.
const GAP: Duration = Duration::from_millis(5);
/// A turn of a subagent: the first of five chunks comes after 200 ms, the others each 20 ms later.
const FIRST: Duration = Duration::from_millis(200);
const NEXT: Duration = Duration::from_millis(20);
const CHUNKS: usize = 5;

/// A server in a child process; it ends when this is dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(what: &str, protocol: &str) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--serve", what, protocol]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut url)?;
        Ok(Served { child, url: url.trim().to_string() })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It ends by itself when its standard input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Serves until standard input ends.
pub(crate) fn serve(what: &str, protocol: Protocol) -> Result<(), Failure> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let what = what.to_string();
    let cache: Mutex<Cache> = Mutex::default();
    let director = move |received: &Received| match &*what {
        "stream" => long(protocol),
        "stall" => Plan::stream(say::text("The first words of it.").cut(protocol)).then_stall(),
        "agents" => paced(&turn(received, [0; 2]).events(protocol)),
        _ => {
            let blocks = Blocks::of(protocol, &received.json());
            let mut cache = cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let read = cache.serve(protocol, &blocks, received.at, received.at + FIRST);
            paced(&turn(received, [(blocks.size() - read) / 4, read / 4]).events(protocol))
        }
    };
    runtime.block_on(async {
        let server = Server::directed(director).await?;
        print(server.url());
        // On a thread of its own: it must not hold up the server.
        let input = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        input.await??;
        Ok(())
    })
}

/// A reply of many events, each sent alone.
fn long(protocol: Protocol) -> Plan {
    let words: String = (0..).map(|word| format!("word {word:<3}")).take(EVENTS).collect();
    let mut events = say::text(&words).events(protocol);
    let last = events.split_off(EVENTS);
    events.push(last.concat());
    Plan::stream(events).paced(Duration::from_millis(20), GAP)
}

/// Events in as many chunks as a turn has.
fn paced(events: &[String]) -> Plan {
    let end = |chunk: usize| events.len() * chunk / CHUNKS;
    Plan::stream((0..CHUNKS).map(|chunk| events[end(chunk)..end(chunk + 1)].concat())).paced(FIRST, NEXT)
}

/// What a subagent is told by how many results it has: two reads, then its report.
fn turn(received: &Received, [input, cached]: [u64; 2]) -> Say {
    let text = String::from_utf8_lossy(&received.body);
    let marks = ["\"tool_result\"", "\"role\":\"tool\"", "\"function_call_output\""];
    let results = marks.iter().map(|mark| text.matches(mark).count()).max().unwrap_or(0);
    let reply = match results {
        0 => say::call("read_file", json!({ "file_path": "a.txt" })),
        1 => say::call("read_file", json!({ "file_path": "b.txt" })),
        _ => say::report("It is a part like the others."),
    };
    reply.usage(input, cached, 20)
}

/// Thousands of sockets need more than many systems allow at first.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it cannot be raised the streams fail, and say so.
    let _ = setrlimit(Resource::Nofile, limit);
}
