//! The [`Bus`]: every event of a run goes through it, to the log and to the reporters, in one order.

use super::Reporter;
use crate::event::{Event, EventKind, LOG_VERSION, Timestamp};
use crate::store::Store;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

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
    /// Those who no longer listen.
    gone: Vec<Line>,
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
        let mut state = State { seq: 0, lines: Vec::new(), gone: Vec::new(), failures: Vec::new() };
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
        let State { lines, gone, .. } = &mut *state;
        gone.extend(lines.extract_if(.., |line| !line.send(&event, durable)));
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
            let mut lines = std::mem::take(&mut state.gone);
            lines.append(&mut state.lines);
            (lines, std::mem::take(&mut state.failures))
        };
        // On a thread for blocking work: what is waited for are threads, and tokio's clock must not run meanwhile.
        let ended = tokio::task::spawn_blocking(move || {
            let deadline = Instant::now() + PATIENCE;
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

    /// Lets the reporter end and waits for that, at most until `deadline`; why it could not report, if so.
    fn end(self, deadline: Instant) -> Option<io::Error> {
        drop(self.events);
        let ended = self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        // A reader that has gone away is no failure.
        ended.ok()?.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    /// Does to each event what a test wants.
    struct Probe<F>(F);

    impl<F: FnMut(Option<&Event>) -> io::Result<()> + Send + 'static> Reporter for Probe<F> {
        fn event(&mut self, event: &Event) -> io::Result<()> {
            (self.0)(Some(event))
        }

        fn end(&mut self) -> io::Result<()> {
            (self.0)(None)
        }
    }

    fn probe(see: impl FnMut(Option<&Event>) -> io::Result<()> + Send + 'static) -> Box<dyn Reporter> {
        Box::new(Probe(see))
    }

    /// A reporter that passes on the numbers of what it sees.
    fn listener() -> (Box<dyn Reporter>, Receiver<u64>) {
        let (tell, heard) = channel();
        let tell = probe(move |event| {
            if let Some(event) = event {
                tell.send(event.seq).unwrap();
            }
            Ok(())
        });
        (tell, heard)
    }

    fn notice() -> EventKind {
        EventKind::Notice { message: "m".into() }
    }

    fn words() -> EventKind {
        EventKind::Words { node: "a".into(), text: "t".into() }
    }

    #[tokio::test]
    async fn log_and_reporters_see_one_order_whoever_speaks() {
        let store = Arc::new(MemoryStore::new());
        let ((one, heard_one), (two, heard_two)) = (listener(), listener());
        let bus = Bus::new(store.clone(), vec![one, two]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| bus.emit(notice())));
            }
        });
        assert!(bus.close().await.is_empty());
        let expected: Vec<u64> = (1..=2_000).collect();
        assert_eq!(store.events().iter().map(|event| event.seq).collect::<Vec<_>>(), expected);
        assert_eq!(heard_one.iter().collect::<Vec<_>>(), expected);
        assert_eq!(heard_two.iter().collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn a_slow_reporter_holds_nobody_up_and_loses_live_events_first() {
        let (release, gate) = channel::<()>();
        let (tell, heard) = channel();
        let slow = probe(move |event| {
            // Waits before the first event until the test has sent all.
            let _ = gate.recv();
            if let Some(event) = event {
                tell.send(event.seq).unwrap();
            }
            Ok(())
        });
        let bus = Bus::new(Arc::new(MemoryStore::new()), vec![slow]);
        for _ in 0..5_000 {
            bus.emit(notice());
            bus.emit(words());
        }
        drop(release);
        bus.close().await;
        let (live, durable): (Vec<u64>, Vec<u64>) = heard.iter().partition(|seq| *seq == 0);
        assert_eq!(durable, (1..=5_000).collect::<Vec<_>>());
        assert!(live.len() <= QUEUE, "{}", live.len());
    }

    #[tokio::test]
    async fn a_reporter_that_panics_or_has_no_reader_is_left_out_and_the_others_go_on() {
        let (good, heard) = listener();
        let panics = probe(|_| panic!("a bug in a reporter"));
        let unread = probe(|_| Err(io::ErrorKind::BrokenPipe.into()));
        let full = probe(|_| Err(io::ErrorKind::StorageFull.into()));
        let bus = Bus::new(Arc::new(MemoryStore::new()), vec![panics, unread, full, good]);
        for _ in 0..100 {
            bus.emit(notice());
        }
        let failures = bus.close().await;
        assert_eq!(heard.iter().count(), 100);
        // A reporter may be found gone while events still come; the failure counts all the same.
        assert_eq!(failures.iter().map(io::Error::kind).collect::<Vec<_>>(), [io::ErrorKind::StorageFull]);
    }

    #[tokio::test]
    async fn reporters_end_one_after_the_other() {
        let (tell, heard) = channel();
        let reporters = (0..3).map(|number| {
            let tell = tell.clone();
            probe(move |event| {
                if event.is_none() {
                    tell.send(number).unwrap();
                }
                Ok(())
            })
        });
        let bus = Bus::new(Arc::new(MemoryStore::new()), reporters.collect());
        drop(tell);
        bus.close().await;
        bus.emit(notice());
        assert_eq!(heard.iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn event_times_follow_the_clock_that_tests_can_pause() {
        let store = Arc::new(MemoryStore::new());
        let bus = Bus::new(store.clone(), Vec::new());
        bus.emit(notice());
        tokio::time::advance(Duration::from_secs(60)).await;
        bus.emit(notice());
        let events = store.events();
        assert_eq!(events[1].at.since(events[0].at), Duration::from_secs(60));
    }
}
