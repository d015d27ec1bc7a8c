//! A disk that no secret gets onto: the last gate before everything that a run records.

use super::disk::Disk;
use crate::redact::Redactor;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// Takes secrets out of all text that is written. What is no text (an artifact of another kind) goes through as it is.
pub(super) struct Hiding<D> {
    disk: D,
    hidden: Redactor,
}

impl<D> Hiding<D> {
    pub(super) fn new(disk: D, hidden: Redactor) -> Self {
        Hiding { disk, hidden }
    }
}

impl<D: Disk> Disk for Hiding<D> {
    fn append(&mut self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        self.disk.append(file, &without_secrets(bytes, &self.hidden))
    }

    fn replace(&mut self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        self.disk.replace(file, &without_secrets(bytes, &self.hidden))
    }

    fn sync(&mut self, files: &[PathBuf]) -> Result<(), (PathBuf, io::Error)> {
        self.disk.sync(files)
    }

    fn close(&mut self, file: &Path) {
        self.disk.close(file);
    }
}

/// The same bytes, where they are text without secrets.
pub(super) fn without_secrets<'b>(bytes: &'b [u8], hidden: &Redactor) -> Cow<'b, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !hidden.is_empty() => match hidden.text(text) {
            Cow::Borrowed(same) => Cow::Borrowed(same.as_bytes()),
            Cow::Owned(clean) => Cow::Owned(clean.into_bytes()),
        },
        Ok(_) | Err(_) => Cow::Borrowed(bytes),
    }
}
