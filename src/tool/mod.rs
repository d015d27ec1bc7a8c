//! The `Tool` seam: what a model may call.
//!
//! A tool is a struct with typed arguments, its effect and one async function ([`Tool`]); the schema that models see
//! is derived from the arguments. [`Registry`] holds all tools of a run, checked once; [`Toolset`] is the part that one
//! conversation has, and the only way to call any: a name outside it is refused with the names inside it.
//!
//! Two kinds of error: [`ToolError::Told`] goes to the model as a failed result, [`ToolError::Fatal`] ends the node.

mod binary;
mod glob;
mod ledger;
mod list_files;
mod read_file;
mod registry;
mod search_code;

pub use ledger::{FileRead, Ledger, Searched};
pub use list_files::ListFiles;
pub use read_file::ReadFile;
pub(crate) use registry::complaints;
pub use registry::{Registry, RegistryError, ToolCallEnd, Toolset};
pub use search_code::SearchCode;

use crate::workspace::{PathError, Places};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Characters of a tool's result that a model gets at most; longer results are cut in the middle and say so.
pub const MAX_RESULT: usize = 30_000;

/// What a tool may do to the world. Decides what may run together and what needs asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Only looks: may run together with others, at any time.
    Read,
    /// Changes files: alone and in order.
    Edit,
    /// Runs programs: alone and in order.
    Run,
}

/// Something a model may call.
///
/// ```
/// use sortie::tool::{Effect, Tool, ToolContext, ToolError};
///
/// /// Counts the words of a text.
/// struct CountWords;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Args {
///     /// The text.
///     text: String,
/// }
///
/// impl Tool for CountWords {
///     const NAME: &'static str = "count_words";
///     const DESCRIPTION: &'static str = "Counts the words of a text.";
///     const EFFECT: Effect = Effect::Read;
///     type Args = Args;
///
///     async fn call(&self, args: Args, _: &ToolContext) -> Result<String, ToolError> {
///         Ok(args.text.split_whitespace().count().to_string())
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// `[a-zA-Z0-9_-]{1,64}`, unique in a registry.
    const NAME: &'static str;
    /// What it does and when to use it; models choose by it.
    const DESCRIPTION: &'static str;
    /// What it may do.
    const EFFECT: Effect;
    /// Bytes of its result that a model gets at most; more is cut in the middle. For tools that bound their results
    /// themselves.
    const MAX_RESULT: usize = MAX_RESULT;
    /// Arguments that a small model is offered, where they are not all of them. The others keep their defaults.
    const ESSENTIAL: &'static [&'static str] = &[];
    /// The arguments. Derive `JsonSchema`; doc comments become descriptions. Use `deny_unknown_fields`.
    type Args: DeserializeOwned + JsonSchema + Send;

    /// What becomes of a call whose arguments do not fit: told to the model, unless the tool counts such calls.
    fn misused(&self, args: &serde_json::Value, complaint: String) -> ToolError {
        let _ = args;
        ToolError::Told(complaint)
    }

    /// Does it. The text is what the model reads.
    ///
    /// A tool that takes long watches `context.cancel`; heavy synchronous work goes to
    /// [`blocking`].
    fn call(&self, args: Self::Args, context: &ToolContext) -> impl Future<Output = Result<String, ToolError>> + Send;
}

/// What a tool call knows of its surroundings.
#[derive(Clone)]
pub struct ToolContext {
    /// The conversation that calls: a node's full name, or `coordinator`.
    pub node: Arc<str>,
    /// Where paths lead: the workspace and the artifacts that this conversation may read.
    pub places: Arc<Places>,
    /// What this conversation has been shown.
    pub ledger: Arc<Ledger>,
    /// Fires when the call should end.
    pub cancel: CancellationToken,
}

/// Why a tool call gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The model can do something about it: what is wrong, and the next step.
    #[error("{0}")]
    Told(String),
    /// Nobody in this conversation can: the node ends.
    #[error("{0}")]
    Fatal(String),
}

impl ToolError {
    /// An error that the model is told.
    pub fn told(message: impl Into<String>) -> Self {
        ToolError::Told(message.into())
    }
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        ToolError::Told(error.to_string())
    }
}

/// The tools that come with sortie and only read: `read_file`, `list_files`, `search_code`.
///
/// # Errors
/// Never, unless one of them has a bad schema; a test calls it.
pub fn builtin() -> Result<Registry, RegistryError> {
    let mut registry = Registry::new();
    registry.add(ReadFile)?;
    registry.add(ListFiles)?;
    registry.add(SearchCode)?;
    Ok(registry)
}

/// Runs synchronous work off the async threads and gives up waiting for it when the call is cancelled.
///
/// The work itself should look at the token now and then, so that it ends soon too.
///
/// # Errors
/// [`ToolError::Told`] when cancelled.
///
/// # Panics
/// When the work panics: the panic goes on, and ends the node.
pub async fn blocking<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let task = tokio::task::spawn_blocking(work);
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ToolError::told("interrupted")),
        done = task => match done {
            Ok(result) => result,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(_) => Err(ToolError::told("interrupted")),
        },
    }
}
