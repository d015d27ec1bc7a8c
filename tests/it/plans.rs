//! `sortie plan check` and `plan show` as users meet them: one folder per mistake in `tests/scenarios/plans`, with the
//! plan and everything the command then says. `UPDATE_EXPECT=1` writes what it says now.

use proptest::prelude::*;
use sortie::plan::{self, Format, Known, Plan};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/plans")
}

/// The command's exit code, standard output and standard error, as one text.
fn sortie(args: &[&str], stdin: &[u8]) -> String {
    use std::io::Write as _;
    let mut child = Command::new(env!("CARGO_BIN_EXE_sortie"))
        .args(args)
        .current_dir(scenarios())
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input closes it early.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command prints UTF-8");
    let code = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
    format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(output.stdout), text(output.stderr))
}

fn known() -> Known {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Known {
        roles: names(&["explorer"]),
        tools: names(&["read_file", "list_files", "search_code"]),
        commands_allowed: true,
    }
}

#[test]
fn every_scenario_says_what_is_expected() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(scenarios()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() > 40, "the scenarios are gone");
    for folder in folders {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let file = ["plan.toml", "plan.json"].into_iter().find(|file| folder.join(file).exists()).unwrap();
        let said = sortie(&["plan", "check", &format!("{name}/{file}")], b"");
        let expected = folder.join("expected.txt");
        if update {
            std::fs::write(&expected, &said).unwrap();
        }
        let valid = name.starts_with("valid-");
        let wanted = std::fs::read_to_string(&expected).unwrap_or_default();
        if said != wanted || said.starts_with("exit 0") != valid || (!valid && !said.starts_with("exit 2")) {
            wrong.push(format!("== {name}\n-- expected\n{wanted}-- said\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_kind_of_problem_has_a_scenario() {
    let mut all = String::new();
    for entry in std::fs::read_dir(scenarios()).unwrap() {
        all.push_str(&std::fs::read_to_string(entry.unwrap().path().join("expected.txt")).unwrap());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/plan");
    let mut codes = 0;
    for entry in std::fs::read_dir(source).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for call in ["error(\"", "warning(\""] {
            for (at, _) in text.match_indices(call) {
                let code = text[at + call.len()..].split('"').next().unwrap();
                // Neither can be written in a file of its own kind: a model's plan, a value nested too deeply.
                if !["command-not-allowed", "too-deep"].contains(&code) {
                    assert!(all.contains(&format!("[{code}]")), "no scenario shows `{code}`");
                }
                codes += 1;
            }
        }
    }
    assert!(codes > 40, "{codes}");
}

#[test]
fn all_files_are_checked_whatever_is_wrong_with_one() {
    let dir = tempfile::tempdir().unwrap();
    let latin = dir.path().join("latin.toml");
    std::fs::write(&latin, b"version = 1\nname = \"caf\xe9\"\n").unwrap();
    let latin = latin.to_str().unwrap();
    let said = sortie(
        &["plan", "check", "no-such.toml", "cycle", latin, "self-need/plan.toml", "valid-json/plan.json", "-"],
        b"version = 1\nname = \"piped\"\n[[node]]\nid = \"a\"\nprompt = \"go\"\n",
    );
    insta::assert_snapshot!(said.replace(dir.path().to_str().unwrap(), "DIR"));
}

#[test]
fn show_draws_every_format() {
    for format in ["tree", "mermaid", "dot", "json"] {
        let said = sortie(&["plan", "show", "valid-investigate/plan.toml", "--format", format], b"");
        insta::assert_snapshot!(format!("show_{format}"), said);
    }
    let broken = sortie(&["plan", "show", "self-need/plan.toml"], b"");
    assert!(broken.starts_with("exit 2\n--- stdout\n--- stderr\nerror[self-need]"), "{broken}");
}

#[test]
fn names_are_escaped_in_drawings() {
    let plan = r#"{"version": 1, "name": "x", "description": "\u001b[2Jclear", "node": [
        {"id": "a", "command": "echo \"<b>\" `x` # \\ | cat\nrm"},
        {"id": "b", "needs": ["a"], "foreach": ["\"]; end"], "prompt": "\u001b[31m\"{{ item }}\""}]}"#;
    let said: String = ["tree", "mermaid", "dot"]
        .map(|format| sortie(&["plan", "show", "-", "--format", format], plan.as_bytes()))
        .concat();
    assert!(!said.contains('\u{1b}'));
    insta::assert_snapshot!(said);
}

#[test]
fn help_teaches() {
    insta::assert_snapshot!("help_check", sortie(&["plan", "check", "--help"], b""));
    insta::assert_snapshot!("help_show", sortie(&["plan", "show", "--help"], b""));
}

#[test]
fn line_ends_and_byte_order_mark_do_not_change_the_plan() {
    let read = |name: &str| {
        let text = std::fs::read_to_string(scenarios().join(name).join("plan.toml")).unwrap();
        plan::parse(&text, Format::Toml, &known()).unwrap()
    };
    assert_eq!(read("valid-bom-crlf"), read("valid-investigate"));
}

#[test]
fn a_models_plan_is_judged_with_pointers_and_without_commands() {
    let known = Known { commands_allowed: false, ..known() };
    let good = serde_json::json!({"name": "p", "nodes": [{"id": "a", "prompt": "x"}]});
    assert_eq!(plan::parse_value(&good, &known).unwrap().nodes.len(), 1);
    let bad = serde_json::json!({"name": "p", "node": [
        {"id": "a", "command": "rm -rf /", "needs": ["b"]},
        {"id": "b", "prompt": "{{ nodes.a.summary }} {{ x }}", "needs": ["a", "zz"]},
        {"id": "a", "prompt": "y", "role": "wizard"},
    ]});
    insta::assert_snapshot!(plan::parse_value(&bad, &known).unwrap_err().for_model());
    for prose in [serde_json::json!("I would first look around."), serde_json::json!([]), serde_json::json!(null)] {
        assert!(!plan::parse_value(&prose, &known).unwrap_err().is_empty());
    }
}

#[test]
fn large_plans_are_read_in_one_go() {
    let n = 20_000;
    let mut chain = "version = 1\nname = \"chain\"\n[[node]]\nid = \"n0\"\nprompt = \"x\"\n".to_owned();
    for i in 1..n {
        chain.push_str(&format!(
            "[[node]]\nid = \"n{i}\"\nneeds = \"n{}\"\nprompt = \"{{{{ nodes.n0.summary }}}}\"\n",
            i - 1
        ));
    }
    let plan = plan::parse(&chain, Format::Toml, &known()).unwrap();
    assert_eq!(plan::Graph::new(&plan).critical_path().len(), n);
}

/// A valid plan: every node needs some of those before it, and speaks of them.
fn plans() -> impl Strategy<Value = Plan> {
    let node = (any::<prop::sample::Index>(), 0..4_usize, any::<u8>(), "[ -z\u{e9}\n]{0,20}", 1..5_000_u64);
    prop::collection::vec(node, 1..12).prop_map(|nodes| {
        let mut list = Vec::new();
        for (at, (need, kind, bits, text, seconds)) in nodes.into_iter().enumerate() {
            let mut node = serde_json::json!({"id": format!("n{at}")});
            let text = format!("go {}", text.replace('{', "("));
            if bits & 1 == 1 && at > 0 {
                let other = need.index(at);
                node["needs"] = serde_json::json!([format!("n{other}")]);
            }
            match kind {
                0 => node["command"] = text.into(),
                1 => {
                    node["prompt"] = format!("{text} {{{{ item }}}} {{{{ q }}}}").into();
                    node["foreach"] = serde_json::json!([text, 1.5, true, null, {"a": [1]}]);
                    node["batch"] = (1 + bits as usize).into();
                }
                _ => {
                    node["prompt"] = format!("{text} {{{{ q }}}}").into();
                    node["output"] = serde_json::json!({"type": "object", "properties": {"x": {"type": "number"}}});
                    node["turns"] = (1 + u32::from(bits)).into();
                    node["tools"] = serde_json::json!(["read_file"]);
                }
            }
            if bits & 2 == 2 {
                node["timeout"] = format!("{seconds}ms").into();
            }
            if bits & 4 == 4 {
                node["on_failure"] = "stop".into();
            }
            list.push(node);
        }
        let value =
            serde_json::json!({"version": 1, "name": "random", "inputs": {"q": {"default": [1, "a"]}}, "node": list});
        plan::parse(&value.to_string(), Format::Json, &known()).unwrap()
    })
}

proptest! {
    #[test]
    fn a_plan_printed_as_json_is_the_same_plan(plan in plans()) {
        let again = plan::parse(&plan::json(&plan), Format::Json, &known()).unwrap();
        prop_assert_eq!(&again, &plan);
        let _ = (plan::tree(&plan), plan::mermaid(&plan), plan::dot(&plan));
    }

    #[test]
    fn no_text_panics_the_parser(text in any::<String>(), json: bool) {
        let format = if json { Format::Json } else { Format::Toml };
        let checked = plan::check(&text, format, &known());
        let _ = (checked.problems.render("x", &text, true), checked.problems.for_model());
    }

    #[test]
    fn no_mutilated_plan_panics_the_parser(cut in any::<prop::sample::Index>(), length in 0..40_usize, put in "[\\[\\]{}\"'=,.|%é\n\r\t a-c0-9-]{0,6}") {
        let text = include_str!("../scenarios/plans/everything-at-once/plan.toml");
        let start = sortie::text::floor_boundary(text, cut.index(text.len()));
        let end = sortie::text::ceil_boundary(text, start + length);
        let text = format!("{}{put}{}", &text[..start], &text[end..]);
        let checked = plan::check(&text, Format::Toml, &known());
        let _ = (checked.problems.render("x", &text, true), checked.problems.for_model());
    }
}
