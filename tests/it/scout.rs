//! `builtin/scout` as any model: requests in, words and tool calls out, the workspace seen through real tools alone.

use proptest::prelude::*;
use serde_json::{Value, json};
use sortie::agent::report::ReportRules;
use sortie::model::{Block, Message, Model, Reply, Request, Scout, Speaker, StopKind, ToolResult, ToolSpec, collect};
use sortie::tool::{Ledger, ToolCallEnd, ToolContext, builtin};
use sortie::workspace::Places;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const QUESTION: &str = "where are failed uploads tried again?";

fn tree() -> TempDir {
    let dir = TempDir::new().unwrap();
    let retry = "//! Sends files again when an upload failed.\n\n/// Tries an upload until it works or the attempts are used up.\npub fn upload_with_retry(attempts: u32) {\n    for _ in 0..attempts {}\n}\n";
    write(dir.path(), "src/net/retry.rs", retry);
    for name in ["a", "b", "c", "d", "e", "f"] {
        write(dir.path(), &format!("src/{name}/{name}.rs"), &format!("pub fn {name}() {{\n    let {name} = 1;\n}}\n"));
        write(dir.path(), &format!("src/{name}/more.rs"), "pub struct More;\n");
    }
    write(dir.path(), "tests/upload.rs", "fn upload_is_tried_again_when_it_failed() {}\n");
    dir
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A conversation with scout whose tools are the built-in ones, or all fail.
struct Talk {
    tools: Vec<ToolSpec>,
    messages: Vec<Arc<Message>>,
    context: ToolContext,
    broken: bool,
    /// What each reply was.
    replies: Vec<Reply>,
}

impl Talk {
    fn subagent(root: &Path, prompt: &str, output: Option<Value>) -> Self {
        let rules = ReportRules::new(output.as_ref()).unwrap();
        Talk::new(root, prompt, rules.spec())
    }

    fn coordinator(root: &Path, question: &str) -> Self {
        let submit =
            ToolSpec { name: "submit_plan".into(), description: String::new(), schema: json!({ "type": "object" }) };
        Talk::new(root, &format!("# The user's request\n<request>\n{question}\n</request>\n"), submit)
    }

    fn new(root: &Path, prompt: &str, ends_with: ToolSpec) -> Self {
        let mut tools = builtin().unwrap().subagent(&names()).specs();
        tools.push(ends_with);
        let context = ToolContext {
            node: "n".into(),
            places: Arc::new(Places::new(root.canonicalize().unwrap())),
            ledger: Arc::new(Ledger::default()),
            cancel: CancellationToken::new(),
        };
        let mut talk = Talk { tools, messages: Vec::new(), context, broken: false, replies: Vec::new() };
        talk.say(vec![Block::text(prompt)]);
        talk
    }

    fn say(&mut self, blocks: Vec<Block>) {
        self.messages.push(Arc::new(Message { speaker: Speaker::User, blocks }));
    }

    fn request(&self) -> Request {
        Request {
            conversation: "n".into(),
            attempt: 1,
            turn: self.replies.len() as u32 + 1,
            system: "system".into(),
            tools: self.tools.clone().into(),
            messages: self.messages.clone(),
            max_output: 8_000,
            format: None,
        }
    }

    /// Goes on until scout calls `end` or says something without a call; its arguments, or the words.
    async fn until(&mut self, end: &str) -> Value {
        for _ in 0..10 {
            let reply = collect(Scout.stream(self.request()).await.unwrap(), |_| ()).await.unwrap();
            self.messages.push(Arc::new(Message { speaker: Speaker::Assistant, blocks: reply.blocks.clone() }));
            self.replies.push(reply.clone());
            let mut results = Vec::new();
            let mut words = String::new();
            for block in &reply.blocks {
                match block {
                    Block::ToolCall(call) if call.name == end => return call.args.clone(),
                    Block::ToolCall(call) => {
                        let (text, is_error) = if self.broken {
                            ("it is broken".to_string(), true)
                        } else {
                            match builtin().unwrap().subagent(&names()).call(call, &self.context).await {
                                ToolCallEnd::Done(text) => (text, false),
                                ToolCallEnd::Failed(text) | ToolCallEnd::Fatal(text) => (text, true),
                            }
                        };
                        results.push(Block::ToolResult(ToolResult { id: call.id.clone(), text, is_error }));
                    }
                    Block::Text { text } => words.push_str(text),
                    Block::Thinking { .. } | Block::ToolResult(_) => panic!("scout sends no such block"),
                }
            }
            if results.is_empty() {
                assert_eq!(reply.stop, StopKind::End);
                return Value::String(words);
            }
            assert_eq!(reply.stop, StopKind::Tool);
            self.say(results);
        }
        panic!("scout did not end");
    }
}

fn names() -> Vec<String> {
    ["read_file", "list_files", "search_code"].map(str::to_string).to_vec()
}

#[tokio::test]
async fn a_subagent_finds_reads_and_reports_lines_that_stand_there() {
    let dir = tree();
    let mut talk =
        Talk::subagent(dir.path(), &format!("# Your task\nYou are node `x` of the plan `y`.\n\n{QUESTION}\n"), None);
    let report = talk.until("report").await;
    assert_eq!(report["status"], "done");
    assert!(report["summary"].as_str().unwrap().contains("`src/net/retry.rs` (`fn upload_with_retry`"), "{report:#}");
    for piece in
        report["findings"].as_array().unwrap().iter().flat_map(|finding| finding["evidence"].as_array().unwrap())
    {
        let text = fs::read_to_string(dir.path().join(piece["path"].as_str().unwrap())).unwrap();
        let line = text.lines().nth(piece["line"].as_u64().unwrap() as usize - 1).unwrap();
        assert!(line.contains(piece["quote"].as_str().unwrap()), "{piece}");
    }
    assert!(talk.replies.len() <= 4, "{} turns", talk.replies.len());
    assert!(ReportRules::new(None).unwrap().check(&report).is_ok());
}

#[tokio::test]
async fn names_and_wording_do_not_matter_the_shape_does() {
    let dir = tree();
    let schema = |outer: &str, inner: &str| {
        json!({
            "type": "object", "required": [outer],
            "properties": { outer: { "type": "array", "items": { "type": "string" } }, inner: { "type": "integer" } }
        })
    };
    let mut seen: Vec<(Value, Vec<Value>)> = Vec::new();
    for (id, plan, lead, outer, inner) in [
        ("map", "investigate", "List the parts of . that matter for", "parts", "count"),
        ("zwölf", "other words", "Name everything in . for", "wibble", "x"),
    ] {
        let prompt = format!(
            "# Your task\nYou are node `{id}` of the plan `{plan}`.\n\n{lead}: {QUESTION}\n\nYour report needs an `output` that fits the schema of the tool `report`.\n"
        );
        let schema = schema(outer, inner);
        let report = Talk::subagent(dir.path(), &prompt, Some(schema.clone())).until("report").await;
        assert!(ReportRules::new(Some(&schema)).unwrap().check(&report).is_ok(), "{report:#}");
        let values = report["output"].as_object().unwrap().values().cloned().collect();
        seen.push((report["findings"].clone(), values));
    }
    assert_eq!(seen[0], seen[1]);
    let parts = seen[0].1[0].as_array().unwrap();
    assert!((3..=8).contains(&parts.len()), "{parts:?}");
}

#[tokio::test]
async fn an_output_that_needs_judgement_is_not_made_up() {
    let dir = tree();
    let schema =
        json!({ "type": "object", "required": ["pick"], "properties": { "pick": { "enum": ["left", "right"] } } });
    let report = Talk::subagent(dir.path(), QUESTION, Some(schema.clone())).until("report").await;
    assert_eq!(report["status"], "partial");
    assert_eq!(report.get("output"), None);
    assert!(report["open_questions"][0].as_str().unwrap().contains("`output.pick` asks for a choice"), "{report:#}");
    assert!(!report["findings"].as_array().unwrap().is_empty());
    assert!(ReportRules::new(Some(&schema)).unwrap().check(&report).is_ok());
}

#[tokio::test]
async fn paths_in_the_task_bound_the_search() {
    let dir = tree();
    let report =
        Talk::subagent(dir.path(), &format!("In `src/a`, `src/b/more.rs`: {QUESTION}"), None).until("report").await;
    let text = report.to_string();
    assert!(
        !text.contains("retry.rs") && report["summary"].as_str().unwrap().contains("`src/a`, `src/b/more.rs`"),
        "{report:#}"
    );
}

#[tokio::test]
async fn reports_of_others_are_weighed_on_one_scale() {
    let dir = tree();
    let prompt = format!(
        "# Reports of the nodes before you\n<reports>\n## one: succeeded\nFindings:\n- here [high]\n  src/a/a.rs:1: \"x\"\n\
         ## two: succeeded\n- perhaps [low]\n  src/net/retry.rs:4: \"y\"\n</reports>\n\n# Your task\nYou are node `n` of the plan `p`.\n\n\
         Answer from the reports: {QUESTION}\n"
    );
    let report = Talk::subagent(dir.path(), &prompt, None).until("report").await;
    assert_eq!(report["used_inputs"], json!(["one", "two"]));
    assert_eq!(report["findings"][0]["evidence"][0]["path"], "src/net/retry.rs");
}

#[tokio::test]
async fn a_coordinator_sends_out_parts_and_answers_from_what_comes_back() {
    let dir = tree();
    let mut talk = Talk::coordinator(dir.path(), QUESTION);
    let plan = talk.until("submit_plan").await;
    let nodes = plan["node"].as_array().unwrap();
    assert!((3..=8).contains(&nodes.len()), "{plan:#}");
    assert!(
        nodes.iter().all(|node| node["prompt"].as_str().unwrap().contains(QUESTION) && node.get("needs").is_none())
    );
    let Some(Block::ToolCall(call)) = talk.replies.last().unwrap().blocks.last().cloned() else { panic!("no call") };
    let merged =
        "<reports>\n## src-net: succeeded\nFindings:\n- x [medium]\n  src/net/retry.rs:4: \"pub fn\"\n</reports>\n";
    talk.say(vec![Block::ToolResult(ToolResult { id: call.id, text: merged.into(), is_error: false })]);
    let answer = talk.until("submit_plan").await;
    let answer = answer.as_str().unwrap();
    assert!(answer.contains("1. `src/net/retry.rs:") && answer.contains("not a language model"), "{answer}");
}

#[tokio::test]
async fn changes_are_refused_with_the_next_step() {
    let dir = tree();
    for prompt in ["Rename `a` to `z`", "In `src/a`: please add a retry to every function."] {
        let report = Talk::subagent(dir.path(), prompt, None).until("report").await;
        assert_eq!(report["status"], "blocked", "{prompt}");
        let mut talk = Talk::coordinator(dir.path(), prompt);
        let answer = talk.until("submit_plan").await;
        assert!(answer.as_str().unwrap().contains("--model provider/model"), "{answer}");
    }
}

#[tokio::test]
async fn an_empty_tree_and_broken_tools_end_in_honest_words() {
    let empty = TempDir::new().unwrap();
    let answer = Talk::coordinator(empty.path(), QUESTION).until("submit_plan").await;
    assert!(answer.as_str().unwrap().contains("no file to search"), "{answer}");
    let dir = tree();
    let mut talk = Talk::subagent(dir.path(), QUESTION, None);
    talk.broken = true;
    let report = talk.until("report").await;
    assert_eq!(report["status"], "partial");
    assert!(ReportRules::new(None).unwrap().check(&report).is_ok());
}

#[tokio::test]
async fn asked_for_its_report_it_reports_at_once() {
    let dir = tree();
    let mut talk = Talk::subagent(dir.path(), QUESTION, None);
    let first = collect(Scout.stream(talk.request()).await.unwrap(), |_| ()).await.unwrap();
    let Some(Block::ToolCall(call)) = first.blocks.last() else { panic!("no call") };
    talk.messages.push(Arc::new(Message { speaker: Speaker::Assistant, blocks: vec![Block::ToolCall(call.clone())] }));
    let result = Block::ToolResult(ToolResult { id: call.id.clone(), text: "not run".into(), is_error: true });
    talk.say(vec![result, Block::text("This is your last turn: only `report` is accepted now.")]);
    let reply = collect(Scout.stream(talk.request()).await.unwrap(), |_| ()).await.unwrap();
    assert!(matches!(reply.blocks.as_slice(), [Block::ToolCall(call)] if call.name == "report"), "{reply:?}");
}

#[tokio::test]
async fn the_same_request_gets_the_same_reply() {
    let dir = tree();
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut talk = Talk::subagent(dir.path(), QUESTION, None);
        talk.until("report").await;
        runs.push(talk.replies);
    }
    assert_eq!(runs[0], runs[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_in_a_conversation_makes_it_panic(texts in prop::collection::vec("\\PC{0,80}|[-#`:./\\[\\]<>{}%\\n a-z0-9]{0,120}", 1..6), coordinator in any::<bool>()) {
        let dir = TempDir::new().unwrap();
        let prompt = texts.join("\n## x: succeeded\n");
        let mut talk = if coordinator { Talk::coordinator(dir.path(), &prompt) } else { Talk::subagent(dir.path(), &prompt, None) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for text in &texts {
            let reply = runtime.block_on(async { collect(Scout.stream(talk.request()).await.unwrap(), |_| ()).await.unwrap() });
            let calls: Vec<String> = reply.blocks.iter().filter_map(|block| match block {
                Block::ToolCall(call) => Some(call.id.clone()),
                Block::Text { .. } | Block::Thinking { .. } | Block::ToolResult(_) => None,
            }).collect();
            talk.messages.push(Arc::new(Message { speaker: Speaker::Assistant, blocks: reply.blocks }));
            if calls.is_empty() {
                talk.say(vec![Block::text(text.clone())]);
            } else {
                talk.say(calls.into_iter().map(|id| Block::ToolResult(ToolResult { id, text: text.clone(), is_error: false })).collect());
            }
        }
    }
}
