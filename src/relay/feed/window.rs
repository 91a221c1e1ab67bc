//! What has its place between two transactions of the stream, on a standby: windows, whose ends no watermark tells there, and signals.

use super::Feed;
use crate::kafka::Transport;
use crate::pgoutput::{Begin, Commit, Message};
use crate::relay::clock::Now;
use crate::relay::error::Error;
use crate::relay::signals::Said;
use crate::transaction::Identity;
use crate::wal::{Lsn, Xid};

impl<T: Transport> Feed<'_, T> {
    /// Whether a transaction must wait for rows that are being read.
    pub(super) fn awaits_rows_before(&self, message: &Message<'_>) -> bool {
        let Message::Begin(Begin { final_lsn, .. }) = message else { return false };
        let signals = self.signals.as_ref();
        signals.is_some_and(|signals| signals.incremental.awaits_rows_before(*final_lsn))
    }

    /// Everything of the stream before this is taken. If a window closes here, its rows are sent as those of a transaction of
    /// their own: the next one must not be confirmed before them.
    ///
    /// # Errors
    /// When the stream stands elsewhere.
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

    /// Does what a signal says that has not come in the stream. The stream stands between two transactions.
    ///
    /// # Errors
    /// When it stands elsewhere.
    pub(in crate::relay) fn heed_outside(
        &mut self,
        document: String,
        reached: Lsn,
        now: Now,
    ) -> Result<(), Error> {
        let Some(signals) = &mut self.signals else { return Ok(()) };
        signals.heed(Said::Document(document), reached, None);
        self.begin_beside(reached, now)
    }

    /// Changes when other snapshots are to be kept, and the frontier need not have moved.
    pub(in crate::relay) fn snapshots_beside(&mut self, frontier: Lsn) -> u64 {
        let settled = self.out.flight.settled().0;
        let Some(signals) = &mut self.signals else { return 0 };
        signals.incremental.forget_before(frontier, settled);
        signals.incremental.beside()
    }

    /// It is no part of the history: it does not come again.
    fn begin_beside(&mut self, reached: Lsn, now: Now) -> Result<(), Error> {
        let commit_time = now.postgres();
        let begin = Begin { final_lsn: reached, commit_time, xid: Xid(0) };
        self.assembler.begin(begin)?;
        self.beside = Some(Commit { commit_lsn: reached, end_lsn: reached, commit_time });
        self.out.flight.begin(&begin, Identity::Message(0))
    }

    /// All rows that are to be sent here are handed over.
    pub(super) fn end_beside(&mut self) -> Result<(), Error> {
        if self.is_blocked() {
            return Ok(());
        }
        let Some(commit) = self.beside.take() else { return Ok(()) };
        self.assembler.commit(&commit)?;
        let unacknowledged = self.out.flight.unacknowledged().map(|ticket| ticket.0);
        if let Some(signals) = &mut self.signals {
            signals.incremental.commit_beside(commit.end_lsn, unacknowledged);
        }
        self.out.flight.commit(commit.commit_lsn, commit.end_lsn)
    }
}
