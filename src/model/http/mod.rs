//! Speaks to servers: providers as they are configured, one client for all of them, one model per `provider/model`.

mod client;
mod egress;
mod provider;
mod trouble;

pub use client::{CONNECT_TIMEOUT, Http, NetSettings, Proxies, http_client};
pub use egress::{Egress, Host};
pub use provider::{Auth, AuthHeader, Provider, Secret, ToolMode, endpoint};
pub use trouble::Trouble;
