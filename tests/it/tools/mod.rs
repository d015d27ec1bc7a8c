//! The tools that read, called as a model calls them: a name and JSON arguments in, text out.

mod bad_input;
mod cases;
mod list;
mod read;
mod search;

use serde_json::{Value, json};
use sortie::model::ToolCall;
use sortie::tool::{Ledger, ToolCallEnd, ToolContext, Toolset, builtin};
use sortie::workspace::Places;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A workspace `w` in a temporary directory of its own, and the tools of a conversation in it.
struct Bench {
    dir: TempDir,
    tools: Toolset,
    context: ToolContext,
}

impl Bench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("w");
        fs::create_dir(&root).unwrap();
        let root = root.canonicalize().unwrap();
        Bench { dir, tools: tools(), context: context(Places::new(root)) }
    }

    fn with(files: &[(&str, &[u8])]) -> Self {
        let bench = Bench::new();
        files.iter().for_each(|(path, content)| bench.write(path, content));
        bench
    }

    fn root(&self) -> PathBuf {
        self.context.places.root().to_path_buf()
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.root().join(path)).unwrap();
    }

    fn outside(&self) -> &Path {
        self.dir.path()
    }

    async fn call(&self, name: &str, args: Value) -> ToolCallEnd {
        self.tools.call(&ToolCall::new("1", name, args), &self.context).await
    }

    /// The result of a call that works.
    async fn done(&self, name: &str, args: Value) -> String {
        match self.call(name, args.clone()).await {
            ToolCallEnd::Done(text) => {
                assert!(text.len() <= sortie::tool::MAX_RESULT, "{name} {args}: {} bytes", text.len());
                assert!(!text.contains("left out …]"), "{name} {args} was cut in the middle");
                text
            }
            ToolCallEnd::Failed(text) | ToolCallEnd::Fatal(text) => unreachable!("{name} {args}: {text}"),
        }
    }

    /// The message of a call that fails.
    async fn failed(&self, name: &str, args: Value) -> String {
        match self.call(name, args.clone()).await {
            ToolCallEnd::Failed(text) => text,
            ToolCallEnd::Done(text) | ToolCallEnd::Fatal(text) => unreachable!("{name} {args}: {text}"),
        }
    }
}

fn tools() -> Toolset {
    let registry = builtin().unwrap();
    let names: Vec<String> = registry.names().map(str::to_string).collect();
    assert_eq!(names, ["read_file", "list_files", "search_code"]);
    registry.subagent(&names)
}

fn context(places: Places) -> ToolContext {
    ToolContext {
        node: "test".into(),
        places: Arc::new(places),
        ledger: Arc::new(Ledger::default()),
        cancel: CancellationToken::new(),
    }
}

#[tokio::test]
async fn the_three_tools_on_a_small_tree() {
    let bench = Bench::with(&[
        ("src/a.rs", b"fn one() {}\n\nfn two() {\n    one();\n}\n"),
        ("src/deep/b.rs", b"use crate::one;\n"),
        ("README.md", b"one\n"),
        (".gitignore", b"target\n"),
        ("target/x.rs", b"fn one() {}\n"),
    ]);
    let out = [
        bench.done("read_file", json!({"file_path": "src/a.rs", "offset": 3, "limit": 2})).await,
        bench.done("list_files", json!({})).await,
        bench.done("list_files", json!({"pattern": "*.rs"})).await,
        bench.done("search_code", json!({"pattern": r"\bone\b", "context": 1})).await,
        bench.done("search_code", json!({"pattern": "one", "mode": "files", "file_glob": "*.rs"})).await,
        bench.done("search_code", json!({"pattern": "one", "mode": "count"})).await,
        bench.done("search_code", json!({"pattern": "three()"})).await,
    ];
    insta::assert_snapshot!(out.join("\n\n"), @r#"
         3	fn two() {
         4	    one();
    [lines 3-4 of 5; go on with offset=5]

    README.md
    src/a.rs
    src/deep/b.rs
    [3 files, 57 B]

    src/a.rs
    src/deep/b.rs
    [2 files, 53 B]

    README.md
    1:one

    src/a.rs
    1:fn one() {}
    2-
    3-fn two() {
    4:    one();
    5-}

    src/deep/b.rs
    1:use crate::one;

    [4 matches in 3 files]

    src/a.rs
    src/deep/b.rs
    [2 files]

    src/a.rs: 2
    README.md: 1
    src/deep/b.rs: 1
    [4 matches in 3 files]

    [no matches in 3 files under `.`; `pattern` was read as a regular expression; `literal: true` takes it as it stands; hidden or ignored, so not searched: `.gitignore`, `target/`]
    "#);
}
