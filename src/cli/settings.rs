//! From flags, files and environment to one [`Settings`].

use super::out::Out;
use super::trust;
use clap::Args;
use sortie::config::{ConfigFile, Settings};
use sortie::error::Error;
use sortie::model::http::{Egress, NetSettings, Proxies};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

// Flags that lie over every config file; shared by the subcommands that open models. Not a doc comment: clap would show
// it as their help.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingsArgs {
    /// The model, for every node [default: SORTIE_MODEL, then the config's]
    ///
    /// `anthropic/…`, `openai/…`, `openai-responses/…`, `deepseek/…`, `moonshot/…`, `openrouter/…`, `ollama/…`, a
    /// provider of your config, `builtin/scout` (rules, no key needed) or `script/FILE` (replies from a TOML file).
    /// `sortie models` lists what is set up.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Where sortie's own requests may go: `online`, `offline`, or hosts with commas between them
    #[arg(long, value_name = "WHERE", value_parser = Egress::parse)]
    pub(crate) network: Option<Egress>,
    /// Trust what the workspace's own `.sortie/config.toml` sets, now and as long as it stays the same
    #[arg(long)]
    pub(crate) trust: bool,
}

/// Whether the user may be asked, and their answer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Ask on a terminal, and remember.
    Ask,
    /// Look only: for what must change nothing.
    Look,
}

/// What the files and the environment say.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// All layers below the flags in one, except `SORTIE_MODEL`.
    pub(crate) settings: Settings,
    /// `SORTIE_MODEL`: like the flag it goes over nodes and roles, unlike the config's `model`.
    pub(crate) model: Option<String>,
    /// The files that were found, for people: each with what became of it.
    pub(crate) files: Vec<(PathBuf, Fate)>,
}

/// What became of a config file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It counts.
    Used,
    /// It is the workspace's, and that is not trusted.
    NotTrusted,
}

impl Loaded {
    /// The model that flag or variable name: it overrides nodes and roles.
    pub(crate) fn named_model<'a>(&'a self, args: &'a SettingsArgs) -> Option<&'a str> {
        let flag = args.model.as_deref().map(str::trim).filter(|name| !name.is_empty());
        flag.or(self.model.as_deref())
    }

    /// How servers are reached.
    pub(crate) fn net(&self, args: &SettingsArgs) -> NetSettings {
        let egress = args.network.clone().or_else(|| self.settings.network.clone()).unwrap_or_default();
        NetSettings { egress, proxies: proxies(&variable), cert_file: path(&variable, "SSL_CERT_FILE") }
    }
}

/// Reads all layers.
///
/// # Errors
/// Problems of the user's own file or of a trusted workspace's, all at once; a variable that cannot be read.
pub(crate) fn load(workspace: &Path, trust: bool, manner: Manner, out: &mut Out) -> Result<Loaded, Error> {
    let mut loaded = environment(&variable)?;
    let mut layers = vec![std::mem::take(&mut loaded.settings)];
    if let Some(own) = trust::workspace_layer(workspace, trust, manner, &mut loaded.files, out)? {
        layers.push(own);
    }
    if let Some(file) = user_file(&variable)? {
        layers.push(fine(&file, out)?.settings.clone());
        loaded.files.push((file.path, Fate::Used));
    }
    loaded.settings = layers.into_iter().reduce(Settings::over).unwrap_or_default();
    Ok(loaded)
}

/// A variable of the environment.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A variable with something in it.
fn filled(env: Env<'_>, name: &str) -> Result<Option<String>, Error> {
    let Some(value) = env(name) else { return Ok(None) };
    let text = value.into_string().map_err(|_| Error::usage(format!("the variable {name} is not UTF-8 text")))?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_string()))
}

/// A variable with a path in it.
fn path(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn environment(env: Env<'_>) -> Result<Loaded, Error> {
    fn read<T>(env: Env<'_>, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Error> {
        let Some(text) = filled(env, name)? else { return Ok(None) };
        parse(&text).map(Some).map_err(|problem| Error::usage(format!("the variable {name}: {problem}")))
    }
    let list = |text: &str| Ok(text.split(',').map(|name| name.trim().to_string()).collect());
    let settings = Settings {
        small_model: filled(env, "SORTIE_SMALL_MODEL")?,
        fallback_models: read(env, "SORTIE_FALLBACK_MODELS", list)?,
        network: read(env, "SORTIE_NETWORK", Egress::parse)?,
        jobs: read(env, "SORTIE_JOBS", at_least_one)?,
        idle_timeout: read(env, "SORTIE_IDLE_TIMEOUT", duration)?,
        ..Settings::default()
    };
    Ok(Loaded { settings, model: filled(env, "SORTIE_MODEL")?, files: Vec::new() })
}

/// A number that limits how much may run.
pub(crate) fn at_least_one<N: std::str::FromStr + PartialEq + From<u8>>(text: &str) -> Result<N, String> {
    match text.parse() {
        Ok(number) if number == N::from(0) => Err("at least 1 is needed: nothing would ever run".to_string()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a number from 1".to_string()),
    }
}

/// A span of time such as 90s.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => {
            Err("a time of 0 refuses everything; leave the option out for no limit".to_string())
        }
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error} (write it as 90s, 10m or 1h30m)")),
    }
}

/// Both spellings; the lower-case one first, as with curl. Under CGI a client can set `HTTP_PROXY` by a header.
fn proxies(env: Env<'_>) -> Proxies {
    let either = |name: &str| {
        let set =
            [name.to_lowercase(), name.to_string()].into_iter().find_map(|name| filled(env, &name).ok().flatten());
        set.unwrap_or_default()
    };
    let http = if env("REQUEST_METHOD").is_some() { String::new() } else { either("HTTP_PROXY") };
    Proxies { http, https: either("HTTPS_PROXY"), all: either("ALL_PROXY"), no: either("NO_PROXY") }
}

/// The user's own file: where `SORTIE_CONFIG` says, or in the place for such files.
fn user_file(env: Env<'_>) -> Result<Option<ConfigFile>, Error> {
    if let Some(named) = path(env, "SORTIE_CONFIG") {
        return match ConfigFile::read(&named).map_err(Error::usage)? {
            Some(file) => Ok(Some(file)),
            None => Err(Error::usage(format!("there is no file `{}`", named.display()))
                .hint("the variable SORTIE_CONFIG names it: correct it, or unset it")),
        };
    }
    let absolute = |name| path(env, name).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    let Some(folder) = folder else { return Ok(None) };
    ConfigFile::read(&folder.join("sortie").join("config.toml")).map_err(Error::usage)
}

/// A file that must be without problems.
pub(crate) fn fine<'f>(file: &'f ConfigFile, out: &mut Out) -> Result<&'f ConfigFile, Error> {
    if file.problems.is_empty() {
        return Ok(file);
    }
    out.note(file.render_problems(out.stderr_color).trim_end());
    Err(Error::usage(format!("`{}` cannot be used as it is", file.path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(set: &[(&str, &str)], ask: impl FnOnce(Env<'_>) -> T) -> T {
        ask(&|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn proxies_are_read_in_both_spellings_and_not_from_a_header() {
        for (set, expected) in [
            (
                vec![("HTTP_PROXY", "a"), ("HTTPS_PROXY", "b"), ("ALL_PROXY", "c"), ("NO_PROXY", "d")],
                ["a", "b", "c", "d"],
            ),
            (
                vec![("http_proxy", "a"), ("https_proxy", "b"), ("all_proxy", "c"), ("no_proxy", "d")],
                ["a", "b", "c", "d"],
            ),
            (vec![("HTTPS_PROXY", "upper"), ("https_proxy", "lower")], ["", "lower", "", ""]),
            (vec![("HTTPS_PROXY", "upper"), ("https_proxy", " ")], ["", "upper", "", ""]),
            (vec![("HTTP_PROXY", "a"), ("http_proxy", "b"), ("REQUEST_METHOD", "GET")], ["", "", "", ""]),
            (vec![], ["", "", "", ""]),
        ] {
            let Proxies { http, https, all, no } = with(&set, proxies);
            assert_eq!([http, https, all, no], expected, "{set:?}");
        }
    }

    #[test]
    fn variables_are_a_layer_and_empty_ones_are_not() {
        let set = [
            ("SORTIE_SMALL_MODEL", "a/small"),
            ("SORTIE_FALLBACK_MODELS", "a/b, c/d"),
            ("SORTIE_NETWORK", "offline"),
            ("SORTIE_JOBS", "3"),
            ("SORTIE_IDLE_TIMEOUT", "90s"),
            ("SORTIE_MODEL", " a/m "),
        ];
        let loaded = with(&set, environment).unwrap();
        assert_eq!(loaded.model.as_deref(), Some("a/m"));
        let expected = Settings {
            small_model: Some("a/small".to_string()),
            fallback_models: Some(vec!["a/b".to_string(), "c/d".to_string()]),
            network: Some(Egress::Offline),
            jobs: Some(3),
            idle_timeout: Some(Duration::from_secs(90)),
            ..Settings::default()
        };
        assert_eq!(loaded.settings, expected);
        let empty = set.map(|(name, _)| (name, " "));
        let loaded = with(&empty, environment).unwrap();
        assert_eq!((loaded.model, loaded.settings), (None, Settings::default()));
    }
}
