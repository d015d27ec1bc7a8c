//! Watches what can end a run from outside its plan: the deadline, a record that cannot be written, a request to stop.

use crate::cancel::{Cancel, CancelReason, from_now};
use crate::event::EventKind;
use crate::store::Store;
use crate::ui::Bus;
use std::time::Duration;

/// Turns these into requests to stop, and tells each.
pub(super) struct Watchdog<'a> {
    pub(super) cancel: &'a Cancel,
    pub(super) store: &'a dyn Store,
    pub(super) bus: &'a Bus,
    /// Time limit of the run.
    pub(super) deadline: Option<Duration>,
    /// After a stop and this time, what is left is killed.
    pub(super) grace: Duration,
}

impl Watchdog<'_> {
    /// Does the work to its end and watches meanwhile. Both in one task and the watch looked at first, so that a stop is
    /// told before what comes of it, however soon the work ends then.
    pub(super) async fn over<T>(self, work: impl Future<Output = T>) -> T {
        let mut told = None;
        tokio::pin!(work);
        let watched = tokio::select! {
            biased;
            never = self.watch(&mut told) => match never {},
            done = &mut work => done,
        };
        // A higher reason may have come since: a press during the grace of a deadline.
        self.tell(&mut told);
        watched
    }

    async fn watch(&self, told: &mut Option<CancelReason>) -> std::convert::Infallible {
        let late = async {
            match self.deadline {
                Some(limit) => tokio::time::sleep_until(from_now(limit)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.stop_token().cancelled() => {}
            _ = self.store.failed() => self.cancel.request(CancelReason::Storage),
            () = late => self.cancel.request(CancelReason::Deadline),
        }
        self.tell(told);
        tokio::select! {
            biased;
            () = self.cancel.kill_token().cancelled() => {}
            () = tokio::time::sleep(self.grace) => self.cancel.kill(),
        }
        self.tell(told);
        std::future::pending().await
    }

    /// Tells the highest reason, unless it was told already.
    fn tell(&self, told: &mut Option<CancelReason>) {
        if let Some(reason) = self.cancel.reason().filter(|reason| told.is_none_or(|told| *reason > told)) {
            *told = Some(reason);
            self.bus.emit(EventKind::CancelRequested { reason: reason.as_str().to_string() });
        }
    }
}
