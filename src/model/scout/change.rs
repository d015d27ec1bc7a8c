//! Tells tasks that ask for a change from those that ask for knowledge. Pure.

/// Verbs that, at the start of a sentence, ask for a change.
const VERBS: &str = "add adjust apply bump change clean cleanup convert correct create delete deprecate drop edit extend \
    extract fix format implement improve inline insert integrate introduce make merge migrate modify move optimise \
    optimize patch port refactor reformat remove rename reorganise reorganize replace restructure revert rewrite simplify \
    split switch unify update upgrade write";
/// What may stand before the verb.
const POLITE: &str = "please can could would will you we i want need to now then also just kindly let's lets should must \
    have go ahead and help me us";
/// Things that are written without changing the code.
const TEXTS: &str = "summary report overview description explanation list map table answer account outline inventory";

/// Whether a task asks scout to change something.
pub(super) fn asks_for_change(task: &str) -> bool {
    task.split_inclusive(['.', '!', '?', '\n', ';']).any(sentence_asks)
}

fn sentence_asks(sentence: &str) -> bool {
    let mut polite = false;
    let words: Vec<String> = sentence
        .split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut rest = words.as_slice();
    while let [first, after @ ..] = rest {
        if !has(POLITE, first) {
            break;
        }
        polite = true;
        rest = after;
    }
    let [verb, object @ ..] = rest else { return false };
    // A question is about something, unless it is a polite way to ask for it.
    let question = sentence.trim_end().ends_with('?') && !polite;
    let text = object.iter().take(4).any(|word| has(TEXTS, word))
        && ["write", "create", "make", "add"].contains(&verb.as_str());
    has(VERBS, verb) && !object.is_empty() && !question && !text
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_from_questions() {
        for task in [
            "Rename `foo` to `bar`",
            "please refactor the parser",
            "Could you fix the race in the queue?",
            "Look at src/a.rs. Then delete the unused code.",
            "Write a function that adds",
            "we need to add a retry",
        ] {
            assert!(asks_for_change(task), "{task}");
        }
        for task in [
            "where is cancellation handled?",
            "How does it rename a column?",
            "Write a summary of the parser",
            "Change detection: where is it?",
            "List what would break",
            "Which code removes the header?",
            "",
            "add",
            "?!.",
            "Answer from the reports",
            "Move semantics?",
        ] {
            assert!(!asks_for_change(task), "{task}");
        }
    }
}
