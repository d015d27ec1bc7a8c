//! What developers of sortie want to see, apart from what its users see: `SORTIE_LOG=debug` (or any filter of
//! `tracing`'s, such as `sortie::store=trace`) writes it to standard error, without keys.

use sortie::error::Error;
use sortie::redact::Redactor;
use std::io::{self, Write};
use std::sync::{PoisonError, RwLock};
use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "SORTIE_LOG";

/// The keys that are known so far. One for the process, as the subscriber is.
static HIDDEN: RwLock<Option<Redactor>> = RwLock::new(None);

/// Keeps these out of diagnostics from now on, whichever library writes them.
pub(crate) fn hide(hidden: &Redactor) {
    *HIDDEN.write().unwrap_or_else(PoisonError::into_inner) = Some(hidden.clone());
}

/// Standard error for one line of diagnostics, which comes in one write.
struct WithoutSecrets;

impl Write for WithoutSecrets {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        match HIDDEN.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(hidden) => io::stderr().lock().write_all(hidden.text(&text).as_bytes())?,
            None => io::stderr().lock().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

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
    // What the settings name as a key comes on top, once they are read.
    super::secrets::known(&[]);
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| WithoutSecrets).with_ansi(false);
    // Fails only when a subscriber is set already, and nobody else sets one in this process.
    let _ = subscriber.try_init();
    Ok(())
}
