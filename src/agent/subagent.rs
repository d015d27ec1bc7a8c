//! Executes attempts: a conversation for a prompt, a shell for a command.
//!
//! What it holds can read, talk and run; nothing it holds can start another subagent.

use super::attempt::{Attempt, AttemptEnd, CommandRun, Facts, Task};
use super::driver::{Conversation, Talk};
use super::report::{self, Report, ReportRules, ReportStatus};
use super::role::Role;
use super::turn::{End, Ending, Machine};
use super::{prompt, quotes, render};
use crate::cancel::{Cancel, from_now};
use crate::event::EventKind;
use crate::model::{Bill, Models, Usage};
use crate::plan::{Cause, CauseKind, Outcome};
use crate::process::{Ended, Shell};
use crate::store::Store;
use crate::text;
use crate::tool::{Ledger, Registry, ToolContext};
use crate::ui::Bus;
use crate::workspace::{Places, Readable, Scope, Workspace};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Part of the model's window, as a divisor, that the result of one tool call may take.
const RESULT_SHARE: u64 = 8;
/// Bytes per token, as everywhere where nothing was counted.
const BYTES_PER_TOKEN: u64 = 4;

/// What every attempt of a run shares.
pub(crate) struct Kit {
    /// The models.
    pub(crate) models: Models,
    /// Tools that subagents may have; nothing in it starts a subagent.
    pub(crate) registry: Registry,
    /// The roles.
    pub(crate) roles: Vec<Role>,
    /// Where attempts work.
    pub(crate) workspace: Arc<dyn Workspace>,
    /// Where they are recorded.
    pub(crate) store: Arc<dyn Store>,
    /// Where events go.
    pub(crate) bus: Arc<Bus>,
    /// What commands see.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// How long a model stream may go without content.
    pub(crate) idle_timeout: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    /// What the whole run has used. A lock, since attempts end at once.
    pub(crate) totals: Mutex<Totals>,
}

/// What a run has used, the coordinator's conversation included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Model calls made.
    pub(crate) calls: u32,
    /// Those that gave a reply.
    pub(crate) replies: u32,
    /// Those that failed.
    pub(crate) failures: u32,
    /// Their tokens.
    pub(crate) usage: Usage,
    /// What they have cost.
    pub(crate) cost: Bill,
}

/// Names of the nodes whose artifacts an attempt may read.
pub(crate) type Ancestors = Vec<String>;

impl Kit {
    /// Executes an attempt. Every way to end is an [`AttemptEnd`]; a panic is left to the scheduler.
    pub(crate) async fn execute(&self, attempt: Attempt, ancestors: Ancestors, cancel: Cancel) -> AttemptEnd {
        let mut end = match &attempt.task {
            Task::Prompt { .. } => self.converse(&attempt, ancestors, &cancel).await,
            Task::Command { command, output } => self.command(&attempt, command, output.as_ref(), &cancel).await,
        };
        if end.report.is_some() {
            let text = render::markdown(&attempt.node, &end);
            self.store.artifact(&attempt.node, "report.md", text.into_bytes());
        }
        // The body is in the artifact; events and results stay small.
        if let Some(report) = &mut end.report {
            report.body = None;
        }
        end
    }

    /// The role of this name.
    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.name == name)
    }

    async fn converse(&self, attempt: &Attempt, ancestors: Ancestors, cancel: &Cancel) -> AttemptEnd {
        let Task::Prompt { prompt, role, tools, model, turns, output } = &attempt.task else {
            return AttemptEnd::failed(CauseKind::Tool, "not a conversation");
        };
        let Some(role) = self.role(role) else {
            return AttemptEnd::failed(CauseKind::Template, format!("there is no role `{role}`"));
        };
        let Some(model) = self.models.get(model) else {
            return AttemptEnd::failed(CauseKind::Model, format!("there is no model `{model}` in this run"));
        };
        let rules = match ReportRules::new(output.as_ref()) {
            Ok(rules) if role.compact => Arc::new(rules.compact()),
            Ok(rules) => Arc::new(rules),
            Err(problem) => {
                return AttemptEnd::failed(CauseKind::Template, format!("its `output` is no JSON Schema: {problem}"));
            }
        };
        let root = match self.workspace.open(&attempt.node).await {
            Ok(root) => root,
            Err(problem) => return AttemptEnd::failed(CauseKind::Tool, problem),
        };
        let mut places = Places::new(root);
        if let Some(folder) = self.store.artifact_folder()
            && !ancestors.is_empty()
        {
            // What the nodes before it wrote is still on its way to the disk, perhaps.
            self.store.flush().await;
            places = places.with_artifacts(folder, Readable::These(ancestors));
        }
        let places = Arc::new(places);
        let ledger = Arc::new(Ledger::default());
        let room = (model.context_window() / RESULT_SHARE).saturating_mul(BYTES_PER_TOKEN);
        let toolset = self.registry.subagent(tools).within(usize::try_from(room).unwrap_or(usize::MAX));
        let mut specs = if role.compact { toolset.compact_specs() } else { toolset.specs() };
        specs.push(rules.spec());
        let name: Arc<str> = attempt.node.as_str().into();
        let conversation = Conversation {
            name: Arc::clone(&name),
            attempt: attempt.attempt,
            model: Arc::clone(model),
            system: prompt::system(role).into(),
            specs: specs.into(),
            tools: toolset,
            context: ToolContext {
                node: name,
                places: Arc::clone(&places),
                ledger: Arc::clone(&ledger),
                cancel: cancel.stop_token().child_token(),
            },
            bus: Arc::clone(&self.bus),
            store: Arc::clone(&self.store),
            cancel: cancel.clone(),
            deadline: Some((from_now(attempt.timeout), attempt.timeout)),
            idle_timeout: self.idle_timeout,
            drains_tools: false,
        };
        let mut machine = Machine::new(prompt, Ending::Report(Arc::clone(&rules)), *turns);
        let talk = conversation.run(&mut machine).await;
        self.count(&talk);
        let mut end = from_talk(talk, &rules);
        let workspace = Arc::clone(&self.workspace);
        let prompt = prompt.clone();
        let report = end.report.take();
        // Quotes are looked up and the scope is counted on disk.
        let looked = tokio::task::spawn_blocking(move || {
            let mut report = report;
            if let Some(report) = &mut report {
                quotes::verify(report, &places);
            }
            (report, facts(&ledger, &prompt, workspace.as_ref()))
        });
        match looked.await {
            Ok((report, facts)) => AttemptEnd { report, facts, ..end },
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => end,
        }
    }

    /// Counts what a chore beside the conversations has used. Whether it was answered says nothing about these.
    pub(crate) fn count_chore(&self, usage: Usage, cost: Bill) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.usage += usage;
        totals.cost += cost;
    }

    /// Counts a conversation's model calls for the run.
    pub(crate) fn count(&self, talk: &Talk) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.calls += talk.turns;
        totals.replies += talk.replies;
        totals.failures += talk.failures;
        totals.usage += talk.usage;
        totals.cost += talk.cost;
    }

    /// What the run has used so far.
    pub(crate) fn totals(&self) -> Totals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn command(
        &self,
        attempt: &Attempt,
        command: &str,
        output: Option<&serde_json::Value>,
        cancel: &Cancel,
    ) -> AttemptEnd {
        let root = match self.workspace.open(&attempt.node).await {
            Ok(root) => root,
            Err(problem) => return AttemptEnd::failed(CauseKind::Tool, problem),
        };
        self.bus.emit(EventKind::Doing {
            node: attempt.node.clone(),
            what: format!("$ {}", text::one_line(command, 60)),
            tokens: 0,
        });
        let shell = Shell {
            directory: &root,
            environment: &self.environment,
            node: &attempt.node,
            timeout: attempt.timeout,
            grace: self.grace,
            cancel,
        };
        let stopped = |what: &str| {
            let reason = cancel.reason();
            let kind = reason.map_or(CauseKind::Interrupted, |reason| reason.cause_kind());
            let why = reason.map_or("stopped", |reason| reason.detail());
            Cause::new(kind, format!("{why}; the command {what}"))
        };
        if cancel.is_stopped() {
            return AttemptEnd::bare(Outcome::Cancelled, Some(stopped("was not started")));
        }
        let done = shell.run(command).await;
        let failed = |detail: String| (Outcome::Failed, Some(Cause::new(CauseKind::Command, detail)));
        let (mut outcome, mut cause) = match &done.ended {
            Ended::Exit(0) => (Outcome::Succeeded, None),
            Ended::Exit(_) | Ended::Signal(_) => failed(format!("its command ended with {}", done.ended)),
            Ended::NotStarted(_) => failed(format!("its command {}", done.ended)),
            Ended::TimedOut(_) => {
                (Outcome::TimedOut, Some(Cause::new(CauseKind::Timeout, format!("its command {}", done.ended))))
            }
            Ended::Stopped => (Outcome::Cancelled, Some(stopped("was running and may have had an effect"))),
        };
        let mut structured = None;
        if let Some(schema) = output
            && outcome == Outcome::Succeeded
        {
            match read_output(schema, &done.stdout) {
                Ok(value) => structured = Some(value),
                Err(problem) => {
                    outcome = Outcome::Failed;
                    cause = Some(Cause::new(CauseKind::InvalidOutput, format!("its standard output {problem}")));
                }
            }
        }
        let mut end = AttemptEnd::bare(outcome, cause);
        end.report = Some(command_report(command, &done.ended, &done.stdout, &done.stderr, structured));
        end.facts.commands.push(CommandRun { command: command.to_string(), ended: done.ended.to_string() });
        end
    }
}

/// Reads a command's standard output as the node's `output`.
fn read_output(schema: &serde_json::Value, stdout: &str) -> Result<serde_json::Value, String> {
    let value: serde_json::Value =
        serde_json::from_str(stdout.trim()).map_err(|error| format!("is no JSON: {error}"))?;
    let bytes = value.to_string().len();
    if bytes > report::MAX_OUTPUT {
        return Err(format!("has {bytes} bytes of JSON, at most {} are allowed", report::MAX_OUTPUT));
    }
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    match crate::tool::complaints(&validator, &value) {
        None => Ok(value),
        Some(complaint) => Err(format!("does not fit its `output` schema: {complaint}")),
    }
}

/// The report of a command: its last words, and all that was kept of its output as the body.
fn command_report(
    command: &str,
    ended: &Ended,
    stdout: &str,
    stderr: &str,
    output: Option<serde_json::Value>,
) -> Report {
    let shown =
        [stdout.trim(), stderr.trim()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
    let shown = if shown.is_empty() { "(no output)".to_string() } else { shown };
    let room = report::MAX_SUMMARY - 300;
    let line = text::clip(command.trim(), 120).replace('\n', " ");
    Report {
        status: ReportStatus::Done,
        summary: format!("`{line}`: {ended}\n{}", text::clip_middle(&shown, room)),
        findings: Vec::new(),
        decisions: Vec::new(),
        open_questions: Vec::new(),
        used_inputs: Vec::new(),
        output,
        body: (shown.len() > room).then(|| format!("Standard output:\n\n{stdout}\n\nStandard error:\n\n{stderr}")),
    }
}

/// How a finished conversation counts as an attempt.
fn from_talk(talk: Talk, rules: &ReportRules) -> AttemptEnd {
    let (outcome, cause, report) = match talk.end {
        End::Reported(report) => {
            let lacks_output = rules.wants_output() && report.output.is_none();
            let (outcome, cause) = match report.status {
                ReportStatus::Done if lacks_output => {
                    let detail = "its report has no output that fits the schema";
                    (Outcome::Partial, Some(Cause::new(CauseKind::InvalidOutput, detail)))
                }
                ReportStatus::Done => (Outcome::Succeeded, None),
                ReportStatus::Partial => {
                    let detail = match (lacks_output, report.open_questions.first()) {
                        (true, _) => "it reported `partial`, without the output that its schema demands".to_string(),
                        (false, Some(open)) => format!("it reported `partial`; open: {open}"),
                        (false, None) => "it reported `partial`".to_string(),
                    };
                    (Outcome::Partial, Some(Cause::new(CauseKind::ReportedPartial, detail)))
                }
                ReportStatus::Blocked => {
                    let why = text::clip(&report.summary, 200).into_owned();
                    (Outcome::Partial, Some(Cause::new(CauseKind::Blocked, format!("it is blocked: {why}"))))
                }
            };
            (outcome, cause, Some(report))
        }
        End::Answered(words) => {
            let cause = Cause::new(CauseKind::NoReport, "it answered in words instead of a report");
            (Outcome::Partial, Some(cause), report::salvage(&words))
        }
        End::Short { kind, detail, salvaged } => {
            let report = report::salvage(&salvaged);
            (short_outcome(kind, report.is_some()), Some(Cause::new(kind, detail)), report)
        }
    };
    AttemptEnd {
        outcome,
        cause,
        report,
        facts: Facts::default(),
        usage: talk.usage,
        cost: talk.cost,
        tool_calls: talk.tool_calls,
        turns: talk.turns,
    }
}

/// The outcome of a conversation that did not end as meant.
fn short_outcome(kind: CauseKind, has_words: bool) -> Outcome {
    match kind {
        CauseKind::Timeout => Outcome::TimedOut,
        CauseKind::SiblingFailed | CauseKind::Deadline | CauseKind::Storage | CauseKind::Interrupted => {
            Outcome::Cancelled
        }
        CauseKind::NoReport
        | CauseKind::TurnLimit
        | CauseKind::Repetition
        | CauseKind::NoProgress
        | CauseKind::CutShort
            if has_words =>
        {
            Outcome::Partial
        }
        CauseKind::NoReport
        | CauseKind::TurnLimit
        | CauseKind::Repetition
        | CauseKind::NoProgress
        | CauseKind::CutShort
        | CauseKind::Model
        | CauseKind::Tool
        | CauseKind::Template
        | CauseKind::Command
        | CauseKind::Panic
        | CauseKind::InvalidOutput
        | CauseKind::ReportedPartial
        | CauseKind::Blocked
        | CauseKind::SomeItems
        | CauseKind::Upstream => Outcome::Failed,
    }
}

/// What the runtime saw the attempt do.
fn facts(ledger: &Ledger, prompt: &str, workspace: &dyn Workspace) -> Facts {
    let read = ledger.read();
    let searched = ledger.searched();
    if read.is_empty() && searched.is_empty() {
        return Facts::default();
    }
    let files = workspace.files();
    let paths: Vec<String> = read.iter().map(|file| file.path.clone()).collect();
    let coverage = Scope::of_prompt(prompt::task_of(prompt), &files).coverage(&files, &paths);
    Facts { read, searched, coverage: Some(coverage), commands: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_output_of_a_command_has_the_limit_of_every_output() {
        let schema = json!({ "type": "string" });
        let text = |bytes: usize| format!("{:?}\n", "x".repeat(bytes - 2));
        assert!(read_output(&schema, &text(report::MAX_OUTPUT)).is_ok());
        let problem = read_output(&schema, &text(report::MAX_OUTPUT + 1)).unwrap_err();
        assert_eq!(problem, "has 32769 bytes of JSON, at most 32768 are allowed");
    }
}
