//! Reading the fields of one table: known keys, expected types, and what to say when it is something else.

use super::diag::Findings;
use super::source::{Entry, Placed, Shape, Spot};
use super::suggest::{nearest, one_of};
use std::time::Duration;

/// Keys that a later version of the format brings, at any level.
const LATER: [&str; 16] = [
    "approval",
    "plan",
    "when",
    "until",
    "max",
    "join",
    "pool",
    "pools",
    "retries",
    "budget",
    "hedge",
    "accept",
    "phase",
    "writes",
    "isolation",
    "verify",
];

/// What people and models write for a key of ours when they think of another tool.
const SYNONYMS: [(&str, &str); 19] = [
    ("depends_on", "needs"),
    ("dependencies", "needs"),
    ("deps", "needs"),
    ("requires", "needs"),
    ("after", "needs"),
    ("instructions", "prompt"),
    ("task", "prompt"),
    ("run", "command"),
    ("cmd", "command"),
    ("shell", "command"),
    ("agent", "role"),
    ("profile", "role"),
    ("schema", "output"),
    ("output_schema", "output"),
    ("max_turns", "turns"),
    ("for_each", "foreach"),
    ("tasks", "node"),
    ("nodes", "node"),
    ("steps", "node"),
];

/// No node may take longer: a number that large is a slip, and clocks must be able to add it.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Keys that are not ours, and what to say about them.
pub(crate) struct Words {
    /// What a later version brings, at any level.
    pub(crate) later: &'static [&'static str],
    /// What people write when they think of another tool, with the key of ours.
    pub(crate) synonyms: &'static [(&'static str, &'static str)],
}

/// Those of plans.
const OF_PLANS: Words = Words { later: &LATER, synonyms: &SYNONYMS };

/// The fields of one table.
pub(crate) struct Fields<'a> {
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// The fields of a plan's table whose keys must be `known`; `of` names the table: "a node".
    pub(crate) fn new(value: &'a Placed, of: &str, known: &[&str], findings: &mut Findings) -> Option<Self> {
        Fields::with(value, of, known, &OF_PLANS, findings)
    }

    /// The same in another kind of file.
    pub(crate) fn with(
        value: &'a Placed,
        of: &str,
        known: &[&str],
        words: &Words,
        findings: &mut Findings,
    ) -> Option<Self> {
        let Shape::Table(entries) = &value.shape else {
            findings.error("wrong-type", &value.spot, format!("{of} must be a table, not {}", value.describe()));
            return None;
        };
        for entry in entries {
            if !known.contains(&entry.key.as_str()) {
                unknown_key(entry, of, known, words, findings);
            }
        }
        Some(Fields { entries })
    }

    /// The value of a key. JSON's null means that the key is not there.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Placed> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The key with its value.
    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key && !matches!(entry.value.shape, Shape::Null))
    }

    pub(crate) fn text(&self, key: &str, findings: &mut Findings) -> Option<String> {
        text(key, self.get(key)?, findings)
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn count(&self, key: &str, most: u64, findings: &mut Findings) -> Option<u64> {
        let value = self.get(key)?;
        let Shape::Number(number) = &value.shape else {
            wrong_type(key, "a whole number of at least 1", value, findings);
            return None;
        };
        match number.as_u64() {
            Some(count) if (1..=most).contains(&count) => Some(count),
            Some(0) => {
                let message = format!("`{key}` is 0: nothing could ever run");
                findings.error("cap-of-zero", &value.spot, message).hint(format!("leave `{key}` out for the default"));
                None
            }
            Some(_) => {
                findings.error("bad-number", &value.spot, format!("`{key}` is at most {most}, not `{number}`"));
                None
            }
            None if number.as_i64().is_some() => {
                let message = format!("`{key}` is negative: `{number}`");
                findings.error("cap-of-zero", &value.spot, message).hint(format!("leave `{key}` out for the default"));
                None
            }
            None => {
                wrong_type(key, "a whole number of at least 1", value, findings);
                None
            }
        }
    }

    /// A duration such as `"10m"`.
    pub(crate) fn duration(&self, key: &str, findings: &mut Findings) -> Option<Duration> {
        let value = self.get(key)?;
        let example = "write a number with its unit: `\"90s\"`, `\"10m\"`, `\"1h 30m\"`";
        let Shape::Text(text) = &value.shape else {
            wrong_type(key, "a duration in quotes", value, findings).hint(example);
            return None;
        };
        match humantime::parse_duration(text.trim()) {
            Ok(Duration::ZERO) => {
                let message = format!("`{key}` is 0: nothing could ever run");
                findings.error("cap-of-zero", &value.spot, message).hint(format!("leave `{key}` out for the default"));
                None
            }
            Ok(duration) if duration > MAX_TIMEOUT => {
                findings.error("bad-duration", &value.spot, format!("`{key}` is over a year: `{text}`")).hint(example);
                None
            }
            Ok(duration) => Some(duration),
            Err(_) => {
                let message = format!("`{key}` is not a duration: {}", value.describe());
                findings.error("bad-duration", &value.spot, message).hint(example);
                None
            }
        }
    }

    /// Texts with their places, without repeats; one text alone is a list of one.
    pub(crate) fn texts(&self, key: &str, of: &str, findings: &mut Findings) -> Option<Vec<(String, Spot)>> {
        let value = self.get(key)?;
        let items = match &value.shape {
            Shape::Text(text) => return Some(vec![(text.clone(), value.spot.clone())]),
            Shape::List(items) => items,
            Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Date(_) | Shape::Table(_) => {
                wrong_type(key, &format!("a list of {of}"), value, findings);
                return None;
            }
        };
        let mut seen = std::collections::HashSet::new();
        let mut texts = Vec::new();
        for item in items {
            match &item.shape {
                Shape::Text(text) if seen.insert(text) => texts.push((text.clone(), item.spot.clone())),
                Shape::Text(_) => {}
                Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Date(_) | Shape::List(_) | Shape::Table(_) => {
                    let message = format!("`{key}` must hold {of}, not {}", item.describe());
                    findings.error("wrong-type", &item.spot, message);
                }
            }
        }
        Some(texts)
    }
}

/// A value that must be text.
pub(crate) fn text(key: &str, value: &Placed, findings: &mut Findings) -> Option<String> {
    match &value.shape {
        Shape::Text(text) => Some(text.clone()),
        Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Date(_) | Shape::List(_) | Shape::Table(_) => {
            wrong_type(key, "text", value, findings);
            None
        }
    }
}

/// Says which type was expected and what is there instead.
pub(crate) fn wrong_type<'f>(
    key: &str,
    expected: &str,
    value: &Placed,
    findings: &'f mut Findings,
) -> &'f mut super::diag::Finding {
    let message = format!("`{key}` must be {expected}, not {}", value.describe());
    findings.error("wrong-type", &value.spot, message)
}

fn unknown_key(entry: &Entry, of: &str, known: &[&str], words: &Words, findings: &mut Findings) {
    let key = entry.key.as_str();
    if words.later.contains(&key) {
        let message = format!("`{key}` is not supported by this version yet");
        findings.error("not-supported-yet", &entry.key_spot, message).hint("remove it for now");
        return;
    }
    let synonym = words.synonyms.iter().find(|(theirs, ours)| *theirs == key && known.contains(ours));
    let meant = synonym.map(|(_, ours)| *ours).or_else(|| nearest(key, known.iter().copied()));
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("{of} takes {}", listed(known)),
    };
    let shown = crate::text::clip(key, 60);
    findings.error("unknown-key", &entry.key_spot, format!("{of} has no key `{shown}`")).hint(hint);
}

fn listed(known: &[&str]) -> String {
    one_of(known.iter().copied()).replace(" or ", " and ")
}
