//! Models over real sockets: a server of which the test decides every byte, and what the client makes of it.

pub(crate) mod say;
pub(crate) mod server;

mod fixture;
