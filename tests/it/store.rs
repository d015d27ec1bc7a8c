//! The record of a run: what is written is what is read, whole lines only, and failures are told.

use crate::sample::{self, HOSTILE};
use serde_json::json;
use sortie::store::{
    FileStore, FoundRun, MemoryStore, NodeRecord, RunHeader, RunRecord, Store, Summary, TranscriptLine, file_name,
    find_runs, make_run_dir, newest_first, read_log, read_transcript, run_roots, transcript_path,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Recorded {
    _folder: tempfile::TempDir,
    dir: PathBuf,
    store: FileStore,
}

fn new_run() -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("r-1");
    let store = FileStore::create(&dir, &RunHeader::new("r-1", folder.path())).unwrap();
    Recorded { _folder: folder, dir, store }
}

fn record_sample(store: &dyn Store) {
    store.transcript("coordinator", 0, json!({ "type": "user", "text": HOSTILE }));
    store.transcript("part[0]", 1, json!({ "type": "user", "text": HOSTILE }));
    store.transcript("part[0]", 1, json!({ "type": "newer", "text": HOSTILE }));
    store.artifact("part[0]", "report.md", HOSTILE.into());
    sample::run().into_iter().for_each(|event| store.append(Arc::new(event)));
    store.write_report("the answer\n".into());
}

fn files(folder: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, below, found);
        } else {
            found.push(path.strip_prefix(below).unwrap().display().to_string());
        }
    }
    found.sort();
}

#[tokio::test]
async fn a_run_directory_holds_what_was_recorded() {
    let run = new_run();
    record_sample(&run.store);
    run.store.sync().await.unwrap();

    let mut found = Vec::new();
    files(&run.dir, &run.dir, &mut found);
    insta::assert_snapshot!(found.join("\n"), @"
    agents/coordinator.jsonl
    agents/part%5B0%5D.1.jsonl
    artifacts/part%5B0%5D/report.md
    events.jsonl
    plan.2.json
    plan.json
    report.md
    run.json
    ");
    let log = read_log(&run.dir.join("events.jsonl")).unwrap();
    assert_eq!(log.events, sample::run());
    assert_eq!(log.warnings, []);
    let (records, _) = read_transcript(&run.dir.join(transcript_path("part[0]", 1))).unwrap();
    assert_eq!(records[0], json!({ "type": "user", "text": HOSTILE }));
    let artifacts = run.store.artifact_folder().unwrap();
    assert_eq!(fs::read(artifacts.join(file_name("part[0]")).join("report.md")).unwrap(), HOSTILE.as_bytes());
    assert_eq!(fs::read_to_string(run.dir.join("report.md")).unwrap(), "the answer\n");
}

#[tokio::test]
async fn a_record_is_one_physical_line_whatever_its_text() {
    let run = new_run();
    record_sample(&run.store);
    run.store.sync().await.unwrap();
    for (file, lines) in [("events.jsonl", sample::run().len()), ("agents/part%5B0%5D.1.jsonl", 2)] {
        let text = fs::read_to_string(run.dir.join(file)).unwrap();
        let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}', '\0'];
        assert_eq!(text.split(ends).count(), lines + 1, "{file}");
    }
}

#[tokio::test]
async fn both_stores_tell_the_same_run() {
    let run = new_run();
    let memory = MemoryStore::new();
    record_sample(&run.store);
    record_sample(&memory);
    run.store.sync().await.unwrap();
    let log = read_log(&run.dir.join("events.jsonl")).unwrap();
    let kept = memory.events();
    assert_eq!(Summary::of(&log.events), Summary::of(kept.iter().map(AsRef::as_ref)));
}

#[test]
fn dropping_the_store_writes_what_is_queued() {
    let run = new_run();
    record_sample(&run.store);
    drop(run.store);
    assert_eq!(read_log(&run.dir.join("events.jsonl")).unwrap().events, sample::run());
}

#[test]
fn any_prefix_of_a_log_adds_up_to_a_run() {
    let events = sample::run();
    for end in 0..=events.len() {
        let summary = Summary::of(&events[..end]);
        assert!(summary.nodes().count() <= 7);
        assert_eq!(summary.ended.is_some(), end == events.len());
    }
    let order: Vec<String> = Summary::of(&events).nodes().map(|node| node.id.clone()).collect();
    assert_eq!(order, ["map", "part", "part[0]", "part[1]", "part[2]", "last", "r2.again"]);
}

#[tokio::test]
async fn a_vanished_directory_fails_the_store_and_stays_away() {
    let run = new_run();
    record_sample(&run.store);
    run.store.sync().await.unwrap();
    fs::remove_dir_all(&run.dir).unwrap();
    record_sample(&run.store);
    let failure = run.store.failed().await;
    assert_eq!(run.store.sync().await, Err(failure.clone()));
    assert!(failure.to_string().contains("cannot be written: "), "{failure}");
    drop(run.store);
    assert!(!run.dir.exists());
}

#[tokio::test]
async fn a_file_in_the_way_of_an_artifact_fails_the_store_and_the_log_keeps_whole_lines() {
    let run = new_run();
    run.store.append(Arc::new(sample::run().remove(0)));
    run.store.sync().await.unwrap();
    fs::write(run.dir.join("artifacts").join("map"), "in the way").unwrap();
    run.store.artifact("map", "report.md", Vec::new());
    record_sample(&run.store);
    assert!(run.store.sync().await.is_err());
    let log = read_log(&run.dir.join("events.jsonl")).unwrap();
    assert_eq!((log.events.len(), log.warnings.len()), (1, 0));
}

#[test]
fn a_run_directory_that_cannot_be_made_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FileStore::create(&file.join("r-1"), &RunHeader::new("r-1", folder.path())).unwrap_err();
    assert!(error.to_string().contains("file/r-1` cannot be written: "), "{error}");
}

#[test]
fn a_recorded_run_is_never_overwritten_or_continued_by_a_new_one() {
    let run = new_run();
    record_sample(&run.store);
    drop(run.store);
    let log = run.dir.join("events.jsonl");
    // The writer was killed in the middle of its last line.
    let torn = [fs::read(&log).unwrap(), b"{\"v\":1,\"se".to_vec()].concat();
    fs::write(&log, &torn).unwrap();
    let header = fs::read(run.dir.join("run.json")).unwrap();
    let error = FileStore::create(&run.dir, &RunHeader::new("r-2", &run.dir)).unwrap_err();
    assert!(error.to_string().contains("events.jsonl` cannot be written: file exists"), "{error}");
    assert_eq!((fs::read(&log).unwrap(), fs::read(run.dir.join("run.json")).unwrap()), (torn, header));
    assert_eq!(read_log(&log).unwrap().events, sample::run());
}

#[tokio::test]
async fn runs_are_found_by_either_end_of_their_id_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    for id in ["0198-aaa1", "0198-bbb2", "0199-bbb3"] {
        let place = make_run_dir(folder.path(), Some(&state), id).unwrap();
        assert_eq!(place.notice, None);
    }
    let elsewhere = &run_roots(folder.path(), Some(&state))[1];
    fs::create_dir_all(elsewhere.join("0200-ccc4")).unwrap();
    let runs = newest_first(&run_roots(folder.path(), Some(&state))).unwrap();
    let ids = |wanted: &str| find_runs(&runs, wanted).iter().map(|run| run.id.as_str()).collect::<Vec<_>>();
    assert_eq!(ids("last"), ["0200-ccc4"]);
    assert_eq!(ids("0198"), ["0198-bbb2", "0198-aaa1"]);
    assert_eq!(ids("aaa1"), ["0198-aaa1"]);
    assert_eq!(ids("0199-bbb3"), ["0199-bbb3"]);
    assert_eq!(ids("nothing"), Vec::<&str>::new());
    assert_eq!(ids(""), Vec::<&str>::new());
}

#[tokio::test]
async fn a_node_is_read_back_with_its_conversation_and_damage_is_told() {
    let run = new_run();
    record_sample(&run.store);
    run.store.sync().await.unwrap();
    let found = FoundRun { id: "r-1".into(), dir: run.dir.clone() };
    let node = NodeRecord::read(&found, "part[0]").unwrap();
    assert!(matches!(node.transcript[..], [TranscriptLine::Known(_), TranscriptLine::Other(_)]));
    assert!(node.attempt.is_some() && node.end.is_some() && node.problems.is_empty());
    assert_eq!(NodeRecord::read(&found, "nobody"), None);

    fs::write(run.dir.join("run.json"), "{").unwrap();
    let log = run.dir.join("events.jsonl");
    let cut = fs::metadata(&log).unwrap().len() - 5;
    fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(cut).unwrap();
    let record = RunRecord::read(&found, |_| {});
    assert!(!record.is_broken() && record.summary.ended.is_none());
    assert_eq!(record.problems.len(), 2, "{:?}", record.problems);
    assert!(record.problems[1].starts_with("events.jsonl, line 23: the last line was cut off"), "{record:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_workspace_that_cannot_be_written_has_its_runs_in_the_state_directory() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (workspace, state) = (folder.path().join("work"), folder.path().join("state"));
    fs::create_dir(&workspace).unwrap();
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(workspace.join("probe"), "").is_ok() {
        // Nothing is read-only for the superuser.
        return;
    }
    assert!(make_run_dir(&workspace, None, "r-1").is_err());
    let place = make_run_dir(&workspace, Some(&state), "r-1").unwrap();
    assert!(place.dir.starts_with(&state) && place.notice.is_some_and(|notice| notice.contains("cannot be written")));
    let runs = newest_first(&run_roots(&workspace, Some(&state))).unwrap();
    assert_eq!(runs.len(), 1);
}
