//! Integration tests, in one binary: each file is about one boundary.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking, helpers outside `#[test]` too"
)]

mod bad_input;
mod bad_model;
mod cassettes;
mod chores;
mod command;
mod costs;
mod docs;
mod kit;
mod merges;
mod net;
mod one_call;
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
mod settings;
mod stops;
mod store;
mod streaming;
mod tools;
mod trace;
mod turn;
mod wire;
mod wire_anthropic;
mod wire_checks;
mod wire_checks_openai;
mod wire_failures;
mod wire_openai;
