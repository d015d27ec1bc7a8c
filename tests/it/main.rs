//! Integration tests, in one binary: each file is about one boundary.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking, helpers outside `#[test]` too"
)]

mod bad_input;
mod command;
mod docs;
mod kit;
mod merges;
mod net;
mod plans;
mod processes;
mod purity;
mod ready;
mod requests;
mod runs;
mod sample;
mod scenarios;
mod scout;
mod screens;
mod stops;
mod store;
mod streaming;
mod tools;
mod turn;
mod wire;
