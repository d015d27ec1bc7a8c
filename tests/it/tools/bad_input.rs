//! Trees that nobody wants and everybody has.

use super::Bench;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[tokio::test]
async fn an_empty_tree() {
    let bench = Bench::new();
    assert_eq!(bench.done("list_files", json!({})).await, "[0 files]");
    assert_eq!(bench.done("search_code", json!({"pattern": "x"})).await, "[`.` has no files to search]");
    let text = bench.failed("read_file", json!({"file_path": "x"})).await;
    assert_eq!(text, "there is no `x`; `list_files` shows what is in `.`");
}

#[tokio::test]
async fn names_with_spaces_line_ends_and_no_utf8_can_be_given_back() {
    let bench = Bench::new();
    for name in [&b"with space.txt"[..], b"new\nline.txt", b"caf\xE9.txt", b"back\\slash.txt", b"\x1b[31m.txt"] {
        fs::write(bench.root().join(OsStr::from_bytes(name)), "KEY\n").unwrap();
    }
    let text = bench.done("list_files", json!({})).await;
    let listed: Vec<&str> = text.lines().filter(|line| !line.starts_with('[')).collect();
    assert_eq!(listed, ["\\x1B[31m.txt", "back\\\\slash.txt", "caf\\xE9.txt", "new\\nline.txt", "with space.txt"]);
    for name in listed {
        assert_eq!(bench.done("read_file", json!({ "file_path": name })).await, "     1\tKEY\n", "{name}");
    }
    let text = bench.done("search_code", json!({"pattern": "KEY"})).await;
    assert!(text.contains("new\\nline.txt\n1:KEY\n") && text.ends_with("[5 matches in 5 files]"), "{text}");
}

#[tokio::test]
async fn a_sparse_file_of_two_gigabytes() {
    let bench = Bench::with(&[("a.txt", b"KEY\n")]);
    fs::File::create(bench.root().join("hole")).unwrap().set_len(2 << 30).unwrap();
    let text = bench.failed("read_file", json!({"file_path": "hole"})).await;
    assert_eq!(text, "`hole` is a binary file of 2.0 GiB (it holds NUL bytes); it is not shown");
    let text = bench.done("search_code", json!({"pattern": "KEY"})).await;
    assert!(text.contains("[1 match in 1 file; 1 binary file not searched: `hole`]"), "{text}");
}

#[tokio::test]
async fn a_line_of_ten_megabytes() {
    let bench = Bench::new();
    bench.write("long.txt", format!("first\n{}KEY\nlast\n", "x".repeat(10 << 20)).as_bytes());
    let text = bench.done("read_file", json!({"file_path": "long.txt"})).await;
    assert!(text.contains("x… [10483763 more characters]\n     3\tlast\n"), "{}", &text[text.len() - 300..]);
    assert!(text.ends_with("[1 long line cut at 2000 characters; `search_code` shows the text around a match]"));
    let text = bench.done("search_code", json!({"pattern": "KEY"})).await;
    assert!(text.len() < 1000 && text.contains("xKEY [of 10485763 bytes]"), "{text}");
}

#[tokio::test]
async fn pipes_and_sockets_do_not_hang() {
    let bench = Bench::with(&[("a.txt", b"KEY\n")]);
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.root().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.root().join("socket")).unwrap();
    assert_eq!(
        bench.failed("read_file", json!({"file_path": "pipe"})).await,
        "`pipe` is a pipe; only regular files can be read"
    );
    let text = bench.failed("read_file", json!({"file_path": "socket"})).await;
    assert!(text.starts_with("`socket` cannot be read: "), "{text}");
    let text = bench.failed("search_code", json!({"pattern": "KEY", "path": "pipe"})).await;
    assert_eq!(text, "`pipe` is neither a file nor a folder");
    assert!(bench.done("search_code", json!({"pattern": "KEY"})).await.ends_with("[1 match in 1 file]"));
    assert_eq!(bench.done("list_files", json!({})).await, "a.txt\n[1 file, 4 B]");
    let text = bench.failed("read_file", json!({"file_path": "pipe/x"})).await;
    assert!(text.contains("there is no `pipe/x`"), "{text}");
}

#[tokio::test]
async fn a_line_that_memory_is_not_spent_on_is_named() {
    let bench = Bench::with(&[("a.txt", b"KEY\n")]);
    bench.write("endless.txt", &[b"KEY first\n".to_vec(), vec![b'x'; 65 << 20], b"KEY\n".to_vec()].concat());
    let text = bench.done("search_code", json!({"pattern": "KEY"})).await;
    assert!(text.contains("endless.txt\n1:KEY first\n"), "{text}");
    assert!(text.contains("[2 matches in 2 files; 1 file searched up to a line over 64 MiB: `endless.txt`]"), "{text}");
}
