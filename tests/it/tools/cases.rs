//! Bugs that agents of this kind have had, as data: a tree, a call, and what its result must and must not hold.

use super::{Bench, context, tools};
use serde_json::{Value, json};
use sortie::model::ToolCall;
use sortie::tool::ToolCallEnd;
use sortie::workspace::Places;
use std::fs;

struct Case {
    id: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    links: &'static [(&'static str, &'static str)],
    calls: Vec<Call>,
}

struct Call {
    tool: &'static str,
    args: Value,
    works: bool,
    holds: &'static [&'static str],
    lacks: &'static [&'static str],
}

fn works(tool: &'static str, args: Value, holds: &'static [&'static str]) -> Call {
    Call { tool, args, works: true, holds, lacks: &[] }
}

fn fails(tool: &'static str, args: Value, holds: &'static [&'static str]) -> Call {
    Call { tool, args, works: false, holds, lacks: &[] }
}

impl Call {
    fn lacks(mut self, lacks: &'static [&'static str]) -> Self {
        self.lacks = lacks;
        self
    }
}

const OUTSIDE: &[&str] = &["is outside the workspace"];

fn table() -> Vec<Case> {
    let search = |pattern: &str| json!({ "pattern": pattern });
    let read = |path: &str| json!({ "file_path": path });
    vec![
        Case {
            id: "search-03: a pattern that names hidden files finds them",
            files: &[(".github/w/a.yml", b"on: push\n"), (".eslintrc.json", b"{}\n"), ("b.yml", b"x\n")],
            links: &[],
            calls: vec![
                works("list_files", json!({"pattern": ".github/**/*.yml"}), &[".github/w/a.yml\n", "[1 file,"]),
                works("list_files", json!({"pattern": ".eslintrc*"}), &[".eslintrc.json\n"]),
                works("list_files", json!({"pattern": "**/*.yml"}), &["b.yml\n", "[1 file,"]),
                works("list_files", json!({"path": ".github"}), &[".github/w/a.yml\n"]),
            ],
        },
        Case {
            id: "search-04: a path that is hidden or ignored is searched when it is named",
            files: &[
                (".cfg/x", b"KEY\n"),
                ("dist/y", b"KEY\n"),
                ("logs/z.log", b"KEY\n"),
                (".gitignore", b"dist/*\nlogs\n"),
            ],
            links: &[],
            calls: vec![
                works("search_code", json!({"pattern": "KEY", "path": ".cfg"}), &[".cfg/x\n1:KEY\n"]),
                works(
                    "search_code",
                    json!({"pattern": "KEY", "path": "dist"}),
                    &["dist/y\n1:KEY\n", "hidden or ignored"],
                ),
                works("search_code", json!({"pattern": "KEY", "path": "logs"}), &["logs/z.log\n1:KEY\n"]),
                works("search_code", json!({"pattern": "KEY", "path": "logs/z.log"}), &["logs/z.log\n1:KEY\n"]),
                works("list_files", json!({"path": "dist"}), &["dist/y\n"]),
                works("search_code", search("KEY"), &["not searched: `.cfg/`, `.gitignore`, `logs/`"]),
            ],
        },
        Case {
            id: "search-06: an invalid pattern is an error with its reason",
            files: &[("a.c", b"foo(1);\n")],
            links: &[],
            calls: vec![
                fails("search_code", search("foo("), &["unclosed group", "literal: true"]),
                works("search_code", json!({"pattern": "foo(", "literal": true}), &["a.c\n1:foo(1);\n"]),
                fails("search_code", search("a\nb"), &["within one line"]),
                fails("search_code", search(""), &["`pattern` is empty"]),
                fails("search_code", json!({"pattern": "x", "file_glob": "[a"}), &["`file_glob`", "not a valid glob"]),
                fails("list_files", json!({"pattern": "[a"}), &["`[a` is not a valid glob: unclosed"]),
            ],
        },
        Case {
            id: "search-08: what cannot be read does not fail the search",
            files: &[("good.txt", b"KEY\n")],
            links: &[("l", "nowhere")],
            calls: vec![works("search_code", search("KEY"), &["good.txt\n1:KEY\n", "1 link not followed: `l`"])],
        },
        Case {
            id: "search-09: a pattern is never an option",
            files: &[("a.txt", b"x = -77;\np->q\nrg --pre=./x.sh\n"), ("x.sh", b"#!/bin/sh\ntouch marker\n")],
            links: &[],
            calls: vec![
                works("search_code", search("-77"), &["a.txt\n1:x = -77;\n"]),
                works("search_code", search("->"), &["a.txt\n2:p->q\n"]),
                works("search_code", search("--pre=./x.sh"), &["a.txt\n3:rg --pre=./x.sh\n"]),
                works("list_files", json!({"pattern": "marker"}), &["[0 files"]),
            ],
        },
        Case {
            id: "search-10: a loop of links ends, and no file comes twice",
            files: &[("d/f.txt", b"KEY\n")],
            links: &[("d/loop", ".."), ("d/self", "self")],
            calls: vec![
                works("list_files", json!({"pattern": "**/*.txt"}), &["d/f.txt\n[1 file,"]),
                works("search_code", search("KEY"), &["d/f.txt\n1:KEY\n\n[1 match in 1 file;", "2 links not followed"]),
                works("search_code", json!({"pattern": "KEY", "path": "d/loop"}), &["[1 match in 1 file;"]),
                fails("read_file", read("d/self"), &["there is no `d/self`", "a link"]),
            ],
        },
        Case {
            id: "search-11: a path that exists wins over what it would mean as a glob",
            files: &[("src/[id]/(a) é/p.ts", b"KEY\n"), ("src/i/q.ts", b"KEY\n")],
            links: &[],
            calls: vec![
                works("read_file", read("src/[id]/(a) é/p.ts"), &["     1\tKEY\n"]),
                works("list_files", json!({"pattern": "src/[id]/**"}), &["src/[id]/(a) é/p.ts\n[1 file,"]),
                works("list_files", json!({"pattern": "src/[id]/(a) é/p.ts"}), &["src/[id]/(a) é/p.ts\n[1 file,"]),
                works("list_files", json!({"path": "src/[id]"}), &["src/[id]/(a) é/p.ts\n[1 file,"]),
                works("list_files", json!({"pattern": "src/[i]/*"}), &["src/i/q.ts\n[1 file,"]),
                works("search_code", json!({"pattern": "KEY", "path": "src/[id]"}), &["src/[id]/(a) é/p.ts\n1:KEY\n"]),
            ],
        },
        Case {
            id: "search-12: a NUL byte does not silence a file",
            files: &[("a.ts", b"TOKEN\0x\n"), ("b.ts", b"TOKEN\n")],
            links: &[],
            calls: vec![
                works("search_code", search("TOKEN"), &["b.ts\n1:TOKEN\n", "1 binary file not searched: `a.ts`"]),
                works("search_code", json!({"pattern": "TOKEN", "path": "a.ts"}), &["a.ts\n1:TOKEN\\x00x\n"])
                    .lacks(&["\0", "\u{FFFD}"]),
                works("search_code", json!({"pattern": "nothing", "path": "a.ts"}), &["no matches in 1 file"]),
            ],
        },
        Case {
            id: "path-02: `..` is counted before anything is looked up",
            files: &[("b", b"KEY\n")],
            links: &[],
            calls: vec![
                fails("read_file", read("a/./../../q/f"), OUTSIDE),
                fails("read_file", read("a//b/../../../q"), OUTSIDE),
                fails("list_files", json!({"pattern": "../**"}), OUTSIDE),
                fails("list_files", json!({"pattern": "/etc/*"}), OUTSIDE),
                fails("list_files", json!({"path": ".."}), OUTSIDE),
                fails("search_code", json!({"pattern": "x", "path": "/"}), OUTSIDE),
                works("read_file", read("a/../b"), &["KEY"]),
                works("read_file", read("./././b"), &["KEY"]),
            ],
        },
        Case {
            id: "path-06: links that stay inside are followed",
            files: &[("real/x", b"KEY\n")],
            links: &[("l", "real"), ("m", "real/x")],
            calls: vec![
                works("read_file", read("l/x"), &["KEY"]),
                works("read_file", read("m"), &["KEY"]),
                works("list_files", json!({"path": "l"}), &["real/x\n"]),
                works("search_code", json!({"pattern": "KEY", "path": "l"}), &["real/x\n1:KEY\n"]),
            ],
        },
    ]
}

#[tokio::test]
async fn the_table_of_cases() {
    for case in table() {
        let bench = Bench::with(case.files);
        case.links.iter().for_each(|(path, target)| bench.link(path, target));
        for call in case.calls {
            let (text, worked) = match bench.call(call.tool, call.args.clone()).await {
                ToolCallEnd::Done(text) => (text, true),
                ToolCallEnd::Failed(text) => (text, false),
                ToolCallEnd::Fatal(text) => panic!("{}: {text}", case.id),
            };
            let what = format!("{}\n{} {}\n{text}", case.id, call.tool, call.args);
            assert_eq!(worked, call.works, "{what}");
            call.holds.iter().for_each(|part| assert!(text.contains(part), "lacks {part:?}: {what}"));
            call.lacks.iter().for_each(|part| assert!(!text.contains(part), "holds {part:?}: {what}"));
        }
    }
}

#[tokio::test]
async fn search_01_a_match_in_a_minified_line_is_a_snippet() {
    let bench = Bench::new();
    bench.write("min.js", format!("{0}KEY{0}", "é".repeat(500_000)).as_bytes());
    let text = bench.done("search_code", json!({"pattern": "KEY"})).await;
    assert!(text.len() < 700 && text.contains("éKEYé") && text.contains("[of 2000003 bytes]"), "{text}");
    assert!(text.contains("[1 match in 1 file]"), "{text}");
}

#[tokio::test]
async fn search_15_context_comes_from_a_bounded_buffer() {
    let bench = Bench::new();
    let filler = "all work and no play\n".repeat(200_000);
    for n in 0..4 {
        bench.write(&format!("big{n}.log"), format!("{filler}before\nHIT {n}\nafter\n").as_bytes());
    }
    let text = bench.done("search_code", json!({"pattern": "HIT", "context": 2})).await;
    let group = "big3.log\n200000-all work and no play\n200001-before\n200002:HIT 3\n200003-after\n";
    assert!(text.contains(group) && text.contains("[4 matches in 4 files]"), "{text}");
}

#[tokio::test]
async fn search_16_archives_and_binaries_are_counted_not_shown() {
    let bench = Bench::with(&[("a.txt", b"token\n"), ("doc.docx", b"PK\x03\x04 ... token\n")]);
    let mut header = "ASCII header with a token\n".repeat(800).into_bytes();
    header.extend([0, 1, 2, 0xFF].repeat(50_000));
    bench.write("image.bin", &header);
    // The same with a header that fills the first buffers.
    let mut long = "ASCII header with a token\n".repeat(20_000).into_bytes();
    long.extend([0, 1, 2, 0xFF].repeat(50_000));
    bench.write("late.bin", &long);
    let text = bench.done("search_code", json!({"pattern": "token"})).await;
    assert!(text.contains("a.txt\n1:token\n"), "{text}");
    assert!(text.contains("2 binary files not searched: `doc.docx`, `image.bin`"), "{text}");
    assert!(text.contains("1 file searched up to a NUL byte: `late.bin`"), "{text}");
    assert!(!text.contains('\0') && !text.contains('\u{FFFD}'), "{text}");
}

#[tokio::test]
async fn edit_25_the_first_lines_of_a_huge_file_cost_little() {
    let bench = Bench::new();
    let lines: String = (1..=2000).map(|n| format!("line number {n}\n")).collect();
    bench.write("huge.log", lines.as_bytes());
    let file = fs::OpenOptions::new().write(true).open(bench.root().join("huge.log")).unwrap();
    file.set_len(4 << 30).unwrap();
    let text = bench.done("read_file", json!({"file_path": "huge.log", "offset": 1, "limit": 10})).await;
    let expected: String = (1..=10).map(|n| format!("{n:>6}\tline number {n}\n")).collect();
    assert_eq!(text, format!("{expected}[lines 1-10 of at least 2001; go on with offset=11]"));
}

#[tokio::test]
async fn run_14_cuts_fall_between_characters() {
    let bench = Bench::new();
    let wide = "中".repeat(40_000);
    for shift in 0..3 {
        bench.write("wide.txt", format!("{}{wide}\n", "x".repeat(shift)).as_bytes());
        let read = bench.done("read_file", json!({"file_path": "wide.txt"})).await;
        assert!(read.contains(&format!("中… [{} more characters]\n", 38_000 + shift)), "{}", read.len());
        let found = bench.done("search_code", json!({"pattern": "中"})).await;
        assert!(found.contains("中…") && found.contains("1 match"), "{found}");
    }
    for (tool, args) in [
        ("read_file", json!({ "file_path": wide })),
        ("list_files", json!({ "pattern": wide })),
        ("search_code", json!({ "pattern": format!("({wide}") })),
    ] {
        let (ToolCallEnd::Done(text) | ToolCallEnd::Failed(text)) = bench.call(tool, args).await else { panic!() };
        assert!(text.len() < sortie::tool::MAX_RESULT, "{tool}: {}", text.len());
    }
}

#[tokio::test]
async fn path_01_a_folder_beside_the_root_is_outside() {
    let bench = Bench::new();
    fs::create_dir(bench.outside().join("w-other")).unwrap();
    fs::write(bench.outside().join("w-other/f"), "KEY\n").unwrap();
    let absolute = bench.root().with_file_name("w-other").join("f");
    for path in [absolute.to_str().unwrap(), "../w-other/f", "../w-other/missing", "/w/../etc/passwd"] {
        let text = bench.failed("read_file", json!({ "file_path": path })).await;
        assert!(text.contains("is outside the workspace"), "{path}: {text}");
    }
}

#[tokio::test]
async fn path_03_a_link_does_not_lead_outside() {
    let bench = Bench::with(&[("in.txt", b"KEY\n")]);
    let outside = bench.outside().join("secret");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("n.txt"), "KEY secret\n").unwrap();
    bench.link("out", &outside);
    bench.link("file", outside.join("n.txt"));
    for args in [json!({"file_path": "out/n.txt"}), json!({"file_path": "out/none"}), json!({"file_path": "file"})] {
        let text = bench.failed("read_file", args.clone()).await;
        assert!(text.contains("is outside the workspace"), "{args}: {text}");
    }
    let text = bench.failed("search_code", json!({"pattern": "KEY", "path": "out"})).await;
    assert!(text.contains("is outside the workspace"), "{text}");
    let text = bench.failed("list_files", json!({"pattern": "out/*"})).await;
    assert!(text.contains("is outside the workspace"), "{text}");
    let text = bench.done("search_code", json!({"pattern": "KEY"})).await;
    assert!(!text.contains("secret\n") && text.contains("[1 match in 1 file; 2 links not followed"), "{text}");
}

#[tokio::test]
async fn path_06_a_root_that_is_reached_through_a_link_works() {
    let bench = Bench::with(&[("a.txt", b"KEY\n")]);
    let link = bench.outside().join("l");
    std::os::unix::fs::symlink(bench.root(), &link).unwrap();
    // As a workspace does: the root is canonical; the model may use either spelling.
    let context = context(Places::new(link.canonicalize().unwrap()));
    for path in [link.join("a.txt"), bench.root().join("a.txt"), "a.txt".into()] {
        let args = json!({ "file_path": path });
        let end = tools().call(&ToolCall::new("1", "read_file", args), &context).await;
        assert_eq!(end, ToolCallEnd::Done("     1\tKEY\n".to_string()));
    }
}
