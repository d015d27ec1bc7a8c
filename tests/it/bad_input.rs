//! What a run makes of trees and places that are not as one would wish. Nothing of it can be checked in as files; what
//! can is in `tests/scenarios/runs/bad-*`.

use crate::command::{Said, Sandbox, finish};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

const QUESTION: &str = "where is a job cancelled?";
const CODE: &str = "/// Cancels a job.\npub fn cancel_job() {}\n";

/// Lets scout answer in the sandbox's workspace, and checks what holds whatever is in there.
fn ask(sandbox: &Sandbox) -> Said {
    let said = sandbox.run(&["run", "-C", "workspace", QUESTION]);
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
    assert!([0, 1].contains(&said.code), "{}", said.stderr);
    said
}

/// The answer names the place of [`CODE`].
fn finds(sandbox: &Sandbox, place: &str) -> Said {
    let said = ask(sandbox);
    assert!(said.stdout.contains(place), "{place}: {}", said.stdout);
    said
}

#[test]
fn odd_names_are_found_and_printed_on_one_line() {
    let sandbox = Sandbox::new();
    for name in ["with space", "new\nline", "esc\u{1b}[2J", "-n", "ünïcode 你好", "quote\"'`", "{{ x }}"] {
        sandbox.file(format!("workspace/{name}/job.rs"), CODE);
    }
    sandbox.file("workspace/with space/cancel job.rs", CODE);
    sandbox.file(OsStr::from_bytes(b"workspace/latin-\xe9.rs"), CODE);
    let said = finds(&sandbox, "`new\\nline/job.rs:2`");
    assert!(said.stdout.contains("`-n/job.rs:2`"), "{}", said.stdout);
    assert!(!said.stdout.contains('\u{1b}') && !said.stderr.contains('\u{1b}'));
}

#[test]
fn links_in_circles_and_out_of_the_tree_are_not_followed() {
    let sandbox = Sandbox::new();
    let workspace = sandbox.workspace();
    sandbox.file("workspace/src/job.rs", CODE);
    sandbox.file("outside/secret.rs", "/// Cancels a job: the secret way.\npub fn cancel_job_secretly() {}\n");
    symlink(&workspace, workspace.join("src/loop")).unwrap();
    symlink("self", workspace.join("self")).unwrap();
    symlink("../outside", workspace.join("out")).unwrap();
    symlink("../outside/secret.rs", workspace.join("secret.rs")).unwrap();
    symlink("nowhere", workspace.join("dangling.rs")).unwrap();
    let said = finds(&sandbox, "src/job.rs:");
    assert!(!said.stdout.contains("secret") && !said.stdout.contains("loop/"), "{}", said.stdout);
}

#[test]
fn huge_files_and_lines_neither_stop_nor_flood_a_run() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/job.rs", CODE);
    let sparse = std::fs::File::create(sandbox.workspace().join("disk.img")).unwrap();
    sparse.set_len(2 << 30).unwrap();
    sandbox.file("workspace/min.js", format!("cancel job {}\n", "job cancel x".repeat(10_000_000 / 12)));
    let said = finds(&sandbox, "job.rs:");
    assert!(said.stdout.len() < 20_000, "{}", said.stdout.len());
}

#[test]
fn special_files_are_passed_over() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/job.rs", CODE);
    let made = std::process::Command::new("mkfifo").arg(sandbox.workspace().join("pipe.rs")).status().unwrap();
    assert!(made.success());
    let _listener = std::os::unix::net::UnixListener::bind(sandbox.workspace().join("socket.rs")).unwrap();
    finds(&sandbox, "job.rs:");
}

#[test]
fn a_workspace_that_cannot_be_written_is_recorded_elsewhere() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    sandbox.file("workspace/job.rs", CODE);
    let mode = |mode| std::fs::set_permissions(sandbox.workspace(), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let writable = std::fs::create_dir(sandbox.workspace().join("probe")).is_ok();
    let said = finds(&sandbox, "job.rs:");
    mode(0o755);
    // Who may do everything (root) writes there all the same.
    if !writable {
        assert!(said.stderr.contains("note: the workspace cannot be written"), "{}", said.stderr);
        assert!(!sandbox.workspace().join(".sortie").exists());
    }
}

#[test]
fn a_record_that_cannot_be_kept_names_the_place_and_what_to_do() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/.sortie", "in the way");
    let said = sandbox.run(&["run", "-C", "workspace", QUESTION]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(said.stderr.contains("/workspace/.sortie` is not a directory"), "{}", said.stderr);
}

#[test]
fn arguments_that_are_not_unicode_are_refused_and_paths_may_be() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.sortie();
    command.args([OsStr::new("run"), OsStr::from_bytes(b"caf\xe9?")]);
    let said = finish(command);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("UTF-8"), "{}", said.stderr);

    sandbox.file(OsStr::from_bytes(b"caf\xe9/job.rs"), CODE);
    let mut command = sandbox.sortie();
    command.args([OsStr::new("run"), OsStr::new(QUESTION), OsStr::new("-C"), OsStr::from_bytes(b"caf\xe9")]);
    let said = finish(command);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("job.rs:"), "{}", said.stdout);
}

#[test]
fn a_task_from_standard_input_is_read_whole_and_must_be_text() {
    let sandbox = Sandbox::new();
    sandbox.file("workspace/job.rs", CODE);
    for (input, code, says) in [
        (QUESTION.as_bytes(), 0, "job.rs:"),
        (b"".as_slice(), 2, "the task is empty"),
        (b"caf\xe9?", 2, "cannot read the task from standard input"),
    ] {
        let file = sandbox.file("task", input);
        let mut command = sandbox.sortie();
        command.args(["run", "-C", "workspace", "-"]).stdin(std::fs::File::open(file).unwrap());
        let said = finish(command);
        assert_eq!(said.code, code, "{}", said.stderr);
        assert!((said.stdout + &said.stderr).contains(says), "{says}");
    }
}
