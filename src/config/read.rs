//! From the text of a config file to [`Settings`], or to all of its problems with line, column and hint.

use super::secrets;
use super::settings::{Entries, ModelSettings, Price, ProviderSettings, Settings};
use crate::model::http::{Egress, Host, ToolMode, endpoint};
use crate::model::wire::{Effort, Protocol};
use crate::plan::diag::{Findings, Problems};
use crate::plan::fields::{Fields, Words, text, wrong_type};
use crate::plan::source::{Entry, Placed, Shape, Spot, normalise, read_toml};
use crate::plan::suggest::{nearest, one_of};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

const KEYS: [&str; 8] =
    ["model", "small_model", "fallback_models", "network", "jobs", "idle_timeout", "models", "providers"];
const MODEL_KEYS: [&str; 5] = ["context_window", "max_output", "price", "effort", "tool_mode"];
const PRICE_KEYS: [&str; 4] = ["input", "cache_read", "cache_write", "output"];
const PROVIDER_KEYS: [&str; 10] =
    ["protocol", "base_url", "key_env", "streams", "rpm", "tpm", "idle_timeout", "tool_mode", "headers", "ca_file"];

/// What people write for a key of ours when they think of another tool; what later versions bring.
const WORDS: Words = Words {
    later: &["permissions", "mode", "sandbox", "pools", "hooks"],
    synonyms: &[
        ("provider", "providers"),
        ("default_model", "model"),
        ("fallback_model", "fallback_models"),
        ("fallbacks", "fallback_models"),
        ("concurrency", "jobs"),
        ("api_base", "base_url"),
        ("baseurl", "base_url"),
        ("baseURL", "base_url"),
        ("url", "base_url"),
        ("endpoint", "base_url"),
        ("api_key_env", "key_env"),
        ("env_key", "key_env"),
        ("api", "protocol"),
        ("type", "protocol"),
        ("context", "context_window"),
        ("max_tokens", "max_output"),
        ("max_output_tokens", "max_output"),
        ("reasoning_effort", "effort"),
    ],
};

/// Names that mean something else before the slash of `provider/model`.
const TAKEN: [&str; 2] = ["builtin", "script"];
/// More is a slip of the finger.
const MOST: u64 = 1_000_000_000_000;

/// What a file says.
pub(super) struct Read {
    /// Its settings; what is wrong is left out.
    pub(super) settings: Settings,
    /// The same as text.
    pub(super) entries: Entries,
    /// What is wrong with it.
    pub(super) problems: Problems,
    /// Its text, fit to be shown: keys are hidden.
    pub(super) shown: String,
}

/// Reads a file's text; paths in it are relative to `base`.
pub(super) fn read(text: &str, base: &Path) -> Read {
    let text = normalise(text);
    let mut findings = Findings::default();
    let mut reader = Reader { base, hidden: Vec::new(), findings: &mut findings };
    let mut settings = Settings::default();
    let mut entries = Entries::new();
    if let Some(root) = read_toml(&text, reader.findings) {
        settings = reader.settings(&root);
        flatten(String::new(), &root.to_json(), &mut entries);
    }
    let mut shown = secrets::mask(&text).into_bytes();
    for spot in reader.hidden {
        if let Spot::Text(span) = spot {
            secrets::hide(&mut shown, span);
        }
    }
    Read { settings, entries, problems: findings.finish(&text), shown: String::from_utf8(shown).unwrap_or_default() }
}

fn flatten(path: String, value: &Value, out: &mut Entries) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let bare = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') && !key.is_empty();
                let key = if bare { key.clone() } else { format!("{key:?}") };
                flatten(if path.is_empty() { key } else { format!("{path}.{key}") }, value, out);
            }
        }
        Value::Object(_) if path.is_empty() => {}
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            out.insert(path, value.to_string());
        }
    }
}

struct Reader<'a> {
    base: &'a Path,
    /// Values that may be keys, to be hidden in excerpts.
    hidden: Vec<Spot>,
    findings: &'a mut Findings,
}

impl Reader<'_> {
    fn settings(&mut self, root: &Placed) -> Settings {
        let mut settings = Settings::default();
        let Some(fields) = self.fields(root, "a config file", &KEYS) else { return settings };
        settings.model = self.model_name(&fields, "model");
        settings.small_model = self.model_name(&fields, "small_model");
        settings.fallback_models = fields.texts("fallback_models", "names of models", self.findings).map(|names| {
            names.into_iter().filter(|(name, spot)| self.is_model_name(name, spot)).map(|(name, _)| name).collect()
        });
        settings.network = fields.get("network").and_then(|value| self.network(value));
        settings.jobs = count(&fields, "jobs", 100_000, self.findings);
        settings.idle_timeout = fields.duration("idle_timeout", self.findings);
        for entry in self.tables(&fields, "models") {
            if self.is_model_name(&entry.key, &entry.key_spot) {
                settings.models.insert(entry.key.clone(), self.model(&entry.value));
            }
        }
        for entry in self.tables(&fields, "providers") {
            if self.is_provider_name(entry) {
                settings.providers.insert(entry.key.clone(), self.provider(&entry.value));
            }
        }
        settings
    }

    /// The fields of a table. Keys of providers in it are told apart from other unknown keys: they must go elsewhere.
    fn fields<'v>(&mut self, value: &'v Placed, of: &str, known: &[&str]) -> Option<Fields<'v>> {
        let mut allowed = known.to_vec();
        if let Shape::Table(entries) = &value.shape {
            for entry in
                entries.iter().filter(|entry| secrets::NAMES.contains(&entry.key.to_ascii_lowercase().as_str()))
            {
                self.hidden.push(entry.value.spot.clone());
                let message = format!("`{}`: a config file holds no keys", entry.key);
                self.findings
                    .error("key-in-config", &entry.key_spot, message)
                    .hint("put the key into a variable and name that: `key_env = \"ACME_API_KEY\"`");
                allowed.push(&entry.key);
            }
        }
        Fields::with(value, of, &allowed, &WORDS, self.findings)
    }

    fn tables<'v>(&mut self, fields: &Fields<'v>, key: &str) -> &'v [Entry] {
        match fields.get(key) {
            None => &[],
            Some(Placed { shape: Shape::Table(entries), .. }) => entries,
            Some(value) => {
                wrong_type(key, "a table", value, self.findings);
                &[]
            }
        }
    }

    fn model_name(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        let name = fields.text(key, self.findings)?;
        let spot = &fields.get(key)?.spot;
        self.is_model_name(&name, spot).then_some(name)
    }

    fn is_model_name(&mut self, name: &str, spot: &Spot) -> bool {
        let fine = name.split_once('/').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty());
        if !fine || name.contains(char::is_control) {
            let message = format!("`{}` is not the name of a model", crate::text::clip(name, 60));
            self.findings
                .error("bad-name", spot, message)
                .hint("write `provider/model`, such as `anthropic/claude-sonnet-5`");
            return false;
        }
        true
    }

    fn is_provider_name(&mut self, entry: &Entry) -> bool {
        let name = entry.key.as_str();
        let fine = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.'));
        if !fine {
            let message = format!("`{}` cannot name a provider", crate::text::clip(name, 60));
            self.findings
                .error("bad-name", &entry.key_spot, message)
                .hint("use lower-case letters, digits, `-`, `_` and `.`");
        } else if TAKEN.contains(&name) {
            let message = format!("`{name}/…` already means something else");
            self.findings.error("bad-name", &entry.key_spot, message).hint("give the provider another name");
        } else {
            return true;
        }
        false
    }

    fn network(&mut self, value: &Placed) -> Option<Egress> {
        match &value.shape {
            Shape::Text(word) if word == "offline" => Some(Egress::Offline),
            Shape::Text(word) if word == "online" => Some(Egress::Online),
            Shape::List(items) => {
                let mut hosts = Vec::new();
                for item in items {
                    match text("network", item, self.findings).map(|host| Host::parse(&host)) {
                        Some(Ok(host)) => hosts.push(host),
                        Some(Err(message)) => _ = self.findings.error("bad-host", &item.spot, message),
                        None => {}
                    }
                }
                Some(Egress::Hosts(hosts))
            }
            Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Text(_) | Shape::Date(_) | Shape::Table(_) => {
                let expected = "`\"online\"`, `\"offline\"` or a list of hosts";
                wrong_type("network", expected, value, self.findings)
                    .hint("for one host write `network = [\"127.0.0.1\"]`");
                None
            }
        }
    }

    fn model(&mut self, value: &Placed) -> ModelSettings {
        let mut model = ModelSettings::default();
        let Some(fields) = self.fields(value, "a model", &MODEL_KEYS) else { return model };
        model.context_window = count(&fields, "context_window", MOST, self.findings);
        model.max_output = count(&fields, "max_output", u64::from(u32::MAX), self.findings);
        model.price = fields.get("price").and_then(|value| self.price(value));
        model.effort = self.word::<Effort>(&fields, "effort", &["none", "low", "medium", "high", "max"]);
        model.tool_mode = self.tool_mode(&fields);
        model
    }

    fn price(&mut self, value: &Placed) -> Option<Price> {
        let fields = self.fields(value, "a price", &PRICE_KEYS)?;
        let mut dollars = |key| {
            let value = fields.get(key)?;
            match &value.shape {
                Shape::Number(number) if number.as_f64().is_some_and(|number| number >= 0.0) => number.as_f64(),
                Shape::Null
                | Shape::Bool(_)
                | Shape::Number(_)
                | Shape::Text(_)
                | Shape::Date(_)
                | Shape::List(_)
                | Shape::Table(_) => {
                    wrong_type(key, "dollars for a million tokens, such as `0.5`", value, self.findings);
                    None
                }
            }
        };
        Some(Price {
            input: dollars("input"),
            cache_read: dollars("cache_read"),
            cache_write: dollars("cache_write"),
            output: dollars("output"),
        })
    }

    fn provider(&mut self, value: &Placed) -> ProviderSettings {
        let mut provider = ProviderSettings::default();
        let Some(fields) = self.fields(value, "a provider", &PROVIDER_KEYS) else { return provider };
        provider.protocol =
            self.word::<Protocol>(&fields, "protocol", &["anthropic", "openai-chat", "openai-responses"]);
        provider.base_url = self.base_url(&fields, provider.protocol);
        if let Some(value) = fields.get("key_env") {
            provider.key_env = self.variable("key_env", value);
        }
        provider.streams = count(&fields, "streams", 100_000, self.findings);
        provider.rpm = count(&fields, "rpm", u64::from(u32::MAX), self.findings);
        provider.tpm = count(&fields, "tpm", MOST, self.findings);
        provider.idle_timeout = fields.duration("idle_timeout", self.findings);
        provider.tool_mode = self.tool_mode(&fields);
        provider.headers = self.headers(&fields);
        provider.ca_file = fields.text("ca_file", self.findings).map(|file| self.base.join(file));
        provider
    }

    fn base_url(&mut self, fields: &Fields<'_>, protocol: Option<Protocol>) -> Option<String> {
        let base_url = fields.text("base_url", self.findings)?;
        match endpoint(&base_url, protocol.unwrap_or(Protocol::OpenaiChat)) {
            Ok(_) => Some(base_url),
            Err(message) => {
                self.findings.error("bad-url", &fields.get("base_url")?.spot, message);
                None
            }
        }
    }

    fn headers(&mut self, fields: &Fields<'_>) -> IndexMap<String, String> {
        let mut headers = IndexMap::new();
        for entry in self.tables(fields, "headers") {
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if entry.key.is_empty() || !entry.key.chars().all(token) {
                let message = format!("`{}` cannot name a header", crate::text::clip(&entry.key, 60));
                self.findings.error("bad-name", &entry.key_spot, message);
            }
            if let Some(variable) = self.variable(&entry.key, &entry.value) {
                headers.insert(entry.key.to_ascii_lowercase(), variable);
            }
        }
        headers
    }

    /// The name of a variable. What is none may well be a key: it is neither repeated nor shown.
    fn variable(&mut self, key: &str, value: &Placed) -> Option<String> {
        let name = text(key, value, self.findings)?;
        let fine = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        if !fine {
            self.hidden.push(value.spot.clone());
            self.findings
                .error("bad-variable", &value.spot, format!("`{key}` takes the name of a variable, in capitals"))
                .hint("write `\"ACME_API_KEY\"` here, and set that variable to the value");
            return None;
        }
        Some(name)
    }

    fn tool_mode(&mut self, fields: &Fields<'_>) -> Option<ToolMode> {
        self.word::<ToolMode>(fields, "tool_mode", &["auto", "native", "json-schema"])
    }

    /// One of these words.
    fn word<W: DeserializeOwned>(&mut self, fields: &Fields<'_>, key: &str, words: &[&str]) -> Option<W> {
        let word = fields.text(key, self.findings)?;
        match serde_json::from_value(Value::String(word.clone())) {
            Ok(value) => Some(value),
            Err(_) => {
                let message =
                    format!("`{key}` is {}, not `{}`", one_of(words.iter().copied()), crate::text::clip(&word, 60));
                let problem = self.findings.error("bad-word", &fields.get(key)?.spot, message);
                if let Some(meant) = nearest(&word, words.iter().copied()) {
                    problem.hint(format!("did you mean `{meant}`?"));
                }
                None
            }
        }
    }
}

fn count<N: TryFrom<u64>>(fields: &Fields<'_>, key: &str, most: u64, findings: &mut Findings) -> Option<N> {
    N::try_from(fields.count(key, most, findings)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        let read = read(text, Path::new("/base"));
        read.problems.render("config.toml", &read.shown, false)
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = r#"
            model = "acme/large"
            network = ["api.acme.test", "127.0.0.1:8080"]
            idle_timeout = "90s"
            jobs = 4
            [models."acme/large"]
            context_window = 32_000
            price = { input = 1, cache_read = 0.1, output = 5.5 }
            effort = "high"
            [providers.acme]
            protocol = "openai-chat"
            base_url = "https://api.acme.test/v1"
            key_env = "ACME_API_KEY"
            streams = 2
            tool_mode = "json-schema"
            headers = { X-Team = "ACME_TEAM" }
            ca_file = "acme.pem"
        "#;
        let read = read(text, Path::new("/base"));
        assert!(read.problems.is_empty(), "{}", problems(text));
        let acme = &read.settings.providers["acme"];
        assert_eq!(acme.protocol, Some(Protocol::OpenaiChat));
        assert_eq!(acme.ca_file.as_deref(), Some(Path::new("/base/acme.pem")));
        assert_eq!(acme.headers["x-team"], "ACME_TEAM");
        assert_eq!(acme.tool_mode, Some(ToolMode::JsonSchema));
        let model = &read.settings.models["acme/large"];
        assert_eq!((model.effort, model.context_window), (Some(Effort::High), Some(32_000)));
        assert_eq!(read.entries["models.\"acme/large\".price.input"], "1");
        assert_eq!(read.entries["providers.acme.base_url"], "\"https://api.acme.test/v1\"");
        assert_eq!(read.entries.len(), 16);
    }

    #[test]
    fn all_problems_of_a_file_are_told_at_once() {
        insta::assert_snapshot!(problems(
            r#"
modle = "acme/large"
model = "sonnet"
network = "127.0.0.1"
jobs = 0
idle_timeout = 5
mode = "auto"
[permissions]
allow = []
[models.small]
[models."acme/large"]
price = { input = -1 }
max_tokens = 5
effort = "hihg"
[providers.script]
[providers.Acme]
[providers.acme]
protocol = "openai"
url = "https://api.acme.test"
base_url = "api.acme.test"
headers = { "a b" = "ACME_TEAM" }
rpm = "many"
"#
        ));
    }

    #[test]
    fn a_key_is_refused_and_never_shown() {
        let text = "[providers.a]\nkey = \"hush-1\"\nkey_env = \"hush-2\"\nheaders = { x-key = \"hush-3\" }\n\
                    base_url = \"http://me:hush-4@h\"\nAPI_KEY = 'hush-5'\n";
        insta::assert_snapshot!(problems(text));
        for broken in ["key = \"hush-1\" oops", "[a\nkey = \"hush-1", "api_key = hush-1"] {
            let shown = problems(broken);
            assert!(shown.contains("this is not TOML") && !shown.contains("hush"), "{shown}");
        }
    }
}
