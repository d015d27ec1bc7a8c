//! The one writer of a run directory: what is written in which order.
//!
//! The loop, per batch of what is queued, which is what comes in a tenth of a second or until something urgent comes:
//! 1. write transcripts, artifacts, plans and the report as they come; collect event lines;
//! 2. tell those who wait for a flush;
//! 3. sync the files that a terminal event of the batch speaks of;
//! 4. append the event lines in one write;
//! 5. sync the log if the batch has a terminal event, and tell those who wait for a sync.
//!
//! So a terminal line is never on disk before what it speaks of, and many nodes that end at once share one sync.
//! The first failure is remembered and nothing is written after it: a log may be cut, never glued.

use super::disk::Disk;
use super::line::push_line;
use super::run_dir::{EVENTS, REPORT, artifact_path, plan_path, transcript_path};
use super::{StoreError, reason};
use crate::event::{Event, EventKind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Jobs that one batch takes at most, so that its lines stay a few megabytes.
const BATCH: usize = 4_096;

/// How long what is not urgent may wait for more: when many conversations begin at once, their requests go out before
/// their files are made. What a crash of the machine or a kill can cost is this much of what nobody was promised.
const GATHER: Duration = Duration::from_millis(100);

/// The conversation of the parent, as transcripts and events name it.
const COORDINATOR: &str = "coordinator";

/// Something to do, in order.
pub(super) enum Job {
    Event(Arc<Event>),
    Transcript { conversation: String, attempt: u32, record: Value },
    Artifact { node: String, name: String, content: Vec<u8> },
    Report(String),
    Flush(oneshot::Sender<()>),
    Sync(oneshot::Sender<Result<(), StoreError>>),
}

impl Job {
    /// Whether somebody waits for it, or it has to be on disk.
    fn is_urgent(&self) -> bool {
        match self {
            Job::Flush(_) | Job::Sync(_) => true,
            Job::Event(event) => !matches!(subject(&event.kind), Subject::Nothing),
            Job::Transcript { .. } | Job::Artifact { .. } | Job::Report(_) => false,
        }
    }
}

/// Writes the jobs of one run.
pub(super) struct Writer<D> {
    disk: D,
    /// For messages.
    root: PathBuf,
    failure: watch::Sender<Option<StoreError>>,
    /// Files written since they were last synced, by the conversation they belong to.
    unsynced: BTreeMap<String, BTreeSet<PathBuf>>,
}

/// Whose files an event speaks of. One that speaks of any is terminal: its line follows them to the disk and is synced.
enum Subject<'a> {
    One(&'a str),
    Everything,
    Nothing,
}

impl<D: Disk> Writer<D> {
    pub(super) fn new(disk: D, root: PathBuf, failure: watch::Sender<Option<StoreError>>) -> Self {
        Writer { disk, root, failure, unsynced: BTreeMap::new() }
    }

    /// Writes until the last sender is gone.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let due = Instant::now() + GATHER;
            let mut batch = vec![first];
            while batch.len() < BATCH && !batch.last().is_some_and(Job::is_urgent) {
                match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(job) => batch.push(job),
                    Err(_) => break,
                }
            }
            batch.extend(jobs.try_iter().take(BATCH - batch.len()));
            tracing::trace!(jobs = batch.len(), "commit");
            self.commit(batch);
        }
    }

    fn commit(&mut self, batch: Vec<Job>) {
        let (mut flushes, mut syncs) = (Vec::new(), Vec::new());
        let (mut lines, mut terminal) = (Vec::new(), Vec::new());
        for job in batch {
            match job {
                Job::Flush(waiting) => flushes.push(waiting),
                Job::Sync(waiting) => syncs.push(waiting),
                Job::Event(event) => {
                    self.attempt(|writer| writer.event(&event, &mut lines));
                    if !matches!(subject(&event.kind), Subject::Nothing) {
                        terminal.push(event);
                    }
                }
                Job::Transcript { conversation, attempt, record } => {
                    self.attempt(|writer| writer.transcript(conversation, attempt, &record));
                }
                Job::Artifact { node, name, content } => {
                    self.attempt(|writer| writer.replace(node.clone(), artifact_path(&node, &name), &content));
                }
                Job::Report(text) => {
                    self.attempt(|writer| writer.replace(COORDINATOR.into(), REPORT.into(), text.as_bytes()));
                }
            }
        }
        for waiting in flushes {
            // Whoever waited may have been cancelled.
            let _ = waiting.send(());
        }
        let mut speaks_of: Vec<PathBuf> = terminal.iter().flat_map(|event| self.take(&subject(&event.kind))).collect();
        if !syncs.is_empty() {
            speaks_of.extend(self.take(&Subject::Everything));
        }
        self.attempt(|writer| writer.sync(&speaks_of));
        self.attempt(|writer| writer.append_lines(&lines, !terminal.is_empty() || !syncs.is_empty()));
        for waiting in syncs {
            let _ = waiting.send(self.result());
        }
    }

    /// Does it, unless something has failed before.
    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> Result<(), StoreError>) {
        if self.result().is_ok()
            && let Err(error) = work(self)
        {
            remember(&self.failure, error);
        }
    }

    fn result(&self) -> Result<(), StoreError> {
        match &*self.failure.borrow() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn event(&mut self, event: &Event, lines: &mut Vec<u8>) -> Result<(), StoreError> {
        if let EventKind::PlanAccepted { round, plan, critical_path: _ } = &event.kind {
            self.replace(COORDINATOR.into(), plan_path(*round), format!("{plan:#}\n").as_bytes())?;
        }
        push_line(lines, event).map_err(|error| self.error(Path::new(EVENTS), &error.into()))
    }

    fn transcript(&mut self, conversation: String, attempt: u32, record: &Value) -> Result<(), StoreError> {
        let file = transcript_path(&conversation, attempt);
        let mut line = Vec::new();
        push_line(&mut line, record)
            .map_err(io::Error::from)
            .and_then(|()| self.disk.append(&file, &line))
            .map_err(|error| self.error(&file, &error))?;
        self.unsynced.entry(conversation).or_default().insert(file);
        Ok(())
    }

    fn replace(&mut self, conversation: String, file: PathBuf, content: &[u8]) -> Result<(), StoreError> {
        self.disk.replace(&file, content).map_err(|error| self.error(&file, &error))?;
        self.unsynced.entry(conversation).or_default().insert(file);
        Ok(())
    }

    /// The files that are not yet on disk for sure, no longer counted as such.
    fn take(&mut self, subject: &Subject<'_>) -> Vec<PathBuf> {
        match subject {
            Subject::One(conversation) => self.unsynced.remove(*conversation).into_iter().flatten().collect(),
            Subject::Everything => std::mem::take(&mut self.unsynced).into_values().flatten().collect(),
            Subject::Nothing => Vec::new(),
        }
    }

    fn sync(&mut self, files: &[PathBuf]) -> Result<(), StoreError> {
        self.disk.sync(files).map_err(|(file, error)| self.error(&file, &error))?;
        files.iter().for_each(|file| self.disk.close(file));
        Ok(())
    }

    fn append_lines(&mut self, lines: &[u8], sync: bool) -> Result<(), StoreError> {
        let log = Path::new(EVENTS);
        if !lines.is_empty() {
            self.disk.append(log, lines).map_err(|error| self.error(log, &error))?;
        }
        let synced = if sync { self.disk.sync(&[log.to_path_buf()]) } else { Ok(()) };
        synced.map_err(|(file, error)| self.error(&file, &error))
    }

    fn error(&self, file: &Path, error: &io::Error) -> StoreError {
        StoreError { path: self.root.join(file).display().to_string(), action: "written", reason: reason(error) }
    }
}

/// Exhaustive, so that a new event has to say whose files must be on disk before its line.
fn subject(kind: &EventKind) -> Subject<'_> {
    match kind {
        EventKind::NodeFinished { node, .. } => Subject::One(node),
        EventKind::PlanAccepted { .. } | EventKind::Answered { .. } => Subject::One(COORDINATOR),
        EventKind::RunFinished { .. } => Subject::Everything,
        EventKind::RunStarted { .. }
        | EventKind::Notice { .. }
        | EventKind::PlanRejected { .. }
        | EventKind::ApprovalAsked { .. }
        | EventKind::ApprovalAnswered { .. }
        | EventKind::NodeExpanded { .. }
        | EventKind::NodeStarted { .. }
        | EventKind::TurnFinished { .. }
        | EventKind::ModelWaiting { .. }
        | EventKind::ModelSwitched { .. }
        | EventKind::Titled { .. }
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::CancelRequested { .. }
        | EventKind::Merged { .. }
        | EventKind::Words { .. }
        | EventKind::Doing { .. } => Subject::Nothing,
    }
}

/// Keeps the first failure and wakes those who wait for one.
pub(super) fn remember(failure: &watch::Sender<Option<StoreError>>, error: StoreError) {
    failure.send_if_modified(|first| {
        let is_first = first.is_none();
        if is_first {
            *first = Some(error);
        }
        is_first
    });
}

/// Waits for the first failure.
pub(super) async fn failure(mut seen: watch::Receiver<Option<StoreError>>) -> StoreError {
    match seen.wait_for(Option::is_some).await.map(|found| found.clone()) {
        Ok(Some(error)) => error,
        Ok(None) => std::future::pending().await,
        // The writer is gone while its store lives: it panicked.
        Err(_) => StoreError { path: EVENTS.into(), action: "written", reason: "the writer has stopped".into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::AttemptEnd;
    use crate::event::{LOG_VERSION, Timestamp};
    use crate::model::{Bill, Usage};
    use crate::plan::Outcome;
    use serde_json::json;
    use std::sync::{Mutex, mpsc};

    /// Records what is done; fails from the given call on.
    #[derive(Clone)]
    struct Recorder {
        calls: Arc<Mutex<Vec<String>>>,
        fails_at: usize,
    }

    impl Recorder {
        fn note(&self, call: String) -> io::Result<()> {
            let mut calls = self.calls.lock().unwrap();
            calls.push(call);
            if calls.len() > self.fails_at { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    impl Disk for Recorder {
        fn append(&mut self, file: &Path, bytes: &[u8]) -> io::Result<()> {
            let lines = bytes.iter().filter(|b| **b == b'\n').count();
            self.note(format!("append {} {lines}", file.display()))
        }

        fn replace(&mut self, file: &Path, _: &[u8]) -> io::Result<()> {
            self.note(format!("replace {}", file.display()))
        }

        fn sync(&mut self, files: &[PathBuf]) -> Result<(), (PathBuf, io::Error)> {
            files.iter().try_for_each(|file| {
                self.note(format!("sync {}", file.display())).map_err(|error| (file.clone(), error))
            })
        }

        fn close(&mut self, _: &Path) {}
    }

    fn event(kind: EventKind) -> Job {
        Job::Event(Arc::new(Event { v: LOG_VERSION, seq: 1, at: Timestamp(0), kind }))
    }

    fn finished(node: &str) -> Job {
        let end = AttemptEnd::bare(Outcome::Succeeded, None);
        event(EventKind::NodeFinished { node: node.into(), attempt: 1, end, duration_ms: 1 })
    }

    fn spoke(node: &str) -> Job {
        Job::Transcript { conversation: node.into(), attempt: 1, record: json!({}) }
    }

    /// All that happens on disk when these jobs are one batch, and what is remembered as failed.
    fn commit(jobs: Vec<Job>, fails_at: usize) -> (Vec<String>, Option<StoreError>) {
        let disk = Recorder { calls: Arc::default(), fails_at };
        let calls = Arc::clone(&disk.calls);
        let (failed, failure) = watch::channel(None);
        let (queue, jobs_in) = mpsc::channel();
        jobs.into_iter().for_each(|job| queue.send(job).unwrap());
        drop(queue);
        Writer::new(disk, PathBuf::from("run"), failed).run(&jobs_in);
        let calls = calls.lock().unwrap().clone();
        (calls, failure.borrow().clone())
    }

    fn batch() -> Vec<Job> {
        let artifact = Job::Artifact { node: "a".into(), name: "report.md".into(), content: Vec::new() };
        vec![
            spoke("a"),
            event(EventKind::Notice { message: "m".into() }),
            spoke("b"),
            artifact,
            finished("a"),
            spoke("b"),
        ]
    }

    #[test]
    fn a_terminal_line_comes_after_what_it_speaks_of_is_on_disk() {
        let (calls, failure) = commit(batch(), usize::MAX);
        assert_eq!(
            calls,
            [
                "append agents/a.1.jsonl 1",
                "append agents/b.1.jsonl 1",
                "replace artifacts/a/report.md",
                "append agents/b.1.jsonl 1",
                "sync agents/a.1.jsonl",
                "sync artifacts/a/report.md",
                "append events.jsonl 2",
                "sync events.jsonl",
            ]
        );
        assert_eq!(failure, None);
    }

    #[test]
    fn nodes_that_end_together_share_one_sync_of_the_log() {
        let jobs = (0..100).map(|at| finished(&format!("n{at}"))).collect();
        assert_eq!(commit(jobs, usize::MAX).0, ["append events.jsonl 100", "sync events.jsonl"]);
    }

    #[test]
    fn nothing_is_written_after_the_first_failure_whichever_it_is() {
        let all = commit(batch(), usize::MAX).0.len();
        for fails_at in 0..all {
            let mut jobs = batch();
            let (synced, result) = oneshot::channel();
            jobs.extend([finished("b"), Job::Sync(synced)]);
            let (calls, failure) = commit(jobs, fails_at);
            assert_eq!(calls.len(), fails_at + 1, "{calls:?}");
            let failure = failure.unwrap();
            assert!(failure.to_string().contains("cannot be written"), "{failure}");
            assert_eq!(result.blocking_recv().unwrap(), Err(failure));
        }
    }

    #[test]
    fn the_last_event_syncs_all_there_is() {
        let end = event(EventKind::RunFinished {
            status: "failed".into(),
            exit_code: 1,
            problem: None,
            usage: Usage::default(),
            cost: Bill::default(),
        });
        let (calls, _) = commit(vec![spoke("a"), Job::Report("text".into()), end], usize::MAX);
        assert_eq!(
            calls,
            [
                "append agents/a.1.jsonl 1",
                "replace report.md",
                "sync agents/a.1.jsonl",
                "sync report.md",
                "append events.jsonl 1",
                "sync events.jsonl",
            ]
        );
    }
}
