//! Which part of the tree a task is about: the paths that it names and that exist.

use super::conversation::{Call, Next, Talk, split_dressing};
use super::split::Listing;
use serde_json::json;

/// Words that are tried as paths at most.
const MAX_TRIED: usize = 60;
/// Up to this many are looked at one by one; more in one listing.
const FEW: usize = 4;

/// The part of the tree that a task is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    /// Paths; none means all of the tree.
    pub(super) paths: Vec<String>,
    /// Those of them that are files.
    pub(super) files: Vec<String>,
}

impl Scope {
    /// `src/a`, `src/b`, or `.`, for people.
    pub(super) fn shown(&self) -> String {
        if self.paths.is_empty() {
            return "`.`".to_string();
        }
        let shown: Vec<String> = self.paths.iter().take(6).map(|path| format!("`{path}`")).collect();
        let more = self.paths.len().saturating_sub(6);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        shown.join(", ") + &more
    }
}

pub(super) fn list(path: &str) -> Call {
    Call { name: "list_files", args: json!({ "path": path }) }
}

pub(super) fn list_matching(pattern: &str) -> Call {
    Call { name: "list_files", args: json!({ "pattern": pattern }) }
}

/// The files in a folder, not those in the folders below it.
fn list_directly(folder: &str, names: Option<&str>) -> Call {
    let folder = if folder == "." { String::new() } else { format!("{}/", quoted(folder)) };
    // A name without a slash would be looked for at any depth.
    let name = names.map_or("[!/]*".to_string(), |names| names.replacen('*', "[!/]*", 1));
    list_matching(&format!("{folder}{name}"))
}

/// Puts single files in the place of rows that count only what stands between folders.
pub(super) fn expand(talk: &Talk<'_>, listing: &mut Listing, names: Option<&str>) -> Result<(), Next> {
    let shallow = listing.shallow();
    let calls: Vec<Call> = shallow.iter().map(|folder| list_directly(folder, names)).collect();
    if !calls.is_empty() {
        let results = talk.ask("Listing the files that stand between the folders.", &calls)?;
        for (folder, result) in shallow.iter().zip(results) {
            listing.expand(folder, &Listing::parse(result.unwrap_or_default()));
        }
    }
    Ok(())
}

/// The scope of a task: what its opening clause names, else what it names anywhere.
pub(super) fn of_task(talk: &Talk<'_>, task: &str) -> Result<Scope, Next> {
    let (clause, rest) = split_dressing(task);
    for text in [clause, rest] {
        let scope = existing(talk, &candidates(text, text == clause))?;
        if !scope.paths.is_empty() {
            return Ok(scope);
        }
    }
    Ok(Scope::default())
}

fn existing(talk: &Talk<'_>, candidates: &[String]) -> Result<Scope, Next> {
    let mut scope = Scope::default();
    let mut unsure: Vec<&String> = candidates.iter().collect();
    if candidates.len() > FEW {
        let globs: Vec<String> =
            candidates.iter().flat_map(|path| [quoted(path), format!("{}/**", quoted(path))]).collect();
        let results =
            talk.ask("Looking which of the named paths exist.", &[list_matching(&format!("{{{}}}", globs.join(",")))])?;
        let listing = Listing::parse(results.first().copied().flatten().unwrap_or_default());
        unsure.retain(|path| {
            let is_file = !listing.by_folder && listing.rows.iter().any(|(row, _)| row == *path);
            let is_folder = listing.rows.iter().any(|(row, _)| {
                row.strip_prefix(path.as_str())
                    .is_some_and(|rest| rest.starts_with('/') || (rest.is_empty() && listing.by_folder))
            });
            scope.add(path, is_file, is_folder);
            // A folder summary may be too coarse to show it.
            !is_file && !is_folder && listing.by_folder
        });
    }
    let calls: Vec<Call> = unsure.iter().map(|path| list(path)).collect();
    if !calls.is_empty() {
        let results = talk.ask("Looking which of the named paths exist.", &calls)?;
        for (path, result) in unsure.iter().zip(results) {
            let listing = Listing::parse(result.unwrap_or_default());
            let is_file = listing.rows.iter().any(|(row, _)| row == *path) && !listing.by_folder;
            scope.add(path, is_file, !is_file && listing.files() > 0);
        }
    }
    scope.settle(candidates);
    Ok(scope)
}

impl Scope {
    fn add(&mut self, path: &str, is_file: bool, is_folder: bool) {
        if is_file {
            self.files.push(path.to_string());
        }
        if is_file || is_folder {
            self.paths.push(path.to_string());
        }
    }

    /// Puts the paths into the order in which they were named, without those below others.
    fn settle(&mut self, order: &[String]) {
        let all = std::mem::take(&mut self.paths);
        let inside = |path: &String| {
            all.iter().any(|other| path.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/')))
        };
        self.paths = order.iter().filter(|path| all.contains(path) && !inside(path)).cloned().collect();
    }
}

/// Words that may be paths: quoted, or with a slash or a dot inside; in an opening clause also plain ones that follow
/// `in`, `under` and the like.
fn candidates(text: &str, opening: bool) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut push = |word: &str| {
        let word = word.strip_prefix("./").unwrap_or(word).trim_end_matches('/');
        let usable =
            !word.is_empty() && word != "." && !word.starts_with('/') && !word.contains("..") && !word.contains("://");
        if usable && found.len() < MAX_TRIED && !found.iter().any(|known| known == word) {
            found.push(word.to_string());
        }
    };
    let mut quoted_spans = text.split('`');
    let mut plain = String::new();
    while let Some(outside) = quoted_spans.next() {
        plain.push_str(outside);
        plain.push(' ');
        if let Some(inside) = quoted_spans.next() {
            push(inside.trim());
        }
    }
    let mut before = String::new();
    for raw in plain.split_whitespace() {
        let word = raw
            .trim_matches(|c: char| matches!(c, ',' | ';' | ':' | '!' | '?' | '"' | '\'' | '(' | ')' | '“' | '”'))
            .trim_end_matches('.');
        let word = word.split_once(':').map_or(word, |(path, _)| path);
        let pathlike = word.contains('/') || (word.contains('.') && !word.ends_with('.') && !word.starts_with('.'));
        let placed = opening && ["in", "under", "inside", "within", "of", "at", "from"].contains(&before.as_str());
        if pathlike || (placed && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))) {
            push(word);
        }
        before = word.to_lowercase();
    }
    found
}

fn quoted(path: &str) -> String {
    super::survey::quoted(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_path() {
        let table = [
            ("In `a b/c`, src/d.rs and e", true, vec!["a b/c", "src/d.rs"]),
            ("In src", true, vec!["src"]),
            ("where in tests is co.uk, e.g. http://x/y or /etc/passwd or ../z", false, vec!["co.uk", "e.g"]),
            ("List the parts of .", true, vec![]),
            ("", true, vec![]),
            ("`", true, vec![]),
        ];
        for (text, opening, wanted) in table {
            assert_eq!(candidates(text, opening), wanted, "{text}");
        }
    }
}
