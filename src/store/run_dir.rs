//! A run directory: what is in it, and the store that writes it.
//!
//! ```text
//! run.json                    what the run is (RunHeader); written before the first event
//! plan.json, plan.2.json, …   accepted plans
//! events.jsonl                the log: one durable event per line
//! agents/NODE.ATTEMPT.jsonl   transcripts; agents/coordinator.jsonl is the parent's
//! artifacts/NODE/NAME         what nodes left for others
//! report.md                   what the run came to, for people
//! ```

use super::disk::{Disk, RunFiles};
use super::hiding::{Hiding, without_secrets};
use super::writer::{Job, Writer, failure};
use super::{Store, StoreError, file_name};
use crate::event::{Event, Timestamp};
use crate::redact::Redactor;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Version of the layout that is written; `run.json` names it.
pub const RUN_VERSION: u32 = 1;

pub(super) const HEADER: &str = "run.json";
pub(super) const EVENTS: &str = "events.jsonl";
pub(super) const REPORT: &str = "report.md";
const AGENTS: &str = "agents";
const ARTIFACTS: &str = "artifacts";

/// How long a dropped store waits for its writer: longer than a slow disk needs, short enough for a hung one.
const DRAIN: Duration = Duration::from_secs(5);

/// `run.json`: what a run is, known before its first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// [`RUN_VERSION`].
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// When it was made.
    pub created: Timestamp,
    /// The version of sortie that made it.
    #[serde(default)]
    pub sortie: String,
    /// The workspace, absolute.
    #[serde(default)]
    pub workspace: String,
    /// What the user asked, if anything.
    #[serde(default)]
    pub task: Option<String>,
    /// The name of the plan that the user gave, if any.
    #[serde(default)]
    pub plan: Option<String>,
    /// The settings, without secrets.
    #[serde(default)]
    pub config: Value,
    /// The commit that was checked out, in a git repository.
    #[serde(default)]
    pub git_head: Option<String>,
}

impl RunHeader {
    /// The header of a run that is made now, by this version.
    pub fn new(run: impl Into<String>, workspace: &Path) -> Self {
        RunHeader {
            version: RUN_VERSION,
            run: run.into(),
            created: Timestamp::from_system(std::time::SystemTime::now()),
            sortie: env!("CARGO_PKG_VERSION").to_string(),
            workspace: workspace.display().to_string(),
            task: None,
            plan: None,
            config: Value::Null,
            git_head: super::git_head(workspace),
        }
    }
}

/// Records a run in a directory. All writes go through one thread; the caller only queues.
#[derive(Debug)]
pub struct FileStore {
    dir: PathBuf,
    /// Gone only while dropping.
    jobs: Option<Sender<Job>>,
    failure: watch::Receiver<Option<StoreError>>,
    // The receiver of the end mark is not `Sync`; only `drop` looks.
    writer: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
}

impl FileStore {
    /// Makes the run directory `dir` with its `run.json` and starts the writer.
    ///
    /// # Errors
    /// When something of that cannot be written, or `dir` has a log already.
    pub fn create(dir: &Path, header: &RunHeader) -> Result<Self, StoreError> {
        FileStore::create_hiding(dir, header, Redactor::default())
    }

    /// The same, with these secrets kept out of every file.
    ///
    /// # Errors
    /// As [`FileStore::create`].
    pub fn create_hiding(dir: &Path, header: &RunHeader, hidden: Redactor) -> Result<Self, StoreError> {
        let written = |path: &Path, result: io::Result<()>| result.map_err(|e| StoreError::written(path, &e));
        for folder in [dir.to_path_buf(), dir.join(AGENTS), dir.join(ARTIFACTS)] {
            written(&folder, fs::create_dir_all(&folder))?;
        }
        // The log first: a directory that has one is another run's, and nothing of it may be overwritten.
        let (log, about) = (dir.join(EVENTS), dir.join(HEADER));
        written(&log, fs::File::create_new(&log).map(drop))?;
        written(&about, write_header(&about, header, &hidden))?;
        sync_names(dir);
        FileStore::start(dir, Hiding::new(RunFiles::new(dir.to_path_buf()), hidden))
    }

    fn start(dir: &Path, disk: impl Disk) -> Result<Self, StoreError> {
        let (jobs, queue) = channel();
        let (failed, failure) = watch::channel(None);
        let (end_mark, ended) = channel();
        let writer = Writer::new(disk, dir.to_path_buf(), failed);
        let thread = std::thread::Builder::new().name("sortie-store".into()).spawn(move || {
            writer.run(&queue);
            // Nobody listens unless the store is being dropped.
            let _ = end_mark.send(());
        });
        let thread = thread.map_err(|error| StoreError::written(dir, &error))?;
        let writer = Mutex::new(Some((thread, ended)));
        Ok(FileStore { dir: dir.to_path_buf(), jobs: Some(jobs), failure, writer })
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// When the writer is gone, [`Store::failed`] says so.
    fn queue(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }
}

#[async_trait]
impl Store for FileStore {
    fn append(&self, event: Arc<Event>) {
        self.queue(Job::Event(event));
    }

    fn transcript(&self, conversation: &str, attempt: u32, record: Value) {
        self.queue(Job::Transcript { conversation: conversation.to_string(), attempt, record });
    }

    fn artifact(&self, node: &str, name: &str, content: Vec<u8>) {
        self.queue(Job::Artifact { node: node.to_string(), name: name.to_string(), content });
    }

    fn write_report(&self, text: String) {
        self.queue(Job::Report(text));
    }

    fn artifact_folder(&self) -> Option<PathBuf> {
        Some(self.dir.join(ARTIFACTS))
    }

    async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        self.queue(Job::Flush(done));
        // Without a writer there is nothing to wait for.
        let _ = waiting.await;
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let (done, waiting) = oneshot::channel();
        self.queue(Job::Sync(done));
        match waiting.await {
            Ok(result) => result,
            Err(_) => Err(self.failed().await),
        }
    }

    async fn failed(&self) -> StoreError {
        failure(self.failure.clone()).await
    }
}

impl Drop for FileStore {
    /// Waits for the writer, at most five seconds. Does not block when `sync` was awaited before.
    fn drop(&mut self) {
        self.jobs = None;
        let writer = self.writer.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some((thread, ended)) = writer
            && ended.recv_timeout(DRAIN) != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let _ = thread.join();
        }
    }
}

fn write_header(path: &Path, header: &RunHeader, hidden: &Redactor) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    let text = format!("{:#}\n", serde_json::to_value(header)?);
    file.write_all(&without_secrets(text.as_bytes(), hidden))?;
    file.sync_data()
}

/// Puts the names of what was made in `dir` on disk, where directories can be synced.
fn sync_names(dir: &Path) {
    if let Ok(opened) = fs::File::open(dir) {
        let _ = opened.sync_all();
    }
}

/// Where the transcript of a conversation is, relative to the run directory.
pub fn transcript_path(conversation: &str, attempt: u32) -> PathBuf {
    let name = file_name(conversation);
    Path::new(AGENTS).join(if attempt == 0 { format!("{name}.jsonl") } else { format!("{name}.{attempt}.jsonl") })
}

/// Where an artifact is, relative to the run directory.
pub(super) fn artifact_path(node: &str, name: &str) -> PathBuf {
    Path::new(ARTIFACTS).join(file_name(node)).join(file_name(name))
}

/// Where an accepted plan is, relative to the run directory.
pub(super) fn plan_path(round: u32) -> PathBuf {
    PathBuf::from(if round <= 1 { "plan.json".to_string() } else { format!("plan.{round}.json") })
}
