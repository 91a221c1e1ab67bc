//! Place of the stream: the open transaction, and the facts of the stream that events contain.

use std::sync::Arc;

use crate::change::{ReplicationOrigin, Snapshot, Tally};
use crate::pgoutput::{Begin, Commit};
use crate::relay::error::RowName;
use crate::relay::pipeline::slot_xmin::SlotXmin;
use crate::transaction::{Assembler, SequenceError};
use crate::wal::{Lsn, PgTimestamp, Xid};

/// Place of the stream.
pub(in crate::relay) struct StreamPlace {
    pub(super) assembler: Assembler,
    /// The open transaction.
    pub(super) open: Option<Begin>,
    /// End of the open transaction, if it is a message's own, or if the record of its end is not handed over yet.
    pub(super) ends_with_event: Option<Commit>,
    /// End of the records that are sent between two transactions, on a standby.
    pub(super) beside: Option<Commit>,
    /// Replication origin of the last transaction that began. A message outside transactions has it too, as
    /// in Debezium.
    pub(super) origin: Option<Arc<ReplicationOrigin>>,
    /// End of the last commit.
    pub(in crate::relay) last_commit: Option<Lsn>,
    /// Commit time of the last transaction of the stream. A message outside transactions has it too, as in
    /// Debezium.
    pub(super) last_commit_time: Option<PgTimestamp>,
    /// The slot's xmin, if events contain it.
    pub(in crate::relay) xmin: Option<SlotXmin>,
    /// Events that the open transaction has sent.
    pub(super) tally: Tally,
    /// Snapshot marker of the next row.
    pub(in crate::relay) snapshot: Snapshot,
}

impl StreamPlace {
    /// Creates one before the first transaction.
    pub(super) fn new() -> Self {
        Self {
            assembler: Assembler::default(),
            open: None,
            ends_with_event: None,
            beside: None,
            origin: None,
            last_commit: None,
            last_commit_time: None,
            xmin: None,
            tally: Tally::default(),
            snapshot: Snapshot::False,
        }
    }

    /// Opens a transaction.
    ///
    /// # Errors
    /// When one is open.
    pub(super) fn open(&mut self, begin: Begin) -> Result<(), SequenceError> {
        self.assembler.begin(begin)?;
        self.open = Some(begin);
        Ok(())
    }

    /// Ends the open transaction, and returns it.
    ///
    /// # Errors
    /// When none is open, or another one.
    pub(super) fn commit(&mut self, commit: &Commit) -> Result<Option<Begin>, SequenceError> {
        self.assembler.commit(commit)?;
        if let Some(open) = self.source_transaction() {
            self.last_commit_time = Some(open.commit_time);
        }
        self.last_commit = Some(commit.end_lsn);
        Ok(self.open.take())
    }

    /// Returns the open transaction, if it is one of the source: a message's own has no id.
    pub(super) fn source_transaction(&self) -> Option<Begin> {
        self.open.filter(|open| open.xid != Xid(0))
    }

    /// Returns the open transaction of the stream. That of a snapshot is a different one at each reading of a row.
    pub(super) fn streamed_transaction(&self) -> Option<Begin> {
        self.source_transaction().filter(|_| self.snapshot == Snapshot::False)
    }

    /// Returns the id of the open transaction of the stream.
    pub(super) fn within(&self) -> Option<Xid> {
        self.streamed_transaction().map(|begin| begin.xid)
    }

    /// Returns the transaction of the current row, for an error about it.
    pub(super) fn row_name(&self) -> RowName {
        RowName { event_id: None, xid: self.source_transaction().map(|open| open.xid) }
    }

    /// Returns the slot's xmin, for an event of the stream.
    pub(super) fn slot_xmin(&self) -> Option<Xid> {
        self.xmin.as_ref().filter(|_| self.snapshot == Snapshot::False).and_then(SlotXmin::get)
    }
}
