//! Are the quotes where they are said to be? Claims are a model's; this is what the runtime finds.

use super::report::{Evidence, QuoteCheck, Report};
use crate::workspace::{Opened, Place, Places};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

/// Lines that a quote may be away from its place and still count as there.
const NEAR: u64 = 3;
/// Bytes of a file that are looked at.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Looks up every piece of evidence in a report, and writes what it found into it. Each file is read once, and one at a
/// time is held. Reads files: not for an async thread.
pub(crate) fn verify(report: &mut Report, places: &Places) {
    let mut by_file: BTreeMap<PathBuf, (Place, Vec<&mut Evidence>)> = BTreeMap::new();
    for evidence in report.findings.iter_mut().flat_map(|finding| &mut finding.evidence) {
        evidence.check = Some(QuoteCheck::Unverified);
        if let Ok(place) = places.resolve(&evidence.path) {
            evidence.path.clone_from(&place.shown);
            by_file.entry(place.path.clone()).or_insert_with(|| (place, Vec::new())).1.push(evidence);
        }
    }
    for (place, pieces) in by_file.into_values() {
        let Some(text) = read(&place) else { continue };
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for evidence in pieces {
            evidence.check = Some(look_up(evidence, &lines));
        }
    }
}

/// Finds the quote's nearest place among the file's trimmed lines; corrects the line.
fn look_up(evidence: &mut Evidence, lines: &[&str]) -> QuoteCheck {
    let wanted: Vec<&str> = evidence.quote.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if wanted.is_empty() {
        return QuoteCheck::Unverified;
    }
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

fn read(place: &Place) -> Option<String> {
    let Opened::File(file, _) = place.open().ok()? else { return None };
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn main() {\n    let a = 1;\n\n    let b = 2;\n}\n\nfn late() {\n    let a = 1;\n}\n";

    #[test]
    fn a_quote_is_verified_near_its_place_moved_elsewhere_or_unverified() {
        let lines: Vec<&str> = TEXT.lines().map(str::trim).collect();
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
            assert_eq!(look_up(&mut evidence, &lines), check, "{quote:?} at {line}");
            assert_eq!(evidence.line, at, "{quote:?} at {line}");
        }
    }
}
