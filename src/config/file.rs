//! A config file on disk.

use super::read::{Read, read};
use super::settings::{Entries, Settings};
use crate::plan::Problems;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// Bytes that a config file may have: whatever is larger is something else.
const MOST: u64 = 1024 * 1024;

/// A config file that was read.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it sets; what is wrong is left out.
    pub settings: Settings,
    /// The same as text.
    pub entries: Entries,
    /// What is wrong with it.
    pub problems: Problems,
    shown: String,
}

impl ConfigFile {
    /// Reads a file; `None` when there is none.
    ///
    /// # Errors
    /// A fragment that names the file and why it cannot be read.
    pub fn read(path: &Path) -> Result<Option<ConfigFile>, String> {
        let cannot = |why: &str| Err(format!("cannot read `{}`: {why}", path.display()));
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return cannot(&crate::store::reason(&error)),
        };
        // A pipe would be waited for, a device read for ever.
        if !metadata.is_file() {
            return cannot("it is not a file");
        }
        let mut bytes = Vec::new();
        if let Err(error) = File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes)) {
            return cannot(&crate::store::reason(&error));
        }
        if bytes.len() as u64 > MOST {
            return cannot(&format!("it is larger than {}", crate::text::size(MOST)));
        }
        let Ok(text) = String::from_utf8(bytes) else { return cannot("it is not UTF-8 text") };
        let Read { settings, entries, problems, shown } = read(&text, path.parent().unwrap_or(Path::new("")));
        Ok(Some(ConfigFile { path: path.to_path_buf(), settings, entries, problems, shown }))
    }

    /// Its problems as a compiler prints them; no key that stands in it is shown.
    pub fn render_problems(&self, color: bool) -> String {
        self.problems.render(&self.path.display().to_string(), &self.shown, color)
    }
}
