//! Recording and replaying by hand; whole runs are in `tests/it/cassettes.rs`.

use super::*;
use crate::model::{
    Block, Deltas, Message, ModelErrorKind, Models, Opaque, Request, Speaker, StopKind, Switch, ToolCall, ToolSpec,
    Usage, Wait, WaitCause, collect,
};
use crate::redact::Redactor;
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const KEY: &str = "sk-0123456789";

/// What one call gives: a stream, or an error at once.
type Heard = Result<Vec<Result<Delta, ModelError>>, ModelError>;

/// Answers each call with the next of its replies.
struct Says(Mutex<Vec<Heard>>);

#[async_trait]
impl Model for Says {
    fn name(&self) -> &str {
        "test/says"
    }

    fn context_window(&self) -> u64 {
        1_234
    }

    fn max_output(&self) -> Option<u32> {
        Some(56)
    }

    async fn stream(&self, _: Request) -> Result<Deltas, ModelError> {
        let next = self.0.lock().unwrap().remove(0)?;
        Ok(stream::iter(next).chain(stream::pending()).boxed())
    }
}

fn request(conversation: &str, turn: u32, words: &[&str]) -> Request {
    let say = |(at, text): (usize, &&str)| {
        let speaker = if at % 2 == 0 { Speaker::User } else { Speaker::Assistant };
        Arc::new(Message { speaker, blocks: vec![Block::text(*text)] })
    };
    let tool = ToolSpec { name: "read_file".into(), description: "Reads.".into(), schema: json!({ "type": "object" }) };
    Request {
        conversation: conversation.into(),
        attempt: 1,
        turn,
        system: "Be good.".into(),
        tools: vec![tool].into(),
        messages: words.iter().enumerate().map(say).collect(),
        max_output: 100,
        format: None,
    }
}

fn text(words: &str) -> Vec<Result<Delta, ModelError>> {
    vec![Ok(Delta::Text(words.into())), Ok(Delta::Stop(StopKind::End))]
}

fn error() -> ModelError {
    let error = ModelError::new(ModelErrorKind::RateLimit, "`test/says` had too many requests (429)").hint("wait");
    error.request(Some("req_1".into()))
}

/// Records these requests with these replies, and gives the file.
async fn record(replies: Vec<Heard>, requests: Vec<Request>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let recording = Recording::create(&path, Redactor::new([KEY])).unwrap();
    let model = recording.record(Arc::new(Says(Mutex::new(replies))));
    for request in requests {
        if let Ok(mut deltas) = model.stream(request).await {
            // As a conversation reads: to the stop or the error, and as long as something comes.
            while let Some(Some(Ok(delta))) = deltas.next().now_or_never() {
                if matches!(delta, Delta::Stop(_)) {
                    break;
                }
            }
        }
    }
    assert_eq!(recording.finish(), None);
    (folder, path)
}

fn open(path: &std::path::Path) -> Cassette {
    Tape::read(path, Redactor::default()).unwrap().model("test/says").unwrap()
}

async fn say(model: &Cassette, request: Request) -> Result<String, String> {
    let said = collect(model.stream(request).await.map_err(|error| error.message)?, |_| {}).await;
    let blocks = said.map_err(|error| error.message)?.blocks;
    Ok(blocks.iter().map(|block| if let Block::Text { text } = block { text.as_str() } else { "-" }).collect())
}

#[tokio::test]
async fn a_call_comes_back_as_it_was_whoever_asks() {
    let opaque = Opaque { model: "test/says".into(), value: json!({ "signature": "abc", "n": 0.1 }) };
    let call =
        ToolCall { opaque: Some(opaque.clone()), ..ToolCall::new("c1", "read_file", json!({ "b": 1, "a": 0.3 })) };
    let usage = |output| Delta::Usage(Usage { output, ..Usage::default() });
    let wait = Wait { cause: WaitCause::Streams, time_ms: None, detail: String::new() };
    let heard = vec![
        Delta::Waiting(wait),
        Delta::Sent,
        Delta::Text("lo".into()),
        usage(1),
        Delta::Partial("{".into()),
        usage(7),
        Delta::Switched(Switch { to: "test/other".into(), why: "busy".into() }),
        usage(1),
        Delta::Text("he".into()),
        Delta::Text("llo".into()),
        Delta::Thinking(opaque.clone()),
        Delta::Call(call.clone()),
        usage(2),
        Delta::Stop(StopKind::Tool),
    ];
    let (_folder, path) =
        record(vec![Ok(heard.into_iter().map(Ok).collect())], vec![request("a", 1, &["hi", "ho", "hi"])]).await;
    let model = open(&path);
    assert_eq!((model.name(), model.context_window(), model.max_output()), ("test/says", 1_234, Some(56)));
    let deltas: Vec<Delta> = model
        .stream(request("another[3]", 7, &["hi", "ho", "hi"]))
        .await
        .unwrap()
        .map(|delta| delta.unwrap())
        .collect()
        .await;
    assert_eq!(
        deltas,
        [
            Delta::Text("lo".into()),
            usage(7),
            Delta::Switched(Switch { to: "test/other".into(), why: "busy".into() }),
            Delta::Text("hello".into()),
            Delta::Thinking(opaque),
            Delta::Call(call),
            usage(2),
            Delta::Stop(StopKind::Tool),
        ]
    );
    assert!(model.complaints().is_empty());
}

#[tokio::test]
async fn failures_are_replayed_too_and_a_call_that_was_given_up_falls_silent() {
    let begun = |end: Option<ModelError>| {
        let words = Some(Ok(Delta::Text("half".into())));
        Ok(words.into_iter().chain(end.map(Err)).collect::<Vec<_>>())
    };
    let replies = vec![Err(error()), begun(Some(error())), begun(None)];
    let requests = ["one", "two", "three"].map(|words| request("a", 1, &[words])).to_vec();
    let (_folder, path) = record(replies, requests).await;
    let model = open(&path);
    assert_eq!(model.stream(request("a", 1, &["one"])).await.err(), Some(error()));
    let heard: Vec<_> = model.stream(request("a", 1, &["two"])).await.unwrap().collect().await;
    assert_eq!(heard, [Ok(Delta::Text("half".into())), Err(error())]);
    let mut silent = model.stream(request("a", 1, &["three"])).await.unwrap();
    assert_eq!(silent.next().await, Some(Ok(Delta::Text("half".into()))));
    assert_eq!(silent.next().now_or_never(), None, "it neither goes on nor ends");
}

#[tokio::test]
async fn calls_that_ask_the_same_answer_once_each_and_their_own_conversation_first() {
    let replies = ["first", "second", "third"].map(|words| Ok(text(words))).to_vec();
    let requests = ["a", "b", "a"].iter().zip([1, 1, 2]).map(|(name, turn)| request(name, turn, &["same"])).collect();
    let (_folder, path) = record(replies, requests).await;
    let model = open(&path);
    assert_eq!(say(&model, request("b", 1, &["same"])).await.unwrap(), "second");
    assert_eq!(say(&model, request("c", 9, &["same"])).await.unwrap(), "first");
    assert_eq!(say(&model, request("c", 9, &["same"])).await.unwrap(), "third");
    let miss = say(&model, request("b", 1, &["same"])).await.unwrap_err();
    let miss = miss.replace(path.to_str().unwrap(), "x.jsonl");
    insta::assert_snapshot!(miss, @"turn 1 of `b` is on the cassette `x.jsonl` 3 times, and no more is left of it; record again with --record");
    assert_eq!(model.complaints().len(), 1);
}

#[tokio::test]
async fn a_miss_names_the_nearest_and_the_first_difference() {
    let replies = (0..3).map(|_| Ok(text("x"))).collect();
    let recorded = vec![
        request("part[0]", 1, &["look at src"]),
        request("part[1]", 1, &["look at tests"]),
        request("part[1]", 2, &["look at tests", "I do", "and now?"]),
    ];
    let (_folder, path) = record(replies, recorded).await;
    let model = open(&path);
    let mut told = Vec::new();
    let mut ask = async |change: &dyn Fn(&mut Request), request: Request| {
        let mut request = request;
        change(&mut request);
        told.push(say(&model, request).await.unwrap_err().replace(path.to_str().unwrap(), "x.jsonl"));
    };
    ask(&|_| {}, request("part[1]", 2, &["look at tests", "I do", "and then?"])).await;
    ask(&|_| {}, request("part[7]", 1, &["look at srC"])).await;
    ask(&|r| r.max_output = 200, request("part[0]", 1, &["look at src"])).await;
    ask(&|r| r.format = Some(Arc::new(json!({}))), request("part[0]", 1, &["look at src"])).await;
    ask(&|r| r.tools = Vec::new().into(), request("part[0]", 1, &["look at src"])).await;
    ask(&|r| r.system = "Be better.".into(), request("part[0]", 1, &["look at src"])).await;
    insta::assert_snapshot!(told.join("\n"), @r#"
    turn 2 of `part[1]` is not on the cassette `x.jsonl`: the nearest recorded request (turn 2 of `part[1]`) differs first in message 2, block 0, text: recorded `and now?` but asked `and then?`; record again with --record
    turn 1 of `part[7]` is not on the cassette `x.jsonl`: the nearest recorded request (turn 1 of `part[0]`) differs first in message 0, block 0, text: recorded `look at src` but asked `look at srC`; record again with --record
    turn 1 of `part[0]` is not on the cassette `x.jsonl`: the nearest recorded request (turn 1 of `part[0]`) differs first in max_output: recorded `100` but asked `200`; record again with --record
    turn 1 of `part[0]` is not on the cassette `x.jsonl`: the nearest recorded request (turn 1 of `part[0]`) differs first in format: recorded `null` but asked `{}`; record again with --record
    turn 1 of `part[0]` is not on the cassette `x.jsonl`: the nearest recorded request (turn 1 of `part[0]`) differs first in tool 0: recorded `{"description":"Reads.","name":"read_file","schema":{"type":"object"}}` but asked nothing; record again with --record
    turn 1 of `part[0]` is not on the cassette `x.jsonl`: the nearest recorded request (turn 1 of `part[0]`) differs first in system: recorded `Be good.` but asked `Be better.`; record again with --record
    "#);
    assert_eq!(model.complaints().len(), 6, "each fails the run");
}

#[tokio::test]
async fn no_key_gets_onto_a_tape_and_one_recorded_without_it_is_found_with_it() {
    let said = vec![
        Ok(Delta::Text("the key is sk-01".into())),
        Ok(Delta::Text("23456789".into())),
        Ok(Delta::Call(ToolCall::new("c", "read_file", json!({ KEY: [KEY] })))),
        Err(ModelError::new(ModelErrorKind::Auth, format!("`{KEY}` is wrong")).hint(KEY).request(Some(KEY.into()))),
    ];
    let mut asked = request("a", 1, &["my key is sk-0123456789"]);
    asked.format = Some(Arc::new(json!({ "const": KEY })));
    let (_folder, path) = record(vec![Ok(said)], vec![asked.clone()]).await;
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(!file.contains("0123456789") && file.contains("my key is ***"), "{file}");
    let model = Tape::read(&path, Redactor::new([KEY])).unwrap().model("test/says").unwrap();
    let heard: Vec<_> = model.stream(asked).await.unwrap().collect().await;
    assert_eq!(heard[0], Ok(Delta::Text("the key is ***".into())));
}

#[tokio::test]
async fn a_file_cut_at_any_byte_is_readable_and_a_damaged_one_is_named_by_line() {
    let requests = (1..4).map(|turn| request("a", turn, &["zwölf", "你好", &"x".repeat(turn as usize)])).collect();
    let (_folder, path) = record((0..3).map(|_| Ok(text("yes"))).collect(), requests).await;
    let file = std::fs::read(&path).unwrap();
    let header = file.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in 0..file.len() {
        let read = Tape::parse("x", &file[..cut]);
        assert_eq!(read.is_ok(), cut >= header, "cut at {cut}: {:?}", read.err());
    }
    let lines: Vec<&str> = std::str::from_utf8(&file).unwrap().lines().collect();
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        Tape::parse("x", lines.join("\n").as_bytes()).err().map_or("none".to_string(), |error| error.to_string())
    };
    let told = [
        with(0, r#"{"type":"cassette","version":2}"#),
        with(0, r#"{"type":"run_started","version":1}"#),
        with(0, ""),
        with(3, "{"),
        with(4, &lines[4].replace("zw", "dr")),
        with(2, ""),
        with(4, lines[0]),
        with(7, &lines[7].replace("\"stop\"", "\"halt\"")),
    ];
    insta::assert_snapshot!(told.join("\n"), @"
    is a cassette of version 2, and this sortie reads version 1; record it again with --record
    is no cassette: its first line is not the header that --record writes
    is no cassette: its first line is not the header that --record writes
    is damaged in line 4: EOF while parsing an object; record it again with --record
    is damaged in line 5: a part that does not fit its hash; record it again with --record
    is damaged in line 8: a call that names a part which is not there; record it again with --record
    is damaged in line 5: a second header; record it again with --record
    is damaged in line 8: unknown variant `halt`; record it again with --record
    ");
}

#[test]
fn keys_of_objects_have_no_order_and_lists_have_one() {
    let asked = |format: &str| {
        let format = Some(Arc::new(serde_json::from_str(format).unwrap()));
        Asked::of("m", &Request { format, ..request("a", 1, &["x"]) }, &Redactor::default(), |_, _| {})
    };
    assert_eq!(asked(r#"{"a":1,"b":{"c":2,"d":3}}"#), asked(r#"{"b":{"d":3,"c":2},"a":1}"#));
    assert_ne!(asked(r#"{"a":[1,2]}"#), asked(r#"{"a":[2,1]}"#));
    // What a hash is must not change: tapes are kept.
    assert_eq!(format!("{:?}", asked::Hash::of(&json!({ "a": [1, "ä"] }))), "122e01b55c87c918bc73bbb044a1fbce");
}

#[test]
fn each_model_of_a_run_has_its_place_again() {
    struct Named(&'static str);
    #[async_trait]
    impl Model for Named {
        fn name(&self) -> &str {
            self.0
        }
        async fn stream(&self, _: Request) -> Result<Deltas, ModelError> {
            Ok(stream::pending().boxed())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let mut models = Models::new(Arc::new(Named("z/own")));
    models.add(Arc::new(Named("a/other")));
    models.add_alias("sonnet", "a/other");
    models.set_small(Arc::new(Named("a/small")));
    let recording = Recording::create(&path, Redactor::default()).unwrap();
    recording.record_all(models);
    recording.finish();
    let tape = Tape::read(&path, Redactor::default()).unwrap();
    let of = |own: Option<&str>| {
        let models = tape.models(own)?;
        let name = |model: &Arc<dyn Model>| model.name().to_string();
        let meant = ["sonnet", "a/other", "unknown"].map(|wanted| models.get(wanted).map(name));
        Some((name(models.default_model()), name(models.small()?), meant))
    };
    let name = |name: &str| Some(name.to_string());
    let recorded = ("z/own".to_string(), "a/small".to_string(), [name("a/other"), name("a/other"), None]);
    assert_eq!(of(None), Some(recorded));
    let (own, _, meant) = of(Some("a/other")).unwrap();
    assert_eq!((own.as_str(), meant), ("a/other", [name("a/other"), name("a/other"), name("a/other")]));
    assert_eq!(of(Some("unknown")), None);
}
