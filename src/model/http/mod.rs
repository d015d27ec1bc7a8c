//! Speaks to servers: providers as they are configured, one client for all of them, one model per `provider/model`.

mod again;
mod answer;
mod client;
mod egress;
mod model;
mod outlet;
mod provider;
mod server;
mod trouble;
mod words;

pub use answer::MAX_REPLY;
pub use client::{CONNECT_TIMEOUT, Http, NetSettings, Proxies, http_client};
pub use egress::{Egress, Host};
pub use model::{HttpModel, Options};
pub use provider::{Auth, AuthHeader, Provider, Secret, ToolMode, endpoint};
pub use server::Server;
