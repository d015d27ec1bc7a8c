//! sortie sends out subagents and brings back one merged answer.
//!
//! A **coordinator** turns a task into a **plan** (a DAG), runs independent **nodes** at once, each as a **subagent** with
//! its own context and a restricted toolset, and merges their bounded **reports** back into the parent conversation.
//!
//! ```text
//!  task ──> coordinator ── submit_plan ──> scheduler ──┬──> subagent: model ⇄ tools ── report ──┐
//!               ▲                                      ├──> subagent                            ├──> merge
//!               │                                      └──> subagent                            │
//!               └──────────────────── one bounded message, in plan order ───────────────────────┘
//! ```
//!
//! A run is one call of [`coordinator::run`]: settings ([`config::RunConfig`]), parts ([`coordinator::Harness`]) and a way
//! to stop it ([`cancel::Cancel`]) go in, [`coordinator::RunEnd`] comes out.
//!
//! ```
//! use sortie::{cancel::Cancel, config::RunConfig, coordinator::{self, Harness}, model::Scripted};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A script plays the model; `Scout` would search by rules.
//! let script = "[[reply]]\nnode = \"coordinator\"\ntext = \"42\"";
//! let model = Arc::new(Scripted::parse("script/example", script)?);
//!
//! let mut config = RunConfig::new();
//! config.task = Some("what is the answer?".to_string());
//! let harness = Harness::local(model, std::path::Path::new("."))?;
//! let end = coordinator::run(config, harness, &Cancel::new()).await?;
//! assert_eq!(end.answer, "42");
//! # Ok(())
//! # }
//! ```
//!
//! Six seams, each a trait with what comes built in: [`model::Model`], [`tool::Tool`], [`workspace::Workspace`],
//! [`store::Store`], [`ui::Reporter`], [`permission::Approver`]. Everything that happens is an [`event::Event`]; whoever
//! watches is a fold over these.
//!
//! What holds, among the invariants of `ARCHITECTURE.md`: every tool call has exactly one result; every node that started
//! has exactly one end; a subagent cannot start another; the parent's context gets only the merged message, of bounded
//! size; merged output is a function of plan and outcomes; a stop is never lost and leaves nothing running.

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
pub mod redact;
pub mod store;
pub mod text;
pub mod tool;
pub mod ui;
pub mod workspace;
