//! `read_file`.

use super::{Bench, context};
use serde_json::json;
use sortie::tool::{Ledger, ToolContext};
use sortie::workspace::{Places, Readable};
use std::fs;
use std::sync::Arc;

#[tokio::test]
async fn what_a_page_says_and_what_is_noted() {
    let bench = Bench::new();
    let lines: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    bench.write("a.txt", lines.as_bytes());
    let read = |args| bench.done("read_file", args);
    let text = read(json!({"file_path": "a.txt"})).await;
    assert!(
        text.starts_with("     1\tline 1\n") && text.ends_with("[lines 1-1794 of 5000; go on with offset=1795]"),
        "{}",
        &text[text.len() - 200..]
    );
    let text = read(json!({"file_path": "a.txt", "offset": 4999})).await;
    assert_eq!(text, "  4999\tline 4999\n  5000\tline 5000\n[lines 4999-5000 of 5000]");
    assert_eq!(
        read(json!({"file_path": "a.txt", "limit": 1})).await,
        "     1\tline 1\n[lines 1-1 of 5000; go on with offset=2]"
    );
    let noted = bench.context.ledger.read();
    assert_eq!((noted[0].path.as_str(), noted[0].lines.clone()), ("a.txt", vec![(1, 1794), (4999, 5000)]));
}

#[tokio::test]
async fn short_results_have_no_last_line_in_brackets() {
    for (content, expected) in [
        (&b"a\nb\n"[..], "     1\ta\n     2\tb\n"),
        (b"a\nb", "     1\ta\n     2\tb\n"),
        (b"\n\n", "     1\t\n     2\t\n"),
        (b"", "[the file is empty]"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n[lines end in CRLF]"),
        (b"a\r\nb\n", "     1\ta\n     2\tb\n[1 line ends in CRLF]"),
        (b"caf\xE9\nx\n", "     1\tcaf\u{FFFD}\n     2\tx\n[1 line not valid UTF-8, such bytes shown as \u{FFFD}]"),
    ] {
        let bench = Bench::with(&[("f", content)]);
        assert_eq!(bench.done("read_file", json!({"file_path": "f"})).await, expected, "{content:?}");
    }
}

#[tokio::test]
async fn errors_name_the_next_step() {
    let bench = Bench::with(&[
        ("src/agent/turn.rs", b"x\ny\n"),
        ("b.png", b"\x89PNG\r\n\x1a\n\0\0"),
        ("c.bin", b"ab\0cd"),
        ("d.zip", b"PK\x03\x04abc"),
    ]);
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.root().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let mut out = String::new();
    for args in [
        json!({"file_path": "src/agnet/turn.rs"}),
        json!({"file_path": "src/agent/trun.rs"}),
        json!({"file_path": "src/agent/turn.rs/x"}),
        json!({"file_path": "nothing/like/it"}),
        json!({"file_path": "src/agent"}),
        json!({"file_path": "src/agent/turn.rs", "offset": 3}),
        json!({"file_path": "src/agent/turn.rs", "offset": 0}),
        json!({"file_path": "src/agent/turn.rs", "limit": 0}),
        json!({"file_path": "b.png"}),
        json!({"file_path": "c.bin"}),
        json!({"file_path": "d.zip"}),
        json!({"file_path": "pipe"}),
        json!({"file_path": "~/x"}),
        json!({"file_path": "a\0b"}),
        json!({"file_path": "x".repeat(300)}),
        json!({"file_path": "artifact:map/report.md"}),
        json!({"path": "src"}),
    ] {
        out.push_str(&bench.failed("read_file", args).await);
        out.push('\n');
    }
    insta::assert_snapshot!(out, @r#"
    there is no `src/agnet/turn.rs`; did you mean `src/agent/turn.rs`?
    there is no `src/agent/trun.rs`; did you mean `src/agent/turn.rs`?
    there is no `src/agent/turn.rs/x`; `src/agent/turn.rs` is a file
    there is no `nothing/like/it`; `list_files` shows what is in `.`
    `src/agent` is a folder; `list_files` shows what is in it
    `src/agent/turn.rs` has 2 lines, but `offset` is 3
    `offset` is 0, but lines are counted from 1
    `limit` is 0; leave it out to read up to 2000 lines
    `b.png` is a binary file of 10 B (PNG image); it is not shown
    `c.bin` is a binary file of 5 B (it holds NUL bytes); it is not shown
    `d.zip` is a binary file of 7 B (zip archive or office document); it is not shown
    `pipe` is a pipe; only regular files can be read
    there is no `~/x`; `list_files` shows what is in `.`
    `a\x00b` is not a usable path: it holds a NUL byte or is too long
    `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… [100 more characters]` is not a usable path: it holds a NUL byte or is too long
    `artifact:map/report.md` is not readable here; no node comes before this one
    the arguments of `read_file` are not valid: Additional properties are not allowed ('path' was unexpected); "file_path" is a required property. Example: {"file_path":"…"}
    "#);
    assert!(bench.context.ledger.read().is_empty());
}

#[tokio::test]
async fn artifacts_of_ancestors_and_of_nobody_else() {
    let bench = Bench::with(&[("f.txt", b"x\n")]);
    let artifacts = bench.outside().join("artifacts");
    for (folder, text) in
        [("map", "the map\n"), ("part%5B0%5D", "first\n"), ("part%5B1%5D", "second\n"), ("other", "no\n")]
    {
        fs::create_dir_all(artifacts.join(folder)).unwrap();
        fs::write(artifacts.join(folder).join("report.md"), text).unwrap();
    }
    let readable = ["map", "part[0]", "part[1]", "quiet"].map(str::to_string).to_vec();
    let places = Places::new(bench.root()).with_artifacts(artifacts, Readable::These(readable));
    let bench = Bench { context: context(places), ..bench };
    assert_eq!(bench.done("read_file", json!({"file_path": "artifact:map/report.md"})).await, "     1\tthe map\n");
    assert_eq!(bench.done("read_file", json!({"file_path": "artifact:part[1]/report.md"})).await, "     1\tsecond\n");
    assert_eq!(
        bench.done("list_files", json!({"path": "artifact:map"})).await,
        "artifact:map/report.md\n[1 file, 8 B]"
    );
    assert_eq!(
        bench.done("list_files", json!({"pattern": "artifact:map/*.md"})).await,
        "artifact:map/report.md\n[1 file, 8 B]"
    );
    let found = bench.done("search_code", json!({"pattern": "first", "path": "artifact:part[0]"})).await;
    assert_eq!(found, "artifact:part[0]/report.md\n1:first\n\n[1 match in 1 file]");
    let mut out = String::new();
    for path in [
        "artifact:other/report.md",
        "artifact:part/report.md",
        "artifact:map/../other/report.md",
        "artifact:quiet/report.md",
        "artifact:map/reprot.md",
        "artifact:map//etc/passwd",
    ] {
        out.push_str(&bench.failed("read_file", json!({ "file_path": path })).await);
        out.push('\n');
    }
    insta::assert_snapshot!(out, @r#"
    `artifact:other/report.md` is not readable here; readable: `artifact:map/…`, `artifact:part[0]/…`, `artifact:part[1]/…`, `artifact:quiet/…`
    `artifact:part/report.md` is not readable here; it ran once per item: `artifact:part[0]/…`, `artifact:part[1]/…`
    `artifact:map/../other/report.md` is outside the workspace; use a path relative to its root
    there is no `artifact:quiet`; `quiet` left no artifacts
    there is no `artifact:map/reprot.md`; did you mean `artifact:map/report.md`?
    there is no `artifact:map//etc/passwd`; `list_files` shows what is in `artifact:map`
    "#);
    let noted: Vec<String> = bench.context.ledger.read().into_iter().map(|file| file.path).collect();
    assert_eq!(noted, ["artifact:map/report.md", "artifact:part[1]/report.md"]);
}

#[tokio::test]
async fn a_cancelled_call_ends() {
    let bench = Bench::with(&[("a.txt", b"x\n")]);
    let bench = Bench { context: ToolContext { ledger: Arc::new(Ledger::default()), ..bench.context }, ..bench };
    bench.context.cancel.cancel();
    for (tool, args) in [
        ("read_file", json!({"file_path": "a.txt"})),
        ("list_files", json!({})),
        ("search_code", json!({"pattern": "x"})),
    ] {
        assert_eq!(bench.failed(tool, args).await, "interrupted", "{tool}");
    }
}
