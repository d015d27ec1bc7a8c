//! What a text file looks like to the ranking: its lines, each with its kind and the sought stems in it. Pure.
//!
//! Kinds are told apart by marks that most languages share; a wrong guess costs a little weight, nothing else.

use super::query::{Query, words};
use super::stem::stem;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Letters of a stem that counts as part of a longer word.
const MIN_PART: usize = 4;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Names something: a function, a type, a constant.
    Definition,
    /// Says something to people.
    Comment,
    /// Brings names in from elsewhere.
    Import,
    /// Belongs to tests that live in the file.
    Test,
    /// Anything else.
    Body,
}

/// A line of a file.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// What it is.
    pub(super) kind: Kind,
    /// Its text without the line end.
    pub(super) text: String,
    /// Sought stems in it, by their place in the vocabulary.
    pub(super) stems: Vec<usize>,
}

/// What is known of a file.
#[derive(Clone, Debug)]
pub(super) struct Doc {
    /// Relative to the workspace.
    pub(super) path: String,
    /// The lines that were shown, ascending.
    pub(super) lines: Vec<Line>,
    /// How many lines the file has.
    pub(super) length: usize,
    /// Sought stems in the folders of its path.
    pub(super) folder_stems: Vec<usize>,
    /// Sought stems in its name.
    pub(super) name_stems: Vec<usize>,
    /// How many words its name has.
    pub(super) name_words: usize,
}

/// The sought stems, numbered.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    places: HashMap<String, usize>,
}

impl Vocabulary {
    /// The stems of a query.
    pub(super) fn new(query: &Query) -> Self {
        let places = query.stems().into_iter().enumerate().map(|(at, stem)| (stem.to_string(), at)).collect();
        Vocabulary { places }
    }

    /// The number of a stem, if it is sought.
    pub(super) fn place(&self, stem: &str) -> Option<usize> {
        self.places.get(stem).copied()
    }

    /// How many stems there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// As [`Vocabulary::of_text`], but a word of a name may also begin or end with a sought stem: `autoretry`.
    fn of_name(&self, name: &str) -> Vec<usize> {
        let within = |word: &str| {
            let long = self.places.iter().filter(|(stem, _)| stem.chars().count() >= MIN_PART);
            let held = long.filter(|(stem, _)| word.starts_with(stem.as_str()) || word.ends_with(stem.as_str()));
            held.max_by_key(|(stem, place)| (stem.len(), **place)).map(|(_, place)| *place)
        };
        words(name).filter_map(|word| self.place(&stem(&word)).or_else(|| within(&stem(&word)))).collect()
    }

    fn of_text(&self, text: &str) -> Vec<usize> {
        words(text).filter_map(|word| self.place(&stem(&word))).collect()
    }
}

impl Doc {
    /// A file of which only the path and the length are known.
    pub(super) fn named(path: &str, length: usize, vocabulary: &Vocabulary) -> Self {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
        // A file that stands for its folder bears the folder's name.
        let stands_for_folder = ["mod", "__init__", "index"].contains(&name);
        let (folder, name) = match folder.rsplit_once('/').unwrap_or(("", folder)) {
            (above, last) if stands_for_folder && !last.is_empty() => (above, last),
            _ => (folder, name),
        };
        Doc {
            path: path.to_string(),
            lines: Vec::new(),
            length,
            folder_stems: vocabulary.of_text(folder),
            name_stems: vocabulary.of_name(name),
            name_words: words(name).count(),
        }
    }

    /// Takes in numbered lines, in ascending order, and works out their kinds.
    pub(super) fn fill(&mut self, numbered: Vec<(u64, &str)>, vocabulary: &Vocabulary) {
        let mut reader = Reader::default();
        for (number, text) in numbered {
            let kind = reader.kind(text);
            let stems = vocabulary.of_text(text);
            self.lines.push(Line { number, kind, text: text.to_string(), stems });
        }
        self.length = self.length.max(self.lines.last().map_or(0, |line| line.number as usize));
    }
}

/// Goes through a file's lines and remembers what spans several.
#[derive(Default)]
struct Reader {
    /// The mark that ends the comment we are in.
    inside: Option<&'static str>,
    in_tests: bool,
}

impl Reader {
    fn kind(&mut self, line: &str) -> Kind {
        let text = line.trim();
        if let Some(end) = self.inside {
            if text.contains(end) {
                self.inside = None;
            }
            return Kind::Comment;
        }
        if text == "#[cfg(test)]" {
            self.in_tests = true;
        }
        for (start, end) in [("\"\"\"", "\"\"\""), ("r\"\"\"", "\"\"\""), ("'''", "'''"), ("/*", "*/"), ("<!--", "-->")]
        {
            if let Some(rest) = text.strip_prefix(start) {
                if !rest.contains(end) {
                    self.inside = Some(end);
                }
                return Kind::Comment;
            }
        }
        let test = if self.in_tests { Some(Kind::Test) } else { None };
        test.unwrap_or_else(|| plain_kind(text))
    }
}

/// The kind of a trimmed line on its own.
fn plain_kind(text: &str) -> Kind {
    let comment = text.starts_with("//") || text.starts_with("--") || text.starts_with(";;") || text.starts_with("* ");
    let hash =
        text.starts_with('#') && !["#[", "#!", "#include", "#import", "#define"].iter().any(|m| text.starts_with(m));
    if comment || hash {
        return Kind::Comment;
    }
    let imports =
        ["use ", "pub use ", "import ", "from ", "#include", "#import", "require ", "using ", "mod ", "pub mod "];
    if imports.iter().any(|mark| text.starts_with(mark)) && !text.ends_with('{') {
        return Kind::Import;
    }
    if defined_name(text).is_some() { Kind::Definition } else { Kind::Body }
}

static MODIFIERS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "pub async unsafe export static default public private protected abstract final extern override open internal data sealed inline virtual"
        .split(' ')
        .collect()
});
static KEYWORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "fn def class struct enum trait type impl mod macro_rules! interface function func fun const static module object record union namespace sub proc defmodule"
        .split(' ')
        .collect()
});

/// `fn name`, `class Name`: what a line defines, in the language's own word; `None` when it defines nothing.
pub(super) fn defined_name(text: &str) -> Option<String> {
    let text = text.trim();
    let mut rest = text;
    loop {
        let word: &str = rest.split([' ', '(', '\t', '<']).next().unwrap_or_default();
        if word.is_empty() {
            return constant(text);
        }
        let after = rest.get(word.len()..).unwrap_or_default();
        // `static` and `const` are keywords in one language and modifiers in another: a keyword after them wins.
        let next = after.trim_start().split([' ', '(', '\t', '<']).next().unwrap_or_default();
        let modifies = MODIFIERS.contains(&word) || ((word == "const" || word == "static") && KEYWORDS.contains(&next));
        if modifies {
            // `pub(crate)`.
            let skipped = match after.strip_prefix('(') {
                Some(inner) => inner.split_once(')').map_or("", |(_, rest)| rest),
                None => after,
            };
            rest = skipped.trim_start();
            continue;
        }
        if !KEYWORDS.contains(&word) || !after.starts_with([' ', '\t', '<']) {
            return constant(text);
        }
        let after = after.trim_start();
        let name: String = match word {
            "impl" => after.chars().take_while(|c| *c != '{').collect(),
            _ => after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect(),
        };
        let name = name.trim();
        return (!name.is_empty()).then(|| format!("{word} {name}"));
    }
}

/// `LIMIT = 3` at the start of a line is a constant in languages without a word for it.
fn constant(text: &str) -> Option<String> {
    let name: &str = text.split([' ', '=', ':']).next().unwrap_or_default();
    let shouted = name.len() > 2 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let assigned = text.get(name.len()..).unwrap_or_default().trim_start().starts_with('=');
    (shouted && assigned).then(|| name.to_string())
}

/// Whether a path looks like tests, examples, benchmarks, documentation or something brought in from elsewhere.
pub(super) fn is_aside(path: &str) -> bool {
    let lower = path.to_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let aside = [
        "test",
        "tests",
        "testing",
        "__tests__",
        "spec",
        "specs",
        "bench",
        "benches",
        "benchmark",
        "benchmarks",
        "example",
        "examples",
        "doc",
        "docs",
        "vendor",
        "third_party",
        "node_modules",
        "fixtures",
        "testdata",
        "loom",
        "demo",
        "demos",
        "t",
        "samples",
    ];
    let base = name.split('.').next().unwrap_or_default();
    let named = base.starts_with("test_")
        || base.ends_with("_test")
        || base.ends_with("_tests")
        || ["test", "tests", "conftest", "changelog", "changes", "history", "news", "readme", "license"]
            .contains(&base)
        || name.contains(".test.")
        || name.contains(".spec.");
    named || folders.split('/').any(|folder| aside.contains(&folder))
}

/// Whether a file mostly passes on what others define, by its name.
pub(super) fn is_front(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["__init__.py", "lib.rs", "index.ts", "index.js", "prelude.rs"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_defines() {
        let table = [
            ("pub(crate) async fn run(&self) {", Some("fn run")),
            ("    def close_spider(self):", Some("def close_spider")),
            ("export default class Foo extends Bar {", Some("class Foo")),
            ("static const MAX: usize = 3;", Some("const MAX")),
            ("const LIMIT: u32 = 1;", Some("const LIMIT")),
            ("impl<T> Drop for Guard<T> {", Some("impl <T> Drop for Guard<T>")),
            ("macro_rules! select {", Some("macro_rules! select")),
            ("MAX_AGE = 90", Some("MAX_AGE")),
            ("let fn_name = 3;", None),
            ("return classy", None),
            ("pub", None),
            ("pub(", None),
            ("", None),
            ("fn", None),
        ];
        for (line, wanted) in table {
            assert_eq!(defined_name(line).as_deref(), wanted, "{line}");
        }
    }

    #[test]
    fn kinds_span_lines_where_comments_do() {
        let mut reader = Reader::default();
        let lines = [
            ("\"\"\"Module text", Kind::Comment),
            ("class of its own", Kind::Comment),
            ("\"\"\"", Kind::Comment),
            ("import os", Kind::Import),
            ("class A:", Kind::Definition),
            ("    # why", Kind::Comment),
            ("    x = 1", Kind::Body),
            ("#[derive(Debug)]", Kind::Body),
            ("/* one */", Kind::Comment),
            ("#[cfg(test)]", Kind::Test),
            ("fn a() {}", Kind::Test),
        ];
        for (line, wanted) in lines {
            assert_eq!(reader.kind(line), wanted, "{line}");
        }
    }

    #[test]
    fn asides_are_told_by_their_path() {
        for path in
            ["tests/a.rs", "src/x/tests.rs", "a/test_b.py", "pkg/a_test.go", "docs/x.md", "CHANGELOG.md", "b.spec.ts"]
        {
            assert!(is_aside(path), "{path}");
        }
        for path in ["src/latest.rs", "src/contest/a.py", "src/attestation.rs", "src/docstring.py"] {
            assert!(!is_aside(path), "{path}");
        }
    }
}
