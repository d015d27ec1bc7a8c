//! Lines and tables for where no terminal is, and the answer for people.

use super::words::{Style, Told};
use super::{Reporter, table};
use crate::event::Event;
use crate::store::Summary;
use crate::text::printable;
use std::io::{self, Write};

/// Prints one line per event that matters to people as it comes, and the end table.
pub struct Plain<W> {
    out: W,
    summary: Summary,
    told: Told,
}

impl<W: Write + Send + 'static> Plain<W> {
    /// Prints to `out`, usually standard error.
    pub fn new(out: W) -> Self {
        Plain { out, summary: Summary::default(), told: Told::default() }
    }
}

impl<W: Write + Send + 'static> Reporter for Plain<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.summary.fold(event);
        match self.told.line(&event.kind, Style::default()) {
            Some(line) => self.out.write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(table(&self.summary, None).as_bytes())?;
        self.out.flush()
    }
}

/// Prints what the run came to when it has ended: the answer, or the merged message of a run without one.
pub struct Answer<W> {
    out: W,
    summary: Summary,
}

impl<W: Write + Send + 'static> Answer<W> {
    /// Prints to `out`, usually standard output.
    pub fn new(out: W) -> Self {
        Answer { out, summary: Summary::default() }
    }
}

impl<W: Write + Send + 'static> Reporter for Answer<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.summary.fold(event);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(text) = self.summary.result_text() else { return Ok(()) };
        let text = printable(text);
        if text.trim().is_empty() {
            return Ok(());
        }
        self.out.write_all(format!("{}\n", text.trim_end()).as_bytes())?;
        self.out.flush()
    }
}
