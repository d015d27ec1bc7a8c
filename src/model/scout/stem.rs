//! Stems of English words: `cancel`, `cancelled` and `cancellation` are one.

use rust_stemmers::{Algorithm, Stemmer};
use std::sync::LazyLock;

static ENGLISH: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// The stem of a word in lower case.
pub(super) fn stem(word: &str) -> String {
    ENGLISH.stem(word).into_owned()
}
