//! `sortie doctor`: whether everything that a run needs is there, and what to do where it is not.

use super::open::{Choice, Opener, choose};
use super::out::{Out, reason};
use super::settings::{Fate, Loaded, Manner, SettingsArgs, load, variable};
use super::{WorkspaceArgs, secrets, state};
use sortie::config::{DEFAULT_JOBS, Providers, Resolved, TrustStore};
use sortie::error::{Error, exit};
use sortie::model::http::{Auth, NetSettings, http_client};
use sortie::model::{Block, Message, Model, ModelError, ModelErrorKind, Reply, Request, Speaker, collect};
use sortie::redact::Redactor;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a call may take in all: it is tiny, and whoever waits sits in front of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Tokens of the answer: some models refuse to give fewer.
const OUTPUT: u32 = 16;

/// Check that a run can work: config, key, address, one tiny call, git, terminal, places to write
///
/// Each line is `ok`, `warn` or `fail`; below one that is not ok stands what to do. The call costs a few tokens; with
/// --offline nothing is sent. Exit code: 0 when nothing fails, 1 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct DoctorArgs {
    /// Send nothing: check only what is here
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    workspace: WorkspaceArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

const HELP: &str = "\
Examples:
  sortie doctor
  sortie doctor --model openai/gpt-5
  sortie doctor --offline -C ../project";

/// How a check came out; the worst is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// Prints each check as it comes out: the slow ones are the last.
struct Report<'a> {
    out: &'a mut Out,
    worst: Verdict,
}

impl Report<'_> {
    fn ok(&mut self, what: &str, said: impl AsRef<str>) -> Result<(), Error> {
        self.line(Verdict::Ok, what, said.as_ref(), "")
    }

    fn warn(&mut self, what: &str, said: impl AsRef<str>, hint: impl AsRef<str>) -> Result<(), Error> {
        self.line(Verdict::Warn, what, said.as_ref(), hint.as_ref())
    }

    fn fail(&mut self, what: &str, said: impl AsRef<str>, hint: impl AsRef<str>) -> Result<(), Error> {
        self.line(Verdict::Fail, what, said.as_ref(), hint.as_ref())
    }

    fn line(&mut self, verdict: Verdict, what: &str, said: &str, hint: &str) -> Result<(), Error> {
        self.worst = self.worst.max(verdict);
        let word = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        };
        let mut text = format!("{word:<5} {what:<10} {}\n", said.replace('\n', "\n                 "));
        if !hint.is_empty() {
            text.push_str(&format!("      {:<10} -> {hint}\n", ""));
        }
        self.out.data(&text)
    }
}

pub(crate) fn main(args: &DoctorArgs, out: &mut Out) -> Result<u8, Error> {
    let directory = &args.workspace.directory;
    if !directory.is_dir() {
        return Err(Error::usage(format!("`{}` is not a directory to work in", directory.display()))
            .hint("name the directory to work in with -C DIR"));
    }
    let loaded = load(directory, args.settings.trust, Manner::Look, out);
    let mut report = Report { out, worst: Verdict::Ok };
    report.ok("sortie", env!("CARGO_PKG_VERSION"))?;
    here(directory, &mut report)?;
    match loaded {
        Ok(loaded) => {
            config(&loaded, directory, &mut report)?;
            models(args, &loaded, &mut report)?;
        }
        // Its problems have been told already.
        Err(error) => report.fail("config", error.to_string(), &error.hint)?,
    }
    Ok(if report.worst == Verdict::Fail { exit::FAILED } else { exit::OK })
}

/// What is on this machine.
fn here(workspace: &Path, report: &mut Report<'_>) -> Result<(), Error> {
    let mut git = Command::new("git");
    git.env_clear().envs(secrets::environment(&[], &secrets::known(&[])));
    let git = git.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match git {
        Ok(said) if said.status.success() => {
            let said = String::from_utf8_lossy(&said.stdout);
            report.ok("git", sortie::text::printable(said.trim().trim_start_matches("git version ")))?;
        }
        Ok(_) => report.warn("git", "`git --version` fails", "repair the installation of git")?,
        Err(error) => {
            report.warn(
                "git",
                format!("cannot be started: {}", reason(&error)),
                "install git: subagents like to use it",
            )?;
        }
    }
    report.warn(
        "sandbox",
        "none in this version: commands of a plan run in the workspace with your rights",
        "read the commands of a plan before you run it: `sortie plan show FILE`",
    )?;
    match (std::io::stderr().is_terminal(), report.out.stderr_is_live()) {
        (true, true) => report.ok("terminal", "progress is drawn live")?,
        (true, false) => report.ok("terminal", "TERM is `dumb`: progress is told in plain lines")?,
        (false, _) => report.ok("terminal", "standard error is not one: progress is told in plain lines")?,
    }
    let runs = workspace.join(".sortie").join("runs");
    match writable(&runs) {
        Ok(()) => report.ok("runs", format!("are recorded in `{}`", runs.display()))?,
        Err(problem) => report.warn(
            "runs",
            format!("cannot be recorded in `{}`: {problem}", runs.display()),
            "they go into the state directory instead",
        )?,
    }
    let Some(state) = state::state_dir() else {
        return report.fail(
            "state",
            "there is no state directory: HOME is not set",
            "set HOME, or SORTIE_STATE_DIR to a directory of your own",
        );
    };
    match writable(&state) {
        Ok(()) => report.ok("state", format!("`{}` can be written", state.display())),
        Err(problem) => report.fail(
            "state",
            format!("`{}` cannot be written: {problem}", state.display()),
            "make it writable, or set SORTIE_STATE_DIR to a directory that is",
        ),
    }
}

/// Whether files can be made in a directory, or in what there is of its path. Leaves nothing behind.
fn writable(directory: &Path) -> Result<(), String> {
    let Some(there) = directory.ancestors().find(|path| path.exists()) else { return Ok(()) };
    if !there.is_dir() {
        return Err(format!("`{}` is a file", there.display()));
    }
    // Without a name from the start where the system can do that, so that even a kill leaves nothing.
    tempfile::tempfile_in(there).map(drop).map_err(|error| reason(&error))
}

fn config(loaded: &Loaded, workspace: &Path, report: &mut Report<'_>) -> Result<(), Error> {
    if loaded.files.is_empty() {
        report.ok("config", "no config files; that is fine")?;
    }
    for (path, fate) in &loaded.files {
        let path = path.display();
        match fate {
            Fate::Used => report.ok("config", format!("`{path}`"))?,
            Fate::NotTrusted => report.warn(
                "config",
                format!("`{path}` is ignored: the workspace is not trusted"),
                "read it, and if it does what you want, run once with --trust",
            )?,
        }
    }
    let remembers = TrustStore::new(state::state_dir().as_deref(), workspace).remembers();
    if !remembers {
        report.warn(
            "trust",
            "is not remembered: the state directory is missing, or lies in the workspace",
            "set SORTIE_STATE_DIR to a directory outside of the workspace",
        )?;
    }
    Ok(())
}

/// The run's model, those behind it and the one for chores.
fn models(args: &DoctorArgs, loaded: &Loaded, report: &mut Report<'_>) -> Result<(), Error> {
    let choice = match choose(&loaded.settings, loaded.named_model(&args.settings)) {
        Ok(choice) => choice,
        Err(error) => return report.fail("model", error.to_string(), &error.hint),
    };
    match &choice {
        Choice::Scout => report.warn(
            "model",
            format!("{}: {}; it searches by rules and is no language model", choice.name(), choice.why()),
            "set a key, such as ANTHROPIC_API_KEY or OPENAI_API_KEY; `sortie models --help` shows how",
        )?,
        Choice::Named(_) | Choice::Config(_) | Choice::Default { .. } => {
            report.ok("model", format!("{}: {}", choice.name(), choice.why()))?;
        }
    }
    let settings = &loaded.settings;
    let fallbacks = settings.fallback_models.iter().flatten().map(|name| ("fallback", name));
    let mut names = vec![("model", choice.name())];
    for (role, name) in fallbacks.chain(settings.small_model.iter().map(|name| ("small", name))) {
        if !names.iter().any(|(_, other)| other == name) {
            names.push((role, name));
        }
    }
    let net = loaded.net(&args.settings);
    let mut opener = Opener::new(settings, net.clone(), settings.jobs.unwrap_or(DEFAULT_JOBS));
    for (role, name) in names {
        if role != "model" {
            report.ok(role, sortie::text::printable(name))?;
        }
        if super::open::is_built_in(name) {
            if let Err(error) = opener.open(name) {
                report.fail("model", error.to_string(), &error.hint)?;
            }
            continue;
        }
        one_model(name, &mut opener, &net, args.offline, report)?;
    }
    Ok(())
}

fn one_model(
    name: &str,
    opener: &mut Opener<'_>,
    net: &NetSettings,
    offline: bool,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let resolved = match opener.resolve(name) {
        Ok(resolved) => resolved,
        Err(error) => {
            report.fail("key", error.to_string(), &error.hint)?;
            return if offline { Ok(()) } else { without_key(name, opener, net, report) };
        }
    };
    let provider = &resolved.provider;
    match &provider.auth {
        Auth::None => report.ok("key", format!("`{}` is used without a key", provider.name))?,
        Auth::Key { variable, .. } => report.ok("key", format!("`{}` gets the key in {variable}", provider.name))?,
    }
    if !address(&resolved, net, report)? || offline {
        return Ok(());
    }
    let model = match opener.open(name) {
        Ok(model) => model,
        Err(error) => return report.fail("call", error.to_string(), &error.hint),
    };
    let begun = Instant::now();
    match block_on(call(model))? {
        Ok(reply) => {
            let usage = sortie::ui::token_count(&reply.usage);
            report.ok("call", format!("`{name}` answered after {} ms ({usage})", begun.elapsed().as_millis()))
        }
        Err(error) => report.fail("call", error.message, error.hint),
    }
}

/// Whether requests may go where they would go.
fn address(resolved: &Resolved, net: &NetSettings, report: &mut Report<'_>) -> Result<bool, Error> {
    let provider = &resolved.provider;
    let url = match provider.endpoint() {
        Ok(url) => url,
        Err(problem) => {
            report.fail("address", format!("`{}`: {problem}", provider.name), "")?;
            return Ok(false);
        }
    };
    if let Err(error) = net.egress.check(&url) {
        report.fail("address", error.message, error.hint)?;
        return Ok(false);
    }
    let http = match http_client(net, provider.ca_file.as_deref()) {
        Ok(http) => http,
        Err(problem) => {
            report.fail("address", problem, "correct that setting, or take it away")?;
            return Ok(false);
        }
    };
    // A gateway may want its key in the query.
    let shown = Redactor::default().url(url.as_str());
    let way = http.proxy_of(&url).map_or_else(String::new, |proxy| format!(" through the proxy `{proxy}`"));
    let local = url.host_str().is_some_and(|host| {
        let host = host.trim_matches(['[', ']']);
        host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    });
    if url.scheme() == "http" && !local && provider.auth != Auth::None {
        report.warn(
            "address",
            format!("{shown}{way}: the key goes there unencrypted"),
            "use https:// in the base URL",
        )?;
    } else {
        report.ok("address", format!("{shown}{way}"))?;
    }
    Ok(true)
}

/// Without a key there is no call to make, but there is a server to reach.
fn without_key(name: &str, opener: &Opener<'_>, net: &NetSettings, report: &mut Report<'_>) -> Result<(), Error> {
    let provider = name.split_once('/').map_or(name, |(provider, _)| provider);
    let known = Providers::new(opener.settings(), &variable).list().into_iter().find(|known| known.name == provider);
    let Some((known, protocol)) = known.and_then(|known| Some((known.clone(), known.protocol?))) else { return Ok(()) };
    let (Ok(url), Ok(http)) = (sortie::model::http::endpoint(&known.base_url, protocol), http_client(net, None)) else {
        return Ok(());
    };
    let reached = block_on(async {
        let sent = http.get(&url)?.send();
        match tokio::time::timeout(PATIENCE, sent).await {
            Ok(Ok(response)) => Ok(response.status().as_u16()),
            Ok(Err(error)) => {
                let failure = http.trouble(&error, &url);
                Err(ModelError::new(failure.kind, failure.message).hint(failure.hint))
            }
            Err(_) => Err(too_slow()),
        }
    })?;
    match reached {
        Ok(status) => {
            let url = Redactor::default().url(url.as_str());
            report.ok("address", format!("{url} can be reached (status {status} to a request without a key)"))
        }
        Err(error) => report.fail("address", error.message, error.hint),
    }
}

/// The smallest call there is.
async fn call(model: Arc<dyn Model>) -> Result<Reply, ModelError> {
    let message = Message { speaker: Speaker::User, blocks: vec![Block::text("Say: ok")] };
    let request = Request {
        conversation: "doctor".to_string(),
        attempt: 1,
        turn: 1,
        system: "Answer in one word.".into(),
        tools: Arc::new([]),
        messages: vec![Arc::new(message)],
        max_output: OUTPUT,
        format: None,
    };
    let answer = async { collect(model.stream(request).await?, |_| {}).await };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(too_slow()))
}

fn too_slow() -> ModelError {
    ModelError::new(ModelErrorKind::Silent, format!("no answer within {} seconds", PATIENCE.as_secs()))
        .hint("the server or a proxy before it does not answer; try again, or another base URL")
}

fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failed(format!("cannot start the runtime: {}", reason(&error))))?;
    Ok(runtime.block_on(work))
}
