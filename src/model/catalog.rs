//! What is known about models: a data file, and what users say in their config.

use serde::Deserialize;

/// What is special about a model or its server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {}
