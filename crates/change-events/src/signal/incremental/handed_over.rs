//! Progress of snapshots by the rows that were produced.

use super::{Checkpoint, Incremental, StoredCheckpoint};
use crate::signal::ChunkKey;
use pg_replication::wal::Lsn;

/// Progress of the snapshots in terms of the rows that were produced to Kafka. It is stored with each Kafka
/// transaction, so that each row is in exactly one transaction.
///
/// A transaction of the stream with a second watermark contains nothing else, so while its rows are sent only
/// their position changes.
#[derive(Debug)]
pub(super) struct HandedOver {
    /// The checkpoint, while rows of a chunk are sent.
    chunk: Option<Checkpoint>,
    /// The chunk key of the row that is being sent.
    row: Option<ChunkKey>,
    /// The end LSN of the last transaction of the stream.
    heeded: Lsn,
}

impl HandedOver {
    pub(super) const fn new(heeded: Lsn) -> Self {
        Self { chunk: None, row: None, heeded }
    }

    /// Begins a chunk. Until its rows are sent, the progress is that of the checkpoint `before`.
    pub(super) fn begin_chunk(&mut self, before: Checkpoint) {
        self.chunk = Some(before);
    }

    /// Ends the open transaction of the stream, after all rows of its chunk.
    pub(super) fn end_transaction(&mut self, end_lsn: Lsn) {
        *self = Self::new(self.heeded.max(end_lsn));
    }
}

impl Incremental {
    /// Begins a row, which is about to be sent, with its chunk key.
    pub fn begin_row(&mut self, place: Option<ChunkKey>) {
        self.handed_over.row = place;
    }

    /// Takes back the row, which could not be sent yet and comes again. Returns its chunk key.
    pub fn take_row_back(&mut self) -> Option<ChunkKey> {
        self.handed_over.row.take()
    }

    /// Ends the row, after all of its records were produced.
    pub fn end_row(&mut self) {
        let HandedOver { chunk: Some(chunk), row, .. } = &mut self.handed_over else { return };
        chunk.sent = row.take().or_else(|| chunk.sent.take());
    }

    /// Returns the checkpoint of the rows that were produced. `open` is the commit LSN of the open
    /// transaction of the stream, whose signals are not included and are executed when it comes again.
    pub fn handed_over(&self, open: Option<Lsn>) -> StoredCheckpoint {
        let HandedOver { chunk, heeded, .. } = &self.handed_over;
        let state = chunk.as_ref().unwrap_or_else(|| self.checkpoints.last()).clone();
        StoredCheckpoint { heeded: open.unwrap_or_default().max(*heeded), state }
    }
}
