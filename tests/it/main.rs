//! Integration tests, in one binary: each file is about one boundary.

mod purity;
mod tools;
