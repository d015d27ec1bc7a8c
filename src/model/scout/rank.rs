//! Ranks files and passages on one scale: BM25 over fields and line windows. Pure.
//!
//! A file's score has three parts: all of it (long files count less), its title (path, names defined in it, the text at
//! its head), and its best window, where several concepts stand close together. A concept counts through its own word or
//! through related ones, whichever says more; how rare each is comes from the whole tree ([`Stats`]), so scores from
//! different parts can be compared when the statistics are the same.

use super::query::{Concept, Query};
use super::source::{Doc, Kind, Line, Vocabulary, defined_name, is_aside, is_front};
use std::collections::HashMap;

// The numbers were tuned on the `dev` questions of both files of tests/scout; see there.
const K1: f64 = 4.0;
const LENGTH_PULL: f64 = 0.3;
const RELATED_WEIGHT: f64 = 1.0;
/// What each further related word takes from that.
const RELATED_FAN: f64 = 0.1;
/// A word in a single file is not worth more than one in a few.
const MAX_RARITY: f64 = 4.0;
const COVERAGE_WEIGHT: f64 = 0.5;
const TITLE_WEIGHT: f64 = 2.0;
const TITLE_PULL: f64 = 0.8;
const TITLE_K1: f64 = 2.0;
/// Weighted words of a title of common length.
const TITLE_LENGTH: f64 = 300.0;
const WINDOW_WEIGHT: f64 = 0.5;
/// For the two next best windows.
const SECOND_WINDOWS: f64 = 1.0;
const WINDOW_K1: f64 = 0.1;
/// Lines of a window.
const WINDOW: usize = 24;
/// Lines at the head of a file whose comments belong to its title.
const HEAD: u64 = 60;
const FOLDER_WEIGHT: f64 = 1.0;
const NAME_WEIGHT: f64 = 10.0;
/// What a file's path counts in each of its windows.
const PATH_IN_WINDOW: f64 = 1.0;
const HEAD_WEIGHT: f64 = 2.0;
/// How much the share of the question's weight that a text holds counts, as a power.
const COVERAGE_POWER: f64 = 0.25;
/// How much of a file's name is sought.
const FIT_WEIGHT: f64 = 1.0;
const DEFINITION_WEIGHT: f64 = 1.5;
const BODY_WEIGHT: f64 = 0.75;
/// For a word that no file uses in a name.
const UNNAMED_FACTOR: f64 = 0.8;
const ASIDE_FACTOR: f64 = 0.35;
const FRONT_FACTOR: f64 = 0.8;
/// For a file that bears the name of one that ranks higher: twins crowd others out.
const TWIN_FACTOR: f64 = 0.8;

/// In how many files a concept occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// Files with the word itself.
    pub(super) exact: u64,
    /// Files with a related word.
    pub(super) related: u64,
}

/// What is known of the whole tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    /// Files in it.
    pub(super) files: u64,
    /// Lines of a file on average.
    pub(super) mean_length: f64,
    /// By concept, in the query's order.
    pub(super) spread: Vec<Spread>,
}

/// A file that was ranked.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    /// Its path.
    pub(super) path: String,
    /// On the scale of the statistics used.
    pub(super) score: f64,
    /// Share of the concepts' weight that its best passage holds.
    pub(super) coverage: f64,
    /// Concepts of its best passage by place in the query.
    pub(super) concepts: Vec<usize>,
    /// The best lines of its best passage, best first: number and text.
    pub(super) best: Vec<(u64, String)>,
    /// What the best passage stands in: `fn name`.
    pub(super) inside: Option<String>,
}

/// Scores files against a query.
pub(super) struct Ranker<'q> {
    concepts: Vec<Weighed<'q>>,
    stats: &'q Stats,
    vocabulary: &'q Vocabulary,
    total_weight: f64,
}

/// A concept with what finding it is worth.
#[derive(Clone)]
struct Weighed<'q> {
    place: usize,
    concept: &'q Concept,
    exact: Option<usize>,
    exact_weight: f64,
    related: Vec<Vec<usize>>,
    related_weight: f64,
}

/// How often each sought stem occurs, weighed by where.
type Counts = Vec<f64>;

/// A score with the concepts that made it, by place in the ranker's list.
struct Scored {
    score: f64,
    hits: Vec<usize>,
}

impl<'q> Ranker<'q> {
    /// A ranker for a tree with these statistics. Concepts that occur nowhere take no part.
    pub(super) fn new(query: &'q Query, stats: &'q Stats, vocabulary: &'q Vocabulary) -> Self {
        let rarity = |files: u64| {
            let (all, with) = (stats.files.max(files) as f64, files as f64);
            (1.0 + (all - with + 0.5) / (with + 0.5)).ln().min(MAX_RARITY)
        };
        let weigh = |(place, concept): (usize, &'q Concept)| {
            let spread = stats.spread.get(place).copied().unwrap_or_default();
            let related = if spread.related > 0 { concept.related.as_slice() } else { &[] };
            let numbers =
                |stems: &Vec<String>| stems.iter().map(|stem| vocabulary.place(stem)).collect::<Option<Vec<_>>>();
            Weighed {
                place,
                concept,
                exact: concept.exact.as_ref().filter(|_| spread.exact > 0).and_then(|stem| vocabulary.place(stem)),
                exact_weight: rarity(spread.exact),
                related: related.iter().filter_map(numbers).collect(),
                related_weight: RELATED_WEIGHT / (1.0 + RELATED_FAN * related.len().saturating_sub(1) as f64)
                    * rarity(spread.related),
            }
        };
        let all = query.concepts.iter().enumerate().map(weigh);
        let concepts: Vec<Weighed<'q>> = all.filter(|one| one.exact.is_some() || !one.related.is_empty()).collect();
        let total_weight = concepts.iter().map(Weighed::worth).sum();
        Ranker { concepts, stats, vocabulary, total_weight }
    }

    /// All files that hold anything sought, best first; equal ones by path.
    pub(super) fn rank(&self, docs: &[Doc]) -> Vec<Ranked> {
        let informed = self.informed(docs);
        let mut ranked: Vec<Ranked> = docs.iter().filter_map(|doc| informed.ranked(doc)).collect();
        sort(&mut ranked);
        // Twins give way to others, in the order in which they came.
        let mut names: HashMap<String, i32> = HashMap::new();
        for one in ranked.iter_mut().filter(|one| !is_common_name(&one.path)) {
            let name = one.path.rsplit('/').next().unwrap_or_default().to_string();
            let before = names.entry(name).or_default();
            one.score *= TWIN_FACTOR.powi(*before);
            *before += 1;
        }
        sort(&mut ranked);
        ranked
    }

    /// The same ranker, but words that none of these files uses in a name count less: they are the asker's, not the
    /// code's.
    fn informed(&self, docs: &[Doc]) -> Ranker<'q> {
        let mut named = vec![false; self.vocabulary.len()];
        for doc in docs {
            let defined = doc.lines.iter().filter(|line| line.kind == Kind::Definition).flat_map(|line| &line.stems);
            for stem in defined.chain(&doc.name_stems).chain(&doc.folder_stems) {
                if let Some(known) = named.get_mut(*stem) {
                    *known = true;
                }
            }
        }
        let weigh = |one: &Weighed<'q>| {
            let known = one.exact.is_none_or(|stem| named.get(stem).copied().unwrap_or_default());
            let mut one = one.clone();
            if !known {
                one.exact_weight *= UNNAMED_FACTOR;
            }
            one
        };
        let concepts: Vec<Weighed<'q>> = self.concepts.iter().map(weigh).collect();
        let total_weight = concepts.iter().map(Weighed::worth).sum();
        Ranker { concepts, stats: self.stats, vocabulary: self.vocabulary, total_weight }
    }

    fn ranked(&self, doc: &Doc) -> Option<Ranked> {
        let whole = self.score(&self.whole(doc), self.length_norm(doc.length));
        let (window, passage, next) = self.best_window(doc);
        if whole.hits.is_empty() {
            return None;
        }
        let title = self.title_score(doc);
        let score = (whole.score + TITLE_WEIGHT * title + WINDOW_WEIGHT * passage.score + SECOND_WINDOWS * next)
            * standing(&doc.path);
        let shown = if passage.hits.is_empty() { &whole.hits } else { &passage.hits };
        let weight: f64 = shown.iter().filter_map(|at| self.concepts.get(*at)).map(Weighed::worth).sum();
        let best = self.best_lines(window);
        let inside = best.first().and_then(|(number, _)| enclosing(doc, *number));
        Some(Ranked {
            path: doc.path.clone(),
            score,
            coverage: if self.total_weight > 0.0 { weight / self.total_weight } else { 0.0 },
            concepts: shown.iter().filter_map(|at| self.concepts.get(*at)).map(|one| one.place).collect(),
            best,
            inside,
        })
    }

    /// A first guess from numbers alone: `counts` has, by concept in the query's order, lines with the word itself and
    /// with related words; `doc` has at most lines that define something.
    pub(super) fn guess(&self, doc: &Doc, counts: &[(f64, f64)]) -> f64 {
        let own = self.whole(doc);
        let norm = self.length_norm(doc.length);
        let scored = self.total(|one| {
            let (exact, related) = counts.get(one.place).copied().unwrap_or_default();
            let (own_exact, own_related) = one.counts(&own);
            one.score(exact + own_exact, related + own_related, norm)
        });
        (scored.score + TITLE_WEIGHT * self.title_score(doc)) * standing(&doc.path)
    }

    fn length_norm(&self, length: usize) -> f64 {
        let relative = length as f64 / self.stats.mean_length.max(1.0);
        K1 * (1.0 - LENGTH_PULL + LENGTH_PULL * relative)
    }

    fn whole(&self, doc: &Doc) -> Counts {
        let mut counts = self.named(doc);
        for line in &doc.lines {
            let head = line.kind == Kind::Comment && line.number <= HEAD;
            add(&mut counts, &line.stems, weight(line.kind) + if head { HEAD_WEIGHT } else { 0.0 });
        }
        counts
    }

    fn named(&self, doc: &Doc) -> Counts {
        let mut counts = vec![0.0; self.vocabulary.len()];
        add(&mut counts, &doc.folder_stems, FOLDER_WEIGHT);
        add(&mut counts, &doc.name_stems, NAME_WEIGHT + FOLDER_WEIGHT);
        counts
    }

    fn title_score(&self, doc: &Doc) -> f64 {
        let mut counts = vec![0.0; self.vocabulary.len()];
        add(&mut counts, &doc.folder_stems, 0.7);
        add(&mut counts, &doc.name_stems, 2.7);
        let mut length = 0.0;
        for line in &doc.lines {
            let weight = match line.kind {
                Kind::Definition => 1.0,
                Kind::Comment if line.number <= HEAD => 0.5,
                Kind::Comment | Kind::Import | Kind::Test | Kind::Body => continue,
            };
            add(&mut counts, &line.stems, weight);
            length += weight * line.text.split_whitespace().count() as f64;
        }
        let norm = TITLE_K1 * (1.0 - TITLE_PULL + TITLE_PULL * length / TITLE_LENGTH);
        let fit = doc.name_stems.len() as f64 / doc.name_words.max(1) as f64;
        self.score(&counts, norm).score * (1.0 + FIT_WEIGHT * fit)
    }

    /// The best window with its score, and the mean score of the two next best.
    fn best_window<'d>(&self, doc: &'d Doc) -> (&'d [Line], Scored, f64) {
        let mut windows: Vec<(&[Line], Scored)> = Vec::new();
        let mut path = vec![0.0; self.vocabulary.len()];
        for stem in doc.folder_stems.iter().chain(&doc.name_stems) {
            if let Some(count) = path.get_mut(*stem) {
                *count = PATH_IN_WINDOW;
            }
        }
        let step = WINDOW / 2;
        let mut at = 0;
        while at == 0 || at + step < doc.lines.len() {
            let window = doc.lines.get(at..doc.lines.len().min(at + WINDOW)).unwrap_or_default();
            if window.iter().any(|line| !line.stems.is_empty()) {
                let mut counts = path.clone();
                window.iter().for_each(|line| add(&mut counts, &line.stems, weight(line.kind)));
                windows.push((window, self.score(&counts, WINDOW_K1)));
            }
            at += step;
        }
        windows.sort_by(|a, b| b.1.score.total_cmp(&a.1.score));
        let next = windows.iter().skip(1).take(2).map(|(_, scored)| scored.score).sum::<f64>() / 2.0;
        let next = if windows.len() > 2 { next } else { 0.0 };
        let best = windows.into_iter().next();
        let (window, scored) = best.unwrap_or((&[], Scored { score: 0.0, hits: Vec::new() }));
        (window, scored, next)
    }

    /// Lines of a passage that say most by themselves: at most three, best first.
    fn best_lines(&self, window: &[Line]) -> Vec<(u64, String)> {
        let worth = |line: &Line| {
            let mut counts = vec![0.0; self.vocabulary.len()];
            add(&mut counts, &line.stems, weight(line.kind));
            self.score(&counts, WINDOW_K1).score
        };
        let mut lines: Vec<(f64, &Line)> = window.iter().map(|line| (worth(line), line)).collect();
        lines.retain(|(score, _)| *score > 0.0);
        lines.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.number.cmp(&b.1.number)));
        lines.into_iter().take(3).map(|(_, line)| (line.number, line.text.clone())).collect()
    }

    fn score(&self, counts: &Counts, norm: f64) -> Scored {
        self.total(|one| {
            let (exact, related) = one.counts(counts);
            one.score(exact, related, norm)
        })
    }

    fn total(&self, worth: impl Fn(&Weighed<'q>) -> f64) -> Scored {
        let mut scored = Scored { score: 0.0, hits: Vec::new() };
        for (at, one) in self.concepts.iter().enumerate() {
            let value = worth(one);
            if value > 0.0 {
                scored.score += value;
                scored.hits.push(at);
            }
        }
        let share = scored.hits.len() as f64 / self.concepts.len().max(1) as f64;
        scored.score *= 1.0 + COVERAGE_WEIGHT * share;
        let held: f64 = scored.hits.iter().filter_map(|at| self.concepts.get(*at)).map(Weighed::worth).sum();
        scored.score *= (held / self.total_weight.max(f64::MIN_POSITIVE)).powf(COVERAGE_POWER);
        scored
    }
}

impl Weighed<'_> {
    fn counts(&self, counts: &Counts) -> (f64, f64) {
        let of = |at: &usize| counts.get(*at).copied().unwrap_or_default();
        let exact = self.exact.as_ref().map_or(0.0, of);
        let related = self.related.iter().map(|stems| stems.iter().map(of).fold(f64::INFINITY, f64::min)).sum();
        (exact, related)
    }

    fn score(&self, exact: f64, related: f64, norm: f64) -> f64 {
        let saturated = |count: f64| if count > 0.0 { count * (K1 + 1.0) / (count + norm) } else { 0.0 };
        let exact = if self.exact.is_some() { self.exact_weight * saturated(exact) } else { 0.0 };
        let related = self.related_weight * saturated(related);
        exact.max(related)
    }

    /// What finding the concept at all is worth.
    fn worth(&self) -> f64 {
        let exact = if self.exact.is_some() { self.exact_weight } else { 0.0 };
        let related = if self.related.is_empty() { 0.0 } else { self.related_weight };
        if self.concept.exact.is_some() { exact.max(related) } else { related }
    }
}

fn sort(ranked: &mut [Ranked]) {
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.path.cmp(&b.path)));
}

/// Names that many folders have, which makes nobody a twin.
fn is_common_name(path: &str) -> bool {
    is_front(path) || ["mod.rs", "main.rs", "main.go", "main.py"].contains(&path.rsplit('/').next().unwrap_or(path))
}

fn weight(kind: Kind) -> f64 {
    match kind {
        Kind::Definition => DEFINITION_WEIGHT,
        Kind::Comment => 1.0,
        Kind::Import => 0.0,
        Kind::Test => 0.1,
        Kind::Body => BODY_WEIGHT,
    }
}

/// What a file's place in the tree says about it.
fn standing(path: &str) -> f64 {
    let aside = if is_aside(path) { ASIDE_FACTOR } else { 1.0 };
    let front = if is_front(path) { FRONT_FACTOR } else { 1.0 };
    aside * front
}

fn add(counts: &mut Counts, stems: &[usize], weight: f64) {
    for stem in stems {
        if let Some(count) = counts.get_mut(*stem) {
            *count += weight;
        }
    }
}

/// The nearest definition at or above a line that is indented less than it.
fn enclosing(doc: &Doc, number: u64) -> Option<String> {
    let indent = |line: &Line| line.text.len() - line.text.trim_start().len();
    let at = doc.lines.iter().position(|line| line.number == number)?;
    let here = doc.lines.get(at)?;
    if let Some(name) = defined_name(&here.text) {
        return Some(name);
    }
    let mut room = indent(here);
    // A comment is mostly about what follows it.
    if here.kind == Kind::Comment
        && let Some(next) = doc.lines.get(at..)?.iter().take(20).find(|line| line.kind != Kind::Comment)
        && next.kind == Kind::Definition
    {
        return defined_name(&next.text);
    }
    for line in doc.lines.get(..at)?.iter().rev() {
        if line.text.trim().is_empty() || indent(line) >= room.max(1) {
            continue;
        }
        room = indent(line);
        if (line.kind == Kind::Definition || line.kind == Kind::Test)
            && let Some(name) = defined_name(&line.text)
        {
            return Some(name);
        }
        if room == 0 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of these files, best first, for a question; every word counts as one that few files have.
    fn ranked(question: &str, files: &[(&str, &str)]) -> Vec<Ranked> {
        let query = Query::new(question);
        let vocabulary = Vocabulary::new(&query);
        let spread = vec![Spread { exact: 2, related: 2 }; query.concepts.len()];
        let stats = Stats { files: 100, mean_length: 40.0, spread };
        let docs: Vec<Doc> = files
            .iter()
            .map(|(path, text)| {
                let mut doc = Doc::named(path, 0, &vocabulary);
                doc.fill(text.lines().enumerate().map(|(at, line)| (at as u64 + 1, line)).collect(), &vocabulary);
                doc
            })
            .collect();
        Ranker::new(&query, &stats, &vocabulary).rank(&docs)
    }

    fn first(question: &str, files: &[(&str, &str)]) -> String {
        ranked(question, files).first().map(|one| one.path.clone()).unwrap_or_default()
    }

    #[test]
    fn what_makes_a_file_rank_higher() {
        let far = format!("let queue = 1;\n{}let drain = 2;\n", "let x = 0;\n".repeat(60));
        let long = format!("let drain = queue;\n{}", "let x = 0;\n".repeat(400));
        let table: [(&str, [(&str, &str); 2]); 6] = [
            ("a definition before a mention", [("b.rs", "fn drain() {}"), ("a.rs", "x = drain;")]),
            ("a name in the path", [("src/drain.rs", "let x = drain;"), ("src/a.rs", "let x = drain;")]),
            ("code before tests", [("src/b.rs", "let x = drain;"), ("tests/a.rs", "let x = drain;")]),
            ("words close together", [("b.rs", "let queue = 1;\nlet drain = 2;"), ("a.rs", &far)]),
            ("a short file before a long one", [("b.rs", "let drain = queue;"), ("a.rs", &long)]),
            ("a related word before none", [("b.rs", "cancel()"), ("a.rs", "queue()")]),
        ];
        for (why, files) in table {
            let question = if why.starts_with("a related") { "abort" } else { "drain queue" };
            assert_eq!(first(question, &files), files[0].0, "{why}");
        }
    }

    #[test]
    fn a_result_names_its_best_lines_and_what_they_stand_in() {
        let text = "impl Pump {\n    /// Empties it.\n    fn run(&self) {\n        let x = 1;\n        self.queue.drain();\n    }\n}\n";
        let one = ranked("drain queue", &[("a.rs", text)]).remove(0);
        assert_eq!(one.best[0].0, 5);
        assert_eq!(one.inside.as_deref(), Some("fn run"));
        assert!(one.coverage > 0.99);
    }

    #[test]
    fn files_without_any_word_are_left_out_and_equal_ones_go_by_path() {
        assert!(ranked("drain", &[("a.rs", "let x = 1;"), ("b.rs", "")]).is_empty());
        assert_eq!(first("drain", &[("c.rs", "drain"), ("b.rs", "drain")]), "b.rs");
        assert!(ranked("", &[("a.rs", "x")]).is_empty());
    }
}
