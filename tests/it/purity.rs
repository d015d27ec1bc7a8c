//! The pure modules know no runtime, file system, clock or environment: read from their source.

use std::path::{Path, PathBuf};

const PURE: [&str; 6] = [
    "src/plan",
    "src/agent/turn.rs",
    "src/agent/history.rs",
    "src/agent/progress.rs",
    "src/permission/rules.rs",
    "src/permission/shell.rs",
];
const FORBIDDEN: [&str; 14] = [
    "tokio",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime",
    "std::io",
    "File::open",
    "spawn(",
    "println!",
];

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_path_buf()];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    entries
        .flat_map(|entry| sources(&entry.unwrap().path()))
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .collect()
}

#[test]
fn pure_modules_use_nothing_of_the_outside() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files: Vec<PathBuf> = PURE.iter().flat_map(|place| sources(&root.join(place))).collect();
    assert!(files.iter().any(|f| f.ends_with("plan/mod.rs")), "the list of pure modules points nowhere");
    let mut broken = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in FORBIDDEN {
                if code.contains(word) {
                    broken.push(format!("{}:{}: {word}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
