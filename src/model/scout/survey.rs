//! Looks at a part of the tree through tools: first numbers (which words are where), then the most promising files.
//!
//! Two turns: counts for every concept over the whole part at once, then the files that the counts speak for, in pages.

use super::conversation::{Call, Next, Talk};
use super::query::Query;
use super::rank::{Ranked, Ranker, Spread, Stats};
use super::source::{Doc, Vocabulary};
use serde_json::json;
use std::collections::BTreeMap;

/// Files that hold code or configuration, by name.
pub(super) const CODE: &str = "*.{rs,py,pyi,js,jsx,mjs,cjs,ts,tsx,go,java,kt,kts,scala,c,h,cc,cpp,cxx,hh,hpp,m,mm,cs,fs,\
    swift,rb,php,pl,pm,lua,r,jl,ex,exs,erl,hs,ml,mli,clj,cljs,dart,zig,nim,v,sv,vhd,sh,bash,zsh,ps1,sql,proto,graphql,\
    vue,svelte,toml,tf,gradle,cmake,mk}";
/// Files that are read after the counts.
const MAX_READ: usize = 24;
/// Lines asked for at once; about what one result holds.
const PAGE: usize = 650;
/// Pages read of one file.
const MAX_PAGES: usize = 4;
/// Files that a count may list.
const MAX_COUNTED: usize = 2_000;
/// Longest pattern of the search for definitions.
const MAX_PATTERN: usize = 4_000;

/// Where to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// Folder or file that is searched.
    path: String,
    /// Which files in it.
    glob: Option<String>,
}

impl Area {
    /// The code files of a scope. `files` are those paths of it that are files.
    pub(super) fn code(scope: &[String], files: &[String]) -> Self {
        Area::new(scope, files, Some(CODE))
    }

    /// Every file of a scope.
    pub(super) fn everything(scope: &[String], files: &[String]) -> Self {
        Area::new(scope, files, None)
    }

    fn new(scope: &[String], files: &[String], names: Option<&str>) -> Self {
        match scope {
            [] => Area { path: ".".to_string(), glob: names.map(str::to_string) },
            [only] if files.contains(only) => Area { path: only.clone(), glob: None },
            [only] => Area { path: only.clone(), glob: names.map(str::to_string) },
            several => {
                let globs: Vec<String> = several
                    .iter()
                    .map(|path| match files.contains(path) {
                        true => quoted(path),
                        false => format!("{}/**/{}", quoted(path), names.unwrap_or("*")),
                    })
                    .collect();
                Area { path: common_folder(several), glob: Some(format!("{{{}}}", globs.join(","))) }
            }
        }
    }

    fn count(&self, pattern: String) -> Call {
        let mut args = json!({ "pattern": pattern, "path": self.path, "mode": "count", "max_results": MAX_COUNTED });
        self.narrow(&mut args);
        Call { name: "search_code", args }
    }

    fn lines(&self, pattern: String) -> Call {
        let mut args = json!({ "pattern": pattern, "path": self.path, "max_results": 1_000 });
        self.narrow(&mut args);
        Call { name: "search_code", args }
    }

    fn narrow(&self, args: &mut serde_json::Value) {
        if let Some(glob) = &self.glob {
            args["file_glob"] = json!(glob);
        }
    }
}

/// Numbers over an area.
pub(super) struct Counted {
    /// For the ranking.
    pub(super) stats: Stats,
    /// Lines by file, as far as they were listed.
    pub(super) lengths: BTreeMap<String, usize>,
    /// By concept: lines with the word itself and with related ones, by file.
    by_concept: Vec<(BTreeMap<String, u64>, BTreeMap<String, u64>)>,
    /// Lines that define something with a sought word in it, by file.
    definitions: Vec<(String, Vec<(u64, String)>)>,
}

/// Counts every concept over an area, in one turn. `definitions` says whether to look for these too.
pub(super) fn count(talk: &Talk<'_>, query: &Query, area: &Area, definitions: bool) -> Result<Counted, Next> {
    let mut calls = vec![area.count("^".to_string())];
    let mut roles: Vec<(usize, bool)> = Vec::new();
    for (place, concept) in query.concepts.iter().enumerate() {
        for (exact, pattern) in [(true, concept.exact_pattern()), (false, concept.related_pattern())] {
            if let Some(pattern) = pattern {
                calls.push(area.count(pattern));
                roles.push((place, exact));
            }
        }
    }
    let wants_definitions = definitions && !query.concepts.is_empty();
    if wants_definitions {
        calls.push(area.lines(definition_pattern(query)));
    }
    let named: Vec<String> = query.concepts.iter().map(|concept| format!("`{}`", concept.name)).collect();
    let say = format!("Counting where {} and related words occur in `{}`.", named.join(", "), area.path);
    let results = talk.ask(&say, &calls)?;
    let mut results = results.into_iter();
    let all = Counts::parse(results.next().flatten().unwrap_or_default());
    let mut counted = Counted {
        stats: Stats {
            files: all.files,
            mean_length: all.matches as f64 / all.files.max(1) as f64,
            spread: vec![Spread::default(); query.concepts.len()],
        },
        lengths: all.rows.iter().map(|(path, lines)| (path.clone(), *lines as usize)).collect(),
        by_concept: vec![Default::default(); query.concepts.len()],
        definitions: Vec::new(),
    };
    for (place, exact) in roles {
        let counts = Counts::parse(results.next().flatten().unwrap_or_default());
        if let (Some(spread), Some(rows)) = (counted.stats.spread.get_mut(place), counted.by_concept.get_mut(place)) {
            match exact {
                true => (spread.exact, rows.0) = (counts.files, counts.rows),
                false => (spread.related, rows.1) = (counts.files, counts.rows),
            }
        }
    }
    if wants_definitions {
        counted.definitions = hits(results.next().flatten().unwrap_or_default());
    }
    Ok(counted)
}

impl Counted {
    /// The files that the numbers speak for, best first.
    pub(super) fn promising(&self, query: &Query, vocabulary: &Vocabulary) -> Vec<String> {
        let ranker = Ranker::new(query, &self.stats, vocabulary);
        let mut docs: BTreeMap<&str, Doc> = BTreeMap::new();
        let listed = self.by_concept.iter().flat_map(|(exact, related)| exact.keys().chain(related.keys()));
        for path in listed.chain(self.lengths.keys()) {
            let length = self.lengths.get(path).copied().unwrap_or(self.stats.mean_length as usize);
            docs.entry(path).or_insert_with(|| Doc::named(path, length, vocabulary));
        }
        for (path, lines) in &self.definitions {
            if let Some(doc) = docs.get_mut(path.as_str()) {
                doc.fill(lines.iter().map(|(number, text)| (*number, text.as_str())).collect(), vocabulary);
            }
        }
        let mut guessed: Vec<(f64, &str)> = docs
            .iter()
            .map(|(path, doc)| {
                let of = |rows: &BTreeMap<String, u64>| rows.get(*path).copied().unwrap_or_default() as f64;
                let counts: Vec<(f64, f64)> = self.by_concept.iter().map(|(e, r)| (of(e), of(r))).collect();
                (ranker.guess(doc, &counts), *path)
            })
            .filter(|(score, _)| *score > 0.0)
            .collect();
        guessed.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        guessed.into_iter().take(MAX_READ).map(|(_, path)| path.to_string()).collect()
    }
}

/// Reads files, all at once, in pages; those that cannot be read are left out.
pub(super) fn read(
    talk: &Talk<'_>,
    paths: &[String],
    lengths: &BTreeMap<String, usize>,
    vocabulary: &Vocabulary,
) -> Result<Vec<Doc>, Next> {
    let mut calls = Vec::new();
    let mut owners = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let length = lengths.get(path).copied().unwrap_or(PAGE);
        for page in 0..length.div_ceil(PAGE).clamp(1, MAX_PAGES) {
            let args = match length > PAGE {
                true => json!({ "file_path": path, "offset": page * PAGE + 1, "limit": PAGE }),
                false => json!({ "file_path": path }),
            };
            calls.push(Call { name: "read_file", args });
            owners.push(at);
        }
    }
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let results = talk.ask("Reading the files that fit best.", &calls)?;
    let mut docs = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let pages = owners.iter().zip(&results).filter(|(owner, _)| **owner == at).filter_map(|(_, text)| *text);
        let lines: Vec<(u64, &str)> = pages.flat_map(numbered).collect();
        if !lines.is_empty() {
            let mut doc = Doc::named(path, lengths.get(path).copied().unwrap_or_default(), vocabulary);
            doc.fill(lines, vocabulary);
            docs.push(doc);
        }
    }
    Ok(docs)
}

/// Ranks documents that were read.
pub(super) fn rank(query: &Query, stats: &Stats, vocabulary: &Vocabulary, docs: &[Doc]) -> Vec<Ranked> {
    Ranker::new(query, stats, vocabulary).rank(docs)
}

/// `12⇥text` lines; the closing line in brackets is not one.
fn numbered(text: &str) -> impl Iterator<Item = (u64, &str)> {
    text.lines().filter_map(|line| {
        let (number, text) = line.split_once('\t')?;
        Some((number.trim().parse().ok()?, text))
    })
}

/// What a search in mode `count` says.
#[derive(Default)]
struct Counts {
    rows: BTreeMap<String, u64>,
    files: u64,
    matches: u64,
}

impl Counts {
    fn parse(text: &str) -> Self {
        let mut counts = Counts::default();
        for line in text.lines() {
            if let Some(footer) = line.strip_prefix('[') {
                // `[52 matches in 3 files…`; also known when not every file is listed.
                let numbers: Vec<u64> =
                    footer.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
                if let ([matches, files, ..], true) = (numbers.as_slice(), footer.contains(" in ")) {
                    (counts.matches, counts.files) = (counts.matches.max(*matches), counts.files.max(*files));
                }
            } else if let Some((path, number)) = line.rsplit_once(": ")
                && let Ok(number) = number.parse()
            {
                counts.rows.insert(path.to_string(), number);
            }
        }
        if counts.rows.is_empty() {
            return Counts::default();
        }
        counts.files = counts.files.max(counts.rows.len() as u64);
        counts.matches = counts.matches.max(counts.rows.values().sum());
        counts
    }
}

/// What a search in mode `content` shows: matching lines by file.
fn hits(text: &str) -> Vec<(String, Vec<(u64, String)>)> {
    let mut files: Vec<(String, Vec<(u64, String)>)> = Vec::new();
    let mut heading = true;
    for line in text.lines() {
        if line.is_empty() {
            heading = true;
        } else if heading {
            files.push((line.to_string(), Vec::new()));
            heading = false;
        } else if let Some((number, text)) = line.split_once(':')
            && let (Ok(number), Some(file)) = (number.parse(), files.last_mut())
        {
            file.1.push((number, text.to_string()));
        }
    }
    files.retain(|(_, lines)| !lines.is_empty());
    files
}

fn definition_pattern(query: &Query) -> String {
    let mut words = String::new();
    for concept in &query.concepts {
        for pattern in concept.exact_pattern().into_iter().chain(concept.related_pattern()) {
            if words.len() + pattern.len() < MAX_PATTERN {
                if !words.is_empty() {
                    words.push('|');
                }
                words.push_str(&pattern);
            }
        }
    }
    format!(
        r"^\s*(?:[a-z]+(?:\([a-z]+\))?\s+)*(?:fn|def|class|struct|enum|trait|type|interface|function|func|macro_rules!)\s.*(?:{words})"
    )
}

/// A path as a glob that matches nothing else.
pub(super) fn quoted(path: &str) -> String {
    path.chars().fold(String::new(), |mut out, c| {
        match c {
            '[' | ']' | '{' | '}' | '*' | '?' | ',' | '!' => out.extend(['[', c, ']']),
            _ => out.push(c),
        }
        out
    })
}

/// The deepest folder that holds all of these paths.
fn common_folder(paths: &[String]) -> String {
    let folders = |path: &String| -> Vec<String> {
        let mut parts: Vec<String> = path.split('/').map(str::to_string).collect();
        parts.pop();
        parts
    };
    let mut common = paths.first().map(folders).unwrap_or_default();
    for path in paths {
        let same = common.iter().zip(folders(path)).take_while(|(a, b)| *a == b).count();
        common.truncate(same);
    }
    if common.is_empty() { ".".to_string() } else { common.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_with_their_footer() {
        let counts = Counts::parse("src/a b.rs: 12\nsrc: x.rs: 3\n[40 matches in 7 files; 2 shown; narrow `pattern`]");
        assert_eq!((counts.files, counts.matches), (7, 40));
        assert_eq!(counts.rows["src: x.rs"], 3);
        let none = Counts::parse("[no matches in 12 files under `.`]");
        assert_eq!((none.files, none.matches), (0, 0));
        assert_eq!(Counts::parse("nonsense\n[[[").files, 0);
    }

    #[test]
    fn matching_lines_come_by_file() {
        let found =
            hits("src/a.rs\n12:fn x()\n13-  body\n--\n20:fn y()\n[3 more in this file]\n\nb.rs\n1:fn z\n\n[3 matches]");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].1, [(12, "fn x()".to_string()), (20, "fn y()".to_string())]);
        assert_eq!(hits(""), []);
    }

    #[test]
    fn several_paths_become_one_glob_below_their_common_folder() {
        let scope = ["a/b/c".to_string(), "a/b/[d].rs".to_string()];
        let area = Area::everything(&scope, &scope[1..]);
        assert_eq!(area, Area { path: "a/b".to_string(), glob: Some("{a/b/c/**/*,a/b/[[]d[]].rs}".to_string()) });
        assert_eq!(Area::code(&[], &[]).path, ".");
    }

    #[test]
    fn numbered_lines_end_where_the_footer_begins() {
        let lines: Vec<(u64, &str)> = numbered("     9\tlet a;\n    10\t\tb\n[lines 9-10 of 40]").collect();
        assert_eq!(lines, [(9, "let a;"), (10, "\tb")]);
    }
}
