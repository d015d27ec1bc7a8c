//! What models are sent over a whole run: a stable prefix, nothing that differs from run to run, and transcripts that
//! replay to valid requests wherever they are cut.

use crate::kit::{Play, Played};
use async_trait::async_trait;
use sortie::agent::history::{self, History, Record};
use sortie::model::{Deltas, Message, Model, ModelError, Models, Request, Scripted};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Hands on to a script and keeps every request.
struct Recorder {
    script: Scripted,
    requests: Arc<Mutex<Vec<Request>>>,
}

#[async_trait]
impl Model for Recorder {
    fn name(&self) -> &str {
        self.script.name()
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        self.script.stream(request).await
    }

    fn complaints(&self) -> Vec<String> {
        self.script.complaints()
    }
}

const SCRIPT: &str = r#"
[[reply]]
node = "coordinator"
text = "First a look."
calls = [{ name = "list_files" }, { name = "search_code", args = { pattern = "fn" } }]
[[reply]]
node = "coordinator"
calls = [{ name = "submit_plan", args = { name = "p", node = [{ id = "a", prompt = "look at a" }, { id = "b", prompt = "look at b", needs = ["a"], turns = 3 }, { id = "late", prompt = "l", timeout = "1s" }] } }]
[[reply]]
node = "a"
text = "looking"
calls = [{ name = "read_file", args = { file_path = "a.rs" } }, { name = "nothing_like_it" }]
[[reply]]
node = "a"
text = ""
[[reply]]
node = "a"
text = "I am done."
fault = "length"
[[reply]]
node = "a"
text = "Or rather, one more look:"
calls = [{ name = "read_file", args = { file_path = "b.rs" } }]
fault = "cut"
[[reply]]
node = "a"
calls = [{ name = "report", args = { status = "done", summary = "a is fine" } }]
[[reply]]
node = "b"
calls = [{ name = "read_file", args = { file_path = "artifact:x/report.md" } }]
[[reply]]
node = "b"
calls = [{ name = "report", args = { status = "done", summary = "" } }]
[[reply]]
node = "b"
calls = [{ name = "report", args = { status = "done", summary = "b is fine" } }]
[[reply]]
node = "late"
calls = [{ name = "list_files" }]
[[reply]]
node = "late"
fault = "hang"
[[reply]]
node = "coordinator"
text = "Both are fine."
"#;

async fn play() -> (Played, Vec<Request>, String) {
    let mut play = Play::new(SCRIPT).task("are they fine?");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let script = Scripted::parse("script/test", SCRIPT).unwrap();
    play.harness.models = Models::new(Arc::new(Recorder { script, requests: Arc::clone(&requests) }));
    let root = play.workspace.path().canonicalize().unwrap().display().to_string();
    let played = play.run().await;
    let requests = requests.lock().unwrap().clone();
    (played, requests, root)
}

#[tokio::test(start_paused = true)]
async fn a_request_begins_with_all_of_the_one_before_it() {
    let (played, requests, _) = play().await;
    assert_eq!(played.end.answer, "Both are fine.", "{:?}", played.end.problem);
    let mut by_conversation: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    for request in &requests {
        assert_eq!(history::check(&request.messages), Ok(()), "{}", request.conversation);
        by_conversation.entry(&request.conversation).or_default().push(request);
    }
    assert_eq!(by_conversation.keys().copied().collect::<Vec<_>>(), ["a", "b", "coordinator", "late"]);
    for (conversation, requests) in by_conversation {
        assert!(requests.len() > 1, "{conversation}");
        for pair in requests.windows(2) {
            let [before, after] = pair else { unreachable!() };
            assert_eq!((&before.system, &before.tools), (&after.system, &after.tools), "{conversation}");
            assert!(is_prefix(&before.messages, &after.messages), "{conversation}, turn {}", after.turn);
        }
    }
}

/// Whether all that was sent before is sent again unchanged: the last message may have got more blocks after an empty
/// reply.
fn is_prefix(before: &[Arc<Message>], after: &[Arc<Message>]) -> bool {
    before.iter().zip(after).all(|(one, two)| one.speaker == two.speaker && two.blocks.starts_with(&one.blocks))
        && before.len() <= after.len()
}

#[tokio::test(start_paused = true)]
async fn requests_hold_nothing_that_differs_from_run_to_run() {
    let (first, one, root) = play().await;
    let (second, two, _) = play().await;
    let texts = |requests: &[Request]| {
        let mut texts: Vec<String> =
            requests.iter().map(|request| format!("{} {}", request.conversation, request.text())).collect();
        texts.sort();
        texts
    };
    assert_eq!(texts(&one), texts(&two));
    for request in &one {
        let text = request.text();
        assert!(!text.contains(&root), "the workspace's absolute path is in a request of {}", request.conversation);
        assert!(!text.contains(&first.end.run) && !text.contains(&second.end.run), "{}", request.conversation);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transcript_cut_anywhere_replays_to_a_valid_request() {
    let (played, requests, _) = play().await;
    for (conversation, attempt) in [("coordinator", 0), ("a", 1), ("b", 1), ("late", 1)] {
        let transcript = played.store.transcript_of(conversation, attempt);
        let records: Vec<Record> =
            transcript.into_iter().map(|record| serde_json::from_value(record).unwrap()).collect();
        assert!(records.len() >= 4, "{conversation}: {records:?}");
        for cut in 2..=records.len() {
            let messages = History::replay(&records[..cut]).messages();
            assert_eq!(history::check(&messages), Ok(()), "{conversation} cut after {cut}");
        }
        let whole = History::replay(&records).messages();
        let last = requests.iter().rfind(|request| request.conversation == conversation).unwrap();
        assert!(is_prefix(&last.messages, &whole), "{conversation}: the transcript is not what was sent");
    }
}
