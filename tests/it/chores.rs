//! The small model: titles beside a run, and nodes and roles that ask for it. Roles for small models.

use crate::kit::{Play, Played};
use async_trait::async_trait;
use sortie::coordinator::RunStatus;
use sortie::event::EventKind;
use sortie::model::{Block, Deltas, Model, ModelError, Models, Request, Scripted};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TASK: &str = "Find out where a run is cancelled, who may ask for that, and what is left of it afterwards.";

fn script(name: &str, script: &str) -> Arc<dyn Model> {
    Arc::new(Scripted::parse(name, script).unwrap())
}

/// A run whose coordinator answers after two seconds, with this small model.
fn with_small(small: &str, task: &str) -> Play {
    let run = script("a/run", "[[reply]]\nnode = \"coordinator\"\ndelay = \"2s\"\ntext = \"so it is\"\n");
    let mut play = Play::new("").task(task);
    play.harness.models = Models::new(run);
    play.harness.models.set_small(script("a/small", small));
    play
}

fn title(played: &Played) -> Option<String> {
    played.events.iter().find_map(|event| match &event.kind {
        EventKind::Titled { title } => Some(title.clone()),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_long_task_gets_a_title_beside_the_run() {
    let small = "[[reply]]\nnode = \"title\"\ndelay = \"1s\"\ntext = \"Cancelling runs\"\nexpect = { contains = [\"who may ask for that\"], tools = [] }\n";
    let played = with_small(small, TASK).run().await;
    assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
    assert_eq!(title(&played).as_deref(), Some("Cancelling runs"));
    let coordinator = played.store.transcript_of("coordinator", 0);
    assert!(!format!("{coordinator:?}").contains("Cancelling runs"), "the run itself is the same");
    let turns: Vec<u64> = played
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TurnFinished { usage, .. } => Some(usage.total()),
            _ => None,
        })
        .collect();
    assert_eq!(turns.len(), 2);
    assert_eq!(played.end.usage.total(), turns.iter().sum::<u64>(), "what the title took is counted");
}

#[tokio::test(start_paused = true)]
async fn a_title_never_holds_the_run_up_nor_fails_it() {
    for (small, task) in [
        ("[[reply]]\nnode = \"title\"\ndelay = \"1h\"\ntext = \"late\"\n", TASK),
        ("[[reply]]\nnode = \"title\"\nfault = \"401\"\n", TASK),
        ("[[reply]]\nnode = \"title\"\nfault = \"panic\"\n", TASK),
        ("[[reply]]\nnode = \"title\"\ntext = \"half\"\nfault = \"cut\"\n", TASK),
        ("", "A short task says what it is."),
    ] {
        let begun = tokio::time::Instant::now();
        let played = with_small(small, task).run().await;
        assert_eq!(played.end.status, RunStatus::Succeeded, "{small}: {:?}", played.end.problem);
        assert_eq!(begun.elapsed().as_secs(), 2, "{small}");
        assert_eq!(title(&played), None, "{small}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_title_does_not_make_a_model_of_a_run_without_one() {
    let mut play = with_small("[[reply]]\nnode = \"title\"\ntext = \"A title\"\n", TASK);
    let run = script("a/run", "[[reply]]\nnode = \"coordinator\"\ndelay = \"2s\"\nfault = \"401\"\n");
    let small = Arc::clone(play.harness.models.small().unwrap());
    play.harness.models = Models::new(run);
    play.harness.models.set_small(small);
    assert_eq!(play.run().await.end.status, RunStatus::NoModel);
}

/// Answers with a report at once and keeps every request with the model's name.
struct Keeps {
    name: &'static str,
    script: Scripted,
    requests: Arc<Mutex<Vec<(&'static str, Request)>>>,
    window: u64,
}

#[async_trait]
impl Model for Keeps {
    fn name(&self) -> &str {
        self.name
    }

    fn context_window(&self) -> u64 {
        self.window
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        self.requests.lock().unwrap().push((self.name, request.clone()));
        self.script.stream(request).await
    }
}

const REPORT: &str = r#"calls = [{ name = "report", args = { status = "done", summary = "fine" } }]"#;

#[tokio::test(start_paused = true)]
async fn nodes_and_roles_may_ask_for_the_small_model_and_the_user_overrides_both() {
    let plan = "[[node]]\nid = \"by_node\"\nmodel = \"small\"\nprompt = \"x\"\n[[node]]\nid = \"by_role\"\nrole = \"minimal\"\nprompt = \"x\"\n[[node]]\nid = \"neither\"\nprompt = \"x\"\n";
    for (overriding, asked) in [(false, ["a/small", "a/small", "a/run"]), (true, ["a/run"; 3])] {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let keeps = |name| {
            let script = Scripted::parse(name, &format!("[[reply]]\nnode = \"*\"\n{REPORT}\n")).unwrap();
            Arc::new(Keeps { name, script, requests: Arc::clone(&requests), window: 128_000 })
        };
        let mut play = Play::new("").plan(plan);
        play.config.jobs = 1;
        play.harness.models = Models::new(keeps("a/run"));
        play.harness.models.set_small(keeps("a/small"));
        if overriding {
            play.harness.models.use_default_only();
        }
        play.harness.roles.iter_mut().find(|role| role.name == "minimal").unwrap().model = Some("small".into());
        let played = play.run().await;
        assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
        let mut requests = requests.lock().unwrap().clone();
        requests.sort_by_key(|(_, request)| request.conversation.clone());
        let names: Vec<&str> = requests.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, asked);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_request_of_a_minimal_subagent_fits_a_very_small_model() {
    let plan = "[[node]]\nid = \"a\"\nrole = \"minimal\"\nprompt = \"Which file defines `fn a`?\"\n";
    let read = r#"calls = [{ name = "read_file", args = { file_path = "long.txt" } }]"#;
    let text = format!("[[reply]]\nnode = \"a\"\n{read}\n[[reply]]\nnode = \"a\"\n{REPORT}\n");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let mut play = Play::new("").plan(plan);
    std::fs::write(play.workspace.path().join("long.txt"), "a long line of words\n".repeat(5_000)).unwrap();
    play.harness.models = Models::new(Arc::new(Keeps {
        name: "a/tiny",
        script: Scripted::parse("a/tiny", &text).unwrap(),
        requests: Arc::clone(&requests),
        window: 2_048,
    }));
    let played = play.run().await;
    assert_eq!(played.end.status, RunStatus::Succeeded, "{:?}", played.end.problem);
    let requests = requests.lock().unwrap();
    let (_, first) = &requests[0];
    assert!(first.system.len() <= 4 * 250, "{} bytes of system text", first.system.len());
    let tools: Vec<&str> = first.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["read_file", "search_code", "report"]);
    let Block::Text { text } = &first.messages[0].blocks[0] else { panic!("{first:?}") };
    assert_eq!(text, "# Your task\nWhich file defines `fn a`?\n");
    let tools = serde_json::to_string(&*first.tools).unwrap();
    let all = first.system.len() + tools.len() + text.len();
    assert!(all <= 4 * 600, "{all} bytes in all, {} of them tools:\n{tools}", tools.len());
    let Block::ToolResult(result) = &requests[1].1.messages[2].blocks[0] else { panic!("{requests:?}") };
    assert!(result.text.len() <= 1_100, "a result leaves room in a small window: {} bytes", result.text.len());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_does_not_wait_for_its_title() {
    let mut play = with_small("[[reply]]\nnode = \"title\"\ndelay = \"1h\"\n", TASK);
    play.config.deadline = Some(Duration::from_secs(1));
    let begun = tokio::time::Instant::now();
    assert_eq!(play.run().await.end.status, RunStatus::Deadline);
    assert!(begun.elapsed() < Duration::from_secs(2));
}
