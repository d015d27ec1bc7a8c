//! Integration tests, in one binary: each file is about one boundary.

mod plans;
mod purity;
