//! Recording: what any model is asked and answers, as it happens.

use super::asked::{Asked, Hash, hide};
use super::{CASSETTE_VERSION, Call, End, Facts, Line, Who};
use crate::model::lines::{Access, Lines};
use crate::model::{Delta, Deltas, Model, ModelError, Models, Request};
use crate::redact::Redactor;
use crate::store::push_line;
use async_trait::async_trait;
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A cassette that is being recorded.
#[derive(Debug)]
pub struct Recording {
    lines: Lines,
    hidden: Redactor,
    // Held while a part is queued, so that no call is queued before the parts that it names.
    written: Mutex<HashSet<Hash>>,
}

impl Recording {
    /// Records into this file, which must not exist. `hidden` holds the secrets that must not get there.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub fn create(path: &Path, hidden: Redactor) -> io::Result<Arc<Self>> {
        // Nothing may be left out of a tape: all of it may wait for the disk.
        let lines = Lines::create(path, Access::Usual, usize::MAX)?;
        let recording = Recording { lines, hidden, written: Mutex::default() };
        let sortie = env!("CARGO_PKG_VERSION").to_string();
        recording.write(&Line::Cassette { version: CASSETTE_VERSION, sortie });
        Ok(Arc::new(recording))
    }

    /// The same models, with their calls recorded.
    pub fn record_all(self: &Arc<Self>, models: Models) -> Models {
        self.write(&Line::Models(models.naming()));
        models.wrap(|model| Arc::new(self.record(model)))
    }

    /// The same model, with its calls recorded.
    pub fn record(self: &Arc<Self>, model: Arc<dyn Model>) -> Recorder {
        self.write(&Line::Model(Facts::of(model.as_ref())));
        Recorder { model, recording: Arc::clone(self) }
    }

    /// Waits until all that was recorded is on disk, a few seconds at most. What is missing, if anything.
    pub fn finish(&self) -> Option<String> {
        self.lines.finish()
    }

    fn write(&self, line: &Line) {
        let mut bytes = Vec::new();
        // Plain data: it always has a JSON form.
        if push_line(&mut bytes, line).is_ok() {
            self.lines.push(bytes);
        }
    }

    fn part(&self, hash: Hash, value: Value) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.insert(hash) {
            self.write(&Line::Part { hash, value });
        }
    }
}

/// A model whose calls are recorded.
pub struct Recorder {
    model: Arc<dyn Model>,
    recording: Arc<Recording>,
}

#[async_trait]
impl Model for Recorder {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn context_window(&self) -> u64 {
        self.model.context_window()
    }

    fn max_output(&self) -> Option<u32> {
        self.model.max_output()
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.model.idle_timeout()
    }

    fn disclosure(&self) -> Option<&str> {
        self.model.disclosure()
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        let recording = &self.recording;
        let asked = Asked::of(self.model.name(), &request, &recording.hidden, |hash, value| {
            recording.part(hash, value);
        });
        let mut take =
            Take { recording: Arc::clone(recording), call: Some((Who::of(&request), asked)), reply: Vec::new() };
        match self.model.stream(request).await {
            Ok(deltas) => Ok(take.over(deltas)),
            Err(error) => {
                take.end(End::Failed(error.clone()));
                Err(error)
            }
        }
    }

    fn complaints(&self) -> Vec<String> {
        self.model.complaints()
    }
}

/// One call while it is recorded. Its line is written when it ends, or when it is dropped.
struct Take {
    recording: Arc<Recording>,
    /// Gone once it is written.
    call: Option<(Who, Asked)>,
    reply: Vec<Delta>,
}

impl Take {
    /// The same stream; what passes is kept.
    fn over(self, deltas: Deltas) -> Deltas {
        let listen = |(mut deltas, mut take): (Deltas, Take)| async move {
            let next = deltas.next().await;
            match &next {
                Some(Ok(delta)) => take.hear(delta),
                Some(Err(error)) => take.end(End::Failed(error.clone())),
                None => take.end(End::Cut),
            }
            next.map(|delta| (delta, (deltas, take)))
        };
        futures_util::stream::unfold((deltas, self), listen).boxed()
    }

    fn hear(&mut self, delta: &Delta) {
        match delta {
            // Waits are of the day on which they happened, and what is not complete is not kept.
            Delta::Waiting(_) | Delta::Sent | Delta::Partial(_) => {}
            Delta::Text(more) => match self.reply.last_mut() {
                Some(Delta::Text(text)) => text.push_str(more),
                _ => self.reply.push(delta.clone()),
            },
            // Only the last of each model counts.
            Delta::Usage(_) => self.instead(delta, |earlier| matches!(earlier, Delta::Usage(_))),
            Delta::Cost(_) => self.instead(delta, |earlier| matches!(earlier, Delta::Cost(_))),
            Delta::Switched(_) | Delta::Thinking(_) | Delta::Call(_) => self.reply.push(delta.clone()),
            Delta::Stop(_) => {
                self.reply.push(delta.clone());
                self.end(End::Stopped);
            }
        }
    }

    fn instead(&mut self, latest: &Delta, is_earlier: impl Fn(&Delta) -> bool) {
        let switch = self.reply.iter().rposition(|delta| matches!(delta, Delta::Switched(_))).unwrap_or(0);
        let mine = self.reply.split_off(switch);
        self.reply.extend(mine.into_iter().filter(|delta| !is_earlier(delta)));
        self.reply.push(latest.clone());
    }

    fn end(&mut self, end: End) {
        let Some((who, asked)) = self.call.take() else { return };
        let hidden = &self.recording.hidden;
        let reply = std::mem::take(&mut self.reply);
        let call = Call { who, asked, reply: without_secrets(reply, hidden), end: without_secrets(end, hidden) };
        self.recording.write(&Line::Call(Box::new(call)));
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        self.end(End::Dropped);
    }
}

/// The same without secrets; as it is when that gives no such thing (a field of fixed words was taken for one).
fn without_secrets<T: Serialize + DeserializeOwned>(plain: T, hidden: &Redactor) -> T {
    let Ok(mut value) = serde_json::to_value(&plain) else { return plain };
    hide(&mut value, hidden);
    serde_json::from_value(value).unwrap_or(plain)
}
