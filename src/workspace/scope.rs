//! Which files a workspace has, and how much of a part of it was read.

use crate::agent::Coverage;
use std::path::Path;

/// The files that a listing shows (`.gitignore` respected), sorted, relative with `/`.
#[derive(Debug, Default)]
pub struct FileList {
    /// Sorted paths.
    pub files: Vec<String>,
}

impl FileList {
    /// Walks `root`; what cannot be read is left out.
    pub fn walk(_root: &Path) -> Self {
        FileList::default()
    }
}

/// The part of a workspace that a prompt names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Paths relative to the root; `.` for all of it.
    pub paths: Vec<String>,
}

impl Scope {
    /// The paths that stand in `prompt` as words and exist in `files` as file or folder; `.` when there is none.
    pub fn of_prompt(_prompt: &str, _files: &FileList) -> Self {
        Scope { paths: vec![".".to_string()] }
    }

    /// How much of the scope was read, given the paths of which at least a line was shown.
    pub fn coverage(&self, _files: &FileList, _read: &[String]) -> Coverage {
        Coverage { scope: self.paths.clone(), files: 0, read: 0, unread: Vec::new() }
    }
}
