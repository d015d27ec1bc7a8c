//! Are the quotes where they are said to be? Claims are a model's; this is what the runtime finds.

use super::report::{Evidence, QuoteCheck, Report};
use crate::workspace::Places;
use std::io::Read;
use std::path::Path;

/// Lines that a quote may be away from its place and still count as there.
const NEAR: u64 = 3;
/// Bytes of a file that are looked at.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Looks up every piece of evidence in a report, and writes what it found into it. Reads files: not for an async thread.
pub(crate) fn verify(report: &mut Report, places: &Places) {
    for evidence in report.findings.iter_mut().flat_map(|finding| &mut finding.evidence) {
        let place = places.resolve(&evidence.path).ok();
        let text = place.as_ref().and_then(|place| read(&place.path));
        if let Some(place) = place {
            evidence.path = place.shown;
        }
        let check = text.map_or(QuoteCheck::Unverified, |text: String| look_up(evidence, &text));
        evidence.check = Some(check);
    }
}

/// Finds the quote's nearest place in the file's text; corrects the line.
fn look_up(evidence: &mut Evidence, text: &str) -> QuoteCheck {
    let wanted: Vec<&str> = evidence.quote.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if wanted.is_empty() {
        return QuoteCheck::Unverified;
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let found = (0..lines.len()).filter(|at| stands_at(&lines[*at..], &wanted)).map(|at| at as u64 + 1);
    match found.min_by_key(|line| line.abs_diff(evidence.line)) {
        None => QuoteCheck::Unverified,
        Some(line) => {
            let near = line.abs_diff(evidence.line) <= NEAR;
            evidence.line = line;
            if near { QuoteCheck::Verified } else { QuoteCheck::Moved }
        }
    }
}

/// Whether the quoted lines stand at the start of these: the first may begin inside its line, the last may end inside
/// its line, those between are whole. Blank lines of the file in between do not count.
fn stands_at(lines: &[&str], wanted: &[&str]) -> bool {
    let mut lines = lines.iter();
    let Some(first) = lines.next() else { return false };
    if wanted.len() == 1 {
        return first.contains(wanted[0]);
    }
    let mut rest = lines.filter(|line| !line.is_empty());
    let last = wanted.len() - 1;
    first.ends_with(wanted[0])
        && wanted[1..last].iter().all(|line| rest.next().is_some_and(|found| found == line))
        && rest.next().is_some_and(|found| found.starts_with(wanted[last]))
}

fn read(path: &Path) -> Option<String> {
    // A pipe or a device would block or never end.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn main() {\n    let a = 1;\n\n    let b = 2;\n}\n\nfn late() {\n    let a = 1;\n}\n";

    #[test]
    fn a_quote_is_verified_near_its_place_moved_elsewhere_or_unverified() {
        for (quote, line, check, at) in [
            ("let a = 1;", 2, QuoteCheck::Verified, 2),
            ("let a = 1;", 5, QuoteCheck::Verified, 2),
            ("let a = 1;", 7, QuoteCheck::Verified, 8),
            ("let b = 2;", 9, QuoteCheck::Moved, 4),
            ("let a = 1;\n    let b = 2;", 2, QuoteCheck::Verified, 2),
            ("a = 1;\nlet b", 2, QuoteCheck::Verified, 2),
            ("let c = 3;", 2, QuoteCheck::Unverified, 2),
            ("", 2, QuoteCheck::Unverified, 2),
            ("let a = 1;", 9_999, QuoteCheck::Moved, 8),
        ] {
            let mut evidence = Evidence { path: "a.rs".into(), line, quote: quote.into(), check: None };
            assert_eq!(look_up(&mut evidence, TEXT), check, "{quote:?} at {line}");
            assert_eq!(evidence.line, at, "{quote:?} at {line}");
        }
    }
}
