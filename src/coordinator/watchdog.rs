//! Watches what can end a run from outside its plan: the deadline, a record that cannot be written, a request to stop.

use crate::cancel::{Cancel, CancelReason};
use crate::event::EventKind;
use crate::store::Store;
use crate::ui::Bus;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A task that turns these into requests to stop, and tells each reason once. Ends when dropped.
pub(super) struct Watchdog(JoinHandle<()>);

impl Watchdog {
    /// Starts watching. After a stop and the grace, what is left is killed.
    pub(super) fn start(
        cancel: Cancel,
        store: Arc<dyn Store>,
        bus: Arc<Bus>,
        deadline: Option<Duration>,
        grace: Duration,
    ) -> Self {
        Watchdog(tokio::spawn(async move {
            let late = async {
                match deadline {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            let tell = |reason: CancelReason| {
                bus.emit(EventKind::CancelRequested { reason: reason.as_str().to_string() });
            };
            tokio::select! {
                biased;
                () = cancel.stop_token().cancelled() => {}
                _ = store.failed() => cancel.request(CancelReason::Storage),
                () = late => cancel.request(CancelReason::Deadline),
            }
            let first = cancel.reason().unwrap_or(CancelReason::Interrupt);
            tell(first);
            tokio::select! {
                biased;
                () = cancel.kill_token().cancelled() => {}
                () = tokio::time::sleep(grace) => cancel.kill(),
            }
            if let Some(last) = cancel.reason().filter(|last| *last > first) {
                tell(last);
            }
        }))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.abort();
    }
}
