//! What the documents name must exist: tests, scenario folders, source files.

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Everything in backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn sources(folder: &Path, out: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            out.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_and_scenario_that_a_document_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    sources(&root.join("tests/it"), &mut code);
    sources(&root.join("src"), &mut code);
    let mut missing = Vec::new();
    for document in ["docs/cases.md", "ARCHITECTURE.md"] {
        let text = read(document);
        for name in quoted(&text) {
            let exists =
                if let Some(folder) = name.strip_prefix("plans/").filter(|rest| !rest.contains(['.', '*', '…'])) {
                    folder.is_empty() || root.join("tests/scenarios/plans").join(folder).is_dir()
                } else if let Some(folder) = name.strip_prefix("runs/").filter(|rest| !rest.contains(['.', '…'])) {
                    root.join("tests/scenarios/runs").join(folder).is_dir()
                } else if name.contains("::") && !name.contains(' ') || name.starts_with("unit: ") {
                    // The last part is a function, a module or a type of ours; a cut name ends in `…`.
                    let last = name.rsplit("::").next().unwrap_or(name).trim_end_matches('…');
                    let forms =
                        [format!("fn {last}"), format!("mod {last}"), format!("struct {last}"), format!("enum {last}")];
                    forms.iter().any(|form| code.contains(form.as_str()))
                        || root.join("tests/it").join(format!("{last}.rs")).exists()
                        || code.contains(&format!("const {last}"))
                } else {
                    true
                };
            if !exists {
                missing.push(format!("{document}: `{name}`"));
            }
        }
    }
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}
