//! Standard output and error, with the manners of a command-line tool: a closed pipe is success, no colour where
//! nobody looks or `NO_COLOR` is set.

use sortie::error::Error;
use std::io::{self, IsTerminal, Write};

/// Where a subcommand prints.
pub(crate) struct Out {
    /// Whether standard error may have colour.
    pub(crate) stderr_color: bool,
}

impl Out {
    pub(crate) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Out { stderr_color: wanted && io::stderr().is_terminal() }
    }

    /// Columns of standard output, when it is a terminal; `COLUMNS` overrides what it says.
    pub(crate) fn stdout_columns(&self) -> Option<usize> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let wanted = std::env::var("COLUMNS").ok().and_then(|value| value.parse().ok()).filter(|columns| *columns > 0);
        wanted.or_else(|| console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns)))
    }

    /// Whether standard error is a terminal on which lines can be redrawn.
    pub(crate) fn stderr_is_live(&self) -> bool {
        io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Prints data. A reader that has gone away is no error.
    ///
    /// # Errors
    /// When standard output cannot be written for another reason, such as a full disk.
    pub(crate) fn data(&mut self, text: &str) -> Result<(), Error> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::failed(format!("cannot write to standard output: {}", reason(&error))))
            }
            _ => Ok(()),
        }
    }

    /// Prints something that is not data. Nothing can be done when this fails.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints an error with its hint.
    pub(crate) fn error(&mut self, error: &Error) {
        self.note(&format!("error: {error}"));
        if !error.hint.is_empty() {
            self.note(&format!("\nhint: {}", error.hint));
        }
    }
}

/// The system's reason in its own words, without our number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}
