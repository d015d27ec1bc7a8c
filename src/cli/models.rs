//! `sortie models`: which models there are, and what it takes to use them.

use super::WorkspaceArgs;
use super::open::{Choice, catalog, choose};
use super::out::Out;
use super::settings::{Manner, SettingsArgs, load, variable};
use serde_json::json;
use sortie::config::{KnownProvider, Providers, Settings};
use sortie::error::{Error, exit};
use sortie::model::catalog::{Catalog, ModelInfo};
use sortie::model::http::endpoint;
use sortie::redact::Redactor;
use std::collections::BTreeSet;

/// List the models: which one a run uses, which providers are set up, what is known of their models
///
/// Windows and prices are those of the catalog that comes with sortie, changed by `[models."provider/model"]` in your
/// config. A model that is not listed works all the same: its use is then counted in tokens alone. Nothing is sent.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct ModelsArgs {
    /// Only this provider, whether it is set up or not
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,
    /// Models of all providers, of those without a key too
    #[arg(long, conflicts_with = "provider")]
    all: bool,
    /// One JSON object with everything
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    workspace: WorkspaceArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

const HELP: &str = "\
Set up a provider by its key:
  export ANTHROPIC_API_KEY=…

or in ~/.config/sortie/config.toml, for any server that speaks one of the three protocols:
  model = \"local/qwen3\"
  [providers.local]
  protocol = \"openai-chat\"          # or anthropic, openai-responses
  base_url = \"http://127.0.0.1:8080/v1\"
  key_env = \"LOCAL_API_KEY\"         # the variable that holds the key, if one is needed

Examples:
  sortie models
  sortie models anthropic
  sortie models --json | jq -r '.models[].name'";

pub(crate) fn main(args: &ModelsArgs, out: &mut Out) -> Result<u8, Error> {
    let loaded = load(&args.workspace.directory, args.settings.trust, Manner::Look, out)?;
    let settings = &loaded.settings;
    let providers = Providers::new(settings, &variable).list();
    if let Some(wanted) = &args.provider
        && !providers.iter().any(|known| known.name == *wanted)
    {
        let names: Vec<&str> = providers.iter().map(|known| known.name.as_str()).collect();
        return Err(Error::usage(format!("there is no provider `{}`", sortie::text::printable(wanted)))
            .hint(format!("the providers are {}", names.join(", "))));
    }
    let choice = choose(settings, loaded.named_model(&args.settings));
    let catalog = catalog(settings);
    let shown = |known: &&KnownProvider| match &args.provider {
        Some(wanted) => known.name == *wanted,
        None => args.all || args.json || known.configured,
    };
    let models: Vec<(String, ModelInfo)> =
        providers.iter().filter(shown).flat_map(|known| of_provider(known, settings, &catalog)).collect();
    if args.json {
        let object = as_json(&choice, settings, &providers, &models);
        out.data(&format!("{object:#}\n"))?;
        return Ok(exit::OK);
    }
    let width = out.stdout_columns();
    let mut text = match &choice {
        Ok(choice) => format!("model     {} ({})\n", choice.name(), choice.why()),
        Err(error) => format!("model     none: {error}\n"),
    };
    if let Some(small) = &settings.small_model {
        text.push_str(&format!("small     {small}\n"));
    }
    if let Some(fallbacks) = settings.fallback_models.as_ref().filter(|names| !names.is_empty()) {
        text.push_str(&format!("fallback  {}\n", fallbacks.join(", then ")));
    }
    let listed: Vec<&KnownProvider> =
        providers.iter().filter(|known| args.provider.as_ref().is_none_or(|wanted| *wanted == known.name)).collect();
    text.push_str(&format!("\n{}", provider_table(&listed, width)));
    if models.is_empty() {
        text.push_str(&match &args.provider {
            Some(own) => {
                format!("\nthe catalog lists no models of `{own}`; any of its names works: --model {own}/NAME\n")
            }
            None => "\nno models are listed for what is set up; `sortie models --all` lists those of all providers\n"
                .to_string(),
        });
    } else {
        text.push_str(&format!("\n{}", model_table(&models, width)));
    }
    out.data(&text)?;
    Ok(exit::OK)
}

/// What is known by name of a provider's models, those that only the config names among them.
fn of_provider(known: &KnownProvider, settings: &Settings, catalog: &Catalog) -> Vec<(String, ModelInfo)> {
    let own = settings.models.keys().filter_map(|name| name.split_once('/'));
    let own = own.filter(|(provider, _)| *provider == known.name).map(|(_, model)| model);
    // The catalog may speak of a model in more than one place.
    let names: BTreeSet<&str> = catalog.models(&known.name).chain(own).collect();
    names.into_iter().map(|model| (format!("{}/{model}", known.name), catalog.info(&known.name, model))).collect()
}

fn provider_table(providers: &[&KnownProvider], width: Option<usize>) -> String {
    let mut rows = vec![["provider", "key", "protocol", "address"].map(str::to_string)];
    rows.extend(providers.iter().map(|known| {
        [known.name.clone(), key(known), protocol(known).unwrap_or_else(|| "missing".to_string()), address(known)]
    }));
    sortie::ui::columns(&rows, width, &[])
}

/// Whether there is a key; never the key.
fn key(known: &KnownProvider) -> String {
    match (&known.key_in, known.variables.as_slice()) {
        (Some(variable), _) => format!("{variable} is set"),
        (None, []) => "none needed".to_string(),
        (None, variables) => format!("{} is not set", variables.join(" or ")),
    }
}

fn protocol(known: &KnownProvider) -> Option<String> {
    let value = serde_json::to_value(known.protocol?).ok()?;
    value.as_str().map(str::to_string)
}

/// Where requests go, in full but for a key in the query: what was made of the base URL.
fn address(known: &KnownProvider) -> String {
    match known.protocol.map(|protocol| endpoint(&known.base_url, protocol)) {
        _ if known.base_url.is_empty() => "missing".to_string(),
        Some(Ok(url)) => Redactor::default().url(url.as_str()),
        Some(Err(problem)) => problem,
        None => Redactor::default().url(&known.base_url),
    }
}

fn model_table(models: &[(String, ModelInfo)], width: Option<usize>) -> String {
    let head = ["model", "window", "output", "$ in", "cached", "$ out"];
    let mut rows = vec![head.map(str::to_string)];
    rows.extend(models.iter().map(|(name, info)| {
        let rates = info.price.map(|price| price.rates);
        let dollars = |rate: Option<f64>| rate.map_or_else(|| "?".to_string(), dollars);
        let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_string(), sortie::ui::quantity);
        [
            name.clone(),
            tokens(info.context_window),
            tokens(info.max_output.map(u64::from)),
            dollars(rates.map(|rates| rates.input)),
            dollars(rates.map(|rates| rates.cache_read)),
            dollars(rates.map(|rates| rates.output)),
        ]
    }));
    let table = sortie::ui::columns(&rows, width, &[1, 2, 3, 4, 5]);
    format!("{table}\n$ for a million tokens; ? is not known to the catalog\n")
}

/// Whole cents, and as many places more as a smaller price needs.
fn dollars(rate: f64) -> String {
    let exact = format!("{rate:.6}");
    let short = exact.trim_end_matches('0');
    let cents = exact.len() - 4;
    exact.get(..short.len().max(cents)).unwrap_or(&exact).to_string()
}

fn as_json(
    choice: &Result<Choice, Error>,
    settings: &Settings,
    providers: &[KnownProvider],
    models: &[(String, ModelInfo)],
) -> serde_json::Value {
    let providers: Vec<_> = providers
        .iter()
        .map(|known| {
            json!({
                "name": known.name,
                "configured": known.configured,
                "protocol": known.protocol,
                "endpoint": known
                    .protocol
                    .and_then(|protocol| endpoint(&known.base_url, protocol).ok())
                    .map(|url| Redactor::default().url(url.as_str())),
                "key_variables": known.variables,
                "key_in": known.key_in,
            })
        })
        .collect();
    let models: Vec<_> = models
        .iter()
        .map(|(name, info)| {
            let price = info.price.map(|price| {
                let rates = price.rates;
                json!({
                    "input": rates.input,
                    "cache_read": rates.cache_read,
                    "cache_write": rates.cache_write,
                    "output": rates.output,
                })
            });
            json!({
                "name": name,
                "context_window": info.context_window,
                "max_output": info.max_output,
                "price": price,
            })
        })
        .collect();
    json!({
        "version": 1,
        "model": choice.as_ref().ok().map(Choice::name),
        "why": choice.as_ref().map_or_else(ToString::to_string, Choice::why),
        "small_model": settings.small_model,
        "fallback_models": settings.fallback_models.clone().unwrap_or_default(),
        "providers": providers,
        "models": models,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_whole_cents_and_as_many_places_more_as_it_needs() {
        let shown = [0.0, 4.5, 0.1, 0.075, 0.0028, 0.000_001, 1_000.0].map(dollars);
        assert_eq!(shown, ["0.00", "4.50", "0.10", "0.075", "0.0028", "0.000001", "1000.00"]);
    }
}
