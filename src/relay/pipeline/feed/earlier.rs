//! Events that were sent before this session: by earlier sessions of this process, and by Debezium.

use crate::pgoutput::Begin;
use crate::relay::error::Error;
use crate::relay::progress::acknowledged::Acknowledged;
use crate::relay::time::clock::Now;
use crate::source_offset::{SentBefore, SourceOffset};
use crate::transaction::Identity;
use crate::wal::{Lsn, PgTimestamp, Xid};

/// Events that were sent before this session.
pub(super) struct SentEarlier {
    /// Transactions that an earlier session of this process has acknowledged.
    acknowledged: Acknowledged,
    /// The open transaction is one of those.
    pub(super) passing: bool,
    /// The offset that is stored.
    stored: Option<SourceOffset>,
    /// Rows recorded as sent by that offset, until the stream is past it.
    sent_before: Option<SentBefore>,
}

impl SentEarlier {
    /// Creates it from what is acknowledged and from the stored offset.
    pub(super) fn new(acknowledged: Acknowledged, stored: Option<SourceOffset>) -> Self {
        let sent_before = stored.as_ref().and_then(SentBefore::new);
        Self { acknowledged, passing: false, stored, sent_before }
    }

    /// Begins a transaction of the source.
    pub(super) fn begin(&mut self, begin: &Begin) {
        if let Some(sent_before) = &mut self.sent_before {
            sent_before.begin(begin);
        }
    }

    /// Opens a transaction. One that was acknowledged is skipped only if it is the same one.
    ///
    /// # Errors
    /// When the source has another history.
    pub(super) fn open(&mut self, begin: Begin, identity: Identity) -> Result<(), Error> {
        let Acknowledged { to, history } = &mut self.acknowledged;
        self.passing = begin.final_lsn < *to && history.meet_again(begin.final_lsn, identity)?;
        if begin.final_lsn >= *to {
            history.add(begin.final_lsn, identity)?;
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) {
        if let Some(sent_before) = &mut self.sent_before {
            sent_before.commit();
        }
        self.sent_before.take_if(|sent_before| sent_before.is_over());
    }

    /// Returns whether the stored offset describes the next row, at `lsn`, as sent.
    pub(super) fn has_row(&self, lsn: Lsn) -> bool {
        self.sent_before.as_ref().is_some_and(|sent_before| sent_before.has_row(lsn))
    }

    /// Counts that row.
    pub(super) fn pass_row(&mut self, lsn: Lsn) {
        if let Some(sent_before) = &mut self.sent_before {
            sent_before.pass_row(lsn);
        }
    }

    /// Returns whether something must come again before the history is known to be the same.
    pub(super) fn is_awaiting(&self) -> bool {
        self.acknowledged.history.is_awaiting()
    }

    /// Records that all WAL before this was sent.
    ///
    /// # Errors
    /// When something that was read before is missing now.
    pub(super) fn reach(&mut self, wal_end: Lsn) -> Result<(), Error> {
        Ok(self.acknowledged.history.reach(wal_end)?)
    }

    /// Returns what is acknowledged by now.
    pub(super) fn acknowledged(&self, frontier: Lsn) -> Acknowledged {
        let mut acknowledged = self.acknowledged.clone();
        // A session that broke before it was as far as the last one knows less than that.
        acknowledged.to = acknowledged.to.max(frontier);
        acknowledged.history.forget_from(acknowledged.to);
        acknowledged
    }

    /// Returns the offset of what is acknowledged, from which Debezium can continue; none while the stored one is as far. `last` is
    /// the last transaction with records before the frontier.
    pub(super) fn offset(
        &self,
        frontier: Lsn,
        last: Option<(Xid, PgTimestamp)>,
        now: Now,
    ) -> Option<SourceOffset> {
        let stored = self.stored.as_ref();
        if stored.is_some_and(|stored| frontier <= stored.furthest()) {
            return None;
        }
        let (tx_id, committed_at) = match last {
            Some((xid, commit_time)) => (Some(u64::from(xid.0)), Some(commit_time)),
            None => (stored.and_then(|stored| stored.tx_id), stored.and_then(|stored| stored.committed_at)),
        };
        Some(SourceOffset::up_to(frontier, tx_id, committed_at.unwrap_or(now.postgres())))
    }
}
