//! Records and tasks beside the stream.

use super::{Core, Reading, Waiting};
use crate::kafka::Transport;
use crate::relay::error::Error;
use crate::relay::pipeline::signals::{Signals, Task};
use crate::relay::time::clock::Now;
use crate::wal::Lsn;

/// Signals that do not come in the stream, one at a time, and what is stored of the snapshots that they ask for.
#[derive(Debug)]
pub(super) struct Outside {
    document: Option<String>,
    /// Position of the stream when the last signal was applied, until that is stored.
    heeded: Option<Lsn>,
    /// Number that was last written with the position, as far as it changes between transactions.
    written: u64,
}

impl Outside {
    pub(super) const fn nothing() -> Self {
        Self { document: None, heeded: None, written: 0 }
    }

    pub(super) fn came(&mut self, document: String) {
        self.document = Some(document);
    }
}

impl<T: Transport> Core<'_, T> {
    /// Does what has its place between two transactions of the stream.
    pub(super) fn act_between(&mut self, now: Now) -> Result<(), Error> {
        let reached = self.feedback.last_received();
        if !self.feed.out.flight.in_transaction()
            && let Some(document) = self.outside.document.take()
        {
            self.feed.apply_outside(document, reached, now)?;
            self.outside.heeded = Some(reached);
        }
        self.feed.close_window(reached, now)
    }

    /// Requests that a position that Kafka has is written again, when the stored state of snapshots has
    /// changed beside it.
    pub(super) fn request_snapshot_store(&mut self, frontier: Lsn) {
        let beside = self.feed.snapshots_beside(frontier);
        if beside != self.outside.written {
            self.outside.written = beside;
            self.positions.write_again();
        }
    }

    /// Returns whether the effect of the last forwarded signal would survive the session: then it need not be
    /// repeated. Returns true once.
    pub(in crate::relay) fn has_stored_signal(&mut self) -> bool {
        let frontier = self.feed.out.flight.frontier();
        let is_stored = self.outside.heeded.is_some_and(|heeded| frontier >= heeded)
            && !self.feed.out.flight.in_transaction()
            && !self.feed.is_blocked()
            && self.positions.is_written(frontier);
        if is_stored {
            self.outside.heeded = None;
        }
        is_stored
    }
}

impl<T: Transport> Core<'_, T> {
    pub(super) fn beat(&mut self, now: Now) -> Result<(), Error> {
        let Some(pulse) = self.pulse.as_mut().filter(|_| self.reading == Reading::On && self.held.is_none())
        else {
            return Ok(());
        };
        let outcome = pulse.poll(&mut self.feed, now)?;
        self.grant(outcome, Waiting::Aside);
        Ok(())
    }

    /// Sends the notifications of snapshots that are due.
    pub(super) fn notify(&mut self, now: Now) -> Result<(), Error> {
        if self.reading == Reading::Off || self.held.is_some() {
            return Ok(());
        }
        let outcome = self.feed.send_notifications(now)?;
        self.grant(outcome, Waiting::Aside);
        Ok(())
    }

    /// Returns the next task of incremental snapshots; none while the session drains.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        let signals = self.feed.signals.as_mut().filter(|_| self.reading == Reading::On);
        signals.and_then(Signals::next_task)
    }
}
