//! One line per event that matters to people, for where no terminal is.

use super::{Reporter, words};
use crate::event::Event;
use std::io::{self, Write};

/// Prints plain lines.
pub struct Plain<W> {
    out: W,
}

impl<W: Write + Send + 'static> Plain<W> {
    /// Prints to `out`, usually standard error.
    pub fn new(out: W) -> Self {
        Plain { out }
    }
}

impl<W: Write + Send + 'static> Reporter for Plain<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match words::line(&event.kind) {
            Some(line) => self.out.write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }
}
