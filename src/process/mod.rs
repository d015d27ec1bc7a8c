//! Children: started in a process group of their own, bounded in output and time, dead when their node ends.

use crate::cancel::{Cancel, from_now};
use crate::redact::Redactor;
use crate::text;
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// The variable that marks every process of a node, with the node's name.
pub const NODE_VARIABLE: &str = "SORTIE_NODE";
/// Bytes of each output stream kept from its start, and again from its end.
const KEEP: usize = 64 * 1024;
/// How long a pipe is read after its command has ended, when something else still holds it.
const DRAIN: Duration = Duration::from_millis(200);

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// Its time limit passed; it was killed.
    TimedOut(Duration),
    /// The run stopped; it was killed.
    Stopped,
    /// It could not be started.
    NotStarted(String),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Exit(code) => write!(f, "exit {code}"),
            Ended::Signal(signal) => write!(f, "signal {signal}"),
            Ended::TimedOut(limit) => write!(f, "timed out after {}", humantime::format_duration(*limit)),
            Ended::Stopped => f.write_str("stopped while it ran"),
            Ended::NotStarted(reason) => write!(f, "could not start: {reason}"),
        }
    }
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// How it ended.
    pub ended: Ended,
    /// Standard output: text, escape sequences removed, the middle left out when long (and said so).
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

/// Where and how a command runs.
pub struct Shell<'a> {
    /// The working directory.
    pub directory: &'a Path,
    /// Every variable that the command sees, [`NODE_VARIABLE`] aside.
    pub environment: &'a [(OsString, OsString)],
    /// The node it belongs to.
    pub node: &'a str,
    /// Time limit.
    pub timeout: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// The node's.
    pub cancel: &'a Cancel,
}

impl Shell<'_> {
    /// Runs a command line with `sh -c`. Standard input is empty.
    ///
    /// Whatever the command left in its process group is dead when this returns.
    pub async fn run(&self, command: &str) -> CommandEnd {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(self.directory).process_group(0).kill_on_drop(true);
        shell.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        shell.env(NODE_VARIABLE, self.node);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match shell.spawn() {
            Ok(child) => child,
            Err(error) => {
                let ended = Ended::NotStarted(error.to_string());
                return CommandEnd { ended, stdout: String::new(), stderr: String::new() };
            }
        };
        let group = Group::of(&child);
        // Readers stop when told, not only at the end of the pipe: a grandchild may hold it open for ever.
        let (tell_readers, told) = watch::channel(());
        let stdout = tokio::spawn(keep(child.stdout.take(), told.clone()));
        let stderr = tokio::spawn(keep(child.stderr.take(), told));
        let ended = wait(&mut child, &group, self).await;
        group.signal(rustix::process::Signal::KILL);
        let _ = tokio::time::timeout(DRAIN, tell_readers.closed()).await;
        drop(tell_readers);
        let (stdout, stderr) = (stdout.await.unwrap_or_default(), stderr.await.unwrap_or_default());
        CommandEnd { ended, stdout: stdout.text(), stderr: stderr.text() }
    }
}

/// How names of variables end that hold a key of a model provider.
const SECRET_ENDINGS: [&str; 8] = [
    "API_KEY",
    "APIKEY",
    "API_TOKEN",
    "AUTH_TOKEN",
    "OPENAI_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    // Headers that other tools send along, `authorization` among them.
    "ANTHROPIC_CUSTOM_HEADERS",
    "HF_TOKEN",
];

/// Whether a variable of this name holds a key of a model provider: no command of a node sees it.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_its_last_word =
        |ending: &&str| name.strip_suffix(*ending).is_some_and(|before| before.is_empty() || before.ends_with('_'));
    SECRET_ENDINGS.iter().any(is_its_last_word)
}

/// An environment without keys: no variable that [`is_secret`], none of `configured`, and none whose value holds a
/// secret, whatever its name.
pub fn without_secrets(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    configured: &[String],
    hidden: &Redactor,
) -> Vec<(OsString, OsString)> {
    let is_harmless = |(name, value): &(OsString, OsString)| {
        let by_name = name.to_str().is_some_and(|name| is_secret(name) || configured.iter().any(|own| own == name));
        !by_name && !hidden.finds(&value.to_string_lossy())
    };
    variables.into_iter().filter(is_harmless).collect()
}

async fn wait(child: &mut Child, group: &Group, limits: &Shell<'_>) -> Ended {
    let deadline = from_now(limits.timeout);
    let why = tokio::select! {
        biased;
        status = child.wait() => return from_status(status),
        () = limits.cancel.stop_token().cancelled() => Ended::Stopped,
        () = tokio::time::sleep_until(deadline) => Ended::TimedOut(limits.timeout),
    };
    group.signal(rustix::process::Signal::TERM);
    tokio::select! {
        biased;
        _ = child.wait() => return why,
        () = limits.cancel.kill_token().cancelled() => {}
        () = tokio::time::sleep(limits.grace) => {}
    }
    group.signal(rustix::process::Signal::KILL);
    let _ = child.wait().await;
    why
}

fn from_status(status: std::io::Result<ExitStatus>) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, Some(signal)) => Ended::Signal(signal),
            (None, None) => Ended::NotStarted("it ended without a status".to_string()),
        },
        Err(error) => Ended::NotStarted(error.to_string()),
    }
}

/// A process group; killed when dropped, so that no path leaves it behind.
struct Group(Option<rustix::process::Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Group(child.id().and_then(|id| rustix::process::Pid::from_raw(id as i32)))
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.0 {
            // It may be gone already, which is what is wanted.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

/// The start and the end of a stream, and how much lay between.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: Vec<u8>,
    omitted: usize,
}

impl Kept {
    fn push(&mut self, mut bytes: &[u8]) {
        let room = KEEP - self.head.len();
        let now = room.min(bytes.len());
        self.head.extend_from_slice(&bytes[..now]);
        bytes = &bytes[now..];
        self.tail.extend_from_slice(bytes);
        // Cut only now and then: moving the tail for every read would cost its length each time.
        if self.tail.len() > 2 * KEEP {
            let cut = self.tail.len() - KEEP;
            self.tail.drain(..cut);
            self.omitted += cut;
        }
    }

    fn text(mut self) -> String {
        if self.tail.len() > KEEP && self.omitted > 0 {
            let cut = self.tail.len() - KEEP;
            self.tail.drain(..cut);
            self.omitted += cut;
        }
        if self.omitted == 0 {
            self.head.append(&mut self.tail);
            return text::printable(&String::from_utf8_lossy(&self.head)).into_owned();
        }
        // Neither cut may fall into a character.
        let whole = whole_chars(&self.head);
        self.omitted += self.head.len() - whole;
        self.head.truncate(whole);
        let rest = self.tail.iter().take(3).take_while(|byte| is_inside(**byte)).count();
        self.omitted += rest;
        self.tail.drain(..rest);
        let head = String::from_utf8_lossy(&self.head).into_owned();
        let tail = String::from_utf8_lossy(&self.tail).into_owned();
        let gap = format!("\n[… {} left out …]\n", text::plural(self.omitted, "byte"));
        text::printable(&(head + &gap + &tail)).into_owned()
    }
}

/// How many of these bytes there are before a last character that is cut.
fn whole_chars(bytes: &[u8]) -> usize {
    let Some(start) = bytes.iter().rposition(|byte| !is_inside(*byte)) else { return bytes.len() };
    match std::str::from_utf8(&bytes[start..]) {
        Err(error) if error.error_len().is_none() => start,
        Ok(_) | Err(_) => bytes.len(),
    }
}

/// Whether this is a byte of a UTF-8 character after its first.
fn is_inside(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

async fn keep(pipe: Option<impl AsyncRead + Unpin>, mut told: watch::Receiver<()>) -> Kept {
    let mut kept = Kept::default();
    let Some(mut pipe) = pipe else { return kept };
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            biased;
            read = pipe.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return kept,
                Ok(count) => kept.push(&buffer[..count]),
            },
            _ = told.changed() => return kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_sees_no_key_under_whatever_name_it_is() {
        const KEY: &str = "sk-0123456789";
        let variables = [
            ("PATH", "/bin", true),
            ("ANTHROPIC_API_KEY", "x", false),
            ("ANTHROPIC_AUTH_TOKEN", "x", false),
            ("ANTHROPIC_CUSTOM_HEADERS", "x", false),
            ("openai_api_key", "x", false),
            ("AZURE_OPENAI_KEY", "x", false),
            ("API_KEY", "x", false),
            ("REPLICATE_API_TOKEN", "x", false),
            ("HF_TOKEN", "x", false),
            ("ACME_LOGIN", "x", false),
            ("COPY", "prefix sk-0123456789", false),
            ("GITHUB_TOKEN", "x", true),
            ("MONKEY", "x", true),
            ("NOT_AN_API_KEY_FILE", "/a", true),
        ];
        let all = variables.map(|(name, value, _)| (OsString::from(name), OsString::from(value)));
        let kept = without_secrets(all, &["ACME_LOGIN".to_string()], &Redactor::new([KEY]));
        let kept: Vec<&str> = kept.iter().filter_map(|(name, _)| name.to_str()).collect();
        let expected: Vec<&str> = variables.iter().filter(|(.., keep)| *keep).map(|(name, ..)| *name).collect();
        assert_eq!(kept, expected);
    }
}
