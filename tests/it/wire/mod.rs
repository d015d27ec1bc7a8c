//! Models over real sockets: a server of which the test decides every byte, and what client, driver and run make of it.

pub(crate) mod cache;
pub(crate) mod kit;
pub(crate) mod say;
pub(crate) mod server;

mod encode;
mod fixture;
mod prefix;
mod runs;
mod storms;
mod streams;
