//! What run tests share: plays a script against the whole coordinator, in memory and in virtual time.

use sortie::agent::AttemptEnd;
use sortie::cancel::Cancel;
use sortie::config::RunConfig;
use sortie::coordinator::{self, Harness, RunEnd};
use sortie::event::{Event, EventKind};
use sortie::model::Scripted;
use sortie::plan::{Format, Known, Outcome, Plan, parse};
use sortie::store::MemoryStore;
use sortie::tool::{Effect, Tool, ToolContext, ToolError};
use std::collections::BTreeMap;
use std::sync::Arc;
use tempfile::TempDir;

/// A run that is to be played.
pub(crate) struct Play {
    pub(crate) config: RunConfig,
    pub(crate) harness: Harness,
    pub(crate) cancel: Cancel,
    pub(crate) workspace: TempDir,
    store: Arc<MemoryStore>,
}

/// A run that was played.
pub(crate) struct Played {
    pub(crate) end: RunEnd,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) store: Arc<MemoryStore>,
}

/// A plan that may hold commands.
pub(crate) fn plan(text: &str) -> Plan {
    let tools = ["read_file", "list_files", "search_code"].map(str::to_string).to_vec();
    let known = Known { roles: vec!["explorer".into(), "minimal".into()], tools, commands_allowed: true };
    let text = format!("version = 1\nname = \"test\"\n{text}");
    parse(&text, Format::Toml, &known).map_err(|problems| problems.render("plan", &text, false)).unwrap()
}

impl Play {
    /// A workspace with three small files, and this script.
    pub(crate) fn new(script: &str) -> Self {
        let workspace = TempDir::new().unwrap();
        for (name, text) in [("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {\n    a();\n}\n"), ("c.txt", "words\n")] {
            std::fs::write(workspace.path().join(name), text).unwrap();
        }
        let store = Arc::new(MemoryStore::new());
        let mut harness =
            Harness::local(Arc::new(Scripted::parse("script/test", script).unwrap()), workspace.path()).unwrap();
        harness.store = store.clone();
        let mut config = RunConfig::new();
        config.environment = std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
        Play { config, harness, cancel: Cancel::new(), workspace, store }
    }

    pub(crate) fn plan(mut self, text: &str) -> Self {
        self.config.plan = Some(plan(text));
        self
    }

    pub(crate) fn task(mut self, text: &str) -> Self {
        self.config.task = Some(text.to_string());
        self
    }

    /// Where the run is recorded.
    pub(crate) fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store)
    }

    pub(crate) async fn run(self) -> Played {
        let end = coordinator::run(self.config, self.harness, &self.cancel).await.unwrap();
        let played = Played { end, events: self.store.events(), store: self.store };
        played.check_terminal_events();
        played
    }
}

impl Played {
    /// The last end of each node, by full name.
    pub(crate) fn ends(&self) -> BTreeMap<String, AttemptEnd> {
        let end = |event: &Arc<Event>| match &event.kind {
            EventKind::NodeFinished { node, end, .. } => Some((node.clone(), end.clone())),
            _ => None,
        };
        self.events.iter().filter_map(end).collect()
    }

    pub(crate) fn outcomes(&self) -> Vec<(String, Outcome)> {
        self.ends().into_iter().map(|(node, end)| (node, end.outcome)).collect()
    }

    pub(crate) fn outcome(&self, node: &str) -> Outcome {
        self.end_of(node).outcome
    }

    pub(crate) fn end_of(&self, node: &str) -> AttemptEnd {
        self.ends().remove(node).unwrap()
    }

    /// Names of events in order, with their node where they have one.
    pub(crate) fn index(&self, fits: impl Fn(&EventKind) -> bool) -> Option<usize> {
        self.events.iter().position(|event| fits(&event.kind))
    }

    pub(crate) fn started(&self, node: &str) -> Option<usize> {
        self.index(|kind| matches!(kind, EventKind::NodeStarted { attempt } if attempt.node == node))
    }

    pub(crate) fn finished(&self, node: &str) -> Option<usize> {
        self.index(|kind| matches!(kind, EventKind::NodeFinished { node: name, .. } if name == node))
    }

    /// Every started node, tool call and approval has exactly one terminal event, and numbers have no gap.
    fn check_terminal_events(&self) {
        let mut open: BTreeMap<String, i32> = BTreeMap::new();
        let mut ended: BTreeMap<String, u32> = BTreeMap::new();
        for (at, event) in self.events.iter().enumerate() {
            assert_eq!(event.seq, at as u64 + 1, "numbers are consecutive");
            match &event.kind {
                EventKind::NodeStarted { attempt } => *open.entry(format!("node {}", attempt.node)).or_default() += 1,
                EventKind::NodeFinished { node, attempt, .. } => {
                    *ended.entry(node.clone()).or_default() += 1;
                    if *attempt > 0 {
                        *open.entry(format!("node {node}")).or_default() -= 1;
                    }
                }
                EventKind::ToolStarted { node, call, .. } => {
                    *open.entry(format!("call {node} {call}")).or_default() += 1
                }
                EventKind::ToolFinished { node, call, .. } => {
                    *open.entry(format!("call {node} {call}")).or_default() -= 1
                }
                EventKind::ApprovalAsked { id, .. } => *open.entry(format!("approval {id}")).or_default() += 1,
                EventKind::ApprovalAnswered { id, .. } => *open.entry(format!("approval {id}")).or_default() -= 1,
                _ => {}
            }
        }
        assert!(open.values().all(|count| *count == 0), "something has no terminal event, or two: {open:?}");
        assert!(ended.values().all(|count| *count == 1), "a node ended twice: {ended:?}");
        assert!(matches!(self.events.last().unwrap().kind, EventKind::RunFinished { .. }), "the run's end comes last");
    }
}

/// The arguments of a tool that takes none.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct NoArgs {}

/// A tool that never returns and never looks at its token.
pub(crate) struct Stuck;

impl Tool for Stuck {
    const NAME: &'static str = "stuck";
    const DESCRIPTION: &'static str = "Never returns.";
    const EFFECT: Effect = Effect::Read;
    type Args = NoArgs;

    async fn call(&self, _: NoArgs, _: &ToolContext) -> Result<String, ToolError> {
        std::future::pending().await
    }
}
