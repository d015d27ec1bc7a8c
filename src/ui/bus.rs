//! The [`Bus`]: every event of a run goes through it, to the log and to the reporters, in one order.

use super::Reporter;
use crate::event::{Event, EventKind, LOG_VERSION, Timestamp};
use crate::store::Store;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Live events are dropped for a reporter that has this many events before it.
const QUEUE: usize = 1_024;

/// How long [`Bus::close`] waits for all reporters together.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives events their number and time and hands them on.
///
/// [`Bus::emit`] only pushes: a reporter that is slow, stuck, panics or has lost its reader does not hold up anybody.
/// Durable events are never dropped; for a stuck reporter they pile up, one pointer each.
pub struct Bus {
    store: Arc<dyn Store>,
    /// Wall time and tokio's time at the start: event times follow tokio's clock, which tests can pause.
    origin: (Timestamp, tokio::time::Instant),
    // One short lock makes the number, the log's order and the reporters' order one and the same.
    state: Mutex<State>,
}

struct State {
    seq: u64,
    lines: Vec<Line>,
    /// Why reporters could not be started.
    failures: Vec<io::Error>,
}

/// The way to one reporter.
struct Line {
    events: Sender<Arc<Event>>,
    /// Events on the way.
    queued: Arc<AtomicUsize>,
    /// Hears once from the reporter's thread: how it ended. Silence means that it panicked.
    ended: Receiver<io::Result<()>>,
}

impl Bus {
    /// Starts a thread per reporter.
    pub fn new(store: Arc<dyn Store>, reporters: Vec<Box<dyn Reporter>>) -> Self {
        let mut state = State { seq: 0, lines: Vec::new(), failures: Vec::new() };
        for reporter in reporters {
            match Line::start(reporter) {
                Ok(line) => state.lines.push(line),
                Err(error) => state.failures.push(error),
            }
        }
        let origin = (Timestamp::from_system(SystemTime::now()), tokio::time::Instant::now());
        Bus { store, origin, state: Mutex::new(state) }
    }

    /// Logs a durable event and shows it; only shows a live one.
    pub fn emit(&self, kind: EventKind) {
        let durable = kind.is_durable();
        let mut state = self.state();
        let seq = if durable { state.seq + 1 } else { 0 };
        let event = Arc::new(Event { v: LOG_VERSION, seq, at: self.now(), kind });
        if durable {
            state.seq = seq;
            self.store.append(Arc::clone(&event));
        }
        state.lines.retain(|line| line.send(&event, durable));
    }

    /// The time that an event would get now.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.origin.0.0 + self.origin.1.elapsed().as_millis() as u64)
    }

    /// Ends the reporters one after the other, in the order in which they were given, and waits until each has shown
    /// all; a stuck one is given up on after ten seconds. Later events are only logged.
    ///
    /// Returns what kept reporters from reporting. A reader that has gone away is not among it.
    pub async fn close(&self) -> Vec<io::Error> {
        let (lines, failures) = {
            let mut state = self.state();
            (std::mem::take(&mut state.lines), std::mem::take(&mut state.failures))
        };
        // On a thread for blocking work: what is waited for are threads, and tokio's clock must not run meanwhile.
        let ended = tokio::task::spawn_blocking(move || {
            let deadline = std::time::Instant::now() + PATIENCE;
            let failures = failures.into_iter().chain(lines.into_iter().filter_map(|line| line.end(deadline)));
            failures.collect()
        });
        ended.await.unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn start(reporter: Box<dyn Reporter>) -> io::Result<Line> {
        let (events, inbox) = channel();
        let (end_mark, ended) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&queued);
        std::thread::Builder::new().name("sortie-reporter".into()).spawn(move || {
            // The bus may be gone.
            let _ = end_mark.send(report(reporter, &inbox, &count));
        })?;
        Ok(Line { events, queued, ended })
    }

    /// Whether the reporter still listens.
    fn send(&self, event: &Arc<Event>, durable: bool) -> bool {
        if !durable && self.queued.load(Ordering::Relaxed) >= QUEUE {
            return true;
        }
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.events.send(Arc::clone(event)).is_ok()
    }

    fn end(self, deadline: std::time::Instant) -> Option<io::Error> {
        drop(self.events);
        match self.ended.recv_timeout(deadline.saturating_duration_since(std::time::Instant::now())) {
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Some(error),
            Ok(_) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

/// The life of a reporter's thread.
fn report(mut reporter: Box<dyn Reporter>, inbox: &Receiver<Arc<Event>>, queued: &AtomicUsize) -> io::Result<()> {
    let every = reporter.tick_every();
    loop {
        let next = match every {
            Some(every) => inbox.recv_timeout(every),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(event) => {
                queued.fetch_sub(1, Ordering::Relaxed);
                reporter.event(&event)?;
            }
            Err(RecvTimeoutError::Timeout) => reporter.tick()?,
            Err(RecvTimeoutError::Disconnected) => return reporter.end(),
        }
    }
}
