//! The real binary for tests: in a directory of its own, without the environment of whoever runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything here may take before the test fails: far more than it takes, so that only a hang meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory with an empty `workspace` in it; gone when dropped.
pub(crate) struct Sandbox(TempDir);

/// What a command came to.
pub(crate) struct Said {
    /// The exit code, or 128 and the signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox(TempDir::new().unwrap());
        std::fs::create_dir(sandbox.workspace()).unwrap();
        sandbox
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }

    /// Writes a file; folders are made.
    pub(crate) fn file(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// `sortie` in the sandbox: no terminal, nothing on standard input, and of the environment only where programs are.
    pub(crate) fn sortie(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command.current_dir(self.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("SORTIE_STATE_DIR", self.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `sortie` with these arguments to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        let mut command = self.sortie();
        command.args(args);
        finish(command)
    }

    /// The same text with the sandbox called `DIR`.
    pub(crate) fn without_path(&self, text: &str) -> String {
        text.replace(self.path().to_str().unwrap(), "DIR")
    }
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command) -> Said {
    let child = command.spawn().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let id = child.id();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    let output = receive.recv_timeout(PATIENCE);
    if output.is_err() {
        kill(id);
    }
    assert!(output.is_ok(), "it does not end: {command:?}");
    Said::from(output.unwrap().unwrap())
}

/// Waits until something is so; fails the test when it never is.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: it never comes to that");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a child that was told to end.
pub(crate) fn wait(child: &mut Child) -> i32 {
    let mut status = None;
    until("the end of sortie", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    code(status.unwrap())
}

fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn kill(id: u32) {
    let id = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
    let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: code(output.status), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
