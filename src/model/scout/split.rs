//! Splits a tree into parts of similar size, from what `list_files` shows of it. Pure.

use std::collections::BTreeMap;

/// Parts at most.
pub(super) const MAX_PARTS: usize = 8;
/// Paths that [`single`] gives at most, and children that it takes a folder apart into.
const MAX_SINGLE: usize = 12;
const MAX_CHILDREN: usize = 40;
/// Files that a part should have before there is another one.
const WORTH_A_PART: usize = 6;

/// What a listing shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Files, or folders with the number of files in them that no other row counts.
    pub(super) rows: Vec<(String, usize)>,
    /// Whether the rows are folders.
    pub(super) by_folder: bool,
}

impl Listing {
    /// Reads the result of `list_files`.
    pub(super) fn parse(text: &str) -> Self {
        let mut listing = Listing::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            // A path may begin with a bracket; only the closing line also counts files.
            if line.starts_with('[') && line.contains("file") {
                continue;
            }
            match line.rsplit_once("/  ") {
                Some((folder, rest)) => {
                    let count = rest.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(1);
                    listing.rows.push((folder.to_string(), count));
                    listing.by_folder = true;
                }
                None => listing.rows.push((line.to_string(), 1)),
            }
        }
        listing
    }

    /// How many files there are.
    pub(super) fn files(&self) -> usize {
        self.rows.iter().map(|(_, count)| count).sum()
    }

    /// Folders of which the listing counts only the files directly in them: others below have rows of their own.
    pub(super) fn shallow(&self) -> Vec<String> {
        let folders = self.rows.iter().filter(|_| self.by_folder);
        let holds_another =
            |path: &str| self.rows.iter().any(|(other, _)| path == "." && other != "." || below(other, path));
        folders.filter(|(path, _)| holds_another(path)).map(|(path, _)| path.clone()).collect()
    }

    /// Puts the files of a folder in the place of its row.
    pub(super) fn expand(&mut self, folder: &str, files: &Listing) {
        let direct = |path: &str| match folder {
            "." => !path.contains('/'),
            _ => path
                .strip_prefix(folder)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| !rest.contains('/')),
        };
        let found: Vec<_> = files.rows.iter().filter(|(path, _)| direct(path)).cloned().collect();
        if !files.by_folder && !found.is_empty() {
            self.rows.retain(|(path, _)| path != folder);
            self.rows.extend(found);
            self.rows.sort();
        }
    }
}

fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Parts of similar size that cover every row of a listing, each a list of paths. One part when the tree is small.
pub(super) fn parts(listing: &Listing, wanted: usize) -> Vec<Vec<String>> {
    let wanted = worth(listing, wanted);
    if wanted == 0 {
        return Vec::new();
    }
    let units = units(listing, wanted, wanted, usize::MAX);
    pack(&units, wanted.min(units.len()))
}

/// How many parts a tree is worth: at least three, where there are so many files.
fn worth(listing: &Listing, wanted: usize) -> usize {
    let files = listing.files();
    wanted.min((files / WORTH_A_PART).max(3)).min(files)
}

/// Paths of which each stands for a part of its own, sorted; together they hold all but small files beside large folders.
pub(super) fn single(listing: &Listing, wanted: usize) -> Vec<String> {
    let wanted = worth(listing, wanted);
    // A folder of very many small ones (a test suite) is one part: there is no path for some of its children.
    let mut units = units(listing, wanted, wanted.min(3), MAX_CHILDREN);
    units.sort_by_key(|unit| std::cmp::Reverse(unit.files));
    units.truncate(MAX_SINGLE);
    let mut paths: Vec<String> = units.into_iter().map(|unit| unit.path).collect();
    paths.sort();
    paths
}

/// Folders and files of which none is much larger than one of the `wanted` parts, `enough` of them where there are. One
/// with more children than `max_children` is not taken apart.
fn units(listing: &Listing, wanted: usize, enough: usize, max_children: usize) -> Vec<Unit> {
    let files = listing.files();
    let rows: BTreeMap<&str, usize> = listing.rows.iter().map(|(path, count)| (path.as_str(), *count)).collect();
    let mut units = children(".", &rows);
    // Take the largest folder apart until no unit is much larger than a part and there are enough to choose from.
    while let Some(at) = largest(&units, &rows, max_children) {
        let large = units[at].files * wanted > files;
        if !large && units.len() >= enough {
            break;
        }
        let unit = units.remove(at);
        units.extend(children(&unit.path, &rows));
    }
    units.sort_by(|a, b| a.path.cmp(&b.path));
    units
}

struct Unit {
    path: String,
    files: usize,
    /// It stands for all that is below its path.
    whole: bool,
}

/// The largest unit that can be taken apart.
fn largest(units: &[Unit], rows: &BTreeMap<&str, usize>, max_children: usize) -> Option<usize> {
    let divisible = |unit: &&(usize, &Unit)| {
        let inner = if unit.1.whole && unit.1.files > 1 { children(&unit.1.path, rows).len() } else { 0 };
        inner > usize::from(!single_folder(&unit.1.path, rows)) && inner <= max_children
    };
    units
        .iter()
        .enumerate()
        .collect::<Vec<_>>()
        .iter()
        .filter(divisible)
        .max_by_key(|(at, unit)| (unit.files, std::cmp::Reverse(*at)))
        .map(|(at, _)| *at)
}

/// A folder whose only content is another folder can be replaced by that.
fn single_folder(path: &str, rows: &BTreeMap<&str, usize>) -> bool {
    let inner = children(path, rows);
    inner.len() == 1 && inner.first().is_some_and(|unit| unit.whole && unit.path != path)
}

/// What is directly below a path, as units; the path's own row stays a unit of its own.
fn children(path: &str, rows: &BTreeMap<&str, usize>) -> Vec<Unit> {
    let mut units: BTreeMap<String, Unit> = BTreeMap::new();
    for (row, count) in rows {
        let rest = match path {
            "." => Some(*row).filter(|row| *row != "."),
            _ => row.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')),
        };
        let (child, whole) = match rest {
            Some(rest) => {
                let name = rest.split('/').next().unwrap_or(rest);
                let child = if path == "." { name.to_string() } else { format!("{path}/{name}") };
                let whole = child != *row || rows.keys().any(|other| below(other, row));
                (child, whole)
            }
            None if *row == path => (path.to_string(), false),
            None => continue,
        };
        let unit = units.entry(child.clone()).or_insert(Unit { path: child, files: 0, whole });
        unit.files += count;
        unit.whole |= whole;
    }
    units.into_values().collect()
}

/// Puts neighbours together so that the parts are about equal.
fn pack(units: &[Unit], wanted: usize) -> Vec<Vec<String>> {
    let mut left: usize = units.iter().map(|unit| unit.files).sum();
    let mut parts: Vec<Vec<String>> = Vec::new();
    let mut part: Vec<String> = Vec::new();
    let mut size = 0;
    for (at, unit) in units.iter().enumerate() {
        let open = wanted.saturating_sub(parts.len()).max(1);
        let target = left.div_ceil(open);
        // Close before a unit that would overshoot more than closing now undershoots, and when the rest is needed.
        let over = (size + unit.files).saturating_sub(target);
        let under = target.saturating_sub(size);
        let needed = units.len() - at < open;
        if !part.is_empty() && parts.len() + 1 < wanted && (over > under || needed) {
            left -= size;
            parts.push(std::mem::take(&mut part));
            size = 0;
        }
        part.push(unit.path.clone());
        size += unit.files;
        let open = wanted.saturating_sub(parts.len()).max(1);
        if size >= left.div_ceil(open) && parts.len() + 1 < wanted {
            left -= size;
            parts.push(std::mem::take(&mut part));
            size = 0;
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(rows: &[&str], parts: &[Vec<String>]) {
        for row in rows {
            let held = parts.iter().flatten().filter(|path| *path == row || below(row, path) || *path == ".").count();
            assert_eq!(held, 1, "{row} in {parts:?}");
        }
    }

    #[test]
    fn parts_cover_every_file_once_and_are_of_similar_size() {
        let rows: Vec<String> =
            (0..60).map(|at| format!("src/{}/f{at}.rs", ["a", "b", "c/d", "c/e"][at % 4])).collect();
        let mut all: Vec<&str> = rows.iter().map(String::as_str).collect();
        all.extend(["Cargo.toml", "src/lib.rs"]);
        let listing = Listing { rows: all.iter().map(|row| (row.to_string(), 1)).collect(), by_folder: false };
        for wanted in 3..=MAX_PARTS {
            let parts = parts(&listing, wanted);
            assert!(parts.len() >= 3 && parts.len() <= wanted, "{wanted}: {parts:?}");
            covers(&all, &parts);
        }
    }

    #[test]
    fn single_paths_exist_and_leave_out_only_what_is_small() {
        let mut rows: Vec<(String, usize)> = (0..200).map(|at| (format!("tests/t{at}/x.py"), 1)).collect();
        rows.extend((0..90).map(|at| (format!("app/{}/f{at}.py", ["db", "http", "views"][at % 3]), 1)));
        rows.push(("setup.py".to_string(), 1));
        let paths = single(&Listing { rows, by_folder: false }, MAX_PARTS);
        assert_eq!(paths, ["app/db", "app/http", "app/views", "setup.py", "tests"]);
    }

    #[test]
    fn a_summary_by_folder_is_split_too() {
        let listing = Listing::parse(
            "a/  2 files, 1 KiB\na/x/  300 files, 9 KiB\na/y/  200 files, 9 KiB\nb/  90 files, 3 KiB\n[592 files, 1 MiB; too many]",
        );
        assert_eq!(listing.files(), 592);
        assert_eq!(listing.shallow(), ["a"]);
        let found = parts(&listing, 8);
        assert!(found.len() >= 3, "{found:?}");
    }

    #[test]
    fn small_and_empty_trees() {
        assert_eq!(parts(&Listing::parse("[0 files]"), 8), Vec::<Vec<String>>::new());
        assert_eq!(parts(&Listing::parse("a.rs\n[1 file, 3 B]"), 8), [["a.rs"]]);
        assert_eq!(parts(&Listing::parse("a.rs\nb.rs\n[2 files, 3 B]"), 8).len(), 2);
    }

    #[test]
    fn files_take_the_place_of_a_shallow_row() {
        let mut listing = Listing::parse("a/  2 files, 1 KiB\na/x/  300 files, 9 KiB\n[302 files, 1 MiB]");
        listing.expand("a", &Listing::parse("a/m.rs\na/n.rs\na/x/o.rs\n[3 files, 1 B]"));
        assert_eq!(listing.rows.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["a/m.rs", "a/n.rs", "a/x"]);
    }
}
