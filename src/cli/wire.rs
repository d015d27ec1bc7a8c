//! Flags of `sortie run` that record model calls or replay them.

use super::out::Out;
use clap::Args;
use sortie::error::Error;
use sortie::model::Models;
use sortie::model::cassette::{Recording, Tape};
use sortie::model::trace::{HttpTrace, TRACE_FILE};
use sortie::redact::Redactor;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags that record and replay.
#[derive(Debug, Args)]
#[command(next_help_heading = "Record and replay")]
pub(crate) struct WireArgs {
    /// Write each request to a server and its response to `http.jsonl` in the run directory, keys hidden; `sortie trace
    /// show` reads it
    #[arg(long, conflicts_with = "cassette")]
    trace_http: bool,
    /// Record every model call in this new file
    #[arg(long, value_name = "FILE", conflicts_with = "cassette")]
    record: Option<PathBuf>,
    /// Answer every model call from what --record wrote: no provider, key or network is needed
    #[arg(long, value_name = "FILE")]
    cassette: Option<PathBuf>,
}

/// What is recorded while a run goes on.
#[derive(Default)]
pub(crate) struct Recorded {
    trace: Option<Arc<HttpTrace>>,
    recording: Option<Arc<Recording>>,
}

impl WireArgs {
    /// The models of the cassette, when there is one: the run's own is `wanted`, or the one that was recorded as such.
    ///
    /// # Errors
    /// When the file is no cassette, or `wanted` is not on it.
    pub(crate) fn models(&self, wanted: Option<&str>, hidden: &Redactor) -> Result<Option<Models>, Error> {
        let Some(file) = &self.cassette else { return Ok(None) };
        let shown = file.display();
        let tape = Tape::read(file, hidden.clone()).map_err(|error| Error::usage(format!("`{shown}` {error}")))?;
        let wanted = wanted.map(str::trim).filter(|name| !name.is_empty());
        if let Some(models) = tape.models(wanted) {
            return Ok(Some(models));
        }
        let names: Vec<String> = tape.names().map(|name| format!("`{name}`")).collect();
        Err(match wanted {
            Some(own) if !names.is_empty() => {
                Error::usage(format!("the model `{own}` is not on the cassette `{shown}`")).hint(format!(
                    "on it are {}; leave --model and SORTIE_MODEL out to use those that were recorded",
                    names.join(", ")
                ))
            }
            Some(_) | None => {
                Error::usage(format!("no model is on the cassette `{shown}`")).hint("record it again with --record")
            }
        })
    }

    /// Whether it can be recorded, as far as that is known before the run directory is made.
    ///
    /// # Errors
    /// When the file exists or its folder does not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(file) = &self.record else { return Ok(()) };
        if file.symlink_metadata().is_ok() {
            return Err(cannot(file, &io::ErrorKind::AlreadyExists.into()));
        }
        match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => std::fs::metadata(folder).map(drop).map_err(|error| cannot(file, &error)),
            None => Ok(()),
        }
    }

    /// Starts to record. Only once the run directory is there: a run that does not begin leaves no file behind.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub(crate) fn start(&self, run_dir: &Path, models: Models, hidden: &Redactor) -> Result<(Models, Recorded), Error> {
        let mut recorded = Recorded::default();
        if self.trace_http {
            let file = run_dir.join(TRACE_FILE);
            recorded.trace = Some(HttpTrace::to_file(&file, hidden.clone()).map_err(|error| cannot(&file, &error))?);
        }
        let Some(file) = &self.record else { return Ok((models, recorded)) };
        let recording = Recording::create(file, hidden.clone()).map_err(|error| cannot(file, &error))?;
        let models = recording.record_all(models);
        recorded.recording = Some(recording);
        Ok((models, recorded))
    }

    /// The cassette that answers, for the record of the run.
    pub(crate) fn cassette(&self) -> Option<String> {
        self.cassette.as_ref().map(|file| file.display().to_string())
    }
}

impl Recorded {
    /// What the servers of the run are to write their requests to.
    pub(crate) fn trace(&self) -> Option<&Arc<HttpTrace>> {
        self.trace.as_ref()
    }

    /// Waits until all is on disk, and says what is missing.
    pub(crate) fn finish(self, out: &mut Out) {
        let trace = self.trace.and_then(|trace| trace.finish());
        let recording = self.recording.and_then(|recording| recording.finish());
        for problem in trace.into_iter().chain(recording) {
            out.note(&format!("warning: {problem}"));
        }
    }
}

fn cannot(file: &Path, error: &io::Error) -> Error {
    let shown = file.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Error::usage(format!("`{shown}` exists, and recording never overwrites a file"))
                .hint("name a new file, or remove this one first")
        }
        _ => super::cannot_write(file, error),
    }
}
