//! What a run is told to do, resolved once.

use crate::plan::Plan;
use indexmap::IndexMap;
use serde_json::Value;
use std::ffi::OsString;
use std::time::Duration;
use uuid::Uuid;

/// Nodes that run at once unless told otherwise.
pub const DEFAULT_JOBS: usize = 8;
/// Model calls of one conversation.
pub const DEFAULT_TURNS: u32 = 40;
/// Time limit of a node.
pub const DEFAULT_NODE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Time without content on a model stream.
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// From the request to stop to the kill.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// Invalid plans that a coordinator may submit in a row.
pub const PLAN_TRIES: u32 = 3;
/// Plans that may follow the first.
pub const FOLLOW_UPS: u32 = 3;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The run's id.
    pub id: Uuid,
    /// What the user asks.
    pub task: Option<String>,
    /// The plan, when the coordinator does not make one.
    pub plan: Option<Plan>,
    /// Values of the plan's inputs, resolved.
    pub inputs: IndexMap<String, Value>,
    /// Nodes that may run at once; at least 1.
    pub jobs: usize,
    /// Model calls of one conversation, for nodes and roles that do not say.
    pub turns: u32,
    /// Time limit of a node, for nodes that do not say.
    pub node_timeout: Duration,
    /// Time limit of the run.
    pub deadline: Option<Duration>,
    /// Time without content on a model stream.
    pub idle_timeout: Duration,
    /// From the request to stop to the kill.
    pub grace: Duration,
    /// Whether plans are shown and asked about before they run.
    pub approve_plan: bool,
    /// What commands of nodes see: without keys of model providers.
    pub environment: Vec<(OsString, OsString)>,
}

impl RunConfig {
    /// A new run with the defaults: no task, no plan, an empty environment for commands.
    pub fn new() -> Self {
        RunConfig {
            id: Uuid::now_v7(),
            task: None,
            plan: None,
            inputs: IndexMap::new(),
            jobs: DEFAULT_JOBS,
            turns: DEFAULT_TURNS,
            node_timeout: DEFAULT_NODE_TIMEOUT,
            deadline: None,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            grace: DEFAULT_GRACE,
            approve_plan: false,
            environment: Vec::new(),
        }
    }
}

impl Default for RunConfig {
    fn default() -> Self {
        RunConfig::new()
    }
}
