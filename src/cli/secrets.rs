//! The keys that the environment holds, so that they can be kept out of everything that is written or started.

use sortie::process;
use sortie::redact::Redactor;
use std::ffi::OsString;

/// Knows the value of every variable that holds a key: by its name, or because the settings name it (`configured`).
pub(crate) fn known(configured: &[String]) -> Redactor {
    let held = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?;
        let is_secret = process::is_secret(name) || configured.iter().any(|own| own == name);
        if is_secret { value.into_string().ok() } else { None }
    });
    let held: Vec<String> = held.collect();
    let hidden = Redactor::new(held.iter().map(String::as_str));
    super::diagnostics::hide(&hidden);
    hidden
}

/// What commands of nodes see: the environment without keys, under whatever name they are.
pub(crate) fn environment(configured: &[String], hidden: &Redactor) -> Vec<(OsString, OsString)> {
    process::without_secrets(std::env::vars_os(), configured, hidden)
}
