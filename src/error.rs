//! Errors at the edge: what users see, and the exit code that goes with it.

use std::any::Any;
use std::fmt;

/// Exit codes of the `sortie` command.
pub mod exit {
    /// Every sink succeeded.
    pub const OK: u8 = 0;
    /// A sink failed, was partial or was skipped by failure, or the coordinator could not answer.
    pub const FAILED: u8 = 1;
    /// Usage, configuration or plan error.
    pub const USAGE: u8 = 2;
    /// The run's budget or deadline.
    pub const LIMIT: u8 = 3;
    /// No model call ever succeeded.
    pub const MODEL: u8 = 4;
    /// Interrupted by Ctrl-C.
    pub const INTERRUPTED: u8 = 130;
    /// Told to terminate.
    pub const TERMINATED: u8 = 143;
    /// Our own bug.
    pub const BUG: u8 = 101;
}

/// An error that ends a command: the user's mistake, or the world's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The exit code.
    pub code: u8,
    /// A lower-case fragment that reads after `error: `, naming the place and the cause.
    pub message: String,
    /// The next step; may be empty.
    pub hint: String,
}

impl Error {
    /// A mistake in usage, configuration or plan.
    pub fn usage(message: impl Into<String>) -> Self {
        Error { code: exit::USAGE, message: message.into(), hint: String::new() }
    }

    /// Something that failed at run time.
    pub fn failed(message: impl Into<String>) -> Self {
        Error { code: exit::FAILED, message: message.into(), hint: String::new() }
    }

    /// The same with a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// What a panic said.
pub(crate) fn panic_words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
