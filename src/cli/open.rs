//! From the names that users write to models: which one a run uses, and everything that is needed to speak to it.

use super::out::Out;
use super::settings::variable;
use sortie::config::{ModelSettings, NoModel, Price, Providers, Resolved, Settings};
use sortie::error::Error;
use sortie::model::catalog::{Catalog, ModelOverride, PriceOverride};
use sortie::model::http::{HttpModel, NetSettings, Options, Provider, Server, http_client};
use sortie::model::trace::HttpTrace;
use sortie::model::wire::Effort;
use sortie::model::{Fallback, Model, Models, Scout, Scripted};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The model that needs neither key nor network.
pub(crate) const SCOUT: &str = "builtin/scout";
/// What the name of a script begins with.
const SCRIPT: &str = "script/";

/// Whether this model needs neither key nor network.
pub(crate) fn is_built_in(name: &str) -> bool {
    name == SCOUT || name.starts_with(SCRIPT)
}

/// Which model a run uses, and on whose word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Flag or variable: whatever a node or role names.
    Named(String),
    /// The config.
    Config(String),
    /// Nobody named one: the catalog's for the first provider whose key is set, or whose address is.
    Default {
        /// `provider/model`.
        name: String,
        /// The variable that made it so, where it was a key.
        variable: Option<String>,
    },
    /// Nobody named one, and no provider is set up.
    Scout,
}

impl Choice {
    /// The model's name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Choice::Named(name) | Choice::Config(name) | Choice::Default { name, .. } => name,
            Choice::Scout => SCOUT,
        }
    }

    /// Why this one; reads after its name.
    pub(crate) fn why(&self) -> String {
        match self {
            Choice::Named(_) => "named by --model or SORTIE_MODEL".to_string(),
            Choice::Config(_) => "`model` in the config".to_string(),
            Choice::Default { variable: Some(variable), .. } => format!("no model is named, and {variable} is set"),
            Choice::Default { variable: None, .. } => "no model is named, and its provider is set up".to_string(),
            Choice::Scout => "no model is named, and no provider is set up".to_string(),
        }
    }
}

/// What flags say of models, over the config.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes<'a> {
    /// `--fallback-model`; the config's where there is none.
    pub(crate) fallbacks: &'a [String],
    /// `--small-model`.
    pub(crate) small: Option<&'a str>,
    /// `--require-model`.
    pub(crate) require_model: bool,
}

/// Opens models; those of one provider share its connections and its gate.
pub(crate) struct Opener<'a> {
    settings: &'a Settings,
    catalog: Catalog,
    net: NetSettings,
    /// Streams of a provider whose config does not say.
    streams: usize,
    /// Of all models, where a flag says so.
    effort: Option<Effort>,
    /// Of all providers, where a flag says so.
    idle_timeout: Option<Duration>,
    servers: HashMap<String, Arc<Server>>,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(settings: &'a Settings, net: NetSettings, streams: usize) -> Self {
        let servers = HashMap::new();
        Opener { settings, catalog: catalog(settings), net, streams, effort: None, idle_timeout: None, servers }
    }

    /// What flags say of all models goes over what the config says of each.
    pub(crate) fn with(mut self, effort: Option<Effort>, idle_timeout: Option<Duration>) -> Self {
        (self.effort, self.idle_timeout) = (effort, idle_timeout);
        self
    }

    /// What the user says of providers and models.
    pub(crate) fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// Opens one model. Nothing is sent.
    ///
    /// # Errors
    /// When it is not known or lacks its key; when a script cannot be read.
    pub(crate) fn open(&mut self, name: &str) -> Result<Arc<dyn Model>, Error> {
        if name == SCOUT {
            return Ok(Arc::new(Scout));
        }
        if let Some(file) = name.strip_prefix(SCRIPT) {
            return script(name, file);
        }
        let resolved = self.resolve(name)?;
        let server = self.server(&resolved.provider)?;
        let info = self.catalog.info(&resolved.provider.name, &resolved.model);
        let ModelSettings { effort, tool_mode, .. } = resolved.settings;
        let options = Options { effort: self.effort.or(effort), tool_mode };
        Ok(Arc::new(HttpModel::new(server, name, &resolved.model, info, options)))
    }

    /// What is known of a model of a provider.
    pub(crate) fn resolve(&self, name: &str) -> Result<Resolved, Error> {
        Providers::new(self.settings, &variable).resolve(name, self.streams).map_err(no_model)
    }

    /// Writes down what goes over the wire from now on.
    pub(crate) fn trace_to(&self, trace: &Arc<HttpTrace>) {
        self.servers.values().for_each(|server| server.trace_to(Arc::clone(trace)));
    }

    fn server(&mut self, provider: &Arc<Provider>) -> Result<Arc<Server>, Error> {
        if let Some(server) = self.servers.get(&provider.name) {
            return Ok(Arc::clone(server));
        }
        let of_provider = |problem: String| Error::usage(format!("provider `{}`: {problem}", provider.name));
        let http = http_client(&self.net, provider.ca_file.as_deref()).map_err(of_provider)?;
        let idle_timeout = self.idle_timeout.or(provider.idle_timeout);
        let own = Provider { idle_timeout, ..Provider::clone(provider) };
        let server = Server::new(own, http, seed(), None).map_err(of_provider)?;
        self.servers.insert(provider.name.clone(), Arc::clone(&server));
        Ok(server)
    }

    /// The run's model with those behind it, the one for chores, and those that nodes and roles name (`others`).
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub(crate) fn open_all<'n>(
        &mut self,
        choice: &Choice,
        wishes: &Wishes<'_>,
        others: impl Iterator<Item = &'n str>,
    ) -> Result<Models, Error> {
        if wishes.require_model && choice.name() == SCOUT {
            return Err(Error::usage("--require-model refuses `builtin/scout`, and no other model is named").hint(
                "set a key, such as ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a model with --model; \
                 `sortie models` lists the providers",
            ));
        }
        // Who plays a script, or wants no language model, wants none of the config's behind it either.
        let alone = is_built_in(choice.name());
        let config = if alone { &Settings::default() } else { self.settings };
        let fallbacks = match wishes.fallbacks {
            [] => config.fallback_models.as_deref().unwrap_or_default(),
            named => named,
        };
        let mut models = Models::new(self.with_fallbacks(choice.name(), fallbacks)?);
        if let Some(small) = wishes.small.or(config.small_model.as_deref()) {
            models.set_small(self.open(small).map_err(|error| of_role("small", small, error))?);
        }
        if let Choice::Named(_) = choice {
            models.use_default_only();
            return Ok(models);
        }
        for other in others {
            if models.get(other).is_some() {
                continue;
            }
            let name = self.meant(other, choice.name());
            models.add_alias(other, &name);
            if models.get(other).is_none() {
                models.add(self.with_fallbacks(&name, fallbacks)?);
            }
        }
        Ok(models)
    }

    /// What a node or role means by this name: an alias of another tool is the run's model, a bare name that its
    /// provider knows is that provider's.
    fn meant(&self, name: &str, run: &str) -> String {
        let provider = run.split_once('/').map_or(run, |(provider, _)| provider);
        if name.contains('/') {
            name.to_string()
        } else if self.catalog.models(provider).any(|model| model == name) {
            format!("{provider}/{name}")
        } else if Providers::is_alias(name) {
            run.to_string()
        } else {
            name.to_string()
        }
    }

    fn with_fallbacks(&mut self, name: &str, fallbacks: &[String]) -> Result<Arc<dyn Model>, Error> {
        let first = self.open(name)?;
        let others: Vec<_> = fallbacks
            .iter()
            .filter(|other| *other != name)
            .map(|other| self.open(other).map_err(|error| of_role("fallback", other, error)))
            .collect::<Result<_, _>>()?;
        Ok(if others.is_empty() { first } else { Arc::new(Fallback::new(first, others)) })
    }
}

/// The catalog with what the user says of models.
pub(crate) fn catalog(settings: &Settings) -> Catalog {
    Catalog::built_in().with(settings.models.iter().map(|(name, model)| {
        let price = model.price.map(|Price { input, cache_read, cache_write, output }| PriceOverride {
            input,
            cache_read,
            cache_write,
            output,
        });
        (name.clone(), ModelOverride { context_window: model.context_window, max_output: model.max_output, price })
    }))
}

/// Which model a run uses: what is named, else the config's, else the default of the first provider that is set up, else
/// scout.
///
/// # Errors
/// When a provider is set up of which no model is the obvious one.
pub(crate) fn choose(settings: &Settings, named: Option<&str>) -> Result<Choice, Error> {
    if let Some(name) = named {
        return Ok(Choice::Named(name.to_string()));
    }
    if let Some(name) = &settings.model {
        return Ok(Choice::Config(name.clone()));
    }
    let providers = Providers::new(settings, &variable);
    let Some(provider) = providers.default_provider().map_err(no_model)? else { return Ok(Choice::Scout) };
    let known = providers.list().into_iter().find(|known| known.name == provider);
    let catalog = catalog(settings);
    match catalog.default_model(provider) {
        Some(name) => Ok(Choice::Default { name: name.to_string(), variable: known.and_then(|known| known.key_in) }),
        None => Err(Error::usage(format!("the provider `{provider}` is set up, but no model is named"))
            .hint(format!("name one with --model {provider}/MODEL, with SORTIE_MODEL or with `model` in the config"))),
    }
}

/// Says which model was taken when nobody named one.
pub(crate) fn announce(choice: &Choice, out: &mut Out) {
    match choice {
        Choice::Default { name, .. } => {
            out.note(&format!("note: the model is `{name}`: {} (--model names another)", choice.why()));
        }
        // Scout says for itself what it is.
        Choice::Named(_) | Choice::Config(_) | Choice::Scout => {}
    }
}

fn script(name: &str, file: &str) -> Result<Arc<dyn Model>, Error> {
    let path = std::path::Path::new(file);
    let bytes = std::fs::read(path).map_err(|error| super::cannot_read(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::usage(format!("the script `{file}` is not UTF-8")))?;
    let script = Scripted::parse(name, &text)
        .map_err(|problem| Error::usage(format!("the script `{file}` cannot be read: {}", problem.trim_end())))?;
    Ok(Arc::new(script))
}

/// Says which model is meant: not the run's own, which everybody thinks of first.
fn of_role(role: &str, name: &str, error: Error) -> Error {
    let name = sortie::text::one_line(name, 80);
    Error { message: format!("{role} model `{name}`: {}", error.message), ..error }
}

fn no_model(NoModel { message, hint }: NoModel) -> Error {
    Error::usage(message).hint(hint)
}

/// For the gates' jitter: runs that were refused together must not come back together.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
