//! A file that grows by whole lines, written by a thread of its own.
//!
//! Whoever has a line only queues it. The first failure is remembered and nothing is written after it: a file may be
//! cut, never glued. [`Lines::finish`] waits until everything is on disk, and so does dropping.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the end waits for the disk: longer than a slow one needs, short enough for a hung one.
const DRAIN: Duration = Duration::from_secs(5);

/// Who may read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Its owner alone, where the system knows owners.
    Owner,
    /// Whoever may read the user's other files.
    Usual,
}

/// A file that lines are appended to.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    queue: Sender<Job>,
    state: Arc<State>,
    /// Bytes that may wait for the disk; lines beyond that are left out.
    room: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: AtomicUsize,
    left_out: AtomicUsize,
    // Written once, by the writer.
    failure: Mutex<Option<String>>,
}

enum Job {
    Line(Vec<u8>),
    /// Everything before this must be on disk; then tell.
    Sync(Sender<()>),
}

impl Lines {
    /// Makes the file, which must not exist, and starts its writer. More than `room` bytes never wait for the disk.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub(crate) fn create(path: &Path, access: Access, room: usize) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if access == Access::Owner {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let file = options.open(path)?;
        Lines::start(path, file, |file| file.sync_data(), room)
    }

    fn start<F: Write + Send + 'static>(
        path: &Path,
        file: F,
        sync: impl Fn(&F) -> io::Result<()> + Send + 'static,
        room: usize,
    ) -> io::Result<Self> {
        let (queue, jobs) = channel();
        let state = Arc::<State>::default();
        let writer = Writer { file: BufWriter::new(file), sync, state: Arc::clone(&state) };
        std::thread::Builder::new().name("sortie-lines".into()).spawn(move || writer.run(&jobs))?;
        Ok(Lines { path: path.to_path_buf(), queue, state, room })
    }

    /// Queues a line that ends in a newline.
    pub(crate) fn push(&self, line: Vec<u8>) {
        let waiting = self.state.waiting.fetch_add(line.len(), Ordering::Relaxed);
        if waiting > 0 && waiting + line.len() > self.room {
            self.state.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            self.state.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // The writer lives as long as this.
        let _ = self.queue.send(Job::Line(line));
    }

    /// Waits until all that was queued is on disk, a few seconds at most. What is missing from the file, if anything.
    pub(crate) fn finish(&self) -> Option<String> {
        let (done, waiting) = channel();
        let _ = self.queue.send(Job::Sync(done));
        let hung = waiting.recv_timeout(DRAIN).is_err();
        let path = self.path.display();
        let failure = self.state.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(reason) = failure {
            return Some(format!("`{path}` ends too early: {reason}"));
        }
        if hung {
            return Some(format!("`{path}` may end too early: the disk takes too long"));
        }
        match self.state.left_out.load(Ordering::Relaxed) {
            0 => None,
            lost => {
                let lost = crate::text::plural(lost, "line");
                Some(format!("`{path}` lacks {lost}: the disk was too slow"))
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Writer<F: Write, S> {
    file: BufWriter<F>,
    sync: S,
    state: Arc<State>,
}

impl<F: Write, S: Fn(&F) -> io::Result<()>> Writer<F, S> {
    /// Writes until the last sender is gone.
    fn run(mut self, jobs: &Receiver<Job>) {
        let mut failed = false;
        while let Ok(first) = jobs.recv() {
            for job in std::iter::once(first).chain(jobs.try_iter()) {
                let written = match job {
                    Job::Line(line) => {
                        let written = if failed { Ok(()) } else { self.file.write_all(&line) };
                        self.state.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                        written
                    }
                    Job::Sync(done) => {
                        let synced = if failed { Ok(()) } else { self.sync() };
                        self.note(synced, &mut failed);
                        // Whoever asked may have given up.
                        let _ = done.send(());
                        Ok(())
                    }
                };
                self.note(written, &mut failed);
            }
            // Nothing else waits: what was written can be read by others now.
            let flushed = if failed { Ok(()) } else { self.file.flush() };
            self.note(flushed, &mut failed);
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.flush()?;
        (self.sync)(self.file.get_ref())
    }

    fn note(&self, result: io::Result<()>, failed: &mut bool) {
        if let Err(error) = result {
            *failed = true;
            tracing::warn!(%error, "a file of lines cannot be written");
            let mut failure = self.state.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| crate::store::reason(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that takes so many bytes and no more.
    struct Small(usize, Arc<Mutex<Vec<u8>>>);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let now = bytes.len().min(self.0);
            if now == 0 {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
            }
            self.0 -= now;
            self.1.lock().unwrap().extend_from_slice(&bytes[..now]);
            Ok(now)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_many_threads_stay_whole_and_are_there_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let lines = Lines::create(&path, Access::Owner, usize::MAX).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let lines = &lines;
                scope.spawn(move || (0..100).for_each(|n| lines.push(format!("{thread} {n}\n").into_bytes())));
            }
        });
        assert_eq!(lines.finish(), None);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.split_once(' ').is_some()).count(), 400);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let again = Lines::create(&path, Access::Owner, usize::MAX).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_full_disk_is_told_and_nothing_is_glued_to_what_it_cut() {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let lines = Lines::start(Path::new("x"), Small(14, Arc::clone(&kept)), |_| Ok(()), usize::MAX).unwrap();
        for _ in 0..3 {
            lines.push(b"0123456789\n".to_vec());
            lines.finish();
        }
        let told = lines.finish().unwrap();
        assert_eq!(told, "`x` ends too early: no space left on device");
        assert_eq!(kept.lock().unwrap().as_slice(), b"0123456789\n012");
    }

    #[test]
    fn what_waits_is_bounded_and_what_is_left_out_is_counted() {
        /// Writes only while nobody holds the gate.
        struct Gated(Arc<Mutex<()>>);
        impl Write for Gated {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                drop(self.0.lock().unwrap());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let gate = Arc::<Mutex<()>>::default();
        let held = gate.lock().unwrap();
        let lines = Lines::start(Path::new("x"), Gated(Arc::clone(&gate)), |_| Ok(()), 30_000).unwrap();
        // More than the writer's own buffer, so that the first of them waits at the gate and still counts.
        (0..5).for_each(|_| lines.push(vec![b'x'; 10_000]));
        drop(held);
        assert_eq!(lines.finish().unwrap(), "`x` lacks 2 lines: the disk was too slow");
    }
}
