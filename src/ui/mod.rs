//! Whoever watches a run: the `Reporter` seam, the [`Bus`] that feeds it, and the reporters of the command line.
//!
//! A reporter has a thread and a queue of its own, so that a slow terminal or pipe never holds up the scheduler; live
//! events are dropped first. Only this folder, `chat` and `cli` write to standard output and error; the reporters
//! get their writer and what is known of the terminal as values.

mod board;
mod bus;
mod detail;
mod json;
mod plain;
mod progress;
mod table;
mod words;

pub use bus::Bus;
pub use detail::node_detail;
pub use json::{Json, JsonLines, RunResult};
pub use plain::{Answer, Plain};
pub use progress::Progress;
pub use table::{columns, table};
pub use words::{Style, duration, quantity, token_count};

use crate::event::Event;
use std::io;
use std::time::Duration;

/// Something that watches a run.
///
/// The first error ends it: no further call follows, the run goes on. A closed pipe is such an error.
pub trait Reporter: Send + 'static {
    /// An event, in order. May block: the reporter runs on its own thread.
    ///
    /// # Errors
    /// When there is nobody left to report to.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// How often [`Reporter::tick`] is wanted while no event comes; `None` for never.
    fn tick_every(&self) -> Option<Duration> {
        None
    }

    /// Time has passed without an event.
    ///
    /// # Errors
    /// When there is nobody left to report to.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The run has ended and no event follows.
    ///
    /// # Errors
    /// When there is nobody left to report to.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
