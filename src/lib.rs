//! sortie sends out subagents and brings back one merged answer.

pub mod agent;
pub mod error;
pub mod event;
pub mod model;
pub mod permission;
pub mod plan;
pub mod store;
pub mod text;
pub mod tool;
pub mod ui;
pub mod workspace;
