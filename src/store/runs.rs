//! Finding runs and reading what they are.

use super::run_dir::{EVENTS, HEADER};
use super::{LogWarning, RunHeader, StoreError, Summary, read_transcript, scan_log, transcript_path};
use crate::agent::history::Record;
use crate::agent::{Attempt, AttemptEnd};
use crate::event::{Event, EventKind};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A run directory that was found; nothing of it has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    /// The run's id: the directory's name.
    pub id: String,
    /// The directory.
    pub dir: PathBuf,
}

/// The runs under these folders, newest first: ids sort by time. A folder that does not exist holds none.
///
/// # Errors
/// When a folder cannot be listed.
pub fn newest_first(roots: &[PathBuf]) -> Result<Vec<FoundRun>, StoreError> {
    let mut found = Vec::new();
    for root in roots {
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(StoreError::read(root, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| StoreError::read(root, &error))?;
            if entry.path().is_dir() {
                found.push(FoundRun { id: entry.file_name().to_string_lossy().into_owned(), dir: entry.path() });
            }
        }
    }
    found.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(found)
}

/// The runs that `wanted` may mean: `last`, a full id, or the beginning or end of one. Newest first.
pub fn find_runs<'a>(runs: &'a [FoundRun], wanted: &str) -> Vec<&'a FoundRun> {
    if wanted == "last" {
        return runs.first().into_iter().collect();
    }
    if let Some(exact) = runs.iter().find(|run| run.id == wanted) {
        return vec![exact];
    }
    if wanted.is_empty() {
        return Vec::new();
    }
    runs.iter().filter(|run| run.id.starts_with(wanted) || run.id.ends_with(wanted)).collect()
}

/// A run as its directory tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Where.
    pub found: FoundRun,
    /// `run.json`, when it can be read.
    pub header: Option<RunHeader>,
    /// What the log adds up to.
    pub summary: Summary,
    /// What could not be read, in sentences.
    pub problems: Vec<String>,
}

impl RunRecord {
    /// Reads a run; `visit` sees each event. Damage ends up in `problems`.
    pub fn read(found: &FoundRun, mut visit: impl FnMut(&Event)) -> Self {
        let mut problems = Vec::new();
        let header = read_header(&found.dir.join(HEADER)).map_err(|error| problems.push(error.to_string())).ok();
        let mut summary = Summary::default();
        let scanned = scan_log(&found.dir.join(EVENTS), |event| {
            summary.fold(&event);
            visit(&event);
        });
        match scanned {
            Ok(warnings) => problems.extend(warnings.iter().map(in_log)),
            Err(error) => problems.push(error.to_string()),
        }
        RunRecord { found: found.clone(), header, summary, problems }
    }

    /// Whether the directory tells nothing of a run.
    pub fn is_broken(&self) -> bool {
        self.summary.started.is_none()
    }
}

fn in_log(warning: &LogWarning) -> String {
    format!("{EVENTS}, {warning}")
}

fn read_header(path: &Path) -> Result<RunHeader, StoreError> {
    let bytes = fs::read(path).map_err(|error| StoreError::read(path, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| StoreError {
        path: path.display().to_string(),
        action: "read",
        reason: error.to_string(),
    })
}

/// A node as its run's directory tells it: its latest attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecord {
    /// Full name.
    pub node: String,
    /// What it was given, if it started.
    pub attempt: Option<Attempt>,
    /// How it ended, and its duration in milliseconds.
    pub end: Option<(AttemptEnd, u64)>,
    /// Its conversation, if it had one.
    pub transcript: Vec<TranscriptLine>,
    /// What could not be read, in sentences.
    pub problems: Vec<String>,
}

/// A line of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptLine {
    /// One that this version writes.
    Known(Record),
    /// JSON of another kind.
    Other(Value),
}

impl NodeRecord {
    /// The record of `node` in the run found; `None` when the run has no such node. `coordinator` is the parent's
    /// conversation.
    pub fn read(found: &FoundRun, node: &str) -> Option<Self> {
        let (mut attempt, mut end) = (None, None);
        let run = RunRecord::read(found, |event| {
            if let EventKind::NodeStarted { attempt: started } = &event.kind
                && started.node == node
            {
                attempt = Some(started.clone());
            }
            if let EventKind::NodeFinished { node: name, end: ended, duration_ms, .. } = &event.kind
                && name == node
            {
                end = Some((ended.clone(), *duration_ms));
            }
        });
        let number = attempt.as_ref().map_or(0, |attempt| attempt.attempt);
        let path = found.dir.join(transcript_path(node, number));
        let mut problems = run.problems;
        let (transcript, warnings) = match read_transcript(&path) {
            Ok(read) => read,
            Err(error) => {
                if path.exists() {
                    problems.push(error.to_string());
                }
                Default::default()
            }
        };
        if attempt.is_none() && end.is_none() && transcript.is_empty() && run.summary.node(node).is_none() {
            return None;
        }
        problems.extend(warnings.iter().map(|warning| format!("transcript, {warning}")));
        let transcript = transcript.into_iter().map(TranscriptLine::from).collect();
        Some(NodeRecord { node: node.to_string(), attempt, end, transcript, problems })
    }
}

impl TranscriptLine {
    /// The line as JSON.
    pub fn to_value(&self) -> Value {
        match self {
            // A record is plain data: it always has a JSON form.
            TranscriptLine::Known(record) => serde_json::to_value(record).unwrap_or_default(),
            TranscriptLine::Other(value) => value.clone(),
        }
    }
}

impl From<Value> for TranscriptLine {
    fn from(value: Value) -> Self {
        match serde_json::from_value(value.clone()) {
            Ok(record) => TranscriptLine::Known(record),
            Err(_) => TranscriptLine::Other(value),
        }
    }
}
