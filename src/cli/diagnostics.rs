//! What developers of sortie want to see, apart from what its users see: `SORTIE_LOG=debug` (or any filter of
//! `tracing`'s, such as `sortie::store=trace`) writes it to standard error.

use sortie::error::Error;
use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "SORTIE_LOG";

/// Turns diagnostics on when the variable asks for them.
///
/// # Errors
/// When its value is no filter.
pub(crate) fn init() -> Result<(), Error> {
    let Some(filter) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(()) };
    let filter = filter.to_string_lossy();
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        Error::usage(format!("{VARIABLE}=`{filter}` is no filter: {error}"))
            .hint(format!("try {VARIABLE}=debug, or {VARIABLE}=sortie::coordinator=trace"))
    })?;
    // Fails only when a subscriber is set already, and nobody else sets one in this process.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
    Ok(())
}
