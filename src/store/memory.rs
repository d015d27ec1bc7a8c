//! A run that leaves nothing behind: for embedding, tests and benchmarks.

use super::{Store, StoreError, file_name};
use crate::event::Event;
use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tempfile::TempDir;
use tokio::sync::watch;

/// Keeps events and transcripts in memory, artifacts in a temporary folder that goes away with the store.
///
/// The folder is made when an artifact is written or the folder is asked for.
#[derive(Debug)]
pub struct MemoryStore {
    // Mutexes, because a push is all that happens under them and order matters more than sharding.
    events: Mutex<Vec<Arc<Event>>>,
    transcripts: Mutex<IndexMap<(String, u32), Vec<Value>>>,
    report: Mutex<Option<String>>,
    folder: OnceLock<Option<TempDir>>,
    failure: watch::Sender<Option<StoreError>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore {
            events: Mutex::default(),
            transcripts: Mutex::default(),
            report: Mutex::default(),
            folder: OnceLock::new(),
            failure: watch::Sender::new(None),
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// The durable events so far, in order.
    pub fn events(&self) -> Vec<Arc<Event>> {
        lock(&self.events).clone()
    }

    /// The records of a conversation's transcript so far, in order.
    pub fn transcript_of(&self, conversation: &str, attempt: u32) -> Vec<Value> {
        lock(&self.transcripts).get(&(conversation.to_string(), attempt)).cloned().unwrap_or_default()
    }

    /// The text that the run came to, once it was written.
    pub fn report(&self) -> Option<String> {
        lock(&self.report).clone()
    }

    fn folder(&self) -> Option<&Path> {
        let made = self.folder.get_or_init(|| match tempfile::Builder::new().prefix("sortie-").tempdir() {
            Ok(folder) => Some(folder),
            Err(error) => {
                self.fail(Path::new("temporary folder"), &error);
                None
            }
        });
        made.as_ref().map(TempDir::path)
    }

    fn fail(&self, path: &Path, error: &io::Error) {
        super::writer::remember(&self.failure, StoreError::written(path, error));
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn append(&self, event: Arc<Event>) {
        lock(&self.events).push(event);
    }

    fn transcript(&self, conversation: &str, attempt: u32, record: Value) {
        lock(&self.transcripts).entry((conversation.to_string(), attempt)).or_default().push(record);
    }

    fn artifact(&self, node: &str, name: &str, content: Vec<u8>) {
        let Some(folder) = self.folder() else { return };
        let folder = folder.join(file_name(node));
        let path = folder.join(file_name(name));
        if let Err(error) = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, content)) {
            self.fail(&path, &error);
        }
    }

    fn write_report(&self, text: String) {
        *lock(&self.report) = Some(text);
    }

    fn artifact_folder(&self) -> Option<PathBuf> {
        self.folder().map(Path::to_path_buf)
    }

    async fn flush(&self) {}

    async fn sync(&self) -> Result<(), StoreError> {
        match &*self.failure.borrow() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    async fn failed(&self) -> StoreError {
        super::writer::failure(self.failure.subscribe()).await
    }
}

/// A panic elsewhere leaves what was pushed so far whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file_name;

    #[test]
    fn artifacts_live_as_long_as_the_store() {
        let store = MemoryStore::new();
        store.artifact("part[2]", "report.md", b"old".to_vec());
        store.artifact("part[2]", "report.md", b"new".to_vec());
        let folder = store.artifact_folder().unwrap();
        let file = folder.join(file_name("part[2]")).join("report.md");
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        drop(store);
        assert!(!folder.exists());
    }
}
