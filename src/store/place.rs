//! Where run directories are: in the workspace, or in the state directory when the workspace cannot be written.

use super::{StoreError, file_name, fnv};
use crate::text;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What git must not see of `.sortie/`.
const GITIGNORE: &str = "runs/\nsessions/\nconfig.local.toml\n";

/// A new run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// The directory; it exists and is empty.
    pub dir: PathBuf,
    /// What the user should be told about the place, if anything.
    pub notice: Option<String>,
}

/// The folders that hold the runs of a workspace; they need not exist.
pub fn run_roots(workspace: &Path, state_dir: Option<&Path>) -> Vec<PathBuf> {
    let mut roots = vec![workspace.join(".sortie").join("runs")];
    roots.extend(state_dir.map(|state| state_root(workspace, state)));
    roots
}

/// Makes the directory of run `id`: under `.sortie/runs` of the workspace, or under the state directory when the
/// workspace is read-only. `workspace` is absolute.
///
/// Makes `.sortie/.gitignore` too when there is none.
///
/// # Errors
/// When neither place can be written, or the workspace's fails for another reason than being read-only.
pub fn make_run_dir(workspace: &Path, state_dir: Option<&Path>, id: &str) -> Result<RunPlace, StoreError> {
    let dir = workspace.join(".sortie").join("runs").join(file_name(id));
    match fs::create_dir_all(&dir) {
        Ok(()) => {
            make_gitignore(workspace);
            Ok(RunPlace { dir, notice: None })
        }
        Err(error) => match state_dir {
            Some(state) if is_read_only(&error) => {
                let dir = state_root(workspace, state).join(file_name(id));
                fs::create_dir_all(&dir).map_err(|error| StoreError::written(&dir, &error))?;
                let notice = format!(
                    "the workspace cannot be written ({}); the run is recorded in `{}`",
                    super::reason(&error),
                    dir.display()
                );
                Ok(RunPlace { dir, notice: Some(notice) })
            }
            _ => Err(StoreError::written(&dir, &error)),
        },
    }
}

/// Leaves one that is there alone. A run without it is recorded all the same.
fn make_gitignore(workspace: &Path) {
    if let Ok(mut file) = fs::File::create_new(workspace.join(".sortie").join(".gitignore")) {
        let _ = file.write_all(GITIGNORE.as_bytes());
    }
}

/// A name that people recognise and a hash that keeps workspaces of the same name apart.
fn state_root(workspace: &Path, state: &Path) -> PathBuf {
    let name = workspace.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = &name[..text::floor_boundary(&name, 40)];
    let hash = fnv(workspace.as_os_str().as_encoded_bytes());
    state.join("runs").join(format!("{}-{hash:016x}", file_name(name)))
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_lands_in_the_workspace_and_git_does_not_see_it() {
        let workspace = tempfile::tempdir().unwrap();
        let place = make_run_dir(workspace.path(), None, "one").unwrap();
        assert_eq!(place, RunPlace { dir: workspace.path().join(".sortie/runs/one"), notice: None });
        let ignore = workspace.path().join(".sortie/.gitignore");
        assert_eq!(fs::read_to_string(&ignore).unwrap(), GITIGNORE);
        fs::write(&ignore, "mine\n").unwrap();
        make_run_dir(workspace.path(), None, "two").unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "mine\n", "the user's file is theirs");
    }

    #[test]
    fn something_in_the_way_is_an_error_that_names_it() {
        let workspace = tempfile::tempdir().unwrap();
        fs::write(workspace.path().join(".sortie"), "").unwrap();
        let error = make_run_dir(workspace.path(), Some(workspace.path()), "one").unwrap_err();
        assert!(error.to_string().contains(".sortie/runs/one` cannot be written"), "{error}");
    }

    #[test]
    fn workspaces_of_one_name_have_different_places() {
        let state = Path::new("/state");
        let roots = [run_roots(Path::new("/a/app"), Some(state)), run_roots(Path::new("/b/app"), Some(state))];
        assert_ne!(roots[0][1], roots[1][1]);
        assert!(roots[0][1].starts_with("/state/runs"), "{roots:?}");
    }
}
