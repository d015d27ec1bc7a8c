//! The `Workspace` seam: where an attempt works.
//!
//! A workspace hands each attempt its [`Places`]: the root that relative paths mean, and the artifacts it may read.
//! Every path that a model names is resolved there and nowhere else, symbolic links included.

pub(crate) mod names;
mod places;
mod scope;
pub(crate) mod walk;

pub(crate) use places::open_no_wait;
pub use places::{Hint, Opened, PathError, Place, Places, Readable};
pub use scope::{Coverage, FileList, Scope};

use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where attempts work.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// The user's directory, absolute, links resolved.
    fn root(&self) -> &Path;

    /// The directory in which this node's attempt works. Called once before the attempt starts.
    ///
    /// # Errors
    /// When no directory can be given; the attempt fails with this text.
    async fn open(&self, node: &str) -> Result<PathBuf, String>;

    /// All files that a listing of the workspace shows, walked once per run and shared.
    fn files(&self) -> Arc<FileList>;
}

/// The user's own directory, shared by all attempts. For nodes that only read.
pub struct Shared {
    root: PathBuf,
    files: std::sync::OnceLock<Arc<FileList>>,
}

impl Shared {
    /// A workspace at this directory.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn new(root: &Path) -> std::io::Result<Self> {
        let root = root.canonicalize()?;
        // An unreadable directory should fail here, with its name, not as an empty workspace later.
        std::fs::read_dir(&root)?;
        Ok(Shared { root, files: std::sync::OnceLock::new() })
    }
}

#[async_trait]
impl Workspace for Shared {
    fn root(&self) -> &Path {
        &self.root
    }

    async fn open(&self, _node: &str) -> Result<PathBuf, String> {
        Ok(self.root.clone())
    }

    fn files(&self) -> Arc<FileList> {
        Arc::clone(self.files.get_or_init(|| Arc::new(FileList::walk(&self.root))))
    }
}
