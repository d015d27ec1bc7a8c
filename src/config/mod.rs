//! Settings: what a run is told to do ([`RunConfig`]), and the layers that this comes from ([`Settings`]).
//!
//! ```text
//! flags > SORTIE_* > .sortie/config.local.toml > .sortie/config.toml > user file      each a `Settings`, laid over the next
//!                    └── only when the workspace is trusted (`trust`) ──┘
//! ```
//!
//! Resolved once, at the edge. Nothing here reads the environment: what it says is handed in. `read` finds all problems
//! of a file at once, with line, column and hint; `providers` makes of settings and keys what a model client needs.

mod file;
mod providers;
mod read;
mod run;
mod secrets;
mod settings;
mod trust;

pub use file::ConfigFile;
pub use providers::{KnownProvider, NoModel, Providers, Resolved};
pub use run::{
    DEFAULT_GRACE, DEFAULT_IDLE_TIMEOUT, DEFAULT_JOBS, DEFAULT_NODE_TIMEOUT, DEFAULT_TURNS, FOLLOW_UPS, PLAN_TRIES,
    RunConfig,
};
pub use settings::{Entries, ModelSettings, Price, ProviderSettings, Settings};
pub use trust::{Standing, TrustStore};
