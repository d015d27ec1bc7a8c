//! WHO DECIDES: the parent conversation and the plans it runs.
//!
//! [`run`] is the whole of it: with a task alone, the coordinator's conversation decomposes it through `submit_plan`,
//! gets the merged message back as that call's result, and answers; with a plan file there is no decomposing, and no
//! model of the coordinator at all unless a task is there to be answered.
//!
//! `runner` runs one plan (approve, schedule, merge), `scheduler` is its one loop, `results` is what the nodes came to,
//! `merge` makes one message of it, `submit` is the tool, `watchdog` ends the run from outside, `title` names it.

mod end;
mod merge;
mod prompt;
mod results;
mod runner;
mod scheduler;
mod submit;
mod title;
mod watchdog;

pub use end::{RunEnd, RunStatus};
pub use results::Results;
pub use scheduler::{Compose, Execute, Ran, Scheduler};

use crate::agent::Role;
use crate::agent::driver::Conversation;
use crate::agent::subagent::Kit;
use crate::agent::turn::{End, Ending, Machine};
use crate::cancel::Cancel;
use crate::config::RunConfig;
use crate::error::panic_words;
use crate::event::EventKind;
use crate::model::{Model, Models};
use crate::permission::{Approver, Nobody};
use crate::plan::CauseKind;
use crate::store::{MemoryStore, Store};
use crate::tool::{self, Ledger, Registry, RegistryError, ToolContext};
use crate::ui::{Bus, Reporter};
use crate::workspace::{Places, Readable, Shared, Workspace};
use futures_util::FutureExt;
use runner::PlanRunner;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use submit::SubmitPlan;
use watchdog::Watchdog;

/// The full name of the parent conversation, in events and in the transcript.
pub const COORDINATOR: &str = "coordinator";

/// The parts that a run is put together from.
pub struct Harness {
    /// The models.
    pub models: Models,
    /// Tools that subagents may have; the coordinator gets those that only read.
    pub registry: Registry,
    /// The roles that nodes may name.
    pub roles: Vec<Role>,
    /// Where attempts work.
    pub workspace: Arc<dyn Workspace>,
    /// Where the run is recorded.
    pub store: Arc<dyn Store>,
    /// Who says yes or no.
    pub approver: Arc<dyn Approver>,
    /// Who watches.
    pub reporters: Vec<Box<dyn Reporter>>,
}

/// Why a run cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The directory to work in cannot be used.
    #[error("cannot work in `{0}`: {1}")]
    Workspace(String, std::io::Error),
    /// A tool is not usable.
    #[error(transparent)]
    Tool(#[from] RegistryError),
}

impl Harness {
    /// What a run in this directory needs at least: this model, the tools and roles that come with sortie, a record in
    /// memory, nobody who approves or watches. Change what should be different.
    ///
    /// # Errors
    /// When the directory does not exist or cannot be read.
    pub fn local(model: Arc<dyn Model>, directory: &Path) -> Result<Self, HarnessError> {
        let unreadable = |error| HarnessError::Workspace(directory.display().to_string(), error);
        Ok(Harness {
            models: Models::new(model),
            registry: tool::builtin()?,
            roles: Role::built_in(),
            workspace: Arc::new(Shared::new(directory).map_err(unreadable)?),
            store: Arc::new(MemoryStore::new()),
            approver: Arc::new(Nobody),
            reporters: Vec::new(),
        })
    }
}

/// Runs a task, a plan, or both, to the end. Cancel it through `cancel`; dropping the future leaves tasks behind.
///
/// # Errors
/// When the harness cannot be put together; nothing has started then. How the run itself ended is in [`RunEnd`].
pub async fn run(config: RunConfig, harness: Harness, cancel: &Cancel) -> Result<RunEnd, HarnessError> {
    let bus = Arc::new(Bus::new(Arc::clone(&harness.store), harness.reporters));
    let kit = Arc::new(Kit {
        models: harness.models,
        registry: harness.registry,
        roles: harness.roles,
        workspace: harness.workspace,
        store: harness.store,
        bus: Arc::clone(&bus),
        environment: config.environment.clone(),
        idle_timeout: config.idle_timeout,
        grace: config.grace,
        totals: Mutex::default(),
    });
    let gave_up = Arc::new(AtomicBool::new(false));
    let runner = Arc::new(PlanRunner::new(config, Arc::clone(&kit), harness.approver, cancel.clone()));
    let mut tools = kit.registry.clone();
    tools.add(SubmitPlan::new(Arc::clone(&runner), Arc::clone(&gave_up)))?;

    let config = &runner.config;
    bus.emit(EventKind::RunStarted {
        run: config.id.to_string(),
        task: config.task.clone(),
        model: kit.models.default_model().name().to_string(),
        jobs: config.jobs,
    });
    for model in kit.models.all() {
        if let Some(disclosure) = model.disclosure() {
            bus.emit(EventKind::Notice { message: disclosure.to_string() });
        }
    }
    let watchdog =
        Watchdog { cancel, store: kit.store.as_ref(), bus: &bus, deadline: config.deadline, grace: config.grace };
    // A panic out here is not a node's: whatever it was, the record is closed and what there is is shown.
    let decided = title::beside(&kit, cancel, config.task.as_deref(), decide(&runner, &tools, cancel));
    let decided = AssertUnwindSafe(watchdog.over(decided)).catch_unwind().await;
    let answer = decided.unwrap_or_else(|panic| Answer::None {
        kind: CauseKind::Panic,
        detail: format!("it panicked (a bug in sortie): {}", panic_words(panic.as_ref())),
        rest: runner.latest().merged.unwrap_or_default(),
    });
    let end = RunEnd::of(&runner, answer, gave_up.load(Ordering::SeqCst), cancel);
    kit.store.write_report(end.report());
    bus.emit(end.answered());
    bus.emit(end.finished());
    let stored = kit.store.sync().await;
    let unreported = bus.close().await;
    Ok(end.recorded(stored, unreported))
}

/// What the parent conversation came to.
pub(crate) enum Answer {
    /// An answer in the coordinator's words.
    Words(String),
    /// The merged message stands for itself: no coordinator was asked.
    Merged(String),
    /// The coordinator could not answer; with the merged message, if there was one before.
    None {
        /// What kind of end.
        kind: CauseKind,
        /// Why.
        detail: String,
        /// What there is to show.
        rest: String,
    },
}

async fn decide(runner: &Arc<PlanRunner>, tools: &Registry, cancel: &Cancel) -> Answer {
    let config = &runner.config;
    let Some(plan) = &config.plan else {
        let request = config.task.as_deref().unwrap_or_default();
        return converse(runner, tools, cancel, prompt::task(request), String::new()).await;
    };
    let merged = match runner.run(plan.clone(), config.inputs.clone()).await {
        Ok(merged) => merged,
        Err(refused) => {
            let detail = format!("the plan was not approved: {}", refused.comment());
            return Answer::None { kind: CauseKind::Blocked, detail, rest: String::new() };
        }
    };
    match &config.task {
        Some(request) if !cancel.is_stopped() => {
            let first = prompt::answer_from(request, &merged);
            converse(runner, tools, cancel, first, merged).await
        }
        Some(_) | None => Answer::Merged(merged),
    }
}

/// The parent conversation, from its first message to its answer.
async fn converse(
    runner: &Arc<PlanRunner>,
    tools: &Registry,
    cancel: &Cancel,
    first: String,
    merged: String,
) -> Answer {
    let kit = &runner.kit;
    let toolset = tools.coordinator();
    let mut places = Places::new(kit.workspace.root().to_path_buf());
    if let Some(folder) = kit.store.artifact_folder() {
        // While it can read, no node runs: what is there is whole.
        places = places.with_artifacts(folder, Readable::All);
    }
    let conversation = Conversation {
        name: COORDINATOR.into(),
        attempt: 0,
        model: Arc::clone(kit.models.default_model()),
        system: prompt::system(&kit.roles).into(),
        specs: toolset.specs().into(),
        tools: toolset,
        context: ToolContext {
            node: COORDINATOR.into(),
            places: Arc::new(places),
            ledger: Arc::new(Ledger::default()),
            cancel: cancel.stop_token().child_token(),
        },
        bus: Arc::clone(&kit.bus),
        store: Arc::clone(&kit.store),
        cancel: cancel.clone(),
        deadline: None,
        idle_timeout: kit.idle_timeout,
        drains_tools: true,
    };
    let mut machine = Machine::new(&first, Ending::Text, runner.config.turns);
    let talk = conversation.run(&mut machine).await;
    kit.count(&talk);
    let rest = runner.latest().merged.unwrap_or(merged);
    match talk.end {
        End::Answered(words) => Answer::Words(words),
        End::Reported(report) => Answer::Words(report.summary),
        End::Short { kind, detail, salvaged } => {
            let rest = [salvaged, rest].into_iter().filter(|text| !text.trim().is_empty()).collect::<Vec<_>>();
            Answer::None { kind, detail, rest: rest.join("\n\n") }
        }
    }
}
