//! Files of one run directory, by their relative path: append, replace, sync.
//!
//! [`Disk`] is what the writer needs of a file system; tests record the calls or let one fail. [`RunFiles`] is the
//! real one: it holds at most [`MAX_OPEN`] files open.

use indexmap::IndexMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files open at once. Well under the 256 handles that a process gets on some systems.
const MAX_OPEN: usize = 100;
/// Threads that sync files at once.
const SYNCS: usize = 16;

/// What the writer needs of a file system.
pub(super) trait Disk: Send + 'static {
    /// Adds to the end of a file, which is made when missing.
    fn append(&mut self, file: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Makes a file with this content, in place of an older one.
    fn replace(&mut self, file: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all bytes of these files, which exist, are on disk; the first that cannot be, otherwise.
    fn sync(&mut self, files: &[PathBuf]) -> Result<(), (PathBuf, io::Error)>;

    /// Nothing more is expected for this file.
    fn close(&mut self, file: &Path);
}

/// The files of a run directory that exists.
pub(super) struct RunFiles {
    root: PathBuf,
    /// Least recently opened first.
    open: IndexMap<PathBuf, Handle>,
}

struct Handle {
    file: File,
    len: u64,
}

impl RunFiles {
    pub(super) fn new(root: PathBuf) -> Self {
        RunFiles { root, open: IndexMap::new() }
    }

    fn sync_one(&self, file: &Path) -> io::Result<()> {
        let found = match self.open.get(file) {
            Some(handle) => &handle.file,
            None => &File::open(self.root.join(file))?,
        };
        still_there(found)?;
        found.sync_data()
    }

    fn handle(&mut self, file: &Path) -> io::Result<&mut Handle> {
        if !self.open.contains_key(file) {
            // No sync here, which would cost one per line once more conversations run than files may be open: whoever syncs
            // a file that is closed opens it again.
            while self.open.len() >= MAX_OPEN && self.open.shift_remove_index(0).is_some() {}
            // The folder is never made anew here: a run directory that somebody has removed must not come back
            // with half its files.
            let opened = OpenOptions::new().create(true).append(true).open(self.root.join(file))?;
            let len = opened.metadata()?.len();
            self.open.insert(file.to_path_buf(), Handle { file: opened, len });
        }
        self.open.get_mut(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for RunFiles {
    fn append(&mut self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let handle = self.handle(file)?;
        let written = handle.file.write_all(bytes);
        match written {
            Ok(()) => handle.len += bytes.len() as u64,
            // A full disk takes the beginning of a write: whole lines only, if it lets us.
            Err(_) => {
                let _ = handle.file.set_len(handle.len);
            }
        }
        written
    }

    fn replace(&mut self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        self.close(file);
        let path = self.root.join(file);
        if let Some(folder) = path.parent()
            && let Err(error) = std::fs::create_dir(folder)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        File::create(path)?.write_all(bytes)
    }

    /// File systems commit syncs that wait at the same time together: sixty files at once take about as long as three.
    fn sync(&mut self, files: &[PathBuf]) -> Result<(), (PathBuf, io::Error)> {
        let sync_each = |files: &[PathBuf]| {
            files.iter().try_for_each(|file| self.sync_one(file).map_err(|error| (file.clone(), error)))
        };
        if files.len() <= 1 {
            return sync_each(files);
        }
        std::thread::scope(|scope| {
            let share = files.len().div_ceil(SYNCS);
            let started: Vec<_> = files.chunks(share).map(|files| scope.spawn(|| sync_each(files))).collect();
            // A panic in one would be a bug of ours: it goes on here, and the store says that its writer has stopped.
            started.into_iter().try_for_each(|sync| sync.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug)))
        })
    }

    fn close(&mut self, file: &Path) {
        self.open.shift_remove(file);
    }
}

/// Writing to a file that was removed succeeds, and the record is gone all the same.
#[cfg(unix)]
fn still_there(file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    match file.metadata()?.nlink() {
        0 => Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed")),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn still_there(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_capped_and_appends_go_on_after_closing() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = RunFiles::new(folder.path().to_path_buf());
        for round in 0..2 {
            for file in 0..MAX_OPEN + 20 {
                disk.append(Path::new(&format!("{file}.jsonl")), format!("{round}\n").as_bytes()).unwrap();
                assert!(disk.open.len() <= MAX_OPEN);
            }
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("0.jsonl")).unwrap(), "0\n1\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("119.jsonl")).unwrap(), "0\n1\n");
    }

    #[test]
    fn a_removed_directory_is_an_error_at_the_next_sync_and_stays_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("run");
        std::fs::create_dir(&root).unwrap();
        let mut disk = RunFiles::new(root.clone());
        disk.append(Path::new("events.jsonl"), b"1\n").unwrap();
        disk.sync(&["events.jsonl".into()]).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        disk.append(Path::new("events.jsonl"), b"2\n").unwrap();
        assert!(disk.sync(&["events.jsonl".into()]).is_err());
        assert!(disk.append(Path::new("other.jsonl"), b"1\n").is_err());
        assert!(disk.replace(Path::new("artifacts/a/report.md"), b"").is_err());
        assert!(!root.exists());
    }
}
