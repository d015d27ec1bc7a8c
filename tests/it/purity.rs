//! The pure modules know no runtime, file system, clock or environment: read from their source.

use std::path::{Path, PathBuf};

const PURE: [&str; 10] = [
    "src/plan",
    "src/agent/turn.rs",
    "src/agent/turn",
    "src/agent/history.rs",
    "src/agent/progress.rs",
    "src/model/trace/difference.rs",
    "src/model/wire",
    "src/redact.rs",
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

#[test]
fn only_the_edge_reads_the_environment_and_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut broken = Vec::new();
    for file in sources(&root.join("src")) {
        let place = file.strip_prefix(root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        // Tests at the end of a file may do as they like.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let edge = place.starts_with("src/cli") || place == "src/main.rs";
        let prints = edge || place.starts_with("src/ui");
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            let reads = ["std::env", "env::var", "env::args", "current_dir()", "env::home_dir"];
            let writes = ["io::stdout", "io::stderr", "println!", "eprintln!"];
            if !edge && reads.iter().any(|word| line.contains(word))
                || !prints && writes.iter().any(|word| line.contains(word))
            {
                broken.push(format!("{place}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
