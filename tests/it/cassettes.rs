//! Runs that are recorded and replayed, and what must never get onto a tape or into a record.

use crate::command::{Said, Sandbox, finish};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const PLAN: &str = r#"version = 1
name = "p"
[[node]]
id = "map"
prompt = "Which parts are there?"
output = { type = "object", required = ["parts"], properties = { parts = { type = "array", items = { type = "string" } } } }
[[node]]
id = "part"
needs = ["map"]
foreach = "nodes.map.output.parts"
prompt = "Look."
[[node]]
id = "broken"
prompt = "Fail."
[[node]]
id = "answer"
needs = ["part"]
prompt = "Answer from the reports."
"#;

/// Siblings that are told the same and say different things, a refusal by the server, a reply that is cut.
const SCRIPT: &str = r#"
[[reply]]
node = "map"
turn = 1
text = "I look around, and say so in more than one piece of text: ünïcödé."
calls = [{ name = "list_files", args = {} }, { name = "read_file", args = { file_path = "a.rs" } }]
[[reply]]
node = "map"
turn = 2
calls = [{ name = "report", args = { status = "done", summary = "three", output = { parts = ["x", "x", "x"] } } }]
[[reply]]
node = "part[0]"
delay = "40ms"
calls = [{ name = "report", args = { status = "done", summary = "zero" } }]
[[reply]]
node = "part[1]"
delay = "20ms"
calls = [{ name = "report", args = { status = "done", summary = "one" } }]
[[reply]]
node = "part[2]"
text = "only half of "
fault = "cut"
[[reply]]
node = "part[2]"
optional = true
calls = [{ name = "report", args = { status = "done", summary = "two" } }]
[[reply]]
node = "broken"
fault = "429"
[[reply]]
node = "answer"
calls = [{ name = "report", args = { status = "done", summary = "all of it" } }]
[[reply]]
node = "coordinator"
text = "42"
"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/a.rs", "/// Cancels a job.\nfn cancel() {}\n");
    sandbox.file("workspace/src/b.rs", "fn b() {\n    cancel();\n}\n");
    sandbox
}

/// The result as JSON, without what differs from run to run.
fn result(said: &Said) -> Value {
    let mut result: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr));
    result["run"] = json!("");
    for node in result["nodes"].as_array_mut().unwrap() {
        node["duration_ms"] = json!(0);
    }
    result
}

/// All files below, with their bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path) } else { vec![(path.clone(), std::fs::read(path).unwrap())] }
        })
        .collect()
}

#[test]
fn a_recorded_run_comes_to_the_same_again_without_its_model() {
    let scout = ["run", "-Cworkspace", "--output=json", "where is a job cancelled?"];
    let script = ["run", "-Cworkspace", "--output=json", "--plan=plan.toml", "--model=script/s.toml", "what is it?"];
    for args in [&scout[..], &script[..]] {
        let sandbox = sandbox();
        sandbox.file("plan.toml", PLAN);
        let file = sandbox.file("s.toml", SCRIPT);
        let recorded = sandbox.run(&[args, &["--record=x.jsonl"]].concat());
        std::fs::remove_file(file).unwrap();
        // Which model it was need not be said again.
        let args: Vec<&str> = args.iter().filter(|arg| !arg.starts_with("--model")).copied().collect();
        for _ in 0..2 {
            let replayed = sandbox.run(&[&args[..], &["--cassette=x.jsonl"]].concat());
            assert_eq!(replayed.code, recorded.code, "{}\n{}", recorded.stderr, replayed.stderr);
            assert_eq!(result(&replayed), result(&recorded), "{}", replayed.stderr);
        }
        let usage = &result(&recorded)["usage"];
        assert!(usage["input"].as_u64().is_some_and(|tokens| tokens > 0), "the run said something: {usage}");
    }
}

#[test]
fn what_was_not_recorded_fails_the_run_and_names_the_first_difference() {
    let sandbox = sandbox();
    sandbox.file("plan.toml", "version = 1\nname = \"p\"\n[[node]]\nid = \"a\"\nprompt = \"Look.\"\n");
    let replies = "[[reply]]\nnode = \"a\"\nturn = 1\ncalls = [{ name = \"read_file\", args = { file_path = \"a.rs\" } }]\n\
                   [[reply]]\nnode = \"a\"\nturn = 2\ncalls = [{ name = \"report\", args = { status = \"done\", summary = \"ok\" } }]\n";
    sandbox.file("s.toml", replies);
    let args = ["run", "-Cworkspace", "--plan=plan.toml"];
    let recorded = sandbox.run(&[&args[..], &["--model=script/s.toml", "--record=x.jsonl"]].concat());
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    sandbox.file("workspace/a.rs", "/// Cancels a task.\nfn cancel() {}\n");
    let missed = sandbox.run(&[&args[..], &["--cassette=x.jsonl"]].concat());
    assert_eq!(missed.code, 1, "{}", missed.stderr);
    let error = missed.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or(&missed.stderr);
    insta::assert_snapshot!(error, @r#"error: turn 2 of `a` is not on the cassette `x.jsonl`: the nearest recorded request (turn 2 of `a`) differs first in message 2, block 0, text: recorded `     1\t/// Cancels a job.\n     2\tfn cancel() {}\n` but asked `     1\t/// Cancels a task.\n     2\tfn cancel() {}\n`; record again with --record"#);

    // What the coordinator's own call misses is told once.
    let recorded = sandbox.run(&["run", "-Cworkspace", "--record=y.jsonl", "where is a job cancelled?"]);
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    let missed = sandbox.run(&["run", "-Cworkspace", "--cassette=y.jsonl", "where is a job begun?"]);
    assert_eq!(missed.stderr.matches("is not on the cassette").count(), 1, "{}", missed.stderr);
}

#[test]
fn a_tape_that_cannot_be_used_is_refused_before_anything_runs() {
    let sandbox = sandbox();
    sandbox.file("here.jsonl", "");
    sandbox.file("version.jsonl", "{\"type\":\"cassette\",\"version\":9}\n");
    sandbox.file("damaged.jsonl", "{\"type\":\"cassette\",\"version\":1}\n{\"type\":\"model\"\n");
    sandbox.file("empty.jsonl", "{\"type\":\"cassette\",\"version\":1}\n");
    assert_eq!(sandbox.run(&["run", "-Cworkspace", "where is a job cancelled?", "--record=good.jsonl"]).code, 0);
    let mut told = String::new();
    for flags in [
        &["--record=here.jsonl"][..],
        &["--record=missing/x.jsonl"],
        &["--cassette=missing.jsonl"],
        &["--cassette=here.jsonl"],
        &["--cassette=version.jsonl"],
        &["--cassette=damaged.jsonl"],
        &["--cassette=empty.jsonl"],
        &["--cassette=good.jsonl", "--model=anthropic/other"],
        &["--cassette=good.jsonl", "--record=y.jsonl"],
        &["--cassette=good.jsonl", "--trace-http"],
    ] {
        let said = sandbox.run(&[&["run", "-Cworkspace", "x"], flags].concat());
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{flags:?}: {}", said.stderr);
        told.push_str(&format!("$ sortie run x {}\n{}\n", flags.join(" "), sandbox.without_path(&said.stderr)));
    }
    insta::assert_snapshot!(told);
    assert!(!sandbox.path().join("y.jsonl").exists());
    let runs = std::fs::read_dir(sandbox.path().join("workspace/.sortie/runs")).unwrap().count();
    assert_eq!(runs, 1, "nothing of a run that did not begin is left behind");
}

#[test]
fn no_key_is_on_a_tape_in_a_record_in_a_child_or_in_diagnostics() {
    const KEY: &str = "sk-acme-0123456789";
    let sandbox = sandbox();
    sandbox.file("workspace/.env", format!("ACME_API_KEY={KEY}\n"));
    sandbox.file("workspace/a.rs", format!("/// The key is {KEY}.\nfn key() {{}}\n"));
    let plan = format!(
        "version = 1\nname = \"p\"\n[inputs]\nwhat = {{}}\n[[node]]\nid = \"a\"\nprompt = \"{{{{ what }}}} {KEY}\"\n\
         [[node]]\nid = \"env\"\ncommand = \"env; cat .env\"\n"
    );
    sandbox.file("plan.toml", plan);
    let script = format!(
        "[[reply]]\nnode = \"a\"\nturn = 1\ntext = \"{KEY}\"\ncalls = [{{ name = \"read_file\", args = {{ file_path = \"a.rs\" }} }}]\n\
         [[reply]]\nnode = \"a\"\nturn = 2\ncalls = [{{ name = \"report\", args = {{ status = \"done\", summary = \"{KEY}\", body = \"{KEY}\" }} }}]\n\
         [[reply]]\nnode = \"coordinator\"\ntext = \"it is {KEY}\"\n"
    );
    sandbox.file("s.toml", script);
    let mut command = sandbox.sortie();
    command.args([
        "run",
        "-Cworkspace",
        "--plan=plan.toml",
        "--model=script/s.toml",
        "--record=x.jsonl",
        "--trace-http",
    ]);
    command.args(["-i", &format!("what={KEY}"), &format!("what is {KEY}?")]);
    command.env("ACME_API_KEY", KEY).env("COPY_OF_IT", format!("x{KEY}")).env("SORTIE_LOG", "trace");
    let said = finish(command);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let diagnostics: Vec<&str> = said.stderr.lines().filter(|line| line.contains("sortie::")).collect();
    assert!(!diagnostics.is_empty() && !diagnostics.iter().any(|line| line.contains(KEY)), "{diagnostics:?}");
    let mut written = files(&sandbox.path().join("workspace/.sortie"));
    written.push((PathBuf::from("x.jsonl"), std::fs::read(sandbox.path().join("x.jsonl")).unwrap()));
    assert!(written.len() > 8, "{}", written.len());
    for (path, bytes) in &written {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains("0123456789"), "{}: {text}", path.display());
        assert!(!text.contains("COPY_OF_IT"), "{}: {text}", path.display());
    }
    let trace = written.iter().find(|(path, _)| path.ends_with("http.jsonl")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&trace.0).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
