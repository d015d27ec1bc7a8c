//! What tokens cost.

use crate::model::{Cost, Usage};
use serde::Deserialize;

/// Dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Input that was in no cache.
    pub input: f64,
    /// Input read from the provider's cache.
    pub cache_read: f64,
    /// Input written to it.
    pub cache_write: f64,
    /// Output, reasoning included.
    pub output: f64,
}

/// What a model costs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Spec")]
pub struct Price {
    /// As a rule.
    pub rates: Rates,
    /// For all tokens of a call whose input has more tokens than this, where long calls cost more.
    pub long: Option<(u64, Rates)>,
}

impl Price {
    /// The price of one call.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let input = usage.input + usage.cache_read + usage.cache_write;
        let rates = match self.long {
            Some((over, rates)) if input > over => rates,
            Some(_) | None => self.rates,
        };
        let dollars_per_million = [
            (usage.input, rates.input),
            (usage.cache_read, rates.cache_read),
            (usage.cache_write, rates.cache_write),
            (usage.output, rates.output),
        ];
        let sum: f64 = dollars_per_million.iter().map(|(tokens, rate)| *tokens as f64 * rate).sum();
        // A dollar per million tokens is a thousand billionths per token. The cast saturates.
        Cost((sum * 1000.0).round() as u64)
    }
}

/// A price as it is written down: cached input costs what input costs where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PriceOverride {
    /// Input that was in no cache.
    pub input: Option<f64>,
    /// Input read from the provider's cache.
    pub cache_read: Option<f64>,
    /// Input written to it.
    pub cache_write: Option<f64>,
    /// Output, reasoning included.
    pub output: Option<f64>,
}

impl PriceOverride {
    /// This price, and `known` where it says nothing. A user's price has no other one for long calls. `None` while
    /// input or output are not known.
    pub(super) fn over(&self, known: Option<Price>) -> Option<Price> {
        let known = known.map(|price| price.rates);
        let input = self.input.or(known.map(|rates| rates.input))?;
        let output = self.output.or(known.map(|rates| rates.output))?;
        // A new price for input makes a known one for cached input meaningless.
        let known = known.filter(|_| self.input.is_none());
        let cache_read = self.cache_read.or(known.map(|rates| rates.cache_read)).unwrap_or(input);
        let cache_write = self.cache_write.or(known.map(|rates| rates.cache_write)).unwrap_or(input);
        Some(Price { rates: Rates { input, cache_read, cache_write, output }, long: None })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    input: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    output: f64,
    long: Option<LongSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongSpec {
    over: u64,
    input: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    output: f64,
}

impl TryFrom<Spec> for Price {
    type Error = String;

    fn try_from(spec: Spec) -> Result<Self, String> {
        let rates = rates(spec.input, spec.cache_read, spec.cache_write, spec.output)?;
        let long = match spec.long {
            None => None,
            Some(long) => Some((long.over, self::rates(long.input, long.cache_read, long.cache_write, long.output)?)),
        };
        Ok(Price { rates, long })
    }
}

fn rates(input: f64, cache_read: Option<f64>, cache_write: Option<f64>, output: f64) -> Result<Rates, String> {
    let rates =
        Rates { input, cache_read: cache_read.unwrap_or(input), cache_write: cache_write.unwrap_or(input), output };
    let all = [rates.input, rates.cache_read, rates.cache_write, rates.output];
    if all.iter().all(|rate| rate.is_finite() && *rate >= 0.0) {
        Ok(rates)
    } else {
        Err("a price is a number of dollars from 0".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(text: &str) -> Price {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_call_costs_its_tokens_by_kind() {
        let price = price("input = 4\ncache_read = 0.2\ncache_write = 5\noutput = 20");
        let usage = Usage { input: 1_000, cache_read: 10_000, cache_write: 2_000, output: 500, reasoning: 400 };
        // 0.004 + 0.002 + 0.01 + 0.01 dollars; reasoning is part of the output.
        assert_eq!(price.cost(&usage), Cost(26_000_000));
        assert_eq!(price.cost(&Usage::default()), Cost(0));
        let tiny = Usage { cache_read: 1, ..Usage::default() };
        assert_eq!(self::price("input = 1\ncache_read = 0.003\noutput = 1").cost(&tiny), Cost(3));
    }

    #[test]
    fn a_long_call_costs_the_long_price_for_all_of_it() {
        let price = price("input = 1\noutput = 2\nlong = { over = 1000, input = 2, output = 3 }");
        let usage = |input| Usage { input, cache_read: 500, output: 100, ..Usage::default() };
        assert_eq!(price.cost(&usage(500)), Cost(1_000_000 + 200_000));
        assert_eq!(price.cost(&usage(501)), Cost(2_002_000 + 300_000));
    }

    #[test]
    fn a_price_below_nothing_is_refused() {
        assert!(toml::from_str::<Price>("input = -1\noutput = 2").unwrap_err().to_string().contains("from 0"));
        assert!(toml::from_str::<Price>("input = 1\noutput = nan").is_err());
        assert!(toml::from_str::<Price>("input = 1").unwrap_err().to_string().contains("output"));
    }

    #[test]
    fn what_users_say_of_a_price_lies_over_what_is_known() {
        let known = Some(price("input = 4\ncache_read = 0.2\ncache_write = 5\noutput = 20"));
        let rates = |over: PriceOverride, known| over.over(known).map(|price| price.rates);
        let output = PriceOverride { output: Some(10.0), ..PriceOverride::default() };
        assert_eq!(rates(output, known), Some(Rates { input: 4.0, cache_read: 0.2, cache_write: 5.0, output: 10.0 }));
        assert_eq!(rates(output, None), None, "half a price is none");
        let both = PriceOverride { input: Some(2.0), ..output };
        assert_eq!(rates(both, known), Some(Rates { input: 2.0, cache_read: 2.0, cache_write: 2.0, output: 10.0 }));
    }
}
