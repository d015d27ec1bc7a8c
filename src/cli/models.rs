//! From the names that users write to models.

use super::out::Out;
use sortie::error::Error;
use sortie::model::{Model, Models, Scout, Scripted};
use std::sync::Arc;

const SCOUT: &str = "builtin/scout";

/// The run's model as it will be called.
pub(crate) fn resolve_name(wanted: Option<&str>) -> &str {
    wanted.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(SCOUT)
}

/// Opens the run's model and those that nodes name.
///
/// # Errors
/// When one is not known or cannot be read; all that is wrong with it is said.
pub(crate) fn open<'a>(
    wanted: Option<&str>,
    others: impl Iterator<Item = &'a str>,
    require_model: bool,
    out: &mut Out,
) -> Result<Models, Error> {
    let name = resolve_name(wanted);
    if require_model && name == SCOUT {
        return Err(Error::usage("--require-model refuses `builtin/scout`, and no other model is named")
            .hint("name one with --model script/FILE; this version has no clients for hosted models yet"));
    }
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
        if wanted.is_none() && std::env::var_os(key).is_some_and(|value| !value.is_empty()) {
            out.note(&format!(
                "note: {key} is set, but this version has no clients for hosted models yet; the run uses `{SCOUT}`"
            ));
        }
    }
    let mut models = Models::new(open_one(name)?);
    for other in others {
        if models.get(other).is_none() {
            models.add(open_one(other)?);
        }
    }
    Ok(models)
}

fn open_one(name: &str) -> Result<Arc<dyn Model>, Error> {
    if name == SCOUT {
        return Ok(Arc::new(Scout));
    }
    let Some(file) = name.strip_prefix("script/") else {
        return Err(Error::usage(format!("there is no model `{name}`")).hint(format!(
            "this version knows `{SCOUT}` (rules, no key needed) and `script/FILE` (replies from a TOML file)"
        )));
    };
    let path = std::path::Path::new(file);
    let bytes = std::fs::read(path).map_err(|error| super::cannot_read(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::usage(format!("the script `{file}` is not UTF-8")))?;
    let script = Scripted::parse(name, &text)
        .map_err(|problem| Error::usage(format!("the script `{file}` cannot be read: {}", problem.trim_end())))?;
    Ok(Arc::new(script))
}
