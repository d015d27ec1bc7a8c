//! A stream that a future writes.
//!
//! The future runs only while the stream is polled, so dropping the stream drops it: a call that nobody waits for is
//! gone at once. No task, no channel.

use crate::model::{Delta, Deltas, ModelError};
use futures_util::{StreamExt, stream};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// Where the future puts what it has.
#[derive(Clone)]
pub(super) struct Outlet {
    /// A lock, since future and stream both hold it; only one of them runs at a time.
    queue: Arc<Mutex<VecDeque<Delta>>>,
}

impl Outlet {
    /// Hands out one delta.
    pub(super) fn push(&self, delta: Delta) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(delta);
    }

    /// Hands out all of these; the vector can be used again.
    pub(super) fn take(&self, deltas: &mut Vec<Delta>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).extend(deltas.drain(..));
    }

    /// Waits until the reader has everything: nothing is read ahead of it.
    pub(super) async fn drained(&self) {
        // No waker: the stream polls the future whenever the queue is empty.
        poll_fn(|_| if self.is_empty() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn is_empty(&self) -> bool {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn pop(&self) -> Option<Delta> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The stream of what `write` puts into its outlet; its error, if any, comes last.
pub(super) fn written<F>(write: impl FnOnce(Outlet) -> F) -> Deltas
where
    F: Future<Output = Result<(), ModelError>> + Send + 'static,
{
    let outlet = Outlet { queue: Arc::default() };
    let mut writing = Some(Box::pin(write(outlet.clone())));
    let mut problem = None;
    stream::poll_fn(move |cx| {
        if let Some(delta) = outlet.pop() {
            return Poll::Ready(Some(Ok(delta)));
        }
        let Some(future) = &mut writing else {
            return Poll::Ready(problem.take().map(Err));
        };
        let done = future.as_mut().poll(cx);
        if let Poll::Ready(result) = done {
            writing = None;
            problem = result.err();
        }
        match outlet.pop() {
            Some(delta) => Poll::Ready(Some(Ok(delta))),
            None if writing.is_some() => Poll::Pending,
            None => Poll::Ready(problem.take().map(Err)),
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelErrorKind, StopKind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn text(text: &str) -> Delta {
        Delta::Text(text.into())
    }

    #[tokio::test]
    async fn everything_comes_in_order_and_the_error_last() {
        let mut stream = written(|outlet| async move {
            outlet.push(text("a"));
            outlet.take(&mut vec![text("b"), text("c")]);
            outlet.drained().await;
            tokio::task::yield_now().await;
            outlet.push(Delta::Stop(StopKind::End));
            Err(ModelError::new(ModelErrorKind::Cut, "cut"))
        });
        let mut came = Vec::new();
        while let Some(delta) = stream.next().await {
            came.push(delta.map_err(|error| error.message));
        }
        let wanted = [Ok(text("a")), Ok(text("b")), Ok(text("c")), Ok(Delta::Stop(StopKind::End)), Err("cut".into())];
        assert_eq!(came, wanted);
    }

    #[tokio::test]
    async fn nothing_is_read_ahead_of_the_reader() {
        let written_so_far = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written_so_far);
        let mut stream = written(|outlet| async move {
            loop {
                count.fetch_add(1, Ordering::SeqCst);
                outlet.push(text("x"));
                outlet.drained().await;
            }
        });
        for read in 1..=3 {
            stream.next().await;
            assert_eq!(written_so_far.load(Ordering::SeqCst), read);
        }
    }
}
