//! Which files a workspace has, and how much of a part of it was read.

use super::Place;
use super::walk::Walk;
use crate::agent::Coverage;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;

/// Folders named in a coverage.
const MAX_UNREAD: usize = 10;

/// The files that a listing shows (`.gitignore` respected), sorted, relative with `/`.
#[derive(Debug, Default)]
pub struct FileList {
    /// Sorted paths.
    pub files: Vec<String>,
}

impl FileList {
    /// Walks `root`; what cannot be read is left out.
    pub fn walk(root: &Path) -> Self {
        let base = Place { path: root.to_path_buf(), shown: ".".to_string() };
        let walk = Walk { root, base: &base, hidden: false, ignored: false };
        let walked = walk.files(&|| false, Vec::new, |files: &mut Vec<String>, entry| {
            files.push(base.shown_below(entry.path()));
            true
        });
        let mut files: Vec<String> = walked.parts.into_iter().flatten().collect();
        files.sort_unstable();
        FileList { files }
    }

    /// Where in `files` the files at `path` are: a file, a folder with all below it, or `.` for all.
    fn at(&self, path: &str) -> Range<usize> {
        if path == "." {
            return 0..self.files.len();
        }
        if let Ok(at) = self.files.binary_search_by(|file| file.as_str().cmp(path)) {
            return at..at + 1;
        }
        let folder = format!("{path}/");
        let start = self.files.partition_point(|file| *file < folder);
        let length = self.files[start..].partition_point(|file| file.starts_with(&folder));
        start..start + length
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
    ///
    /// A word that looks like a path (it holds `/` or `.`, or stands in quotes) counts before a plain one: where
    /// `src/agent` is named, the word `tests` is English; where nothing else is, it is the folder. A path below another
    /// that is named adds nothing.
    pub fn of_prompt(prompt: &str, files: &FileList) -> Self {
        let mut paths = named(quoted(prompt).chain(words(prompt).filter(|word| word.contains(['/', '.']))), files);
        if paths.is_empty() {
            paths = named(words(prompt), files);
        }
        if paths.is_empty() {
            paths.push(".".to_string());
        }
        Scope { paths }
    }

    /// How much of the scope was read, given the paths of which at least a line was shown.
    pub fn coverage(&self, files: &FileList, read: &[String]) -> Coverage {
        let read: BTreeSet<&str> = read.iter().map(String::as_str).collect();
        let mut coverage = Coverage { scope: self.paths.clone(), files: 0, read: 0, unread: Vec::new() };
        let mut unread: HashMap<&str, u64> = HashMap::new();
        for path in &self.paths {
            for file in files.files[files.at(path)].iter() {
                coverage.files += 1;
                if read.contains(file.as_str()) {
                    coverage.read += 1;
                } else {
                    let folder = file.rsplit_once('/').map_or(".", |(folder, _)| folder);
                    *unread.entry(folder).or_default() += 1;
                }
            }
        }
        coverage.unread = unread.into_iter().map(|(folder, count)| (folder.to_string(), count)).collect();
        coverage.unread.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        coverage.unread.truncate(MAX_UNREAD);
        coverage
    }
}

/// Those of the candidates that exist, in order, each once, none below another.
fn named<'p>(candidates: impl Iterator<Item = &'p str>, files: &FileList) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for candidate in candidates {
        let path = candidate.strip_prefix("./").unwrap_or(candidate).trim_end_matches('/');
        // `src/main.rs:12` and `src/main.rs:12:3` name the file.
        let file = path.split_once(':').map_or(path, |(file, _)| file);
        let found =
            [path, file].into_iter().find(|path| !path.is_empty() && *path != "." && !files.at(path).is_empty());
        if let Some(path) = found.map(str::to_string)
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    }
    let all = paths.clone();
    paths.retain(|path| {
        !all.iter().any(|other| path.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/')))
    });
    paths
}

fn words(prompt: &str) -> impl Iterator<Item = &str> {
    let mark = |c: char| matches!(c, ',' | ';' | ':' | '!' | '?' | '`' | '"' | '\'' | '“' | '”' | '‘' | '’');
    let bracket = |c: char| matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>');
    prompt.split_whitespace().flat_map(move |word| {
        let bare = word.trim_matches(mark).trim_end_matches(['.', ',', ';', ':', '!', '?']).trim_matches(mark);
        // `src/[id]` is a path and `[src]` is one in brackets: both are tried.
        let inner = bare.trim_matches(|c| mark(c) || bracket(c)).trim_end_matches('.');
        [bare].into_iter().chain((inner != bare).then_some(inner))
    })
}

/// What stands between two equal quotes in one line.
fn quoted(prompt: &str) -> impl Iterator<Item = &str> {
    prompt
        .lines()
        .flat_map(|line| ['`', '"', '\''].into_iter().flat_map(move |quote| line.split(quote).skip(1).step_by(2)))
}
