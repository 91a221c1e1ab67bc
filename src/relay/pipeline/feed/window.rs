//! Work between two transactions of the stream, on a standby: signals, and windows, whose ends have no
//! watermark there.

use super::Feed;
use crate::kafka::Transport;
use crate::pgoutput::{Begin, Commit, Message};
use crate::relay::error::Error;
use crate::relay::pipeline::signals::SignalChange;
use crate::relay::time::clock::Now;
use crate::transaction::Identity;
use crate::wal::{Lsn, Xid};

impl<T: Transport> Feed<'_, T> {
    /// Returns whether a transaction must wait for rows that are being read.
    pub(super) fn awaits_rows_before(&self, message: &Message<'_>) -> bool {
        let Message::Begin(Begin { final_lsn, .. }) = message else { return false };
        let signals = self.signals.as_ref();
        signals.is_some_and(|signals| signals.incremental.awaits_rows_before(*final_lsn))
    }

    /// Closes a window that ends here, where everything of the stream before is handled. Its rows are sent as
    /// those of a transaction of their own: the next one must not be confirmed before them.
    ///
    /// # Errors
    /// When a transaction is open.
    pub(in crate::relay) fn close_window(&mut self, reached: Lsn, now: Now) -> Result<(), Error> {
        let Some(signals) = self.signals.as_mut().filter(|signals| signals.incremental.closes_at(reached))
        else {
            return Ok(());
        };
        if self.out.flight.in_transaction() {
            return Ok(());
        }
        signals.close_at(reached);
        self.begin_beside(reached, now)
    }

    /// Applies a signal that has not come in the stream, between two transactions.
    ///
    /// # Errors
    /// When it stands elsewhere.
    pub(in crate::relay) fn apply_outside(
        &mut self,
        document: String,
        reached: Lsn,
        now: Now,
    ) -> Result<(), Error> {
        let Some(signals) = &mut self.signals else { return Ok(()) };
        signals.apply(SignalChange::Document(document), reached, None);
        self.begin_beside(reached, now)
    }

    /// Returns a number that changes when other snapshots must be stored although the frontier need not have
    /// moved.
    pub(in crate::relay) fn snapshots_beside(&mut self, frontier: Lsn) -> u64 {
        let settled = self.out.flight.settled().0;
        let Some(signals) = &mut self.signals else { return 0 };
        signals.incremental.forget_before(frontier, settled);
        signals.incremental.beside()
    }

    /// Begins a transaction that is not part of the history, because it is not repeated.
    fn begin_beside(&mut self, reached: Lsn, now: Now) -> Result<(), Error> {
        let commit_time = now.postgres();
        let begin = Begin { final_lsn: reached, commit_time, xid: Xid(0) };
        self.place.assembler.begin(begin)?;
        self.place.beside = Some(Commit { commit_lsn: reached, end_lsn: reached, commit_time });
        self.out.flight.begin(&begin, Identity::Message(0))
    }

    /// Ends the transaction once all of its rows are handed over.
    pub(super) fn end_beside(&mut self) -> Result<(), Error> {
        if self.is_blocked() {
            return Ok(());
        }
        let Some(commit) = self.place.beside.take() else { return Ok(()) };
        self.place.assembler.commit(&commit)?;
        let unacknowledged = self.out.flight.unacknowledged().map(|ticket| ticket.0);
        if let Some(signals) = &mut self.signals {
            signals.incremental.commit_beside(commit.end_lsn, unacknowledged);
        }
        self.out.flight.commit(commit.commit_lsn, commit.end_lsn)
    }
}
