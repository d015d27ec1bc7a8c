//! The data file is whole, and what is asked is found.

use super::*;
use crate::model::{Cost, Usage};
use std::collections::HashSet;

fn data() -> Data {
    toml::from_str(DATA).unwrap()
}

#[test]
fn the_data_file_can_be_read_and_names_nothing_twice() {
    let mut said = HashSet::new();
    for family in &data().family {
        let quirks: Result<Quirks, _> = family.quirks.clone().try_into();
        assert!(quirks.is_ok(), "{:?}: {quirks:?}", family.patterns);
        let mut says: Vec<String> = family.quirks.keys().cloned().collect();
        let named = [
            ("window", family.context_window.is_some()),
            ("output", family.max_output.is_some()),
            ("price", family.price.is_some()),
            ("cache", family.prefix_cache.is_some()),
        ];
        says.extend(named.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name.to_string()));
        assert!(!family.patterns.is_empty() && !says.is_empty(), "{:?} says nothing", family.patterns);
        for pattern in &family.patterns {
            assert_eq!(pattern.matches('*').count(), usize::from(pattern.ends_with('*')), "{pattern}");
            let (provider, model) = pattern.split_once('/').unwrap();
            assert!(!provider.is_empty() && !model.is_empty() && !data().same_as.contains_key(provider), "{pattern}");
            assert!(family.price.is_none() || !pattern.ends_with('*'), "{pattern}: a price for what nobody knows yet");
            for what in &says {
                assert!(said.insert((pattern.clone(), what.clone())), "{pattern} says its {what} twice");
            }
        }
    }
    let priced = said.iter().filter(|(_, what)| what == "price").count();
    assert!(priced > 40, "{priced}");
}

#[test]
fn every_price_is_plausible() {
    for family in data().family {
        let Some(Price { rates, long }) = family.price else { continue };
        for rates in [Some(rates), long.map(|(_, rates)| rates)].into_iter().flatten() {
            let Rates { input, cache_read, cache_write, output } = rates;
            let wanted = cache_read <= input && input <= cache_write && cache_write <= 2.0 * input && input < output;
            assert!(wanted && output < 200.0, "{:?}: {rates:?}", family.patterns);
        }
        if let Some((over, long)) = long {
            assert!(over >= 100_000 && long.input > rates.input, "{:?}", family.patterns);
        }
    }
}

#[test]
fn the_default_models_are_known_models() {
    let catalog = Catalog::built_in();
    for provider in ["anthropic", "openai"] {
        let (provider, model) = catalog.default_model(provider).unwrap().split_once('/').unwrap();
        let info = catalog.info(provider, model);
        assert!(info.price.is_some() && info.context_window.is_some() && info.max_output.is_some(), "{model}");
        assert!(catalog.models(provider).any(|known| known == model), "{model}");
    }
    assert_eq!(catalog.default_model("ollama"), None);
}

#[test]
fn the_most_exact_family_says_what_it_says_and_leaves_the_rest_to_others() {
    let catalog = Catalog::built_in();
    let known = |provider: &str, model: &str| {
        let info = catalog.info(provider, model);
        (
            info.context_window,
            info.price.map(|price| price.rates.input),
            info.prefix_cache.map(|cache| cache.min_tokens),
        )
    };
    assert_eq!(known("anthropic", "claude-opus-5"), (Some(1_000_000), Some(5.0), Some(512)));
    assert_eq!(known("anthropic", "claude-opus-5-5"), (Some(1_000_000), Some(4.0), Some(4096)));
    assert_eq!(known("anthropic", "claude-haiku-4-5-20251001"), (Some(200_000), Some(1.0), Some(4096)));
    assert_eq!(known("anthropic", "claude-opus-5-9"), (Some(1_000_000), None, Some(4096)), "no other model's price");
    assert_eq!(known("anthropic", "gpt-6-sol"), (None, None, None));
    assert_eq!(known("openrouter", "anthropic/claude-opus-5.5"), (None, Some(4.0), None));
    assert_eq!(known("acme", "whatever"), (None, None, None));
    assert_eq!(catalog.info("acme", "whatever").quirks, Quirks::default());
    assert_eq!(catalog.info("openai-responses", "gpt-6-sol"), catalog.info("openai", "gpt-6-sol"));
}

#[test]
fn quirks_of_provider_and_model_come_together() {
    let quirks = |provider: &str, model: &str| Catalog::built_in().info(provider, model).quirks;
    let gpt = quirks("openai", "gpt-6-luna");
    assert_eq!((gpt.output_limit, gpt.chat_tools), (OutputLimit::MaxCompletionTokens, ChatTools::WithoutReasoning));
    assert_eq!(quirks("openai", "gpt-6.2-sol").chat_tools, ChatTools::No);
    assert_eq!(quirks("openai", "gpt-5.4-mini").chat_tools, ChatTools::WithoutEffort);
    let kimi = quirks("moonshot", "kimi-k2.6");
    assert_eq!((kimi.effort, kimi.reasoning), (EffortStyle::ThinkingKept, ReasoningEcho::Required));
    assert_eq!(quirks("openrouter", "moonshotai/kimi-k3").effort, EffortStyle::Reasoning, "its own protocol counts");
    assert_eq!(quirks("anthropic", "claude-opus-5-5").thinking, ThinkingStyle::Adaptive);
    assert_eq!(quirks("anthropic", "claude-haiku-4-5").thinking, ThinkingStyle::Budget);
}

#[test]
fn what_users_say_lies_over_all_of_it() {
    let config = r#"
        ["anthropic/claude-opus-5-5"]
        max_output = 1000
        price = { output = 30 }
        ["acme/x"]
        context_window = 8192
        price = { input = 1, output = 2 }
    "#;
    let overrides: IndexMap<String, ModelOverride> = toml::from_str(config).unwrap();
    let catalog = Catalog::built_in().with(overrides);
    let info = catalog.info("anthropic", "claude-opus-5-5");
    assert_eq!((info.max_output, info.context_window), (Some(1000), Some(1_000_000)));
    let usage = Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() };
    assert_eq!(info.price.unwrap().cost(&usage), Cost(34_000_000_000));
    let info = catalog.info("acme", "x");
    assert_eq!((info.context_window, info.price.unwrap().cost(&usage)), (Some(8192), Cost(3_000_000_000)));
    assert!(toml::from_str::<ModelOverride>("colour = 1").is_err());
}

#[test]
fn a_name_means_itself_and_its_snapshots() {
    for (pattern, name, wanted) in [
        ("p/m", "p/m", true),
        ("p/m", "p/m-20251001", true),
        ("p/m", "p/m-2025-10-01", true),
        ("p/m", "p/m@20251001", true),
        ("p/m", "p/m-latest", true),
        ("p/m", "p/m-mini", false),
        ("p/m", "p/m-5", false),
        ("p/m", "p/m.5", false),
        ("p/m", "q/m", false),
        ("p/m*", "p/m.5-mini", true),
        ("p/*", "p/anything/at/all", true),
    ] {
        assert_eq!(fits(pattern, name), wanted, "{pattern} {name}");
    }
}
