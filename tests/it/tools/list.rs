//! `list_files`.

use super::Bench;
use serde_json::json;

#[tokio::test]
async fn a_large_tree_is_counted_by_folder() {
    let bench = Bench::new();
    for n in 0..450 {
        bench.write(&format!("src/part{}/deep{}/f{n}.rs", n % 3, n % 2), b"fn f() {}\n");
    }
    bench.write("Cargo.toml", b"[package]\n");
    insta::assert_snapshot!(bench.done("list_files", json!({})).await, @r#"
    ./  1 file, 10 B
    src/part0/deep0/  75 files, 750 B
    src/part0/deep1/  75 files, 750 B
    src/part1/deep0/  75 files, 750 B
    src/part1/deep1/  75 files, 750 B
    src/part2/deep0/  75 files, 750 B
    src/part2/deep1/  75 files, 750 B
    [451 files, 4.4 KiB; too many to list, so counted by folder to a depth of 3, each file once; narrow `pattern` or `path`]
    "#);
    insta::assert_snapshot!(bench.done("list_files", json!({"path": "src/part1", "pattern": "**/f1*.rs"})).await.lines().last().unwrap(), @r#"
    [39 files, 390 B]
    "#);
}

#[tokio::test]
async fn very_many_folders_are_cut_at_a_hundred() {
    let bench = Bench::new();
    for n in 0..500 {
        bench.write(&format!("part{n:03}/f"), b"x");
    }
    let text = bench.done("list_files", json!({})).await;
    assert_eq!(text.lines().count(), 101, "{text}");
    assert!(text.starts_with("part000/  1 file, 1 B\n"), "{text}");
    assert!(text.contains("\n[500 files, 500 B; 400 more folders not shown;"), "{text}");
}

#[tokio::test]
async fn nothing_found_says_why() {
    let bench = Bench::with(&[
        (".gitignore", b"target\n*.log\n"),
        ("target/a.rs", b""),
        (".hidden/b.rs", b""),
        ("x.log", b""),
        ("src/c.py", b""),
    ]);
    let mut out = String::new();
    for args in [
        json!({"pattern": "*.rs"}),
        json!({"pattern": "*.log"}),
        json!({"pattern": "*.go"}),
        json!({"pattern": "*.go", "path": "src"}),
        json!({"path": "target"}),
        json!({"path": "src/c.py"}),
        json!({"pattern": "src"}),
        json!({"pattern": "src/"}),
    ] {
        out.push_str(&bench.done("list_files", args.clone()).await);
        out.push('\n');
    }
    out.push_str(&bench.failed("list_files", json!({"path": "scr"})).await);
    insta::assert_snapshot!(out, @r#"
    [0 files; none of 1 file under `.` matches `*.rs`; 2 hidden or ignored files would: `.hidden/b.rs`, `target/a.rs`; name the folder in `path` to list them]
    [0 files; none of 1 file under `.` matches `*.log`; 1 hidden or ignored file would: `x.log`; name the folder in `path` to list them]
    [0 files; none of 1 file under `.` matches `*.go`]
    [0 files; none of 1 file under `src` matches `*.go`]
    target/a.rs
    [1 file, 0 B]
    src/c.py
    [1 file, 0 B]
    src/c.py
    [1 file, 0 B]
    src/c.py
    [1 file, 0 B]
    there is no `scr`; did you mean `src`?
    "#);
}

#[tokio::test]
async fn patterns_count_from_where_they_should() {
    let bench = Bench::with(&[("src/a.rs", b""), ("src/x/b.rs", b""), ("a.rs", b""), ("x/src/c.rs", b"")]);
    let root = bench.root();
    let absolute = format!("{}/src/*.rs", root.display());
    for (pattern, path, expected) in [
        ("*.rs", ".", "a.rs\nsrc/a.rs\nsrc/x/b.rs\nx/src/c.rs\n"),
        ("src/*.rs", ".", "src/a.rs\n"),
        ("./src/*.rs", ".", "src/a.rs\n"),
        ("src/**", ".", "src/a.rs\nsrc/x/b.rs\n"),
        ("**/src/*", ".", "src/a.rs\nx/src/c.rs\n"),
        ("*.rs", "src", "src/a.rs\nsrc/x/b.rs\n"),
        ("x/*", "src", "src/x/b.rs\n"),
        ("a.rs", ".", "a.rs\nsrc/a.rs\n"),
        ("src/a.rs", ".", "src/a.rs\n"),
        ("../a.rs", "src", "a.rs\n"),
        ("{src,x}/**/*.rs", ".", "src/a.rs\nsrc/x/b.rs\nx/src/c.rs\n"),
        (absolute.as_str(), "x", "src/a.rs\n"),
    ] {
        let text = bench.done("list_files", json!({ "pattern": pattern, "path": path })).await;
        let listed = &text[..text.rfind('[').unwrap()];
        assert_eq!(listed, expected, "{pattern} in {path}");
    }
}
