//! From the paths that models write to files that they may read.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where the paths of one conversation lead.
#[derive(Clone, Debug)]
pub struct Places {
    root: PathBuf,
    artifacts: Option<PathBuf>,
    readable: Vec<String>,
}

/// A path that was resolved inside one of the places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Absolute, links resolved.
    pub path: PathBuf,
    /// As it is shown: relative to the root with `/`, `.` for the root itself, or `artifact:NODE/…`.
    pub shown: String,
}

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It leads out of the workspace.
    #[error("`{0}` is outside the workspace; use a path relative to its root")]
    Outside(String),
    /// There is no such file.
    #[error("there is no `{0}`{1}")]
    Missing(String, Hint),
    /// It has a NUL byte or is too long.
    #[error("`{0}` is not a usable path")]
    Unusable(String),
    /// The node's artifacts are not this conversation's to read.
    #[error("`artifact:{0}` is not readable here{1}")]
    Artifact(String, Hint),
    /// The system refused.
    #[error("`{0}` cannot be read: {1}")]
    Io(String, String),
}

/// The next step, if there is one to name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint(pub String);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; {}", self.0) }
    }
}

impl Places {
    /// A root without artifacts. `root` must be absolute with links resolved.
    pub fn new(root: PathBuf) -> Self {
        Places { root, artifacts: None, readable: Vec::new() }
    }

    /// Adds the folder of a run's artifacts, of which only those of `readable` nodes may be read.
    #[must_use]
    pub fn with_artifacts(mut self, folder: PathBuf, readable: Vec<String>) -> Self {
        self.artifacts = Some(folder);
        self.readable = readable;
        self
    }

    /// The workspace's root.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
