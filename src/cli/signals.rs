//! Ctrl-C and SIGTERM: the first asks the run to stop, the second kills. A press is never lost.

use sortie::cancel::{Cancel, CancelReason};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// Turns signals into requests to stop, from now on until the task is aborted.
pub(crate) fn watch(cancel: Cancel) -> JoinHandle<()> {
    // Registered here, not in the task: from this line on a signal does not end the process any more.
    let signals = (signal(SignalKind::interrupt()).ok(), signal(SignalKind::terminate()).ok());
    tokio::spawn(async move {
        let (mut interrupt, mut terminate) = signals;
        let mut pressed = false;
        loop {
            let reason = tokio::select! {
                () = next(&mut interrupt) => CancelReason::Interrupt,
                () = next(&mut terminate) => CancelReason::Terminate,
            };
            cancel.request(if pressed { CancelReason::Second } else { reason });
            pressed = true;
        }
    })
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
