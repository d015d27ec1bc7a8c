//! What is known about models: a data file, and what users say in their config.
//!
//! [`Catalog::info`] answers for any name. What nobody knows stays `None`: such a model works all the same, its cost is
//! counted in tokens alone. `catalog.toml` says how the file is read; its families are checked by a test, so that a
//! mistake in it cannot be released.

mod price;
mod quirks;
#[cfg(test)]
mod tests;

pub use price::{Price, PriceOverride, Rates};
pub use quirks::{ChatTools, EffortStyle, OutputLimit, Quirks, ReasoningEcho, ThinkingStyle};

use indexmap::IndexMap;
use serde::Deserialize;
use std::sync::{Arc, OnceLock};

const DATA: &str = include_str!("../catalog.toml");

/// What is known about all models.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    data: Arc<Data>,
    overrides: IndexMap<String, ModelOverride>,
}

/// What is known about one model. What is `None` is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// Tokens that a request and its reply may have together.
    pub context_window: Option<u64>,
    /// Tokens that a reply may have.
    pub max_output: Option<u32>,
    /// What it costs.
    pub price: Option<Price>,
    /// What is special about it.
    pub quirks: Quirks,
    /// How its provider caches the beginnings of requests; `None` where it does not, or nobody knows.
    pub prefix_cache: Option<PrefixCache>,
}

/// How a provider caches the beginnings of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixCache {
    /// Tokens from which on a beginning is cached.
    pub min_tokens: u64,
    /// Whether requests have to mark what to cache (Anthropic).
    #[serde(default)]
    pub marks: bool,
}

/// What a user says of a model. What is `None` is left to the catalog.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOverride {
    /// Tokens that a request and its reply may have together.
    pub context_window: Option<u64>,
    /// Tokens that a reply may have.
    pub max_output: Option<u32>,
    /// What it costs.
    pub price: Option<PriceOverride>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    /// By provider: the model of a user who has set its key and said nothing else.
    defaults: IndexMap<String, String>,
    /// Providers that serve the models of another under the same names.
    same_as: IndexMap<String, String>,
    family: Vec<Family>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    #[serde(rename = "match")]
    patterns: Vec<String>,
    context_window: Option<u64>,
    max_output: Option<u32>,
    price: Option<Price>,
    prefix_cache: Option<PrefixCache>,
    #[serde(default)]
    quirks: toml::Table,
}

impl Catalog {
    /// What comes with sortie.
    pub fn built_in() -> Self {
        static BUILT_IN: OnceLock<Arc<Data>> = OnceLock::new();
        let data = BUILT_IN.get_or_init(|| Arc::new(toml::from_str(DATA).unwrap_or_default()));
        Catalog { data: Arc::clone(data), overrides: IndexMap::new() }
    }

    /// The same with what a user says, by `provider/model`.
    #[must_use]
    pub fn with(mut self, overrides: impl IntoIterator<Item = (String, ModelOverride)>) -> Self {
        self.overrides.extend(overrides);
        self
    }

    /// What is known about a model, as its provider knows it.
    pub fn info(&self, provider: &str, model: &str) -> ModelInfo {
        let served_by = self.data.same_as.get(provider).map_or(provider, String::as_str);
        let name = format!("{served_by}/{model}");
        let mut families: Vec<(usize, &Family)> =
            self.data.family.iter().filter_map(|family| Some((family.fits(&name)?, family))).collect();
        // The least exact first, so that the others lie over it.
        families.sort_by_key(|(exact, _)| *exact);
        let mut info = ModelInfo::default();
        let mut quirks = toml::Table::new();
        for (_, family) in families {
            info.context_window = family.context_window.or(info.context_window);
            info.max_output = family.max_output.or(info.max_output);
            info.price = family.price.or(info.price);
            info.prefix_cache = family.prefix_cache.or(info.prefix_cache);
            quirks.extend(family.quirks.clone());
        }
        info.quirks = quirks.try_into().unwrap_or_default();
        if let Some(said) = self.overrides.get(&format!("{provider}/{model}")) {
            info.context_window = said.context_window.or(info.context_window);
            info.max_output = said.max_output.or(info.max_output);
            if let Some(price) = said.price {
                info.price = price.over(info.price);
            }
        }
        info
    }

    /// The model, `provider/model`, of a user who has set this provider's key and named none.
    pub fn default_model(&self, provider: &str) -> Option<&str> {
        self.data.defaults.get(provider).map(String::as_str)
    }

    /// Models of a provider that are known by name, in the order of the data file.
    pub fn models<'c>(&'c self, provider: &'c str) -> impl Iterator<Item = &'c str> {
        let served_by = self.data.same_as.get(provider).map_or(provider, String::as_str);
        let patterns = self.data.family.iter().flat_map(|family| &family.patterns);
        patterns.filter_map(move |pattern| {
            let model = pattern.strip_prefix(served_by)?.strip_prefix('/')?;
            (!model.ends_with('*')).then_some(model)
        })
    }
}

impl Family {
    /// How exactly this family is meant by the name; `None` if it is not.
    fn fits(&self, name: &str) -> Option<usize> {
        self.patterns.iter().filter(|pattern| fits(pattern, name)).map(String::len).max()
    }
}

/// Whether a pattern means a name: its beginning where the pattern ends in `*`, else all of it but a date.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name.strip_prefix(pattern).is_some_and(is_snapshot),
    }
}

/// Whether this ends a model's name without making it another model: nothing, `-latest`, `-20251001`, `-2025-10-01`.
fn is_snapshot(rest: &str) -> bool {
    let Some(tag) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    tag == "latest" || (tag.len() >= 8 && tag.chars().all(|c| c.is_ascii_digit() || c == '-'))
}
