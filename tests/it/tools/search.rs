//! `search_code`.

use super::Bench;
use serde_json::json;

#[tokio::test]
async fn what_is_over_a_limit_is_counted_and_said() {
    let bench = Bench::new();
    for n in 0..30 {
        bench.write(&format!("f{n:02}.txt"), "one hit here\nnothing\n".repeat(60).as_bytes());
    }
    let search = |args| bench.done("search_code", args);
    let text = search(json!({"pattern": "hit"})).await;
    assert!(text.starts_with("f00.txt\n1:one hit here\n3:one"), "{text}");
    assert!(text.contains("99:one hit here\n[10 more in this file]\n\nf01.txt\n"), "{text}");
    assert!(text.ends_with("[1800 matches in 30 files; 200 shown, from the first 4 files; mode `count` shows where they are; narrow `pattern`, `path` or `file_glob`]"), "{text}");
    let text = search(json!({"pattern": "hit", "max_results": 3})).await;
    assert!(
        text.contains(
            "5:one hit here\n[57 more in this file]\n\n[1800 matches in 30 files; 3 shown, from the first 1 file;"
        ),
        "{text}"
    );
    let text = search(json!({"pattern": "hit", "path": "f07.txt"})).await;
    assert!(text.ends_with("119:one hit here\n\n[60 matches in 1 file]"), "{text}");
    let text = search(json!({"pattern": "hit", "mode": "files", "max_results": 2})).await;
    assert_eq!(text, "f00.txt\nf01.txt\n[30 files; 2 shown; narrow `pattern`, `path` or `file_glob`]");
    let text = search(json!({"pattern": "hit", "mode": "count", "max_results": 1})).await;
    assert_eq!(text, "f00.txt: 60\n[1800 matches in 30 files; 1 shown; narrow `pattern`, `path` or `file_glob`]");
    let noted = bench.context.ledger.searched();
    assert!(noted.iter().any(|search| (search.path.as_str(), search.files) == ("f07.txt", 1)), "{noted:?}");
}

#[tokio::test]
async fn results_that_are_too_long_end_between_lines() {
    let bench = Bench::new();
    for n in 0..40 {
        bench.write(&format!("f{n:02}.txt"), format!("{} hit\n", "long ".repeat(70)).repeat(20).as_bytes());
    }
    let text = bench.done("search_code", json!({"pattern": "hit", "max_results": 2000, "context": 2})).await;
    assert!(text.len() > 20_000 && text.len() < 30_000, "{}", text.len());
    assert!(
        text.lines().all(|line| line.is_empty() || line.starts_with(['f', '[']) || line.ends_with(" hit")),
        "{text}"
    );
    assert!(text.contains("[800 matches in 40 files; "), "{text}");
}

#[tokio::test]
async fn context_groups_are_separated() {
    let bench = Bench::with(&[("a.txt", b"1\nhit\n3\n4\n5\n6\nhit\nhit\n9\n")]);
    let text = bench.done("search_code", json!({"pattern": "hit", "context": 1})).await;
    insta::assert_snapshot!(text, @r#"
    a.txt
    1-1
    2:hit
    3-3
    --
    6-6
    7:hit
    8:hit
    9-9

    [3 matches in 1 file]
    "#);
}

#[tokio::test]
async fn the_same_result_every_time() {
    let bench = Bench::new();
    for n in 0..300 {
        bench.write(&format!("d{}/f{n}.txt", n % 7), format!("{}\n", "word\n".repeat(n % 40)).as_bytes());
    }
    for args in [
        json!({"pattern": "word"}),
        json!({"pattern": "word", "mode": "count"}),
        json!({"pattern": "word", "mode": "files"}),
    ] {
        let first = bench.done("search_code", args.clone()).await;
        for _ in 0..10 {
            assert_eq!(bench.done("search_code", args.clone()).await, first, "{args}");
        }
    }
}

#[tokio::test]
async fn globs_cases_and_line_ends() {
    let bench = Bench::with(&[
        ("src/a.rs", b"Token $x.y\r\n"),
        ("src/b.ts", b"token\n"),
        ("doc/c.md", b"token x1y\n"),
        (".env", b"token\n"),
        ("wide.txt", b"\xFF\xFEt\0o\0k\0e\0n\0\n\0"),
    ]);
    for (args, files) in [
        (json!({"pattern": "token"}), "doc/c.md src/b.ts wide.txt"),
        (json!({"pattern": "token", "ignore_case": true}), "doc/c.md src/a.rs src/b.ts wide.txt"),
        (json!({"pattern": "token", "file_glob": "*.{ts,rs}"}), "src/b.ts"),
        (json!({"pattern": "token", "file_glob": "!*.md"}), "src/b.ts wide.txt"),
        (json!({"pattern": "token", "file_glob": "src/*.ts"}), "src/b.ts"),
        (json!({"pattern": "token", "file_glob": "src/*.ts", "path": "src"}), "src/b.ts"),
        (json!({"pattern": "token", "file_glob": ".env"}), ".env"),
        (json!({"pattern": "token", "path": "src"}), "src/b.ts"),
        (json!({"pattern": "x.y"}), "doc/c.md src/a.rs"),
        (json!({"pattern": "x.y", "literal": true}), "src/a.rs"),
        (json!({"pattern": "y$"}), "doc/c.md src/a.rs"),
        (json!({"pattern": r"(?i)^TOKEN\b", "file_glob": "*.rs"}), "src/a.rs"),
    ] {
        let mut args = args;
        args["mode"] = json!("files");
        let text = bench.done("search_code", args.clone()).await;
        let found: Vec<&str> = text.lines().filter(|line| !line.starts_with('[')).collect();
        assert_eq!(found.join(" "), files, "{args}\n{text}");
    }
}

#[tokio::test]
async fn nothing_found_says_what_was_not_searched() {
    let bench = Bench::with(&[("a.rs", b"x\n"), ("target/b.rs", b"foo()\n"), (".gitignore", b"target\n")]);
    let mut out = String::new();
    for args in [
        json!({"pattern": "foo()"}),
        json!({"pattern": "foo"}),
        json!({"pattern": "foo", "file_glob": "*.go"}),
        json!({"pattern": "foo", "path": "a.rs"}),
    ] {
        out.push_str(&bench.done("search_code", args).await);
        out.push('\n');
    }
    for args in [
        json!({"pattern": "x", "context": 21}),
        json!({"pattern": "x", "max_results": 0}),
        json!({"pattern": "x", "path": "b.rs"}),
        json!({"query": "x"}),
    ] {
        out.push_str(&bench.failed("search_code", args).await);
        out.push('\n');
    }
    insta::assert_snapshot!(out, @r#"
    [no matches in 1 file under `.`; `pattern` was read as a regular expression; `literal: true` takes it as it stands; hidden or ignored, so not searched: `.gitignore`, `target/`]
    [no matches in 1 file under `.`; hidden or ignored, so not searched: `.gitignore`, `target/`]
    [no file under `.` matches `file_glob`, so nothing was searched; hidden or ignored, so not searched: `.gitignore`, `target/`]
    [no matches in 1 file under `a.rs`]
    the arguments of `search_code` are not valid: 21 is greater than the maximum of 20 (at `/context`). Example: {"pattern":"…"}
    the arguments of `search_code` are not valid: 0 is less than the minimum of 1 (at `/max_results`). Example: {"pattern":"…"}
    there is no `b.rs`; did you mean `a.rs`?
    the arguments of `search_code` are not valid: Additional properties are not allowed ('query' was unexpected); "pattern" is a required property. Example: {"pattern":"…"}
    "#);
}
