//! sortie sends out subagents and brings back one merged answer.

pub mod agent;
pub mod cancel;
pub mod config;
pub mod coordinator;
pub mod error;
pub mod event;
pub mod model;
pub mod permission;
pub mod plan;
pub mod process;
pub mod store;
pub mod text;
pub mod tool;
pub mod ui;
pub mod workspace;
