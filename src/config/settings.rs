//! One layer of settings, and how layers lie over each other.

use crate::model::http::{Egress, ToolMode};
use crate::model::wire::{Effort, Protocol};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What a file sets, as text: `providers.acme.base_url` and its value as JSON. For people, and to see a change.
pub type Entries = BTreeMap<String, String>;

/// Settings of one layer, or of several resolved into one. What is `None` or not there is left to the layer below.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `provider/model` of a run that is told no other.
    pub model: Option<String>,
    /// The model for chores: summaries, titles.
    pub small_model: Option<String>,
    /// What to turn to when the model's provider is overloaded or refuses, in this order.
    pub fallback_models: Option<Vec<String>>,
    /// Where sortie's own requests may go.
    pub network: Option<Egress>,
    /// Nodes that may run at once; at least 1.
    pub jobs: Option<usize>,
    /// How long a model stream may go without content.
    pub idle_timeout: Option<Duration>,
    /// By `provider/model`: what the catalog does not know, or knows wrongly.
    pub models: IndexMap<String, ModelSettings>,
    /// By name: providers of the user's own, and changes to those that are known.
    pub providers: IndexMap<String, ProviderSettings>,
}

/// What a user says of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// Tokens that a request and its reply may have together.
    pub context_window: Option<u64>,
    /// Tokens that a reply may have.
    pub max_output: Option<u32>,
    /// What it costs.
    pub price: Option<Price>,
    /// How hard it thinks.
    pub effort: Option<Effort>,
    /// How tools are offered to it.
    pub tool_mode: Option<ToolMode>,
}

/// Dollars for a million tokens. What is not said is left to the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Input that was in no cache.
    pub input: Option<f64>,
    /// Input read from the provider's cache.
    pub cache_read: Option<f64>,
    /// Input written to it.
    pub cache_write: Option<f64>,
    /// Output, thinking included.
    pub output: Option<f64>,
}

/// What a user says of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderSettings {
    /// How it is spoken to.
    pub protocol: Option<Protocol>,
    /// Where it is.
    pub base_url: Option<String>,
    /// The variable that holds its key.
    pub key_env: Option<String>,
    /// Streams that may be open at once.
    pub streams: Option<usize>,
    /// Requests per minute.
    pub rpm: Option<u32>,
    /// Tokens per minute.
    pub tpm: Option<u64>,
    /// How long its streams may go without content.
    pub idle_timeout: Option<Duration>,
    /// How tools are offered to its models.
    pub tool_mode: Option<ToolMode>,
    /// Further headers: the variable that holds each one's value.
    pub headers: IndexMap<String, String>,
    /// Roots that its certificate may come from.
    pub ca_file: Option<PathBuf>,
}

impl Settings {
    /// These settings where they say something, and those `below` where they do not.
    #[must_use]
    pub fn over(self, below: Settings) -> Settings {
        Settings {
            model: self.model.or(below.model),
            small_model: self.small_model.or(below.small_model),
            fallback_models: self.fallback_models.or(below.fallback_models),
            network: self.network.or(below.network),
            jobs: self.jobs.or(below.jobs),
            idle_timeout: self.idle_timeout.or(below.idle_timeout),
            models: tables(self.models, below.models, ModelSettings::over),
            providers: tables(self.providers, below.providers, ProviderSettings::over),
        }
    }
}

impl ModelSettings {
    fn over(self, below: ModelSettings) -> ModelSettings {
        ModelSettings {
            context_window: self.context_window.or(below.context_window),
            max_output: self.max_output.or(below.max_output),
            price: match (self.price, below.price) {
                (Some(price), Some(below)) => Some(price.over(below)),
                (price, below) => price.or(below),
            },
            effort: self.effort.or(below.effort),
            tool_mode: self.tool_mode.or(below.tool_mode),
        }
    }
}

impl Price {
    fn over(self, below: Price) -> Price {
        Price {
            input: self.input.or(below.input),
            cache_read: self.cache_read.or(below.cache_read),
            cache_write: self.cache_write.or(below.cache_write),
            output: self.output.or(below.output),
        }
    }
}

impl ProviderSettings {
    pub(super) fn over(self, below: ProviderSettings) -> ProviderSettings {
        ProviderSettings {
            protocol: self.protocol.or(below.protocol),
            base_url: self.base_url.or(below.base_url),
            key_env: self.key_env.or(below.key_env),
            streams: self.streams.or(below.streams),
            rpm: self.rpm.or(below.rpm),
            tpm: self.tpm.or(below.tpm),
            idle_timeout: self.idle_timeout.or(below.idle_timeout),
            tool_mode: self.tool_mode.or(below.tool_mode),
            headers: tables(self.headers, below.headers, |variable, _| variable),
            ca_file: self.ca_file.or(below.ca_file),
        }
    }
}

/// Tables by name: those below first, each with what lies over it.
fn tables<V>(over: IndexMap<String, V>, below: IndexMap<String, V>, lay: impl Fn(V, V) -> V) -> IndexMap<String, V> {
    let mut all = below;
    for (name, value) in over {
        let value = match all.shift_remove(&name) {
            Some(below) => lay(value, below),
            None => value,
        };
        all.insert(name, value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::read;
    use std::path::Path;

    fn settings(text: &str) -> Settings {
        let read = read(text, Path::new("/base"));
        assert!(read.problems.is_empty(), "{}", read.problems.render("config.toml", text, false));
        read.settings
    }

    #[test]
    fn the_upper_layer_wins_key_by_key_in_tables_too() {
        let upper = settings(
            "model = \"a/upper\"\nfallback_models = []\n[providers.acme]\nrpm = 1\nheaders = { x-b = \"B2\" }\n\
             [models.\"acme/m\"]\nprice = { input = 2 }",
        );
        let lower = settings(
            "model = \"a/lower\"\nsmall_model = \"a/small\"\nfallback_models = [\"a/b\"]\nnetwork = \"offline\"\n\
             [providers.acme]\nrpm = 9\ntpm = 9\nheaders = { x-a = \"A\", x-b = \"B\" }\n[providers.other]\nstreams = 1\n\
             [models.\"acme/m\"]\ncontext_window = 8000\nprice = { input = 1, output = 5 }",
        );
        let both = upper.over(lower);
        assert_eq!(both.model.as_deref(), Some("a/upper"));
        assert_eq!(both.small_model.as_deref(), Some("a/small"));
        assert_eq!(both.fallback_models, Some(Vec::new()), "an empty list is said too");
        assert_eq!(both.network, Some(Egress::Offline));
        let acme = &both.providers["acme"];
        assert_eq!((acme.rpm, acme.tpm), (Some(1), Some(9)));
        assert_eq!((acme.headers["x-a"].as_str(), acme.headers["x-b"].as_str()), ("A", "B2"));
        assert_eq!(both.providers["other"].streams, Some(1));
        let model = &both.models["acme/m"];
        let price = model.price.unwrap();
        assert_eq!((model.context_window, price.input, price.output), (Some(8000), Some(2.0), Some(5.0)));
    }
}
