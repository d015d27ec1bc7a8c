//! What users see of a run: lines, tables, JSON, and the commands that show recorded runs.

use crate::sample;
use serde_json::{Value, json};
use sortie::event::EventKind;
use sortie::plan::{CauseKind, Outcome};
use sortie::store::{FileStore, RunHeader, Store, Summary};
use sortie::ui::{Answer, Json, JsonLines, Plain, Reporter, table};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use unicode_width::UnicodeWidthStr;

/// A pipe's other end.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All that a reporter prints of the sample run.
fn printed<R: Reporter>(make: impl FnOnce(Page) -> R) -> String {
    let page = Page::default();
    let mut reporter = make(page.clone());
    for event in sample::run() {
        reporter.event(&event).unwrap();
    }
    reporter.end().unwrap();
    let bytes = page.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn cannot_drive_a_terminal(text: &str) {
    assert_eq!(text.find(|c: char| c.is_control() && c != '\n'), None, "{text:?}");
}

#[test]
fn plain_lines() {
    let text = printed(Plain::new);
    cannot_drive_a_terminal(&text);
    insta::assert_snapshot!(text);
}

#[test]
fn the_answer() {
    let text = printed(Answer::new);
    cannot_drive_a_terminal(&text);
    insta::assert_snapshot!(text);
}

#[test]
fn json_is_one_object() {
    let text = printed(Json::new);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(text.lines().count(), 1);
    insta::assert_snapshot!(format!("{value:#}"));
}

#[test]
fn json_lines_are_the_log_and_then_the_result() {
    let text = printed(JsonLines::new);
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut result = lines.pop().unwrap();
    let logged: Vec<Value> = sample::run().iter().map(|event| json!(event)).collect();
    assert_eq!(lines, logged);
    assert_eq!(result.as_object_mut().unwrap().shift_remove("type"), Some(json!("result")));
    assert_eq!(result, serde_json::from_str::<Value>(&printed(Json::new)).unwrap());
}

#[test]
fn tables_fit_any_width() {
    let summary = Summary::of(&sample::run());
    insta::assert_snapshot!(table(&summary, Some(60)));
    for columns in 0..120 {
        for line in table(&summary, Some(columns)).lines() {
            assert!(line.width() <= columns, "{columns}: {line:?}");
        }
    }
}

#[test]
fn wide_names_keep_the_table_aligned() {
    let names = ["你好👩‍💻", "e\u{301}", "plain", "\u{1b}[31mred"];
    let plan = EventKind::PlanAccepted {
        round: 1,
        plan: json!({ "node": names.map(|id| json!({ "id": id })) }),
        critical_path: Vec::new(),
    };
    let ends = names.map(|name| sample::finished(name, Outcome::Succeeded, None));
    let events = sample::events([sample::run_started(None), plan].into_iter().chain(ends));
    let text = table(&Summary::of(&events), Some(80));
    let at: Vec<usize> =
        text.lines().filter_map(|line| line.split_once("succeeded").map(|(before, _)| before.width())).collect();
    assert_eq!(at, [at[0]; 4], "{text}");
}

#[test]
fn many_instances_are_one_row_unless_they_failed() {
    let mut kinds = vec![sample::run_started(None), sample::plan(1, &["part"])];
    kinds.push(EventKind::NodeExpanded { node: "part".into(), count: 300 });
    for index in 0..300 {
        let failed = index == 7;
        let outcome = if failed { Outcome::Failed } else { Outcome::Succeeded };
        kinds.push(sample::started(&format!("part[{index}]")));
        let cause = failed.then_some((CauseKind::Repetition, "it kept asking the same"));
        kinds.push(sample::finished(&format!("part[{index}]"), outcome, cause));
    }
    insta::assert_snapshot!(table(&Summary::of(&sample::events(kinds)), Some(80)));
}

#[test]
fn very_many_nodes_make_no_endless_table() {
    let ids: Vec<String> = (0..10_000).map(|at| format!("n{at}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut kinds = vec![sample::plan(1, &ids)];
    kinds.extend(ids.iter().map(|id| match *id {
        "n9999" => sample::finished(id, Outcome::TimedOut, Some((CauseKind::Timeout, "its time has passed"))),
        _ => sample::finished(id, Outcome::Succeeded, None),
    }));
    let text = table(&Summary::of(&sample::events(kinds)), None);
    assert!(text.lines().count() < 210 && text.contains("n9999") && text.contains("9800 nodes"), "{text}");
}

/// A workspace with the sample run in it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn workspace(&self) -> &Path {
        self.folder.path()
    }

    fn record(&self, id: &str, events: usize) {
        let dir = self.workspace().join(".sortie/runs").join(id);
        let mut header = RunHeader::new(id, self.workspace());
        header.created = sortie::event::Timestamp(sample::START);
        header.plan = Some("investigate".into());
        let store = FileStore::create(&dir, &header).unwrap();
        let call = json!({ "type": "tool_call", "id": "c1", "name": "search_code", "args": { "pattern": "cancel" } });
        store.transcript("map", 1, json!({ "type": "user", "text": "Where is it?" }));
        let reply =
            json!({ "type": "assistant", "turn": 1, "blocks": [call], "stop": "tool", "usage": sample::usage(1, 1) });
        store.transcript("map", 1, reply);
        store.transcript(
            "map",
            1,
            json!({ "type": "tool_result", "id": "c1", "text": "src/a.rs:3", "is_error": false }),
        );
        store.transcript("map", 1, json!({ "type": "newer", "text": sample::HOSTILE }));
        sample::run().into_iter().take(events).for_each(|event| store.append(Arc::new(event)));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command.args(args).arg("-C").arg(self.workspace()).env_clear();
        command.env("SORTIE_STATE_DIR", self.workspace().join("state")).stdin(Stdio::null());
        command
    }

    fn sortie(&self, args: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }
}

#[test]
fn runs_says_how_to_start_one_when_there_is_none() {
    let place = Place::new();
    let (code, out, err) = place.sortie(&["runs"]);
    assert_eq!((code, out.as_str()), (0, ""));
    insta::assert_snapshot!(err, @r#"no runs here yet; `sortie run "a question"` starts one"#);
    assert_eq!(place.sortie(&["runs", "--output", "json"]).1, "{\n  \"version\": 1,\n  \"runs\": []\n}\n");
}

#[test]
fn runs_lists_the_newest_first_and_the_broken_ones_as_such() {
    let place = Place::new();
    place.record("0198-finished", usize::MAX);
    place.record("0199-cut-off", 5);
    place.record("0200-nothing", 0);
    fs::create_dir_all(place.workspace().join(".sortie/runs/0201-empty")).unwrap();
    let (code, out, err) = place.sortie(&["runs"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let workspace = place.workspace().display().to_string();
    insta::assert_snapshot!(out.replace(&workspace, "/workspace"), @"
    run       started (UTC)     status      nodes  time  tokens  about
    01-empty                    broken                           the run's record at `/workspace/.sortie/runs/0201-empty/run.json` cannot be read: no such file or directory
    -nothing  2026-01-01 00:00  broken                           its log is empty
    -cut-off  2026-01-01 00:00  unfinished      3  0.4s      11  where is cancellation handled?
    finished  2026-01-01 00:00  failed          6  2.2s   24.0k  where is cancellation handled?
    ");
    let (_, out, err) = place.sortie(&["runs", "--limit", "1"]);
    assert_eq!(out.lines().count(), 2);
    insta::assert_snapshot!(err, @"… and 3 older runs; `--limit 4` shows all");
    let (_, out, _) = place.sortie(&["runs", "--output", "json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["runs"][3]["status"], "failed");
    assert_eq!(value["runs"][3]["nodes"], 6);
    assert_eq!(value["runs"][0]["status"], "broken");
}

#[test]
fn show_tells_a_run() {
    let place = Place::new();
    place.record("0198-finished", usize::MAX);
    let (code, out, err) = place.sortie(&["show", "last"]);
    assert_eq!((code, err.as_str()), (0, ""));
    cannot_drive_a_terminal(&out);
    insta::assert_snapshot!(out);
    let (_, out, _) = place.sortie(&["show", "finished", "--output", "json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value, serde_json::from_str::<Value>(&printed(Json::new)).unwrap());
}

#[test]
fn show_tells_a_node() {
    let place = Place::new();
    place.record("0198-finished", usize::MAX);
    let (code, out, err) = place.sortie(&["show", "0198", "map"]);
    assert_eq!((code, err.as_str()), (0, ""));
    cannot_drive_a_terminal(&out);
    insta::assert_snapshot!(out);
    let (_, out, _) = place.sortie(&["show", "0198", "map", "--output", "json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["end"]["report"]["summary"], "It is in `src/a.rs`.");
    assert_eq!(value["transcript"].as_array().map(Vec::len), Some(4));
    let (_, out, _) = place.sortie(&["show", "0198", "last"]);
    insta::assert_snapshot!(out, @"
    last: skipped
    cause: `part` did not succeed (upstream)
    ");
}

#[test]
fn show_says_what_there_is_when_it_finds_nothing_or_too_much() {
    let place = Place::new();
    let mut told = String::new();
    let mut ask = |args: &[&str]| {
        let (code, out, err) = place.sortie(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        told.push_str(&format!("$ sortie {}\n{err}\n", args.join(" ")));
    };
    ask(&["show", "last"]);
    place.record("0198-aaa", usize::MAX);
    place.record("0198-bbb", 0);
    ask(&["show", "0198"]);
    ask(&["show", "nothing"]);
    ask(&["show", "aaa", "nobody"]);
    ask(&["show", "bbb", "nobody"]);
    insta::assert_snapshot!(told);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    place.record("0198-finished", usize::MAX);
    for args in [&["runs"][..], &["show", "last"], &["show", "last", "map"], &["show", "last", "--output", "json"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = place.command(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{args:?}");
    }
}
