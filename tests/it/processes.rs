//! Runs as processes: signals, closed and endless pipes, what standard output holds, what is left behind.
//!
//! The clock is the real one, but nothing sleeps to be in time: a test waits for a line or a file, and what must not
//! happen is told by what is there after the end.

use crate::command::{Sandbox, finish, until, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Two nodes that would take an hour, one that waits for them; the command's grandchild would leave a file.
const SLOW: &str = r#"
version = 1
name = "slow"
[[node]]
id = "talk"
prompt = "Look."
[[node]]
id = "shell"
command = '''sh -c 'touch begun; sleep 3600; touch canary' & echo "the shell has begun"; wait'''
[[node]]
id = "later"
needs = ["talk", "shell"]
prompt = "Go on."
"#;

const SLOW_SCRIPT: &str = r#"
[[reply]]
node = "talk"
turn = 1
text = "Half of it is in the worker."
calls = [{ name = "list_files" }]
[[reply]]
node = "talk"
turn = 2
delay = "1h"
"#;

/// The same with a command that ignores every request to end.
const STUBBORN: &str = r#"
version = 1
name = "stubborn"
[[node]]
id = "shell"
command = '''trap '' TERM INT HUP; touch begun; while :; do sleep 3600; done'''
"#;

/// Longer than a run may take to end once it was asked to, shorter than the grace of 5 s: nothing waited for that.
const SOON: Duration = Duration::from_secs(4);

/// A run under way.
struct Running {
    sandbox: Sandbox,
    child: Child,
    stdout: Option<std::thread::JoinHandle<String>>,
    stderr: Arc<Mutex<String>>,
    stderr_reader: std::thread::JoinHandle<()>,
    /// Tells the processes of this run from those of tests beside it.
    mark: String,
}

/// A run that is over.
struct Over {
    code: i32,
    stdout: String,
    stderr: String,
    took: Duration,
    events: Vec<Value>,
}

impl Running {
    /// Starts `sortie run` with this plan and script.
    fn start(plan: &str, script: &str, args: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        sandbox.file("plan.toml", plan);
        sandbox.file("script.toml", script);
        let mark = sandbox.path().file_name().unwrap().to_str().unwrap().to_string();
        let mut command = sandbox.sortie();
        command.args(["run", "-C", "workspace", "--plan", "plan.toml", "--model", "script/script.toml"]);
        command.args(args).env("TEST_MARK", &mark);
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let stderr = Arc::new(Mutex::new(String::new()));
        let lines = Arc::clone(&stderr);
        let stderr_reader = std::thread::spawn(move || {
            for line in pipe.lines() {
                *lines.lock().unwrap() += &(line.unwrap() + "\n");
            }
        });
        Running { sandbox, child, stdout: Some(stdout), stderr, stderr_reader, mark }
    }

    fn wait_for_stderr(&self, text: &str) {
        until(text, || self.stderr.lock().unwrap().contains(text));
    }

    fn wait_for_file(&self, name: &str) {
        until(name, || self.sandbox.workspace().join(name).exists());
    }

    /// Waits until the subagent has said its first words and asks the model again.
    fn wait_for_words(&self) {
        until("the first turn", || {
            let log = run_dir(&self.sandbox).map(|dir| std::fs::read_to_string(dir.join("events.jsonl")));
            log.and_then(Result::ok).is_some_and(|log| log.contains("tool_finished"))
        });
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for the end, and checks what is true of every end: no process is left, and the record is whole.
    fn end(mut self) -> Over {
        let begun = Instant::now();
        let code = wait(&mut self.child);
        let took = begun.elapsed();
        assert_eq!(processes_of(&self.mark), Vec::<String>::new(), "something is left running");
        let stdout = self.stdout.take().map_or_else(String::new, |reader| reader.join().unwrap());
        self.stderr_reader.join().unwrap();
        let stderr = self.stderr.lock().unwrap().clone();
        let events = events(&self.sandbox);
        check_record(&events);
        assert!(!self.sandbox.workspace().join("canary").exists());
        Over { code, stdout, stderr, took, events }
    }
}

impl Over {
    fn outcomes(&self) -> BTreeMap<String, String> {
        let ended = self.events.iter().filter(|event| event["type"] == "node_finished");
        let text = |value: &Value| value.as_str().unwrap().to_string();
        ended.map(|event| (text(&event["node"]), text(&event["outcome"]))).collect()
    }
}

fn run_dir(sandbox: &Sandbox) -> Option<PathBuf> {
    let runs = std::fs::read_dir(sandbox.workspace().join(".sortie/runs")).ok()?;
    runs.map(|run| run.unwrap().path()).next()
}

fn events(sandbox: &Sandbox) -> Vec<Value> {
    let log = std::fs::read_to_string(run_dir(sandbox).unwrap().join("events.jsonl")).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every node of the plan has exactly one end, and the run's end comes last.
fn check_record(events: &[Value]) {
    let plan = events.iter().find(|event| event["type"] == "plan_accepted").unwrap();
    let ends = events.iter().filter(|event| event["type"] == "node_finished");
    let mut ended: Vec<&str> = ends.map(|event| event["node"].as_str().unwrap()).collect();
    let nodes = plan["plan"]["node"].as_array().unwrap();
    let mut planned: Vec<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    ended.sort_unstable();
    planned.sort_unstable();
    assert_eq!(ended, planned, "every node has one end");
    assert_eq!(events.last().unwrap()["type"], "run_finished");
}

/// Command lines of the processes that a node of this run has started.
fn processes_of(mark: &str) -> Vec<String> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let lossy = |path: PathBuf| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    let ours = |dir: PathBuf| {
        let environment = lossy(dir.join("environ")).ok()?;
        let found = environment.contains("SORTIE_NODE=") && environment.contains(&format!("TEST_MARK={mark}"));
        found.then(|| lossy(dir.join("cmdline")).unwrap_or_default())
    };
    all.filter_map(|entry| ours(entry.unwrap().path())).collect()
}

#[test]
fn one_signal_stops_the_run_soon_and_keeps_what_there_is() {
    for (signal, code, status, says) in
        [(Signal::INT, 130, "interrupted", "interrupted: "), (Signal::TERM, 143, "terminated", "told to terminate: ")]
    {
        let run = Running::start(SLOW, SLOW_SCRIPT, &[]);
        run.wait_for_file("begun");
        run.wait_for_words();
        run.signal(signal);
        let over = run.end();
        assert_eq!(over.code, code, "{}", over.stderr);
        assert!(over.took < SOON, "{:?}", over.took);
        assert_eq!(over.events.last().unwrap()["status"], status);
        let outcomes = [("later", "skipped"), ("shell", "cancelled"), ("talk", "cancelled")];
        assert_eq!(over.outcomes(), outcomes.map(|(node, how)| (node.to_string(), how.to_string())).into());
        for kept in ["Half of it is in the worker.", "the shell has begun", "may have had an effect"] {
            assert!(over.stdout.contains(kept), "{kept}: {}", over.stdout);
        }
        assert!(over.stderr.contains(says) && over.stderr.contains("again"), "{}", over.stderr);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let run = Running::start(STUBBORN, "", &["--grace", "1h"]);
    run.wait_for_file("begun");
    run.signal(Signal::INT);
    run.wait_for_stderr("press Ctrl-C again");
    run.signal(Signal::INT);
    let over = run.end();
    assert_eq!(over.code, 130, "{}", over.stderr);
    assert!(over.took < SOON, "{:?}", over.took);
    assert_eq!(over.outcomes()["shell"], "cancelled");
    assert!(over.stderr.contains("interrupted again"), "{}", over.stderr);
}

#[test]
fn what_ignores_the_request_to_end_is_killed_after_the_grace() {
    let run = Running::start(STUBBORN, "", &["--grace", "200ms"]);
    run.wait_for_file("begun");
    run.signal(Signal::INT);
    let over = run.end();
    assert_eq!(over.code, 130, "{}", over.stderr);
    assert!(over.took >= Duration::from_millis(150) && over.took < SOON, "{:?}", over.took);
    assert_eq!(over.outcomes()["shell"], "cancelled");
}

#[test]
fn a_reader_that_has_gone_away_is_no_error() {
    let report =
        "[[reply]]\nnode = \"*\"\ncalls = [{ name = \"report\", args = { status = \"done\", summary = \"s\" } }]\n";
    for output in ["text", "json", "jsonl"] {
        let sandbox = Sandbox::new();
        sandbox.file("plan.toml", "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\nprompt = \"Look.\"\n");
        sandbox.file("script.toml", report);
        let mut command = sandbox.sortie();
        command.args(["run", "-C", "workspace", "--plan", "plan.toml", "--model", "script/script.toml"]);
        let mut child = command.args(["--output", output]).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(wait(&mut child), 0, "{output}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("pipe") && !stderr.contains("error"), "{stderr}");
        check_record(&events(&sandbox));
    }
}

#[test]
fn json_is_alone_on_standard_output_whatever_else_there_is_to_say() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/a.rs", "/// Cancels a job.\nfn cancel() {}\n");
    sandbox.file("workspace/.sortie/config.toml", "jobs = 2\n");
    for (output, last) in [("json", 0), ("jsonl", 1)] {
        let mut command = sandbox.sortie();
        command.args(["run", "-C", "workspace", "where is a job cancelled?", "--output", output]);
        command.env("SORTIE_LOG", "trace");
        let said = finish(command);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(said.stderr.contains("note: `.sortie/config.toml` is ignored"), "{}", said.stderr);
        let lines: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len() > 1, last > 0, "{}", said.stdout);
        let result = lines.last().unwrap();
        assert_eq!(result["status"], "succeeded");
        assert_eq!(result.get("type").and_then(Value::as_str), (last > 0).then_some("result"));
    }
}

#[test]
fn nobody_to_ask_is_a_no_at_once() {
    let mut pipes: Vec<(&str, Stdio)> = vec![("null", Stdio::null()), ("endless pipe", Stdio::piped())];
    while let Some((what, stdin)) = pipes.pop() {
        let sandbox = Sandbox::new();
        sandbox.file("plan.toml", SLOW);
        let mut command = sandbox.sortie();
        command.args(["run", "-C", "workspace", "--plan", "plan.toml", "--approve-plan"]).stdin(stdin);
        let mut child = command.spawn().unwrap();
        // Held open, and never written to.
        let held = child.stdin.take();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(wait(&mut child), 1, "{what}: {stderr}");
        assert!(stderr.contains("nobody is there to approve it"), "{what}: {stderr}");
        assert!(!events(&sandbox).iter().any(|event| event["type"] == "node_started"), "{what}");
        drop(held);
    }
}

#[test]
fn a_process_of_a_node_cannot_start_a_run() {
    let sandbox = Sandbox::new();
    let plan = "version = 1\nname = \"p\"\n[[node]]\nid = \"nested\"\ncommand = '\"$SORTIE\" run x'\n";
    sandbox.file("plan.toml", plan);
    let mut command = sandbox.sortie();
    command.args(["run", "-C", "workspace", "--plan", "plan.toml"]).env("SORTIE", env!("CARGO_BIN_EXE_sortie"));
    let said = finish(command);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("this process belongs to node `nested` of a run"), "{}", said.stdout);
    assert!(said.stdout.contains("exit 2"), "{}", said.stdout);
}

#[test]
fn commands_do_not_see_keys_of_providers() {
    let sandbox = Sandbox::new();
    sandbox.file("plan.toml", "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\ncommand = \"env\"\n");
    let mut command = sandbox.sortie();
    command.args(["run", "-C", "workspace", "--plan", "plan.toml"]);
    command.env("ANTHROPIC_API_KEY", "secret-1").env("OPENAI_API_KEY", "secret-2").env("FOO", "seen");
    let said = finish(command);
    assert!(said.stdout.contains("FOO=seen") && !said.stdout.contains("secret-"), "{}", said.stdout);
}

#[test]
fn no_escape_sequence_is_printed_without_a_terminal() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/a.rs", "// \u{1b}[31mcancel\u{1b}[0m a job\nfn cancel() {}\n");
    let plan =
        "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\ncommand = '''printf '\\033[31mred\\033[0m\\n'; exit 1'''\n";
    sandbox.file("plan.toml", plan);
    for args in [
        ["run", "where is a job cancelled?"],
        ["run", "--plan=plan.toml"],
        ["show", "last"],
        ["runs", "-Cworkspace"],
        ["run", "--help"],
    ] {
        for (name, value) in [("NO_COLOR", "1"), ("COLORTERM", "truecolor"), ("TERM", "xterm-256color")] {
            let mut command: Command = sandbox.sortie();
            command.args(args).env(name, value);
            if !args[1].starts_with("-C") {
                command.arg("-Cworkspace");
            }
            let said = finish(command);
            assert!(!said.stdout.contains('\u{1b}') && !said.stderr.contains('\u{1b}'), "{args:?} {name}");
        }
    }
}

#[test]
fn a_child_in_a_session_of_its_own_does_not_hold_the_run() {
    let plan = "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\ntimeout = \"20s\"\ncommand = '''setsid sh -c 'touch begun; exec sleep 60' & until test -e begun; do :; done; echo done'''\n";
    let sandbox = Sandbox::new();
    sandbox.file("plan.toml", plan);
    let begun = Instant::now();
    let said = sandbox.run(&["run", "-C", "workspace", "--plan", "plan.toml"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("done") && begun.elapsed() < SOON, "{:?}", begun.elapsed());
}
