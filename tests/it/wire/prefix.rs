//! The prefix is stable: a request begins with all of the one before it, byte for byte, siblings share tools and system
//! text, and a provider that caches prefixes reads most of what it gets from its cache. Thirty turns, eight siblings.

use super::cache::{Blocks, Cache};
use super::kit::{model_with, play, provider};
use super::say::{self, PROTOCOLS, Say};
use super::server::{Plan, Received, Server};
use serde_json::{Value, json};
use sortie::coordinator::RunStatus;
use sortie::model::catalog::{ModelInfo, PrefixCache};
use sortie::model::wire::Protocol;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const TURNS: usize = 30;
const SIBLINGS: usize = 8;

/// Each turn reads another line.
fn turn(body: &Value, cached: u64, total: u64) -> Say {
    let text = body.to_string();
    let done = ["\"tool_result\"", "\"role\":\"tool\"", "\"function_call_output\""];
    let turn = done.iter().map(|mark| text.matches(mark).count()).max().unwrap_or(0) + 1;
    let reply = match turn {
        TURNS.. => say::report("All of it is read."),
        _ => say::text("On.").call("read_file", json!({ "file_path": "long.txt", "offset": turn, "limit": 1 })),
    };
    reply.usage((total - cached) / 4, cached / 4, 20)
}

fn part(received: &Received) -> String {
    let text = String::from_utf8_lossy(&received.body).into_owned();
    let (_, rest) = text.split_once("PART-").unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

#[tokio::test]
async fn thirty_turns_of_eight_siblings_are_read_from_the_cache() {
    for protocol in PROTOCOLS {
        let cache: Arc<Mutex<Cache>> = Arc::default();
        let provider_side = Arc::clone(&cache);
        let server = Server::directed(move |received| {
            let body = received.json();
            let blocks = Blocks::of(protocol, &body);
            let mut cache = provider_side.lock().unwrap();
            let cached = cache.serve(protocol, &blocks, received.at, received.at);
            Plan::stream(turn(&body, cached, blocks.size()).events(protocol))
        });
        let server = server.await.unwrap();
        let info = ModelInfo {
            prefix_cache: Some(PrefixCache { min_tokens: 100, marks: protocol == Protocol::Anthropic }),
            ..ModelInfo::default()
        };
        let (play, _told) = play(model_with(provider(server.url(), protocol), info));
        let lines: String = (1..=TURNS).map(|line| format!("line {line} says something of its own\n")).collect();
        std::fs::write(play.workspace.path().join("long.txt"), lines).unwrap();
        let items: Vec<String> = (0..SIBLINGS).map(|item| item.to_string()).collect();
        let nodes = format!(
            "[[node]]\nid = \"n\"\nforeach = [{}]\nprompt = \"PART-{{{{ item }}}}: read.\"\n",
            items.join(", ")
        );
        let played = play.plan(&nodes).run().await;
        assert_eq!(played.end.status, RunStatus::Succeeded, "{protocol:?}: {:?}", played.end.problem);

        let mut by_part: BTreeMap<String, Vec<Blocks>> = BTreeMap::new();
        for received in server.received() {
            by_part.entry(part(&received)).or_default().push(Blocks::of(protocol, &received.json()));
        }
        assert_eq!(by_part.len(), SIBLINGS);
        let shared = &by_part["0"][0].shared;
        for (part, requests) in &by_part {
            assert_eq!(requests.len(), TURNS, "{protocol:?}, part {part}");
            for (at, request) in requests.iter().enumerate() {
                assert_eq!(&request.shared, shared, "{protocol:?}, part {part}, turn {}", at + 1);
                assert!(request.marks.len() <= 4, "{protocol:?}: {:?}", request.marks);
            }
            for (at, pair) in requests.windows(2).enumerate() {
                assert!(pair[1].own.starts_with(&pair[0].own), "{protocol:?}, part {part}, turn {}", at + 2);
            }
        }
        let cache = cache.lock().unwrap();
        let share = cache.read as f64 / cache.total as f64;
        let usage = played.end.usage;
        println!("{protocol:?}: {:.1}% of the input is read from the cache; {usage:?}", share * 100.0);
        assert!(share > 0.9, "{protocol:?}: only {share:.3} of the input is read from the cache");
        assert_eq!(
            usage.cache_read,
            usage.cache_read.max(usage.input * 9),
            "{protocol:?}: and the run's usage tells it"
        );
    }
}
