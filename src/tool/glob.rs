//! Globs as models write them.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::Path;

/// A glob over paths, `/` between folders. Without a `/` it is about the file's name, at any depth.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    set: GlobSet,
    text: String,
    by_name: bool,
    negated: bool,
}

impl Pattern {
    /// Reads a glob; a leading `!` turns it round.
    ///
    /// # Errors
    /// Why it is not one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (negated, glob) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        let invalid = |error: globset::Error| format!("`{text}` is not a valid glob: {}", error.kind());
        let compiled = GlobBuilder::new(glob).literal_separator(true).build().map_err(invalid)?;
        let set = GlobSetBuilder::new().add(compiled).build().map_err(invalid)?;
        Ok(Pattern { set, text: glob.to_string(), by_name: !glob.contains('/'), negated })
    }

    /// The same for the rest of a glob whose folders were resolved already: without a `/` it is about that folder alone.
    ///
    /// # Errors
    /// Why it is not one.
    pub(super) fn anchored(text: &str) -> Result<Self, String> {
        Ok(Pattern { by_name: false, ..Pattern::parse(text)? })
    }

    /// Whether the file at this path, relative to where the pattern counts from, is one of those meant.
    pub(super) fn matches(&self, path: &Path) -> bool {
        let subject = if self.by_name { path.file_name().map(Path::new).unwrap_or(path) } else { path };
        // A name that is the pattern's very text is meant, whatever its brackets would say as a glob.
        let hit = self.set.is_match(subject) || subject == Path::new(&self.text);
        hit != self.negated
    }

    /// Whether it leaves out what it names.
    pub(super) fn is_negated(&self) -> bool {
        self.negated
    }

    /// Whether the pattern itself names something hidden, such as `.eslintrc*` or `{.github,src}/**`.
    pub(super) fn names_hidden(&self) -> bool {
        !self.negated && ["/.", "{.", ",."].iter().any(|lead| format!("/{}", self.text).contains(lead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_glob_matches() {
        #[rustfmt::skip]
        let table = [
            ("*.rs", "a.rs", true), ("*.rs", "x/y/a.rs", true), ("*.rs", "a.rs/b", false),
            ("src/*.rs", "src/a.rs", true), ("src/*.rs", "src/x/a.rs", false), ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/x/y/a.rs", true), ("**", "a/b", true), ("*.{ts,tsx}", "a/b.tsx", true),
            ("[id].ts", "x/[id].ts", true), ("[id].ts", "i.ts", true), ("!*.md", "a.md", false), ("!*.md", "a.rs", true),
            ("./a/*", "a/b", true), (".eslintrc*", "x/.eslintrc.json", true),
        ];
        for (glob, path, matches) in table {
            assert_eq!(Pattern::parse(glob).unwrap().matches(Path::new(path)), matches, "{glob} on {path}");
        }
    }

    #[test]
    fn a_pattern_with_a_dot_name_asks_for_hidden_files() {
        for (glob, hidden) in
            [(".github/**", true), ("**/.x/*", true), ("{.a,b}/*", true), ("*.rs", false), ("a.b/*", false)]
        {
            assert_eq!(Pattern::parse(glob).unwrap().names_hidden(), hidden, "{glob}");
        }
    }

    #[test]
    fn an_invalid_glob_says_why() {
        let why = Pattern::parse("src/[a").unwrap_err();
        assert!(why.contains("`src/[a` is not a valid glob: ") && why.contains("unclosed"), "{why}");
    }
}
