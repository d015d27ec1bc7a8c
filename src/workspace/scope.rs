//! Which files a workspace has, and how much of a part of it was read.

use super::Place;
use super::walk::Walk;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;

/// How much of its scope an attempt read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The scope: paths that the prompt names and that exist, or `.`.
    pub scope: Vec<String>,
    /// Files in the scope that a listing would show.
    pub files: u64,
    /// Of these, files of which at least a line was read.
    pub read: u64,
    /// Where unread files are, largest number first: folder and count, at most ten.
    pub unread: Vec<(String, u64)>,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn list(files: &[&str]) -> FileList {
        let mut files: Vec<String> = files.iter().map(|file| file.to_string()).collect();
        files.sort_unstable();
        FileList { files }
    }

    #[test]
    fn paths_in_a_prompt() {
        let files = list(&[
            "Cargo.toml",
            "src/main.rs",
            "src/agent/turn.rs",
            "src/agent/history.rs",
            "src-old/x.rs",
            "tests/it.rs",
            "with space/a b.txt",
            "app/[id]/page.tsx",
        ]);
        for (prompt, paths) in [
            ("where is cancellation handled?", "."),
            ("List the parts of src that matter", "src"),
            ("In `src/agent`: how do tests run?", "src/agent"),
            ("In src/agent: how do tests run?", "src/agent"),
            ("Look at (src/agent/turn.rs:12), then Cargo.toml.", "src/agent/turn.rs Cargo.toml"),
            ("see ./src/main.rs:12:3 and src/", "src"),
            ("see \"with space/a b.txt\"!", "with space/a b.txt"),
            ("app/[id]/page.tsx and [src/main.rs]", "app/[id]/page.tsx src/main.rs"),
            ("everything in . please", "."),
            ("src/nothing and src-", "."),
            ("how do the tests use src?", "tests src"),
            ("it's in src/main.rs, isn't it", "src/main.rs"),
            ("", "."),
        ] {
            assert_eq!(Scope::of_prompt(prompt, &files).paths.join(" "), paths, "{prompt}");
        }
    }

    #[test]
    fn coverage_counts_each_file_once_and_names_where_unread_ones_are() {
        let files = list(&["a.rs", "src/a.rs", "src/b.rs", "src/c/d.rs", "src/c/e.rs", "src/c/f.rs", "srcs/x.rs"]);
        let read = ["src/a.rs", "src/a.rs", "srcs/x.rs", "gone.rs", "artifact:map/report.md"].map(str::to_string);
        let scope = Scope { paths: vec!["src".to_string()] };
        let coverage = scope.coverage(&files, &read);
        assert_eq!((coverage.files, coverage.read), (5, 1));
        assert_eq!(coverage.unread, [("src/c".to_string(), 3), ("src".to_string(), 1)]);
        let all = Scope::of_prompt("", &files).coverage(&files, &[]);
        assert_eq!((all.files, all.read), (7, 0));
        assert_eq!(all.unread[1], ("src".to_string(), 2));
    }

    #[test]
    fn a_hundred_thousand_files_are_no_burden() {
        let files = FileList { files: (0..100_000).map(|n| format!("part{:03}/file{n:06}.rs", n / 200)).collect() };
        let prompt = "word part007 part007/file001400.rs other ".repeat(2_000);
        let scope = Scope::of_prompt(&prompt, &files);
        assert_eq!(scope.paths, ["part007/file001400.rs"]);
        let coverage = Scope { paths: vec![".".to_string()] }.coverage(&files, &files.files[..50_000]);
        assert_eq!((coverage.files, coverage.read, coverage.unread.len()), (100_000, 50_000, 10));
    }

    #[test]
    fn a_walk_lists_what_a_listing_shows() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["b.rs", "a/x.rs", ".hidden/y", "target/z", ".git/config"] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(dir.path().join(".gitignore"), "target\n").unwrap();
        assert_eq!(FileList::walk(dir.path()).files, ["a/x.rs", "b.rs"]);
        assert!(FileList::walk(&dir.path().join("none")).files.is_empty());
    }
}
