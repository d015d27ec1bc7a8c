//! `sortie run`: a task, a plan, or both, to the end.

use super::open::{self, Choice, Opener, Wishes};
use super::out::{self, Out};
use super::settings::{self, Loaded, Manner, SettingsArgs, at_least_one, duration};
use super::{WorkspaceArgs, secrets, signals, state, wire};
use clap::{Args, ValueEnum};
use indexmap::IndexMap;
use sortie::agent::Role;
use sortie::cancel::Cancel;
use sortie::config::{DEFAULT_IDLE_TIMEOUT, DEFAULT_JOBS, Providers, RunConfig};
use sortie::coordinator::{self, Harness, RunEnd, RunStatus};
use sortie::error::{Error, exit};
use sortie::model::Models;
use sortie::model::wire::Effort;
use sortie::permission::{Approver, Nobody};
use sortie::plan::{self, Plan};
use sortie::process;
use sortie::redact::Redactor;
use sortie::store::{FileStore, RunHeader, make_run_dir};
use sortie::ui::{Answer, Json, JsonLines, Plain, Progress, Reporter, Style};
use sortie::workspace::{Shared, Workspace};
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Answer a task, run a plan, or both.
///
/// With a TASK alone, a coordinator splits it into a plan of subagents that run at once, merges their reports and
/// answers. With `--plan`, the plan is run as it stands and the merged reports are the output; a TASK beside it is then
/// answered from them.
///
/// The answer goes to standard output, everything else to standard error. The run is recorded under `.sortie/runs`;
/// `sortie show last` reads it back.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// What you want to know or have done; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Run this plan (TOML, or JSON) instead of having one made
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// A value for an input of the plan; repeat for more
    #[arg(short = 'i', long = "input", value_name = "NAME=VALUE", requires = "plan", value_parser = input)]
    inputs: Vec<(String, String)>,
    #[command(flatten)]
    workspace: WorkspaceArgs,
    #[command(flatten)]
    settings: SettingsArgs,
    /// What to turn to when the model's provider stays overloaded or broken, or the model declines; repeat for more, in
    /// order
    #[arg(long = "fallback-model", value_name = "PROVIDER/MODEL")]
    fallback_models: Vec<String>,
    /// The model for chores such as summaries
    #[arg(long, value_name = "PROVIDER/MODEL")]
    small_model: Option<String>,
    /// How hard a reasoning model should think
    #[arg(long, value_enum)]
    effort: Option<EffortArg>,
    /// Refuse to run with the rule-based `builtin/scout`
    #[arg(long)]
    require_model: bool,
    /// Subagents that may run at once [default: 8]
    #[arg(short = 'j', long, value_name = "N", value_parser = at_least_one::<usize>, allow_negative_numbers = true)]
    jobs: Option<usize>,
    /// Model calls that one conversation may make
    #[arg(long, value_name = "N", default_value_t = sortie::config::DEFAULT_TURNS, value_parser = at_least_one::<u32>, allow_negative_numbers = true)]
    turns: u32,
    /// Time limit of the whole run, such as 30m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    deadline: Option<Duration>,
    /// Time limit of a node that has none of its own
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    node_timeout: Duration,
    /// How long a model may send nothing [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle_timeout: Option<Duration>,
    /// After Ctrl-C: how long commands may take to end before they are killed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    grace: Duration,
    /// Show what would run and stop there: no model is called, nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Show each plan and ask before it runs
    #[arg(long)]
    approve_plan: bool,
    /// What standard output gets
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    wire: wire::WireArgs,
}

const EXAMPLES: &str = "\
Examples:
  sortie run \"where is cancellation handled?\"
  sortie run --plan plans/investigate.toml -i question=\"who calls the parser?\" -C ../project
  sortie run --plan plans/review.toml --dry-run
  sortie run \"how are errors reported?\" --output json | jq -r .answer

Exit codes: 0 all succeeded · 1 something did not · 2 usage, config or plan error · 3 deadline · 4 no model call succeeded ·
130 interrupted · 143 terminated";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EffortArg {
    None,
    Low,
    Medium,
    High,
    Max,
}

impl EffortArg {
    fn effort(self) -> Effort {
        match self {
            EffortArg::None => Effort::None,
            EffortArg::Low => Effort::Low,
            EffortArg::Medium => Effort::Medium,
            EffortArg::High => Effort::High,
            EffortArg::Max => Effort::Max,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The answer
    Text,
    /// One object at the end
    Json,
    /// Each event as it happens, and that object last
    Jsonl,
}

fn input(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_string(), value.to_string()))
}

fn given_inputs(pairs: &[(String, String)]) -> Result<IndexMap<String, String>, Error> {
    let mut given = IndexMap::new();
    for (name, value) in pairs {
        if let Some(first) = given.insert(name.clone(), value.clone()) {
            return Err(Error::usage(format!("the input `{name}` is given twice: `{first}` and `{value}`"))
                .hint("leave one of them out"));
        }
    }
    Ok(given)
}

/// Runs the subcommand.
pub(crate) fn main(args: RunArgs, out: &mut Out) -> Result<u8, Error> {
    if let Some(node) = std::env::var_os(process::NODE_VARIABLE) {
        return Err(Error::usage(format!("this process belongs to node `{}` of a run", node.to_string_lossy()))
            .hint("a subagent cannot start subagents: report what you need instead"));
    }
    if args.task.is_none() && args.plan.is_none() {
        return Err(Error::usage("there is neither a task nor a plan to run")
            .hint("say what you want to know: sortie run \"where is …?\", or name a plan: sortie run --plan FILE"));
    }
    let workspace = open_workspace(&args.workspace.directory)?;
    let plan = match &args.plan {
        None => None,
        Some(file) => match read_plan(file)?.check(&super::plan::known()?, out) {
            Some(plan) => Some(plan),
            // Its problems have been told.
            None => return Ok(exit::USAGE),
        },
    };
    let given = given_inputs(&args.inputs)?;
    let inputs = match &plan {
        None => IndexMap::new(),
        Some(plan) => plan.resolve_inputs(&given).map_err(|problems| input_error(plan, &problems))?,
    };
    let manner = if args.dry_run { Manner::Look } else { Manner::Ask };
    let loaded = settings::load(workspace.root(), args.settings.trust, manner, out)?;
    let jobs = args.jobs.or(loaded.settings.jobs).unwrap_or(DEFAULT_JOBS);
    if args.dry_run {
        let choice = open::choose(&loaded.settings, loaded.named_model(&args.settings))?;
        return dry_run(&choice, jobs, plan.as_ref(), &inputs, workspace.as_ref(), out);
    }
    args.wire.check()?;
    let configured = Providers::new(&loaded.settings, &settings::variable).secret_variables();
    let hidden = secrets::known(&configured);
    let mut opener = Opener::new(&loaded.settings, loaded.net(&args.settings), jobs)
        .with(args.effort.map(EffortArg::effort), args.idle_timeout);
    let models = match args.wire.models(loaded.named_model(&args.settings), &hidden)? {
        Some(recorded) => recorded,
        None => open_models(&args, &loaded, &mut opener, plan.as_ref(), out)?,
    };
    let mut config = RunConfig::new();
    config.task = read_task(args.task.as_deref())?;
    config.plan = plan;
    config.inputs = inputs;
    config.jobs = jobs;
    config.turns = args.turns;
    config.node_timeout = args.node_timeout;
    config.idle_timeout = args.idle_timeout.or(loaded.settings.idle_timeout).unwrap_or(DEFAULT_IDLE_TIMEOUT);
    config.grace = args.grace;
    config.deadline = args.deadline;
    config.approve_plan = args.approve_plan;
    config.environment = secrets::environment(&configured, &hidden);
    let store = open_store(&args, &config, workspace.root(), models.default_model().name(), &hidden, out)?;
    let name = models.default_model().name();
    let called = (args.wire.cassette().is_none() && !open::is_built_in(name)).then(|| name.to_string());
    let (models, recorded) = args.wire.start(store.dir(), models, &hidden)?;
    if let Some(trace) = recorded.trace() {
        opener.trace_to(trace);
    }
    let (questions, room) = std::sync::mpsc::channel();
    let harness = Harness {
        models,
        registry: super::builtin_tools()?,
        roles: Role::built_in(),
        workspace,
        store,
        approver: approver(room),
        reporters: reporters(args.output, questions, out),
    };
    let end = execute(config, harness);
    let traced = recorded.trace().is_some();
    recorded.finish(out);
    let end = end?;
    conclude(&end, called.as_deref(), traced, &args.workspace.directory, out)
}

/// The run's models: its own, and those that nodes and roles name.
fn open_models(
    args: &RunArgs,
    loaded: &Loaded,
    opener: &mut Opener<'_>,
    plan: Option<&Plan>,
    out: &mut Out,
) -> Result<Models, Error> {
    let choice = open::choose(&loaded.settings, loaded.named_model(&args.settings))?;
    let wishes = Wishes {
        fallbacks: &args.fallback_models,
        small: args.small_model.as_deref(),
        require_model: args.require_model,
    };
    let roles = Role::built_in();
    let of_nodes = plan.iter().flat_map(|plan| &plan.nodes).filter_map(|node| node.model.as_deref());
    let of_roles = roles.iter().filter_map(|role| role.model.as_deref());
    let models = opener.open_all(&choice, &wishes, of_nodes.chain(of_roles))?;
    open::announce(&choice, out);
    Ok(models)
}

fn read_plan(file: &Path) -> Result<super::plan::Source, Error> {
    super::plan::Source::read(file).map_err(|error| match error.hint.is_empty() && file.is_relative() {
        true => error.hint("the path is taken from the current directory, not from that of -C"),
        false => error,
    })
}

fn open_workspace(directory: &Path) -> Result<Arc<dyn Workspace>, Error> {
    if directory.is_file() {
        return Err(Error::usage(format!("`{}` is a file, not a directory to work in", directory.display()))
            .hint("name the directory to work in with -C DIR"));
    }
    match Shared::new(directory) {
        Ok(workspace) => Ok(Arc::new(workspace)),
        Err(error) => Err(super::cannot_read(directory, &error).hint("name the directory to work in with -C DIR")),
    }
}

fn input_error(plan: &Plan, problems: &[String]) -> Error {
    let inputs: Vec<String> = plan
        .inputs
        .iter()
        .map(|(name, input)| match &input.default {
            Some(default) => format!("-i {name}=… (default {default})"),
            None => format!("-i {name}=… (required) {}", input.description),
        })
        .collect();
    Error::usage(problems.join("\n       ")).hint(match inputs.is_empty() {
        true => format!("the plan `{}` takes no inputs", plan.name),
        false => format!("the inputs of `{}` are:\n  {}", plan.name, inputs.join("\n  ")),
    })
}

fn read_task(task: Option<&str>) -> Result<Option<String>, Error> {
    let text = match task {
        None => return Ok(None),
        Some("-") => {
            let mut text = String::new();
            let read = io::stdin().lock().read_to_string(&mut text);
            read.map_err(|error| {
                Error::usage(format!("cannot read the task from standard input: {}", out::reason(&error)))
            })?;
            text
        }
        Some(text) => text.to_string(),
    };
    if text.trim().is_empty() {
        return Err(Error::usage("the task is empty").hint("say what you want to know: sortie run \"where is …?\""));
    }
    Ok(Some(text))
}

/// What would run, and with what, in words.
fn dry_run(
    choice: &Choice,
    jobs: usize,
    plan: Option<&Plan>,
    inputs: &IndexMap<String, serde_json::Value>,
    workspace: &dyn Workspace,
    out: &mut Out,
) -> Result<u8, Error> {
    let mut text = format!(
        "workspace  {}\nmodel      {} ({})\njobs       {jobs}\n",
        workspace.root().display(),
        choice.name(),
        choice.why()
    );
    match plan {
        None => {
            text.push_str("plan       made by the coordinator, which first looks around with: ");
            let tools = super::builtin_tools()?;
            let tools: Vec<&str> = tools.names().collect();
            text.push_str(&format!("{}\n", tools.join(", ")));
            text.push_str("           --approve-plan shows it and asks before it runs\n");
        }
        Some(plan) => {
            for (name, value) in inputs {
                text.push_str(&format!("input      {name} = {value}\n"));
            }
            text.push('\n');
            text.push_str(&plan::tree(plan));
            if plan.nodes.iter().any(|node| matches!(node.work, plan::Work::Command(_))) {
                text.push_str(
                    "\ncommands run in the workspace itself, with your rights: there is no sandbox in this version\n",
                );
            }
        }
    }
    text.push_str("\nnothing was run (--dry-run)\n");
    out.data(&text)?;
    Ok(exit::OK)
}

fn open_store(
    args: &RunArgs,
    config: &RunConfig,
    root: &std::path::Path,
    model: &str,
    hidden: &Redactor,
    out: &mut Out,
) -> Result<Arc<FileStore>, Error> {
    let id = config.id.to_string();
    let own = root.join(".sortie");
    if own.exists() && !own.is_dir() {
        return Err(Error::failed(format!("`{}` is not a directory, and runs are recorded in it", own.display()))
            .hint("move it elsewhere"));
    }
    let cannot = |error: sortie::store::StoreError| {
        Error::failed(error.to_string())
            .hint("make room there; for a workspace that is read-only, set SORTIE_STATE_DIR to a directory that can be written")
    };
    let place = make_run_dir(root, state::state_dir().as_deref(), &id).map_err(cannot)?;
    if let Some(notice) = place.notice {
        out.note(&format!("note: {notice}"));
    }
    let mut header = RunHeader::new(id, root);
    header.task.clone_from(&config.task);
    header.plan = config.plan.as_ref().map(|plan| plan.name.clone());
    header.config = serde_json::json!({
        "model": model,
        "jobs": config.jobs,
        "turns": config.turns,
        "node_timeout": humantime::format_duration(config.node_timeout).to_string(),
        "deadline": config.deadline.map(|limit| humantime::format_duration(limit).to_string()),
        "plan_file": args.plan.as_ref().map(|file| file.display().to_string()),
        "inputs": config.inputs,
        "cassette": args.wire.cassette(),
    });
    FileStore::create_hiding(&place.dir, &header, hidden.clone()).map(Arc::new).map_err(cannot)
}

/// Asks on a terminal; says no where nobody is there to ask.
fn approver(room: Receiver<()>) -> Arc<dyn Approver> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        Arc::new(super::ask::Terminal::new(room))
    } else {
        Arc::new(Nobody)
    }
}

fn reporters(output: Output, questions: Sender<()>, out: &Out) -> Vec<Box<dyn Reporter>> {
    let watch: Box<dyn Reporter> = if out.stderr_is_live() {
        Box::new(Progress::new(Style { color: out.stderr_color }).telling(questions))
    } else {
        Box::new(Plain::new(io::stderr()))
    };
    // The screen first: it ends, and clears its lines, before the answer is printed.
    let result: Box<dyn Reporter> = match output {
        Output::Text => Box::new(Answer::new(io::stdout())),
        Output::Json => Box::new(Json::new(io::stdout())),
        Output::Jsonl => Box::new(JsonLines::new(io::stdout())),
    };
    vec![watch, result]
}

fn execute(config: RunConfig, harness: Harness) -> Result<RunEnd, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failed(format!("cannot start the runtime: {}", out::reason(&error))))?;
    let end = runtime.block_on(async {
        let cancel = Cancel::new();
        let signals = signals::watch(cancel.clone());
        // On a worker thread: what a worker spawns need not wake another thread, which is half of what a short node costs.
        let run = tokio::spawn(async move { coordinator::run(config, harness, &cancel).await });
        let end = run.await;
        signals.abort();
        end
    });
    let end = match end {
        Ok(end) => end,
        Err(panic) if panic.is_panic() => std::panic::resume_unwind(panic.into_panic()),
        Err(aborted) => {
            return Err(Error {
                code: exit::BUG,
                message: format!("the run was aborted: {aborted}"),
                hint: String::new(),
            });
        }
    };
    // A tool that blocks its thread must not keep the process.
    runtime.shutdown_background();
    end.map_err(|error| Error { code: exit::BUG, message: error.to_string(), hint: String::new() })
}

/// Says what went wrong with the run as a whole; the nodes' causes are in the table already. `called` is the run's model
/// where a server has it.
fn conclude(end: &RunEnd, called: Option<&str>, traced: bool, directory: &Path, out: &mut Out) -> Result<u8, Error> {
    for problem in &end.unreported {
        out.note(&format!("warning: {problem}"));
    }
    let code = end.status.exit_code();
    match &end.problem {
        Some(problem) if code != exit::OK => {
            let place = match directory == Path::new(".") {
                true => String::new(),
                false => format!(" -C {}", directory.display()),
            };
            // Of a run without a reply there is little to show; whether a server answers is best tried by itself.
            let hint = match called.filter(|_| end.status == RunStatus::NoModel) {
                Some(_) if traced => format!("`sortie trace show {}{place}` shows what was sent and answered", end.run),
                Some(model) => format!(
                    "`sortie doctor --model {model}{place}` tries key and address with one tiny call; --trace-http writes \
                     down what is sent and answered"
                ),
                None => format!("`sortie show {}{place}` tells more", end.run),
            };
            Err(Error { code, message: problem.clone(), hint })
        }
        Some(_) | None => Ok(code),
    }
}
