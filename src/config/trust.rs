//! Whether what a workspace brings along may take effect: what the user said once, kept in the state directory.
//!
//! A repository's `.sortie/config.toml` can name a `base_url`, and to that the user's key would go. So it is ignored
//! until the user has said yes to exactly what it sets. The record holds these settings as text, not a hash of them:
//! when a pull changes one, the workspace is no longer trusted and the change can be named.
//!
//! The record's name comes from the workspace's canonical path, which also stands in it: a workspace that was moved, or
//! is reached through another link to another place, is another workspace. It never lies in the workspace itself, where
//! the workspace could bring it along.

use super::settings::Entries;
use crate::store::{file_name, fnv, reason};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// The version of the record.
const VERSION: u32 = 1;

/// What is known about a workspace and what it sets now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The user said yes to these settings.
    Trusted,
    /// The user said no to these settings.
    Declined,
    /// The user was never asked about them.
    Unknown,
    /// The user said yes to others; each change in one line.
    Changed(Vec<String>),
    /// The record cannot be read: its file, and why.
    Broken(PathBuf, String),
}

/// What users said about one workspace.
#[derive(Clone, Debug)]
pub struct TrustStore {
    /// As it stands in the record: the canonical path, bytes that are no text escaped.
    workspace: String,
    /// `None` where nothing can be remembered.
    file: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    workspace: String,
    trusted: bool,
    settings: Entries,
}

impl TrustStore {
    /// For a workspace that exists. Without a state directory, or with one that lies in the workspace, nothing is
    /// remembered: what is in the workspace is not the user's word.
    pub fn new(state_dir: Option<&Path>, workspace: &Path) -> Self {
        let root = std::fs::canonicalize(workspace).unwrap_or_else(|_| workspace.to_path_buf());
        let bytes = root.as_os_str().as_encoded_bytes();
        let name = file_name(&root.file_name().unwrap_or_default().to_string_lossy().to_lowercase());
        let name = format!("{}-{:016x}.json", &name[..crate::text::floor_boundary(&name, 60)], fnv(bytes));
        let state = state_dir.map(real).filter(|state| !state.starts_with(&root));
        TrustStore {
            workspace: bytes.escape_ascii().to_string(),
            file: state.map(|state| state.join("trust").join(name)),
        }
    }

    /// Whether an answer is remembered at all.
    pub fn remembers(&self) -> bool {
        self.file.is_some()
    }

    /// What the user said about a workspace that sets this.
    pub fn standing(&self, now: &Entries) -> Standing {
        let Some(file) = &self.file else { return Standing::Unknown };
        let record = match read(file) {
            Ok(Some(record)) => record,
            Ok(None) => return Standing::Unknown,
            Err(problem) => return Standing::Broken(file.clone(), problem),
        };
        if record.workspace != self.workspace {
            return Standing::Unknown;
        }
        match (record.settings == *now, record.trusted) {
            (true, true) => Standing::Trusted,
            (true, false) => Standing::Declined,
            (false, true) => Standing::Changed(changes(&record.settings, now)),
            (false, false) => Standing::Unknown,
        }
    }

    /// Remembers an answer, where that is possible. A record that cannot be read is kept beside the new one.
    ///
    /// # Errors
    /// A fragment that names the file that cannot be written.
    pub fn record(&self, settings: &Entries, trusted: bool) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let record =
            Record { version: VERSION, workspace: self.workspace.clone(), trusted, settings: settings.clone() };
        write(file, &record).map_err(|error| format!("cannot write `{}`: {}", file.display(), reason(&error)))
    }
}

fn read(file: &Path) -> Result<Option<Record>, String> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(reason(&error)),
    };
    match serde_json::from_slice::<Record>(&bytes) {
        Ok(record) if record.version == VERSION => Ok(Some(record)),
        Ok(record) => Err(format!("it has version {}, this is {VERSION}", record.version)),
        Err(error) => Err(error.to_string()),
    }
}

/// All of it or nothing: written beside, then moved into place.
fn write(file: &Path, record: &Record) -> std::io::Result<()> {
    let folder = file.parent().ok_or(ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(folder)?;
    if read(file).is_err() {
        std::fs::rename(file, file.with_extension("json.broken"))?;
    }
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut beside, record)?;
    beside.write_all(b"\n")?;
    beside.as_file().sync_all()?;
    beside.persist(file)?;
    Ok(())
}

fn changes(then: &Entries, now: &Entries) -> Vec<String> {
    let gone = then.iter().filter(|(key, _)| !now.contains_key(*key)).map(|(key, value)| format!("- {key} = {value}"));
    let new = now.iter().filter_map(|(key, value)| match then.get(key) {
        None => Some(format!("+ {key} = {value}")),
        Some(old) if old != value => Some(format!("~ {key} = {value} (it was {old})")),
        Some(_) => None,
    });
    new.chain(gone).collect()
}

/// The canonical path of something that need not exist: of as much of it as does.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return found.join(rest);
        }
    }
    path.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn entries(pairs: &[(&str, &str)]) -> Entries {
        pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
    }

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Place(tempfile::tempdir().unwrap());
            fs::create_dir(place.path("work")).unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn store(&self, workspace: &str) -> TrustStore {
            TrustStore::new(Some(&self.path("state")), &self.path(workspace))
        }
    }

    #[test]
    fn an_answer_is_for_these_settings_of_this_workspace() {
        let place = Place::new();
        let (evil, good) = (entries(&[("a", "1"), ("b", "2")]), entries(&[("a", "1"), ("c", "3")]));
        let store = place.store("work");
        assert_eq!(store.standing(&good), Standing::Unknown);
        store.record(&good, true).unwrap();
        assert_eq!(store.standing(&good), Standing::Trusted);
        assert_eq!(
            store.standing(&evil),
            Standing::Changed(vec!["+ b = 2".to_string(), "- c = 3".to_string()]),
            "what a pull brings is not what was trusted"
        );
        let other = entries(&[("a", "9"), ("c", "3")]);
        assert_eq!(store.standing(&other), Standing::Changed(vec!["~ a = 9 (it was 1)".to_string()]));
        store.record(&evil, false).unwrap();
        assert_eq!(store.standing(&evil), Standing::Declined);
        assert_eq!(store.standing(&good), Standing::Unknown);
        assert!(!place.path("work/.sortie").exists(), "nothing of it is in the workspace");
    }

    #[test]
    fn links_lead_to_the_workspace_itself_and_a_move_ends_its_trust() {
        let place = Place::new();
        let settings = entries(&[("a", "1")]);
        place.store("work").record(&settings, true).unwrap();
        symlink(place.path("work"), place.path("link")).unwrap();
        assert_eq!(place.store("link").standing(&settings), Standing::Trusted);
        fs::rename(place.path("work"), place.path("moved")).unwrap();
        assert_eq!(place.store("moved").standing(&settings), Standing::Unknown);
        // The link now leads to another workspace.
        fs::create_dir(place.path("other")).unwrap();
        fs::remove_file(place.path("link")).unwrap();
        symlink(place.path("other"), place.path("link")).unwrap();
        assert_eq!(place.store("link").standing(&settings), Standing::Unknown);
    }

    #[test]
    fn a_record_of_another_workspace_under_this_name_says_nothing() {
        let place = Place::new();
        let settings = entries(&[("a", "1")]);
        let store = place.store("work");
        store.record(&settings, true).unwrap();
        let file = store.file.clone().unwrap();
        let forged = fs::read_to_string(&file).unwrap().replace("/work\"", "/walk\"");
        fs::write(&file, forged).unwrap();
        assert_eq!(store.standing(&settings), Standing::Unknown);
    }

    #[test]
    fn a_broken_record_is_no_trust_and_is_not_lost() {
        let place = Place::new();
        let settings = entries(&[("a", "1")]);
        let store = place.store("work");
        store.record(&settings, true).unwrap();
        let file = store.file.clone().unwrap();
        let later = fs::read_to_string(&file).unwrap().replace("\"version\": 1", "\"version\": 2");
        for broken in ["", "{\"version\": 1, \"trusted\": true", "[]", &later] {
            fs::write(&file, broken).unwrap();
            assert!(matches!(store.standing(&settings), Standing::Broken(..)), "{broken}");
            store.record(&settings, true).unwrap();
            assert_eq!(store.standing(&settings), Standing::Trusted);
            assert_eq!(fs::read_to_string(file.with_extension("json.broken")).unwrap(), broken);
        }
        let names = fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(names, 2, "no temporary file stays");
    }

    #[test]
    fn a_state_directory_in_the_workspace_is_not_believed() {
        let place = Place::new();
        let settings = entries(&[("a", "1")]);
        symlink(place.path("work"), place.path("link")).unwrap();
        for state in ["work", "work/.state", "link/deep/er"] {
            let store = TrustStore::new(Some(&place.path(state)), &place.path("work"));
            store.record(&settings, true).unwrap();
            assert_eq!(store.standing(&settings), Standing::Unknown, "{state}");
            assert!(!store.remembers());
        }
        assert_eq!(fs::read_dir(place.path("work")).unwrap().count(), 0);
        assert!(!TrustStore::new(None, &place.path("work")).remembers());
        assert!(place.store("work").remembers());
    }
}
