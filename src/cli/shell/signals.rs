//! Signals of the operating system.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT: the first requests a drain, the second aborts it.
#[derive(Debug)]
pub(in crate::cli) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(in crate::cli) fn install() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Stops at the first signal; returns at the second.
    pub(in crate::cli) async fn second(&mut self, stop: impl FnOnce()) {
        self.next().await;
        tracing::info!("stopping: draining what is in flight; a second signal aborts");
        stop();
        self.next().await;
    }

    /// Returns at the next signal.
    pub(in crate::cli) async fn next(&mut self) {
        tokio::select! {
            // Both mean the same.
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
