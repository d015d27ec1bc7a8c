//! Did-you-mean, and names listed the way a sentence lists them.

/// The candidate that looks most like `name`, if any looks like it at all.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    // One slip in three characters; two letters are too few to tell what was meant.
    let allowed = (wanted.chars().count() / 3).min(4);
    candidates
        .into_iter()
        // Distance is quadratic in length; names that differ much in length cannot be near.
        .filter(|candidate| candidate.len().abs_diff(wanted.len()) <= allowed * 4)
        .map(|candidate| (strsim::osa_distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `` `a` ``, `` `a` or `b` ``, `` `a`, `b` or `c` ``; long lists end in a count.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 16;
    let names: Vec<&str> = names.into_iter().collect();
    let mut quoted: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        quoted.push(format!("{} more", names.len() - SHOWN));
    }
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_one_slip_away_and_a_far_one_is_not_offered() {
        let ids = ["map", "part", "answer"];
        assert_eq!(nearest("mpa", ids), Some("map"));
        assert_eq!(nearest("anwser", ids), Some("answer"));
        assert_eq!(nearest("Part", ids), Some("part"));
        assert_eq!(nearest("question", ids), None);
        assert_eq!(nearest("b", ["a"]), None);
        assert_eq!(nearest("A", ["a"]), Some("a"));
        assert_eq!(nearest(&"x".repeat(100_000), ids), None);
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(one_of([]), "nothing");
        assert_eq!(one_of(["a"]), "`a`");
        assert_eq!(one_of(["a", "b", "c"]), "`a`, `b` or `c`");
        assert!(one_of(["x"; 24]).ends_with("`x` or 8 more"));
    }
}
