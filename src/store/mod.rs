//! The `Store` seam: where a run is recorded.
//!
//! Writes never block the scheduler: they are queued in order. The file store's writer puts transcripts and artifacts
//! on disk before the terminal event that speaks of them, and syncs at terminal events.

use crate::event::Event;
use async_trait::async_trait;
use serde_json::Value;
use std::path::PathBuf;
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

    /// The folder in which artifacts are, one folder per node with its name percent-encoded.
    fn artifact_folder(&self) -> Option<PathBuf>;

    /// Waits until everything queued so far can be read by others of this process.
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

/// A name as a file name: what is not `[a-z0-9._@-]` is percent-encoded.
pub fn file_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'@' | b'-' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    // `.` and `..` are folders of every file system.
    if out.bytes().all(|b| b == b'.') { out.replace('.', "%2E") } else { out }
}
