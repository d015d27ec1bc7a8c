//! The `Reporter` seam: whoever watches a run.
//!
//! A reporter has a thread and a queue of its own, so that a slow terminal or pipe never holds up the scheduler; live
//! events are dropped first. Only this folder, `chat` and `cli` write to standard output and error.

use crate::event::Event;

/// Something that watches a run.
pub trait Reporter: Send + 'static {
    /// An event, in order. May block: the reporter runs on its own thread.
    fn event(&mut self, event: &Event);

    /// The run has ended and no event follows.
    fn end(&mut self) {}
}
