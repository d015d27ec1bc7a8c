//! What is wrong with a plan: problems with their places, for people as a compiler would print them, for a model as
//! one line each.
//!
//! While a plan is read and linted, [`Findings`] collects; at the end it becomes [`Problems`], sorted by place.

use super::source::{Spot, normalise};
use crate::text::{floor_boundary, plural, printable};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::ops::Range;

/// Problems shown at most; the closing line counts them all.
const MAX_SHOWN: usize = 50;
/// Columns of a line of an excerpt.
const WIDTH: usize = 120;

/// Whether a plan with it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The plan is refused.
    Error,
    /// The plan may run; something in it is probably not what was meant.
    Warning,
}

impl Severity {
    fn level(self) -> Level<'static> {
        match self {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Severity::Error => "problem",
            Severity::Warning => "warning",
        }
    }
}

/// Where something stands in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a text.
    Text {
        /// Bytes of the text, without byte-order mark and with `\n` line ends.
        span: Range<usize>,
        /// 1-based.
        line: usize,
        /// 1-based, in characters.
        column: usize,
    },
    /// A JSON pointer into a value; empty for the whole.
    Pointer(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Text { line, column, .. } => write!(f, "{line}:{column}"),
            Place::Pointer(pointer) if pointer.is_empty() => f.write_str("/"),
            Place::Pointer(pointer) => f.write_str(pointer),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether it stops the plan.
    pub severity: Severity,
    /// Which kind of mistake, in kebab-case: `duplicate-id`.
    pub code: &'static str,
    /// A lower-case fragment that says what is wrong.
    pub message: String,
    /// Where.
    pub place: Place,
    /// The next step; may be empty.
    pub hint: String,
    /// Other places that belong to it, each with what it is.
    pub related: Vec<(Place, String)>,
}

/// Everything that is wrong with one plan, sorted by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    /// The problems in order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|problem| problem.severity == severity).count()
    }

    /// Every problem as a compiler prints it: line, column, excerpt, hint; then a line that counts them.
    ///
    /// `name` is what the reader calls the plan (a path), `source` the text that was parsed.
    pub fn render(&self, name: &str, source: &str, color: bool) -> String {
        let source = normalise(source);
        let renderer = if color { Renderer::styled() } else { Renderer::plain() }.term_width(WIDTH);
        let mut out = String::new();
        for problem in self.list.iter().take(MAX_SHOWN) {
            out.push_str(&renderer.render(&problem.report(name, &source)));
            out.push_str("\n\n");
        }
        let _ = writeln!(out, "{} in `{}`{}", self.counted(), printable(name), self.omitted());
        out
    }

    /// One line per problem, for the model that wrote the plan.
    pub fn for_model(&self) -> String {
        let mut out = String::new();
        for problem in self.list.iter().take(MAX_SHOWN) {
            let _ = write!(out, "{}: {}", problem.place, printable(&problem.message));
            for (place, what) in &problem.related {
                let _ = write!(out, " ({what}: {place})");
            }
            if !problem.hint.is_empty() {
                let _ = write!(out, "; {}", printable(&problem.hint));
            }
            out.push('\n');
        }
        let _ = writeln!(out, "{} in the plan{}", self.counted(), self.omitted());
        out
    }

    fn counted(&self) -> String {
        let counts = [Severity::Error, Severity::Warning].map(|severity| (self.count(severity), severity.noun()));
        let parts: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, noun)| plural(*count, noun)).collect();
        if parts.is_empty() { "no problems".to_owned() } else { parts.join(" and ") }
    }

    fn omitted(&self) -> String {
        match self.list.len().checked_sub(MAX_SHOWN) {
            None | Some(0) => String::new(),
            Some(_) => format!(", the first {MAX_SHOWN} shown"),
        }
    }
}

impl Problem {
    fn report<'a>(&'a self, name: &'a str, source: &'a str) -> Vec<Group<'a>> {
        let title = self.severity.level().primary_title(printable(&self.message)).id(self.code);
        let mut group = match &self.place {
            Place::Text { span, .. } => title.element(self.excerpt(name, source, span)),
            Place::Pointer(_) => title.element(Origin::path(format!("{name}: {}", self.place))),
        };
        for (place, what) in &self.related {
            if let Place::Pointer(_) = place {
                group = group.element(Level::NOTE.message(format!("{what}: {place}")));
            }
        }
        if !self.hint.is_empty() {
            group = group.element(Level::HELP.message(printable(&self.hint)));
        }
        vec![group]
    }

    /// Only the lines between the first and the last marked place go to the renderer: a plan may be long.
    fn excerpt<'a>(&'a self, name: &'a str, source: &'a str, span: &Range<usize>) -> Snippet<'a, Annotation<'a>> {
        let mut spans = vec![(span.clone(), None)];
        for (place, what) in &self.related {
            if let Place::Text { span, .. } = place {
                spans.push((span.clone(), Some(what)));
            }
        }
        let from = spans.iter().map(|(span, _)| span.start).min().unwrap_or(0);
        let to = spans.iter().map(|(span, _)| span.end).max().unwrap_or(0);
        let from = source[..floor_boundary(source, from)].rfind('\n').map_or(0, |newline| newline + 1);
        let to = floor_boundary(source, to);
        let to = source[to..].find('\n').map_or(source.len(), |newline| to + newline);
        let window = &source[from..to.max(from)];
        let first_line = 1 + source[..from].matches('\n').count();
        let marks = spans.into_iter().map(|(span, what)| {
            let span = one_line(source, span);
            let kind = if what.is_some() { AnnotationKind::Context } else { AnnotationKind::Primary };
            let mark = kind.span(span.start.saturating_sub(from)..span.end.saturating_sub(from));
            match what {
                Some(what) => mark.label(printable(what)),
                None => mark,
            }
        });
        Snippet::source(window).path(name).line_start(first_line).annotations(marks)
    }
}

/// The part of a span that lies on its first line: a whole prompt underlined helps nobody.
fn one_line(source: &str, span: Range<usize>) -> Range<usize> {
    let start = floor_boundary(source, span.start);
    let end = floor_boundary(source, span.end).max(start);
    let end = source[start..end].find('\n').map_or(end, |newline| start + newline);
    start..end
}

/// What reading and linting find, before places have lines and columns.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
}

/// A problem in the making.
#[derive(Debug)]
pub(crate) struct Finding {
    severity: Severity,
    code: &'static str,
    message: String,
    spot: Spot,
    hint: String,
    related: Vec<(Spot, String)>,
}

impl Finding {
    pub(crate) fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = hint.into();
        self
    }

    pub(crate) fn related(&mut self, spot: &Spot, what: impl Into<String>) -> &mut Self {
        self.related.push((spot.clone(), what.into()));
        self
    }
}

impl Findings {
    pub(crate) fn error(&mut self, code: &'static str, spot: &Spot, message: impl Into<String>) -> &mut Finding {
        self.add(Severity::Error, code, spot, message.into())
    }

    pub(crate) fn warning(&mut self, code: &'static str, spot: &Spot, message: impl Into<String>) -> &mut Finding {
        self.add(Severity::Warning, code, spot, message.into())
    }

    fn add(&mut self, severity: Severity, code: &'static str, spot: &Spot, message: String) -> &mut Finding {
        let at = self.list.len();
        let (spot, hint) = (spot.clone(), String::new());
        self.list.push(Finding { severity, code, message, spot, hint, related: Vec::new() });
        &mut self.list[at]
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.list.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Whether there is so much wrong that no one will read a hint that is costly to find.
    pub(crate) fn crowded(&self) -> bool {
        self.list.len() > MAX_SHOWN
    }

    /// The problems in order of place; `text` is what the spans are in.
    pub(crate) fn finish(mut self, text: &str) -> Problems {
        self.list.sort_by(|a, b| in_order(&a.spot, &b.spot));
        let lines = Lines::new(text);
        let list = self.list.into_iter().map(|finding| Problem {
            severity: finding.severity,
            code: finding.code,
            message: finding.message,
            place: lines.place(finding.spot),
            hint: finding.hint,
            related: finding.related.into_iter().map(|(spot, what)| (lines.place(spot), what)).collect(),
        });
        Problems { list: list.collect() }
    }
}

/// Spans by where they start; pointers as the numbers in them count.
fn in_order(a: &Spot, b: &Spot) -> Ordering {
    match (a, b) {
        (Spot::Text(a), Spot::Text(b)) => a.start.cmp(&b.start),
        (Spot::Pointer(a), Spot::Pointer(b)) => {
            let parts = |pointer: &str| -> Vec<(u64, String)> {
                let part = |part: &str| (part.parse().unwrap_or(0), part.to_owned());
                pointer.split('/').map(part).collect()
            };
            parts(a).cmp(&parts(b))
        }
        (Spot::Text(_), Spot::Pointer(_)) => Ordering::Less,
        (Spot::Pointer(_), Spot::Text(_)) => Ordering::Greater,
    }
}

/// Where lines start, to turn offsets into lines and columns.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    fn place(&self, spot: Spot) -> Place {
        match spot {
            Spot::Pointer(pointer) => Place::Pointer(pointer),
            Spot::Text(span) => {
                let start = floor_boundary(self.text, span.start);
                let line = self.starts.partition_point(|&line| line <= start);
                let line_start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
                let column = self.text[line_start..start].chars().count() + 1;
                Place::Text { span, line, column }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_sort_as_the_numbers_in_them_count() {
        let mut findings = Findings::default();
        for pointer in ["/node/10/id", "/node/9", "/name", "", "/node/10"] {
            findings.error("code", &Spot::Pointer(pointer.to_owned()), "wrong");
        }
        let problems = findings.finish("");
        let places: Vec<String> = problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["/", "/name", "/node/9", "/node/10", "/node/10/id"]);
    }

    #[test]
    fn columns_count_characters_and_a_long_list_is_cut_but_counted() {
        let text = "é = 1\nñandú = 2\n".repeat(60);
        let mut findings = Findings::default();
        for (at, _) in text.match_indices("= 2") {
            findings.error("code", &Spot::Text(at..at + 3), "wrong");
        }
        let problems = findings.finish(&text);
        assert_eq!(problems.iter().next().map(|problem| problem.place.to_string()).as_deref(), Some("2:7"));
        let shown = problems.render("x.toml", &text, false);
        assert!(shown.starts_with("error[code]: wrong\n --> x.toml:2:7\n"), "{shown}");
        assert!(shown.ends_with("\n60 problems in `x.toml`, the first 50 shown\n"), "{shown}");
        assert!(problems.render("x.toml", &text, true).contains("\u{1b}["));
    }

    #[test]
    fn places_that_the_text_does_not_have_do_no_harm() {
        let mut findings = Findings::default();
        findings
            .error("code", &Spot::Text(900..1000), "be\u{1b}[2Jyond")
            .related(&Spot::Text(2..3), "inside é")
            .hint("go back");
        let problems = findings.finish("aé\n");
        assert!(!problems.render("x", "aé\n", false).contains('\u{1b}'));
        assert_eq!(problems.render("x", "", false).matches("go back").count(), 1);
    }
}
