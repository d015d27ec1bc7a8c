//! Speaks to servers: providers as they are configured, one client for all of them, one model per `provider/model`.

mod provider;

pub use provider::{Auth, AuthHeader, Provider, Secret, ToolMode};
