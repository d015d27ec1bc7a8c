//! The `Store` seam: where a run is recorded, and how a record is read back.
//!
//! Writing never blocks the scheduler: records are queued in order ([`FileStore`]) or pushed ([`MemoryStore`]). The file
//! store's one writer puts transcripts and artifacts on disk before the terminal event that speaks of them, and syncs
//! at terminal events.
//!
//! Reading is a fold over the log: [`read_log`] gives the events that can be read and says what could not,
//! [`Summary`] is what they add up to.

mod disk;
mod git;
mod hiding;
mod line;
mod memory;
mod place;
mod read;
mod run_dir;
mod runs;
mod summary;
mod writer;

pub use git::git_head;
pub use line::push_line;
pub use memory::MemoryStore;
pub use place::{RunPlace, make_run_dir, run_roots};
pub use read::{Log, LogWarning, MAX_LINE, read_log, read_transcript, scan_log};
pub(crate) use read::{in_short, scan_lines};
pub use run_dir::{FileStore, RUN_VERSION, RunHeader, transcript_path};
pub use runs::{FoundRun, NodeRecord, RunRecord, TranscriptLine, find_runs, newest_first};
pub use summary::{Counts, Group, MergeSummary, NodeSummary, Summary};

use crate::event::Event;
use async_trait::async_trait;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a run is recorded.
#[async_trait]
pub trait Store: Send + Sync {
    /// Appends a durable event. Queued; order is kept.
    fn append(&self, event: Arc<Event>);

    /// Appends a record to the transcript of a conversation: a node's full name with its attempt, or `coordinator` and 0.
    fn transcript(&self, conversation: &str, attempt: u32, record: Value);

    /// Writes an artifact of a node; an older one of the name is replaced.
    fn artifact(&self, node: &str, name: &str, content: Vec<u8>);

    /// Writes the text for people that the run came to; an older one is replaced.
    fn write_report(&self, text: String);

    /// The folder in which artifacts are, one folder per node with its name by [`file_name`].
    fn artifact_folder(&self) -> Option<PathBuf>;

    /// Waits until the artifacts and transcripts queued so far can be read by others of this process.
    ///
    /// Worth calling only when there is something to read: it waits for a disk.
    async fn flush(&self);

    /// Waits until everything queued so far is on disk.
    ///
    /// # Errors
    /// The first write that failed.
    async fn sync(&self) -> Result<(), StoreError>;

    /// Resolves when a write has failed; pending for ever otherwise. The run then ends.
    async fn failed(&self) -> StoreError;
}

/// A record that could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run's record at `{path}` cannot be {action}: {reason}")]
pub struct StoreError {
    /// The file.
    pub path: String,
    /// `written` or `read`.
    pub action: &'static str,
    /// The system's words.
    pub reason: String,
}

impl StoreError {
    fn written(path: &Path, error: &io::Error) -> Self {
        StoreError { path: path.display().to_string(), action: "written", reason: reason(error) }
    }

    fn read(path: &Path, error: &io::Error) -> Self {
        StoreError { path: path.display().to_string(), action: "read", reason: reason(error) }
    }
}

/// The system's words without the number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

/// Bytes of a name that [`file_name`] keeps: with an attempt and an ending it fits the 255 of common file systems.
const MAX_FILE_NAME: usize = 200;

/// A name as a file name: what is not `[a-z0-9._@-]` is percent-encoded. A long name keeps its beginning and gets a
/// hash of the whole, so that different names stay different.
pub fn file_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'@' | b'-' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    if out.len() > MAX_FILE_NAME {
        out.truncate(MAX_FILE_NAME - 17);
        return format!("{out}-{:016x}", fnv(name.as_bytes()));
    }
    // `.` and `..` are folders of every file system.
    if out.bytes().all(|b| b == b'.') { out.replace('.', "%2E") } else { out }
}

/// FNV-1a with 64 bits: a hash for names that must be the same in every build and release.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_and_stay_different() {
        assert_eq!(file_name("part[2]"), "part%5B2%5D");
        assert_eq!(file_name("r2.map"), "r2.map");
        assert_eq!(file_name("../../etc/passwd"), "..%2F..%2Fetc%2Fpasswd");
        assert_eq!(file_name(".."), "%2E%2E");
        assert_eq!(file_name("A"), "%41", "file systems that ignore case must not merge two names");
        let (a, b) = (file_name(&"x".repeat(1_000)), file_name(&"x".repeat(1_001)));
        assert!(a != b && a.len() == MAX_FILE_NAME, "{a} {b}");
    }
}
