//! Integration tests, in one binary: each file is about one boundary.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says no by panicking")]

mod plans;
mod purity;
