//! Server-sent events: from bytes as they arrive to events.

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'b> {
    /// The `event:` field; empty without one.
    pub name: &'b str,
    /// The `data:` lines, joined by line feeds.
    pub data: &'b str,
}
