//! Which commit is checked out, read from git's files: no process, no configuration of a repository is run.

use std::fs;
use std::path::{Path, PathBuf};

/// The commit that `HEAD` of the repository around `workspace` names; `None` outside a repository, before the first
/// commit, or when the files say nothing clear.
pub fn git_head(workspace: &Path) -> Option<String> {
    let git = workspace.ancestors().find_map(git_folder)?;
    let head = read_small(&git.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else { return commit(&head) };
    // A name from a file must not lead anywhere else.
    if !name.starts_with("refs/") || name.split('/').any(|part| part == "..") {
        return None;
    }
    // A linked worktree has its own HEAD and shares the branches.
    let common = read_small(&git.join("commondir")).map_or_else(|| git.clone(), |common| git.join(common));
    [&git, &common].iter().find_map(|folder| commit(&read_small(&folder.join(name))?)).or_else(|| packed(&common, name))
}

fn git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    read_small(&git)?.strip_prefix("gitdir: ").map(|target| folder.join(target))
}

fn packed(common: &Path, name: &str) -> Option<String> {
    let refs = fs::read_to_string(common.join("packed-refs")).ok()?;
    refs.lines().find_map(|line| {
        let (id, of) = line.split_once(' ')?;
        if of == name { commit(id) } else { None }
    })
}

fn commit(text: &str) -> Option<String> {
    let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then(|| text.to_string())
}

/// The only line of a small file.
fn read_small(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    if !about.is_file() || about.len() > 4_096 {
        return None;
    }
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_head_is_found_loose_packed_detached_and_in_a_linked_worktree() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let folder = tempfile::tempdir().unwrap();
        let (main, linked) = (folder.path().join("main"), folder.path().join("linked"));
        assert_eq!(git_head(&main), None);
        write(&main.join(".git/HEAD"), "ref: refs/heads/main\n");
        fs::create_dir_all(main.join("src/deep")).unwrap();
        assert_eq!(git_head(&main), None, "no commit yet");
        write(&main.join(".git/packed-refs"), &format!("# pack-refs\n{two} refs/heads/other\n{one} refs/heads/main\n"));
        assert_eq!(git_head(&main.join("src/deep")).as_ref(), Some(&one));
        write(&main.join(".git/refs/heads/main"), &format!("{two}\n"));
        assert_eq!(git_head(&main).as_ref(), Some(&two), "a loose ref is newer than a packed one");
        write(&linked.join(".git"), "gitdir: ../main/.git/worktrees/linked\n");
        write(&main.join(".git/worktrees/linked/HEAD"), "ref: refs/heads/main\n");
        write(&main.join(".git/worktrees/linked/commondir"), "../..\n");
        assert_eq!(git_head(&linked).as_ref(), Some(&two));
        write(&main.join(".git/HEAD"), &one);
        assert_eq!(git_head(&main).as_ref(), Some(&one));
        write(&main.join(".git/HEAD"), "ref: refs/../../../secret\n");
        assert_eq!(git_head(&main), None);
    }
}
