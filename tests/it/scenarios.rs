//! Whole runs of the real binary: one folder per behaviour in `tests/scenarios/runs`, and no Rust for a new one.
//!
//! | file | what it is |
//! |---|---|
//! | `args` | arguments of `sortie run`, one per line; `{workspace}` and `{plans}` are replaced |
//! | `plan.toml` | runs with `--plan`, unless `args` names one |
//! | `script.toml` | answers as `--model`, unless `args` names one; checks what each subagent is told (`expect`) |
//! | `answers.toml` | answers as a model server would, byte by byte (see `answers`); `{server}` in `args` is its address |
//! | `workspace/` | the files that the run finds |
//! | `expected.json` | exit code and result, without what differs from run to run |
//! | `expected.requests.json` | what the server was asked: where, and the messages without the prompt |
//! | `expected.stderr` | standard error, where it matters; times and counts are `TIME` and `N`, a run's id is `RUN` |
//!
//! Lines of `args` that begin with `#` say what the scenario shows. `UPDATE_EXPECT=1 cargo test --test it scenarios`
//! writes what comes out now; `expected.stderr` only where there is one (make it empty first) or the run never began.

mod answers;

use crate::command::{Said, Sandbox, finish};
use answers::Server;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The key that a scenario's server is given; never to be seen.
const KEY: &str = "sk-never-to-be-seen";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_scenario_comes_to_what_is_expected() {
    let all = names(&folder("tests/scenarios/runs"));
    assert!(all.len() > 40, "the scenarios are gone");
    let queue = Mutex::new(all);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        // They mostly wait, so more of them run at once than there are processors.
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(name) = queue.lock().unwrap().pop() else { return };
                    if let Err(difference) = check(&name) {
                        wrong.lock().unwrap().push(format!("== {name}\n{difference}"));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_plan_that_comes_along_has_a_scenario_and_every_subagent_of_it_is_looked_at() {
    let runs = folder("tests/scenarios/runs");
    for plan in names(&folder("plans")) {
        let used = names(&runs).into_iter().find(|name| {
            let args = std::fs::read_to_string(runs.join(name).join("args")).unwrap_or_default();
            args.lines().any(|line| line == format!("{{plans}}/{plan}")) && runs.join(name).join("script.toml").exists()
        });
        let used = used.unwrap_or_else(|| panic!("no scenario in tests/scenarios/runs runs plans/{plan}"));
        let script = std::fs::read_to_string(runs.join(&used).join("script.toml")).unwrap();
        let unchecked = script.split("[[reply]]").skip(1).find(|reply| !reply.contains("expect = {"));
        assert_eq!(unchecked, None, "a reply of `{used}` expects nothing of its request");
    }
}

/// Plays a scenario and compares.
fn check(name: &str) -> Result<(), String> {
    let scenario = folder("tests/scenarios/runs").join(name);
    let sandbox = Sandbox::new();
    copy(&scenario, sandbox.path());
    let server = Server::of(&scenario);
    // Whatever names the sandbox or the server.
    let without_places = |text: &str| match &server {
        Some(server) => sandbox.without_path(text).replace(server.url.trim_start_matches("http://"), "SERVER"),
        None => sandbox.without_path(text),
    };
    let said = play(&scenario, &sandbox, server.as_ref());
    if said.stderr.contains("panicked at") && !said.stderr.contains("the script asked for a panic") {
        return Err(format!("-- it panicked\n{}", said.stderr));
    }
    let result = serde_json::from_str::<Value>(&said.stdout).ok();
    if result.is_none() && !said.stdout.is_empty() {
        return Err(format!("-- standard output is not one JSON object\n{}", said.stdout));
    }
    let mut came = normal(&said, result.as_ref());
    if let (Some(_), Some(result)) = (&server, &result) {
        came["usage"] = result["usage"].clone();
    }
    let came = serde_json::to_string_pretty(&came).unwrap();
    let result_differs = compare(&scenario.join("expected.json"), &without_places(&came), true);
    let run = result.as_ref().and_then(|result| result["run"].as_str());
    let stderr = normal_stderr(&without_places(&said.stderr), run);
    let stderr_differs = compare(&scenario.join("expected.stderr"), &stderr, result.is_none());
    let requests_differ = server.as_ref().and_then(|server| {
        let came = serde_json::to_string_pretty(&normal_requests(server)).unwrap();
        compare(&scenario.join("expected.requests.json"), &without_places(&came), true)
    });
    if said.stdout.contains(KEY) || said.stderr.contains(KEY) {
        return Err(format!("-- the key is shown\n{}\n{}", said.stdout, said.stderr));
    }
    let differences: Vec<String> = result_differs.into_iter().chain(requests_differ).chain(stderr_differs).collect();
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
}

fn play(scenario: &Path, sandbox: &Sandbox, server: Option<&Server>) -> Said {
    let text = std::fs::read_to_string(scenario.join("args")).unwrap_or_default();
    let workspace = sandbox.workspace().into_os_string().into_string().unwrap();
    let plans = folder("plans").into_os_string().into_string().unwrap();
    let args: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.replace("{workspace}", &workspace).replace("{plans}", &plans))
        .map(|line| line.replace("{server}", server.map_or("", |server| &server.url)))
        .collect();
    let mut command = sandbox.sortie();
    command.arg("run");
    if let Some(server) = server {
        command
            .env("SORTIE_CONFIG", sandbox.file("settings.toml", server.settings()))
            .env("TEST_KEY", server.key.replace("{key}", KEY));
    }
    let defaults = [
        ("-C", workspace.as_str(), true),
        ("--output", "json", true),
        ("--plan", "plan.toml", scenario.join("plan.toml").exists()),
        ("--model", "script/script.toml", scenario.join("script.toml").exists()),
        ("--model", "test/m", server.is_some()),
    ];
    for (option, value, there) in defaults {
        if there && !args.iter().any(|arg| arg == option) {
            command.args([option, value]);
        }
    }
    command.args(args);
    finish(command)
}

/// The files of a scenario, for the run to find and change.
fn copy(from: &Path, to: &Path) {
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            std::fs::create_dir_all(&to).unwrap();
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

/// The result without ids, durations and usage; only the exit code of a run that never began.
fn normal(said: &Said, result: Option<&Value>) -> Value {
    let Some(result) = result else { return json!({ "exit_code": said.code }) };
    let nodes: Vec<Value> = result["nodes"].as_array().into_iter().flatten().map(normal_node).collect();
    assert_eq!(result["exit_code"], said.code, "the result says how the process ends");
    let mut normal = json!({
        "status": result["status"],
        "exit_code": said.code,
        "answer": result["answer"].as_str().map(|answer| answer.lines().collect::<Vec<_>>()),
        "nodes": nodes,
    });
    if let Some(problem) = result["problem"].as_str() {
        normal["problem"] = json!(problem);
    }
    normal
}

/// What a server was asked: the path of each request and what came after the prompt, long texts cut.
fn normal_requests(server: &Server) -> Value {
    let (asked, unused) = server.asked();
    let requests: Vec<Value> = asked
        .into_iter()
        .map(|(path, body)| {
            let messages = body["messages"].as_array().or(body["input"].as_array()).cloned().unwrap_or_default();
            // The prompt, and the system text where it is a message, are other tests' business.
            let prompt = messages.iter().position(|message| message["role"] == "user").map_or(0, |at| at + 1);
            json!({ "path": path, "messages": clipped(Value::Array(messages[prompt.min(messages.len())..].to_vec())) })
        })
        .collect();
    json!({ "requests": requests, "unused_answers": unused })
}

/// The value with each text cut after 160 characters.
fn clipped(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > 160 => {
            Value::String(text.chars().take(160).chain("…".chars()).collect())
        }
        Value::Array(items) => items.into_iter().map(clipped).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, clipped(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// What a node came to; what it has not is left out.
fn normal_node(node: &Value) -> Value {
    let kept = ["id", "outcome", "cause", "summary", "output"];
    kept.iter().filter(|key| !node[**key].is_null()).map(|key| ((*key).to_string(), node[*key].clone())).collect()
}

/// Words that differ from run to run are replaced, and the gaps between columns with them.
fn normal_stderr(text: &str, run: Option<&str>) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut words: Vec<String> = Vec::new();
        for word in line.split_whitespace() {
            let bare = word.trim_end_matches([',', ';', ':']);
            let rest = &word[bare.len()..];
            let after_time = words.last().is_some_and(|last| last.starts_with("TIME"));
            if bare == "tokens"
                && let Some(count) = words.last_mut().filter(|last| is_number(last))
            {
                *count = "N".to_string();
            }
            words.push(match bare {
                _ if run == Some(bare) => format!("RUN{rest}"),
                _ if is_time(bare) => format!("TIME{rest}"),
                _ if is_number(bare) && (after_time || bare.ends_with(['k', '%'])) => format!("N{rest}"),
                _ => word.to_string(),
            });
        }
        out.push_str(&line[..line.len() - line.trim_start().len()]);
        out.push_str(&words.join(" "));
        out.push('\n');
    }
    out
}

/// `12`, `1.2k`, `98%`.
fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit() || b".k%".contains(&byte))
}

/// `0.4s`, as screens show what was measured; limits are written without a fraction.
fn is_time(word: &str) -> bool {
    let seconds = word.strip_suffix('s').and_then(|number| number.split_once('.'));
    seconds.is_some_and(|(whole, part)| [whole, part].iter().all(|text| text.parse::<u32>().is_ok()))
}

/// How a text differs from a file, if it does. A file that is not wanted and not there is no difference.
fn compare(file: &Path, came: &str, wanted: bool) -> Option<String> {
    let expected = std::fs::read_to_string(file).ok();
    if expected.is_none() && !wanted {
        return None;
    }
    let came = format!("{}\n", came.trim_end());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(file, &came).unwrap();
        return None;
    }
    let expected = expected.unwrap_or_default();
    let name = file.file_name().unwrap().to_str().unwrap();
    (expected != came).then(|| format!("-- {name} says\n{expected}-- it comes to\n{came}"))
}
