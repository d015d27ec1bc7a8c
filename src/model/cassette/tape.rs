//! A cassette as it is read: all calls, by what they asked.

use super::asked::{Asked, Hash, Parts};
use super::{CASSETTE_VERSION, Call, Cassette, Facts, Line, Who};
use crate::model::trace::first_difference;
use crate::model::{Models, Naming};
use crate::redact::Redactor;
use crate::store::in_short;
use crate::text::one_line;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a file cannot be replayed. Reads after the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// The system did not let us read it.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It does not begin like a cassette.
    #[error("is no cassette: its first line is not the header that --record writes")]
    Foreign,
    /// It was written by another version.
    #[error(
        "is a cassette of version {0}, and this sortie reads version {CASSETTE_VERSION}; record it again with --record"
    )]
    Version(u64),
    /// A line in it is damaged.
    #[error("is damaged in line {line}: {problem}; record it again with --record")]
    Damaged {
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

/// A cassette that is being replayed.
#[derive(Debug)]
pub struct Tape {
    /// For messages.
    name: String,
    models: Vec<Facts>,
    /// What they were to the run; not there when an embedder recorded single models.
    naming: Option<Naming>,
    parts: Parts,
    calls: Vec<Call>,
    by_asked: HashMap<Asked, Vec<usize>>,
    // Held only to look and mark: two requests must not take the same call.
    used: Mutex<Vec<bool>>,
    /// Its last line has no end.
    cut: bool,
    /// What requests are compared without, as they were recorded without it.
    hidden: Redactor,
}

impl Tape {
    /// Reads the cassette at `path`. `hidden` holds the secrets that requests may hold and recorded ones do not.
    ///
    /// # Errors
    /// When it cannot be read, is no cassette, is one of another version, or is damaged. A last line without its end is
    /// no damage: the recording was cut off there.
    pub fn read(path: &Path, hidden: Redactor) -> Result<Arc<Self>, TapeError> {
        let unreadable = |error: io::Error| TapeError::Unreadable(crate::store::reason(&error));
        let file = File::open(path).map_err(unreadable)?;
        let mut tape = Tape::parse(&path.display().to_string(), BufReader::new(file))?;
        tape.hidden = hidden;
        Ok(Arc::new(tape))
    }

    pub(super) fn parse(name: &str, mut file: impl BufRead) -> Result<Self, TapeError> {
        let mut tape = Tape {
            name: name.to_string(),
            models: Vec::new(),
            naming: None,
            parts: Parts::new(),
            calls: Vec::new(),
            by_asked: HashMap::new(),
            used: Mutex::default(),
            cut: false,
            hidden: Redactor::default(),
        };
        let mut bytes = Vec::new();
        for line in 1.. {
            bytes.clear();
            let read = file.read_until(b'\n', &mut bytes);
            match read.map_err(|error| TapeError::Unreadable(crate::store::reason(&error)))? {
                0 if line == 1 => return Err(TapeError::Foreign),
                0 => break,
                _ => {}
            }
            let whole = bytes.ends_with(b"\n");
            match tape.line(line, &bytes) {
                Err(TapeError::Damaged { .. }) if !whole => tape.cut = true,
                done => done?,
            }
        }
        *tape.used() = vec![false; tape.calls.len()];
        Ok(tape)
    }

    fn line(&mut self, line: usize, bytes: &[u8]) -> Result<(), TapeError> {
        let damaged = |problem: String| TapeError::Damaged { line, problem };
        if line == 1 {
            return header(bytes);
        }
        if bytes.trim_ascii().is_empty() {
            return Ok(());
        }
        let parsed =
            serde_json::from_slice::<Line>(bytes).map_err(|error| damaged(one_line(&in_short(&error), 200)))?;
        match parsed {
            Line::Cassette { .. } => return Err(damaged("a second header".to_string())),
            Line::Models(naming) => self.naming = Some(naming),
            // One model may be two things to a run.
            Line::Model(facts) if self.models.iter().any(|known| known.name == facts.name) => {}
            Line::Model(facts) => self.models.push(facts),
            Line::Part { hash, value } => {
                if Hash::of(&value) != hash {
                    return Err(damaged("a part that does not fit its hash".to_string()));
                }
                self.parts.insert(hash, value);
            }
            Line::Call(call) => {
                if call.asked.parts().any(|hash| !self.parts.contains_key(hash)) {
                    return Err(damaged("a call that names a part which is not there".to_string()));
                }
                self.by_asked.entry(call.asked.clone()).or_default().push(self.calls.len());
                self.calls.push(*call);
            }
        }
        Ok(())
    }

    /// The names of the models that were recorded, the run's own first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|facts| facts.name.as_str())
    }

    /// The models of the recorded run, each in its place. With `own` the user names the run's own, which then answers
    /// whoever is named, as in a run. `None` when that model, or any, was not recorded.
    pub fn models(self: &Arc<Self>, own: Option<&str>) -> Option<Models> {
        let recorded = self.naming.as_ref();
        let default = own.or(recorded.map(|naming| naming.default.as_str())).or_else(|| self.names().next())?;
        let mut models = Models::new(Arc::new(self.model(default)?));
        for name in self.names().filter(|name| *name != default) {
            if let Some(model) = self.model(name) {
                models.add(Arc::new(model));
            }
        }
        let Some(naming) = recorded else { return Some(models) };
        naming.aliases.iter().for_each(|(alias, name)| models.add_alias(alias, name));
        if let Some(small) = naming.small.as_ref().and_then(|name| self.model(name)) {
            models.set_small(Arc::new(small));
        }
        if naming.only_default || own.is_some() {
            models.use_default_only();
        }
        Some(models)
    }

    /// The model of this name, as it was recorded.
    pub fn model(self: &Arc<Self>, name: &str) -> Option<Cassette> {
        let facts = self.models.iter().find(|facts| facts.name == name)?;
        Some(Cassette::new(Arc::clone(self), facts.clone()))
    }

    pub(super) fn hidden(&self) -> &Redactor {
        &self.hidden
    }

    /// The recorded call that answers this, which no other request gets then.
    pub(super) fn take(&self, who: &Who, asked: &Asked, parts: &Parts) -> Result<&Call, String> {
        let Some(same) = self.by_asked.get(asked) else { return Err(self.miss(who, asked, parts)) };
        let mut used = self.used();
        let free = |at: &&usize| used.get(**at) == Some(&false);
        let own = |at: &&usize| self.calls[**at].who == *who;
        let found = same.iter().filter(free).find(own).or_else(|| same.iter().find(free)).copied();
        match found {
            Some(at) => {
                if let Some(used) = used.get_mut(at) {
                    *used = true;
                }
                Ok(&self.calls[at])
            }
            None => {
                let times = match same.len() {
                    1 => "once".to_string(),
                    times => format!("{times} times"),
                };
                let name = &self.name;
                Err(format!(
                    "{who} is on the cassette `{name}` {times}, and no more is left of it; record again with --record"
                ))
            }
        }
    }

    /// Says what the tape lacks, and how near it comes to it.
    fn miss(&self, who: &Who, asked: &Asked, parts: &Parts) -> String {
        let name = &self.name;
        let same_place = |call: &Call| {
            let conversation = call.who.conversation == who.conversation;
            (conversation && call.who.turn == who.turn, conversation)
        };
        // The earliest of those that are equally near: `max_by_key` takes the last.
        let nearest = self.calls.iter().rev().max_by_key(|call| (same_place(call), call.asked.shared(asked)));
        let cut = if self.cut { " (its recording was cut off)" } else { "" };
        let Some(nearest) = nearest else {
            return format!(
                "{who} is not on the cassette `{name}`{cut}: there is no call on it; record again with --record"
            );
        };
        let all: Parts = self.parts.iter().chain(parts).map(|(hash, value)| (*hash, value.clone())).collect();
        let (recorded, wanted) = (nearest.asked.value(&all), asked.value(&all));
        let difference = match first_difference(&recorded, &wanted) {
            Some(found) => {
                format!("differs first in {}: recorded {} but asked {}", found.place, found.left, found.right)
            }
            None => "is the same".to_string(),
        };
        let nearest = &nearest.who;
        format!(
            "{who} is not on the cassette `{name}`{cut}: the nearest recorded request ({nearest}) {difference}; \
             record again with --record"
        )
    }

    fn used(&self) -> std::sync::MutexGuard<'_, Vec<bool>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn header(bytes: &[u8]) -> Result<(), TapeError> {
    #[derive(Deserialize)]
    struct Header {
        #[serde(rename = "type")]
        kind: String,
        version: u64,
    }
    match serde_json::from_slice::<Header>(bytes) {
        Ok(Header { kind, .. }) if kind != "cassette" => Err(TapeError::Foreign),
        Ok(Header { version, .. }) if version != u64::from(CASSETTE_VERSION) => Err(TapeError::Version(version)),
        Ok(_) => Ok(()),
        Err(_) => Err(TapeError::Foreign),
    }
}
