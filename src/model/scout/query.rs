//! From the words of a task to what is looked for: concepts, each with its own word and related words.
//!
//! Words are split at case changes, underscores and digits and cut to their stem. Words that say nothing about code
//! are left out; a table (`words.txt`) adds what code calls the same thing. Pure.

use super::stem::stem;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Words that say nothing about what is looked for, and those in which tasks are dressed up.
const STOP: &str = include_str!("stop.txt");
/// Groups of words that mean about the same; the file says how to read it.
const RELATED: &str = include_str!("words.txt");
/// Concepts that a query has at most; the first ones stay.
const MAX_CONCEPTS: usize = 24;
/// Words of a phrase in the table at most.
const MAX_PHRASE: usize = 4;

static STOP_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| STOP.split_whitespace().collect());
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(RELATED));

/// One or more stems that must stand together: `["content", "type"]`.
pub(super) type Stems = Vec<String>;

/// One thing that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Concept {
    /// The word or phrase as the task has it.
    pub(super) name: String,
    /// The stem of that word; none for a phrase.
    pub(super) exact: Option<String>,
    /// What else it may be called.
    pub(super) related: Vec<Stems>,
}

/// What a task looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// In the task's order, without repeats.
    pub(super) concepts: Vec<Concept>,
}

impl Query {
    /// The concepts of a text.
    pub(super) fn new(text: &str) -> Self {
        let spoken: Vec<String> = words(text).collect();
        let mut concepts: Vec<Concept> = Vec::new();
        let mut seen: HashSet<String> = HashSet::new();
        let own: HashSet<String> = spoken.iter().filter(|word| says_something(word)).map(|word| stem(word)).collect();
        for (at, word) in spoken.iter().enumerate() {
            for length in (2..=MAX_PHRASE).rev() {
                let Some(phrase) = spoken.get(at..at + length) else { continue };
                let phrase = phrase.join("_");
                let related = related_of(TABLE.phrases.get(&phrase), &own);
                if !related.is_empty() && seen.insert(phrase.clone()) {
                    concepts.push(Concept { name: phrase.replace('_', " "), exact: None, related });
                }
            }
            let own_stem = stem(word);
            if says_something(word) && seen.insert(own_stem.clone()) {
                let related = related_of(TABLE.words.get(&own_stem), &own);
                concepts.push(Concept { name: word.clone(), exact: Some(own_stem), related });
            }
        }
        concepts.truncate(MAX_CONCEPTS);
        Query { concepts }
    }

    /// Every stem that matters, without repeats, in order.
    pub(super) fn stems(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        self.concepts
            .iter()
            .flat_map(|concept| concept.exact.iter().chain(concept.related.iter().flatten()))
            .map(String::as_str)
            .filter(|stem| seen.insert(*stem))
            .collect()
    }
}

impl Concept {
    /// A regular expression for the word itself.
    pub(super) fn exact_pattern(&self) -> Option<String> {
        self.exact.as_ref().map(|stem| pattern_of(std::slice::from_ref(stem)))
    }

    /// A regular expression for the related words.
    pub(super) fn related_pattern(&self) -> Option<String> {
        let any: Vec<String> = self.related.iter().map(|stems| pattern_of(stems)).collect();
        (!any.is_empty()).then(|| any.join("|"))
    }
}

/// Finds words that begin with this stem, at the start of a word or of a part of an identifier, in any case.
///
/// Short stems must be the whole part: `ip` is not in `zip` nor in `ipsum`.
fn pattern_of(stems: &[String]) -> String {
    let last = stems.len().saturating_sub(1);
    let parts: Vec<String> =
        stems.iter().enumerate().map(|(at, stem)| part_pattern(stem, at == 0, at == last)).collect();
    parts.join("[a-z]*[_ -]?")
}

fn part_pattern(stem: &str, first: bool, last: bool) -> String {
    // The stemmer writes a final `y` as `i`: `retri` stands for `retry` and `retries`.
    let (body, tail) = match stem.strip_suffix('i') {
        Some(body) if stem.len() > 3 => (body, "[iy]"),
        _ => (stem, ""),
    };
    let body = escape(body);
    let mut capital = body.clone();
    if let Some(head) = capital.get_mut(..1) {
        head.make_ascii_uppercase();
    }
    let end = if last && stem.chars().count() <= 3 { r"(?:s?(?-u:\b)|[_A-Z0-9])" } else { "" };
    if first {
        format!(r"(?:(?:(?-u:\b)|_)(?i:{body}{tail})|{capital}{tail}){end}")
    } else {
        format!("(?i:{body}{tail}){end}")
    }
}

/// A literal for a regular expression. Stems hold letters and digits of any script only; anything else is quoted.
fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if !c.is_alphanumeric() {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

/// Whether a word can tell one place of a code base from another.
fn says_something(word: &str) -> bool {
    let digits = word.bytes().all(|b| b.is_ascii_digit());
    !STOP_WORDS.contains(word) && (word.chars().count() > 1 || !word.is_ascii() || digits)
}

fn related_of(found: Option<&Vec<Stems>>, own: &HashSet<String>) -> Vec<Stems> {
    let all = found.into_iter().flatten();
    all.filter(|stems| !stems.iter().all(|stem| own.contains(stem))).cloned().collect()
}

/// The words of a text in lower case: identifiers are split at case changes, underscores and around digits.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()).flat_map(split_run)
}

/// `parseHTTPHeader2` → `parse`, `http`, `header2`: digits stay with the letters before them, as in `utf8` and `S3`.
fn split_run(run: &str) -> Vec<String> {
    if !run.chars().any(char::is_uppercase) {
        return vec![run.to_string()];
    }
    let chars: Vec<char> = run.chars().collect();
    let mut parts: Vec<String> = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at));
        let after = chars.get(at + 1);
        let starts = match before {
            None => true,
            Some(before) if c.is_uppercase() => {
                !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase())
            }
            Some(before) => before.is_numeric() && !c.is_numeric(),
        };
        match parts.last_mut() {
            Some(part) if !starts => part.extend(c.to_lowercase()),
            Some(_) | None => parts.push(c.to_lowercase().collect()),
        }
    }
    parts
}

/// The table of related words.
struct Table {
    words: HashMap<String, Vec<Stems>>,
    phrases: HashMap<String, Vec<Stems>>,
}

impl Table {
    fn parse(text: &str) -> Self {
        let mut table = Table { words: HashMap::new(), phrases: HashMap::new() };
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let (from, to) = line.split_once('>').unwrap_or((line, line));
            for said in from.split_whitespace() {
                for meant in to.split_whitespace().filter(|meant| *meant != said) {
                    let stems: Stems = meant.split('_').map(stem).collect();
                    let known = match said.contains('_') {
                        true => table.phrases.entry(said.to_string()).or_default(),
                        false => table.words.entry(stem(said)).or_default(),
                    };
                    if !known.contains(&stems) {
                        known.push(stems);
                    }
                }
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_fall_apart_into_words() {
        let table = [
            ("read_to_string", "read to string"),
            ("parseHTTPHeader", "parse http header"),
            ("ReadDir2Entry S3", "read dir2 entry s3"),
            ("sha256 utf8", "sha256 utf8"),
            ("don't stop—now", "don t stop now"),
            ("", ""),
            ("日本語 Größe", "日本語 größe"),
        ];
        for (text, wanted) in table {
            assert_eq!(words(text).collect::<Vec<_>>().join(" "), wanted, "{text}");
        }
    }

    #[test]
    fn inflections_are_one_concept_and_small_words_none() {
        let query = Query::new("Where is cancellation handled, and what is cancelled when?");
        let names: Vec<&str> = query.concepts.iter().map(|concept| concept.name.as_str()).collect();
        assert_eq!(names, ["cancellation"]);
        assert!(query.concepts[0].related.contains(&vec!["abort".to_string()]), "{query:?}");
    }

    #[test]
    fn a_phrase_is_a_concept_of_its_own() {
        let query = Query::new("the media type of a reply");
        assert_eq!(query.concepts[0].name, "media type");
        assert!(query.concepts[0].related.contains(&vec!["content".to_string(), "type".to_string()]));
    }

    #[test]
    fn patterns_find_words_where_identifiers_have_them() {
        let table: [(&str, &[&str], &[&str]); 4] = [
            ("retries", &["retry()", "max_retries", "RetryPolicy", "doRetry", "RETRY"], &["interest"]),
            ("ip", &["ip", "IpAddr", "peer_ip", "ips"], &["zip", "ipsum", "ship"]),
            ("cancel", &["on_cancel", "Cancelled", "isCancelled"], &["can"]),
            ("C++", &[], &[]),
        ];
        for (word, hits, misses) in table {
            for concept in Query::new(word).concepts {
                let pattern = concept.exact_pattern().unwrap();
                let matcher = grep_regex::RegexMatcher::new(&pattern).unwrap();
                let found = |text: &str| grep_matcher::Matcher::is_match(&matcher, text.as_bytes()).unwrap();
                assert!(hits.iter().all(|text| found(text)), "{pattern}");
                assert!(!misses.iter().any(|text| found(text)), "{pattern}");
            }
        }
    }

    #[test]
    fn every_line_of_the_table_reads() {
        assert!(TABLE.words.len() > 200 && TABLE.phrases.len() > 20);
        for (said, meant) in TABLE.words.iter().chain(&TABLE.phrases) {
            assert!(!meant.is_empty(), "{said}");
            assert!(
                meant.iter().flatten().all(|stem| !stem.is_empty() && stem.chars().all(char::is_alphanumeric)),
                "{said}"
            );
        }
    }
}
