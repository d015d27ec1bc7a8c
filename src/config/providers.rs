//! From `provider/model` to everything that a client needs: where, how, with which key.
//!
//! A provider is what sortie knows of it, then what the config says, then what the environment says. Keys come from
//! variables alone; they are read when a provider is used, and never shown.

use super::settings::{ModelSettings, ProviderSettings, Settings};
use crate::model::http::{Auth, AuthHeader, Provider, Secret, ToolMode, endpoint};
use crate::model::wire::Protocol;
use crate::plan::nearest;
use std::ffi::OsString;
use std::sync::Arc;

/// A provider that needs no config.
struct BuiltIn {
    name: &'static str,
    protocol: Protocol,
    base_url: &'static str,
    /// The first that is set counts; none is needed where there is none.
    keys: &'static [(&'static str, AuthHeader)],
    /// A variable that moves it, as with every other tool.
    base_url_variable: Option<&'static str>,
    /// The provider whose settings it shares: the same server by another protocol.
    same_as: Option<&'static str>,
}

const BUILT_IN: [BuiltIn; 7] = [
    BuiltIn {
        name: "anthropic",
        protocol: Protocol::Anthropic,
        base_url: "https://api.anthropic.com/v1",
        // A token is for a gateway: who sets one wants that it is used.
        keys: &[("ANTHROPIC_AUTH_TOKEN", AuthHeader::Bearer), ("ANTHROPIC_API_KEY", AuthHeader::ApiKey)],
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        same_as: None,
    },
    BuiltIn {
        name: "openai",
        protocol: Protocol::OpenaiChat,
        base_url: "https://api.openai.com/v1",
        keys: &[("OPENAI_API_KEY", AuthHeader::Bearer)],
        base_url_variable: Some("OPENAI_BASE_URL"),
        same_as: None,
    },
    BuiltIn {
        name: "openai-responses",
        protocol: Protocol::OpenaiResponses,
        base_url: "https://api.openai.com/v1",
        keys: &[("OPENAI_API_KEY", AuthHeader::Bearer)],
        base_url_variable: Some("OPENAI_BASE_URL"),
        same_as: Some("openai"),
    },
    BuiltIn {
        name: "deepseek",
        protocol: Protocol::OpenaiChat,
        base_url: "https://api.deepseek.com/v1",
        keys: &[("DEEPSEEK_API_KEY", AuthHeader::Bearer)],
        base_url_variable: None,
        same_as: None,
    },
    BuiltIn {
        name: "moonshot",
        protocol: Protocol::OpenaiChat,
        base_url: "https://api.moonshot.ai/v1",
        keys: &[("MOONSHOT_API_KEY", AuthHeader::Bearer)],
        base_url_variable: None,
        same_as: None,
    },
    BuiltIn {
        name: "openrouter",
        protocol: Protocol::OpenaiChat,
        base_url: "https://openrouter.ai/api/v1",
        keys: &[("OPENROUTER_API_KEY", AuthHeader::Bearer)],
        base_url_variable: None,
        same_as: None,
    },
    BuiltIn {
        name: "ollama",
        protocol: Protocol::OpenaiChat,
        base_url: "http://127.0.0.1:11434/v1",
        keys: &[],
        base_url_variable: None,
        same_as: None,
    },
];

/// Names that other tools have for models of their own, or for "the same as mine".
const ALIASES: [&str; 8] = ["inherit", "default", "sonnet", "opus", "haiku", "fast", "best", "auto"];

/// The providers of a run, by settings and environment.
pub struct Providers<'a> {
    settings: &'a Settings,
    env: &'a dyn Fn(&str) -> Option<OsString>,
}

/// A model that can be spoken to.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Its provider.
    pub provider: Arc<Provider>,
    /// As the provider knows it.
    pub model: String,
    /// What the config says of it.
    pub settings: ModelSettings,
}

/// Why a name does not lead to a model: a fragment and the next step. Never holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoModel {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// A provider as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownProvider {
    /// As in `provider/model`.
    pub name: String,
    /// How it is spoken to; `None` when the config does not say.
    pub protocol: Option<Protocol>,
    /// Where it is; empty when the config does not say.
    pub base_url: String,
    /// The variables that its key may be in; none where it needs no key.
    pub variables: Vec<String>,
    /// The one that it is in.
    pub key_in: Option<String>,
    /// Whether somebody has set it up: a key, a base URL, a table in the config.
    pub configured: bool,
}

impl<'a> Providers<'a> {
    /// `env` looks up a variable.
    pub fn new(settings: &'a Settings, env: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Providers { settings, env }
    }

    /// Whether this is a name for "the run's model": an alias of another tool.
    pub fn is_alias(name: &str) -> bool {
        ALIASES.contains(&name.trim().to_ascii_lowercase().as_str())
    }

    /// Finds `provider/model`. Its provider may have `streams` open at once where nothing else is said.
    ///
    /// # Errors
    /// When the provider is not known, lacks a setting or its key.
    pub fn resolve(&self, name: &str, streams: usize) -> Result<Resolved, NoModel> {
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => (provider, model),
            Some(_) | None => return Err(self.unknown(name)),
        };
        if !self.knows(provider) {
            return Err(self.unknown(name));
        }
        let provider = self.provider(provider, streams)?;
        let settings = self.settings.models.get(name).cloned().unwrap_or_default();
        Ok(Resolved { provider: Arc::new(provider), model: model.to_string(), settings })
    }

    /// The provider of the run that names no model: the first of anthropic, openai that somebody has set up. `None` when
    /// nothing is set up at all.
    ///
    /// # Errors
    /// When only others are: which of their models is meant cannot be known.
    pub fn default_provider(&self) -> Result<Option<&'static str>, NoModel> {
        let configured: Vec<KnownProvider> = self.list().into_iter().filter(|known| known.configured).collect();
        let first = ["anthropic", "openai"].into_iter().find(|name| configured.iter().any(|known| known.name == *name));
        match (first, configured.first()) {
            (Some(first), _) => Ok(Some(first)),
            (None, None) => Ok(None),
            (None, Some(known)) => Err(NoModel {
                message: format!("the provider `{}` is set up, but no model is named", known.name),
                hint: format!(
                    "name one with --model {}/MODEL, with SORTIE_MODEL or with `model` in the config",
                    known.name
                ),
            }),
        }
    }

    /// All providers: those of the config first.
    pub fn list(&self) -> Vec<KnownProvider> {
        let own = self.settings.providers.keys().map(String::as_str);
        let mut names: Vec<&str> = own.collect();
        names.extend(
            BUILT_IN.iter().map(|built_in| built_in.name).filter(|name| !self.settings.providers.contains_key(*name)),
        );
        names.into_iter().map(|name| self.known(name)).collect()
    }

    /// Every variable that may hold a key or the value of a header: what no child may see.
    pub fn secret_variables(&self) -> Vec<String> {
        let keys = self.list().into_iter().flat_map(|known| known.variables);
        let headers = self.settings.providers.values().flat_map(|provider| provider.headers.values().cloned());
        keys.chain(headers).collect()
    }

    fn known(&self, name: &str) -> KnownProvider {
        let built_in = built_in(name);
        let settings = self.layered(name);
        let keys = keys(&settings, built_in);
        let key_in =
            keys.iter().find(|(variable, _)| self.set(variable).is_some()).map(|(variable, _)| variable.clone());
        let moved =
            built_in.and_then(|built_in| built_in.base_url_variable).is_some_and(|name| self.set(name).is_some());
        KnownProvider {
            name: name.to_string(),
            protocol: settings.protocol,
            base_url: settings.base_url.unwrap_or_default(),
            variables: keys.into_iter().map(|(variable, _)| variable).collect(),
            configured: key_in.is_some() || moved || self.settings.providers.contains_key(name),
            key_in,
        }
    }

    /// A provider by name, with its key.
    ///
    /// # Errors
    /// As [`Providers::resolve`].
    pub fn provider(&self, name: &str, streams: usize) -> Result<Provider, NoModel> {
        let built_in = built_in(name);
        if !self.knows(name) {
            return Err(self.unknown(&format!("{name}/…")));
        }
        let settings = self.layered(name);
        let lacks = |key: &str, example: &str| NoModel {
            message: format!("the provider `{name}` has no `{key}`"),
            hint: format!("set it in the config: [providers.{name}] {key} = \"{example}\""),
        };
        let protocol = settings.protocol.ok_or_else(|| lacks("protocol", "openai-chat"))?;
        let base_url = settings.base_url.clone().ok_or_else(|| lacks("base_url", "https://api.example.com/v1"))?;
        if let Err(message) = endpoint(&base_url, protocol) {
            return Err(NoModel {
                message: format!("provider `{name}`: {message}"),
                hint: self.base_url_hint(built_in),
            });
        }
        let mut headers = Vec::new();
        for (header, variable) in &settings.headers {
            headers.push((header.clone(), self.required(name, &[variable.as_str()])?.0));
        }
        Ok(Provider {
            auth: self.auth(name, &keys(&settings, built_in))?,
            name: name.to_string(),
            protocol,
            base_url,
            headers,
            streams: settings.streams.map_or(streams, |own| own.min(streams)).max(1),
            rpm: settings.rpm,
            tpm: settings.tpm,
            idle_timeout: settings.idle_timeout,
            tool_mode: settings.tool_mode.unwrap_or(ToolMode::Auto),
            ca_file: settings.ca_file,
        })
    }

    fn knows(&self, provider: &str) -> bool {
        built_in(provider).is_some() || self.settings.providers.contains_key(provider)
    }

    /// What is known of a provider: environment over config over what is built in.
    fn layered(&self, name: &str) -> ProviderSettings {
        let own = self.settings.providers.get(name).cloned().unwrap_or_default();
        let Some(built_in) = built_in(name) else { return own };
        let shared = built_in.same_as.and_then(|other| self.settings.providers.get(other)).cloned();
        // The same server, but spoken to by its own protocol.
        let shared = ProviderSettings { protocol: None, ..shared.unwrap_or_default() };
        let base = ProviderSettings {
            protocol: Some(built_in.protocol),
            base_url: Some(built_in.base_url.to_string()),
            ..ProviderSettings::default()
        };
        let mut all = own.over(shared).over(base);
        if let Some(url) = built_in.base_url_variable.and_then(|name| self.set(name)) {
            all.base_url = Some(url.to_string_lossy().trim().to_string());
        }
        all
    }

    fn base_url_hint(&self, built_in: Option<&BuiltIn>) -> String {
        let variable = built_in.and_then(|built_in| built_in.base_url_variable).filter(|name| self.set(name).is_some());
        variable.map_or_else(String::new, |name| format!("check the variable {name}"))
    }

    fn auth(&self, provider: &str, keys: &[(String, AuthHeader)]) -> Result<Auth, NoModel> {
        if keys.is_empty() {
            return Ok(Auth::None);
        }
        let variables: Vec<&str> = keys.iter().map(|(variable, _)| variable.as_str()).collect();
        let (key, variable) = self.required(provider, &variables)?;
        let header = keys.iter().find(|(name, _)| *name == variable).map_or(AuthHeader::Bearer, |(_, header)| *header);
        Ok(Auth::Key { key, header, variable })
    }

    /// The first of these variables that is set.
    fn required(&self, provider: &str, variables: &[&str]) -> Result<(Secret, String), NoModel> {
        let found = variables.iter().find_map(|variable| Some((*variable, self.set(variable)?)));
        let Some((variable, value)) = found else {
            let all = variables.join(" nor ");
            let (neither, wanted) = match variables {
                [one] => (format!("{one} is not set"), one),
                _ => (format!("neither {all} is set"), variables.last().unwrap_or(&"")),
            };
            return Err(NoModel {
                message: format!("the provider `{provider}` needs a key: {neither}"),
                hint: format!("set it: export {wanted}=…, or name another model"),
            });
        };
        // A header carries no other characters, and a key that is refused for them would be printed with the refusal.
        match value.to_str().map(str::trim) {
            Some(text) if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
                Ok((Secret::new(text), variable.to_string()))
            }
            Some(_) | None => Err(NoModel {
                message: format!("{variable} holds characters that no key has: a line break, or letters outside ASCII"),
                hint: "copy the key again, on one line".to_string(),
            }),
        }
    }

    /// A variable with something in it: an empty or blank one is as good as none.
    fn set(&self, variable: &str) -> Option<OsString> {
        (self.env)(variable).filter(|value| value.to_str().is_none_or(|text| !text.trim().is_empty()))
    }

    fn unknown(&self, name: &str) -> NoModel {
        let shown = crate::text::clip(&crate::text::printable(name), 80).into_owned();
        let message = format!("there is no model `{shown}`");
        let providers: Vec<String> = self.list().into_iter().map(|known| known.name).collect();
        let hint = match name.split_once('/') {
            None => {
                "write it as provider/model, such as anthropic/claude-sonnet-5; `sortie models` lists them".to_string()
            }
            Some((provider, _)) if providers.iter().any(|known| known == provider) => {
                format!("write the model behind it: `{provider}/MODEL`; `sortie models {provider}` lists known ones")
            }
            Some((provider, _)) => match nearest(provider, providers.iter().map(String::as_str)) {
                Some(near) if near != provider => format!("did you mean `{near}/…`?"),
                Some(_) | None => format!(
                    "the providers are {}; others need a table [providers.NAME] in the config. Without a key: \
                     `builtin/scout` (rules) and `script/FILE`",
                    providers.join(", ")
                ),
            },
        };
        NoModel { message, hint }
    }
}

fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|built_in| built_in.name == name)
}

/// The variables that a provider's key may be in, and where it then goes.
fn keys(settings: &ProviderSettings, built_in: Option<&BuiltIn>) -> Vec<(String, AuthHeader)> {
    if let Some(variable) = &settings.key_env {
        // As with Anthropic's two variables: a token is carried by its bearer.
        let header = match settings.protocol {
            Some(Protocol::Anthropic) if !variable.ends_with("_AUTH_TOKEN") => AuthHeader::ApiKey,
            Some(Protocol::Anthropic | Protocol::OpenaiChat | Protocol::OpenaiResponses) | None => AuthHeader::Bearer,
        };
        return vec![(variable.clone(), header)];
    }
    let keys = built_in.map_or(&[][..], |built_in| built_in.keys);
    keys.iter().map(|(variable, header)| ((*variable).to_string(), *header)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read::read;
    use std::path::Path;

    /// Resolves `name` with this config and these variables.
    fn resolve(config: &str, env: &[(&str, &str)], name: &str) -> Result<Resolved, String> {
        with(config, env, |providers| providers.resolve(name, 8))
            .map_err(|error| format!("{}; {}", error.message, error.hint))
    }

    fn with<T>(config: &str, env: &[(&str, &str)], ask: impl FnOnce(Providers<'_>) -> T) -> T {
        let read = read(config, Path::new("/"));
        assert!(read.problems.is_empty(), "{}", read.problems.render("config", config, false));
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        ask(Providers::new(&read.settings, &lookup))
    }

    fn key(resolved: &Resolved) -> (&str, AuthHeader, &str) {
        match &resolved.provider.auth {
            Auth::None => ("", AuthHeader::Bearer, ""),
            Auth::Key { key, header, variable } => (key.reveal(), *header, variable),
        }
    }

    #[test]
    fn known_providers_need_a_key_only() {
        for (name, variable, header, url) in [
            ("anthropic/a", "ANTHROPIC_API_KEY", AuthHeader::ApiKey, "https://api.anthropic.com/v1/messages"),
            ("anthropic/a", "ANTHROPIC_AUTH_TOKEN", AuthHeader::Bearer, "https://api.anthropic.com/v1/messages"),
            ("openai/a", "OPENAI_API_KEY", AuthHeader::Bearer, "https://api.openai.com/v1/chat/completions"),
            ("openai-responses/a", "OPENAI_API_KEY", AuthHeader::Bearer, "https://api.openai.com/v1/responses"),
            ("deepseek/a", "DEEPSEEK_API_KEY", AuthHeader::Bearer, "https://api.deepseek.com/v1/chat/completions"),
            ("moonshot/a", "MOONSHOT_API_KEY", AuthHeader::Bearer, "https://api.moonshot.ai/v1/chat/completions"),
            (
                "openrouter/a/b",
                "OPENROUTER_API_KEY",
                AuthHeader::Bearer,
                "https://openrouter.ai/api/v1/chat/completions",
            ),
        ] {
            let resolved = resolve("", &[(variable, "k")], name).unwrap();
            assert_eq!(key(&resolved), ("k", header, variable));
            assert_eq!(resolved.provider.endpoint().unwrap().as_str(), url);
        }
        let local = resolve("", &[], "ollama/qwen3:8b").unwrap();
        assert_eq!((local.model.as_str(), &local.provider.auth), ("qwen3:8b", &Auth::None));
        assert_eq!(resolve("", &[("OPENROUTER_API_KEY", "k")], "openrouter/a/b").unwrap().model, "a/b");
    }

    #[test]
    fn a_key_is_trimmed_and_a_blank_one_is_missing() {
        for value in ["sk-test-1\r", "sk-test-1\n", " sk-test-1 ", "sk-test-1\r\n"] {
            let resolved = resolve("", &[("ANTHROPIC_API_KEY", value)], "anthropic/a").unwrap();
            assert_eq!(key(&resolved).0, "sk-test-1");
        }
        let missing = resolve("", &[], "anthropic/a").unwrap_err();
        assert!(missing.contains("neither ANTHROPIC_AUTH_TOKEN nor ANTHROPIC_API_KEY is set"), "{missing}");
        for value in ["", "   ", "\n"] {
            assert_eq!(resolve("", &[("ANTHROPIC_API_KEY", value)], "anthropic/a").unwrap_err(), missing);
        }
        for value in ["sk-hush\nsk-two", "sk-hush\u{e9}", "sk-hush\u{0}"] {
            let error = resolve("", &[("OPENAI_API_KEY", value)], "openai/a").unwrap_err();
            assert!(error.starts_with("OPENAI_API_KEY holds characters") && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn the_environment_moves_a_provider_and_the_config_changes_it() {
        let config = "[providers.openai]\nbase_url = \"http://config.test\"\nkey_env = \"TEAM_KEY\"\nstreams = 2\nrpm = 60\n\
                      headers = { x-team = \"TEAM\" }";
        let env = [("TEAM_KEY", "k"), ("OPENAI_API_KEY", "other"), ("TEAM", "blue")];
        let chat = resolve(config, &env, "openai/m").unwrap();
        assert_eq!(key(&chat), ("k", AuthHeader::Bearer, "TEAM_KEY"));
        assert_eq!((chat.provider.streams, chat.provider.rpm), (2, Some(60)));
        assert_eq!(chat.provider.headers, [("x-team".to_string(), Secret::new("blue"))]);
        let responses = resolve(config, &env, "openai-responses/m").unwrap();
        assert_eq!(responses.provider.endpoint().unwrap().as_str(), "http://config.test/v1/responses");
        assert_eq!(key(&responses).2, "TEAM_KEY");
        let moved = [("TEAM_KEY", "k"), ("TEAM", "blue"), ("OPENAI_BASE_URL", "http://env.test/v1")];
        let moved = resolve(config, &moved, "openai/m").unwrap();
        assert_eq!(moved.provider.endpoint().unwrap().as_str(), "http://env.test/v1/chat/completions");
        let error = resolve(config, &[("TEAM_KEY", "k")], "openai/m").unwrap_err();
        assert!(error.contains("TEAM is not set"), "{error}");
        let error = resolve("", &[("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "env.test")], "openai/m").unwrap_err();
        assert!(error.contains("no `http://`") && error.contains("check the variable OPENAI_BASE_URL"), "{error}");
    }

    #[test]
    fn own_providers_are_asked_for_what_they_lack() {
        let whole = "[providers.acme]\nprotocol = \"anthropic\"\nbase_url = \"http://h/anthropic\"\nkey_env = \"ACME_AUTH_TOKEN\"\n\
                     [models.\"acme/m\"]\ncontext_window = 9000";
        let resolved = resolve(whole, &[("ACME_AUTH_TOKEN", "k")], "acme/m").unwrap();
        assert_eq!(key(&resolved).1, AuthHeader::Bearer);
        assert_eq!(resolved.settings.context_window, Some(9000));
        let keyless = "[providers.acme]\nprotocol = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1\"";
        assert_eq!(resolve(keyless, &[], "acme/m").unwrap().provider.auth, Auth::None);
        let error = resolve("[providers.acme]\nbase_url = \"http://h\"", &[], "acme/m").unwrap_err();
        assert!(error.contains("`acme` has no `protocol`"), "{error}");
        let error = resolve("[providers.acme]\nprotocol = \"anthropic\"", &[], "acme/m").unwrap_err();
        assert!(error.contains("`acme` has no `base_url`"), "{error}");
        let error = resolve(keyless, &[], "amce/m").unwrap_err();
        assert!(error.contains("did you mean `acme/…`?"), "{error}");
        for name in ["sonnet", "openai/", "/m", ""] {
            assert!(resolve("", &[("OPENAI_API_KEY", "k")], name).is_err(), "{name}");
        }
    }

    #[test]
    fn without_a_model_the_first_provider_that_is_set_up_is_taken() {
        let default = |config: &str, env: &[(&str, &str)]| {
            with(config, env, |providers| providers.default_provider()).map_err(|error| error.message)
        };
        assert_eq!(default("", &[]), Ok(None));
        assert_eq!(default("", &[("OPENAI_API_KEY", " ")]), Ok(None));
        assert_eq!(default("", &[("OPENAI_API_KEY", "k")]), Ok(Some("openai")));
        assert_eq!(default("", &[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]), Ok(Some("anthropic")));
        assert_eq!(
            default("", &[("ANTHROPIC_BASE_URL", "http://h")]),
            Ok(Some("anthropic")),
            "its key is then asked for"
        );
        assert!(default("", &[("DEEPSEEK_API_KEY", "k")]).unwrap_err().contains("`deepseek` is set up"));
        assert!(default("[providers.acme]\nstreams = 1", &[]).unwrap_err().contains("`acme` is set up"));
    }
}
