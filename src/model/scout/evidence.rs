//! Evidence in the reports of others: `src/a.rs:12: "text"`. Pure.

/// A place that a report names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Relative to the workspace.
    pub(super) path: String,
    /// From 1.
    pub(super) line: u64,
}

/// The place that a line begins with, if it is a line of evidence.
pub(super) fn parse(line: &str) -> Option<Place> {
    let line = line.trim_start().trim_start_matches("- ");
    // A path may hold colons: the first one before a number counts.
    let (at, _) = line.match_indices(':').find(|(at, _)| number(line, *at).is_some())?;
    let path = line.get(..at)?.trim_matches('`');
    let usable = !path.is_empty() && !path.contains(": ") && !path.starts_with(['#', '[']) && looks_like_path(path);
    usable.then(|| Place { path: path.to_string(), line: number(line, at).unwrap_or(1) })
}

/// Files that reports name as evidence, in order, each once, with the name of the node that named it.
pub(super) fn places(reports: &str) -> Vec<(String, Place)> {
    let mut node = String::new();
    let mut found: Vec<(String, Place)> = Vec::new();
    for line in reports.lines() {
        if let Some(heading) = heading(line) {
            node = heading.to_string();
        } else if let Some(place) = parse(line)
            && !found.iter().any(|(by, known)| known.path == place.path && *by == node)
        {
            found.push((node.clone(), place));
        }
    }
    found
}

/// The nodes that have a section in the reports.
pub(super) fn nodes(reports: &str) -> Vec<String> {
    reports.lines().filter_map(heading).map(str::to_string).collect()
}

/// `## part[2]: succeeded` is the heading of `part[2]`.
fn heading(line: &str) -> Option<&str> {
    let (node, _) = line.strip_prefix("## ")?.rsplit_once(": ")?;
    Some(node.trim_matches('`'))
}

fn number(line: &str, colon: usize) -> Option<u64> {
    let digits: String = line.get(colon + 1..)?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|number| *number > 0)
}

/// Evidence stands alone in its line: no words before it.
fn looks_like_path(path: &str) -> bool {
    path.contains(['/', '.']) || !path.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_evidence_are_told_from_words() {
        let table = [
            ("  src/a.rs:12: \"fn x\"", Some(("src/a.rs", 12))),
            ("- `a b/c.py:3`", Some(("a b/c.py", 3))),
            ("Makefile:1", Some(("Makefile", 1))),
            ("Summary: most likely here", None),
            ("at 12:30 it stopped", None),
            (":3", None),
            ("a.rs:0", None),
            ("", None),
        ];
        for (line, wanted) in table {
            let found = parse(line);
            assert_eq!(found.as_ref().map(|place| (place.path.as_str(), place.line)), wanted, "{line}");
        }
    }

    #[test]
    fn each_file_of_a_node_counts_once() {
        let text = "## a[0]: succeeded\n- c [high]\n  x.rs:1: \"q\"\n  x.rs:9\n## b: partial\n  x.rs:2\n";
        let found = places(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, "a[0]");
        assert_eq!(nodes(text), ["a[0]", "b"]);
    }
}
