use super::{Checkpoint, Incremental, KeptCheckpoint};
use crate::signal::ChunkKey;
use crate::wal::Lsn;

/// How far the snapshots are in what was handed over to Kafka: what a Kafka transaction that ends here must say, so that each row
/// is in one transaction and no other.
///
/// A transaction of the stream that writes a second watermark holds nothing else, so that while its rows are sent only their place
/// changes.
#[derive(Debug)]
pub(super) struct HandedOver {
    /// How far the snapshot is, while rows of a chunk are sent.
    chunk: Option<Checkpoint>,
    /// The row that is being sent.
    row: Option<ChunkKey>,
    /// Where the last transaction of the stream ended.
    heeded: Lsn,
}

impl HandedOver {
    pub(super) const fn new(heeded: Lsn) -> Self {
        Self { chunk: None, row: None, heeded }
    }

    /// The rows of a chunk follow; until they are sent, the snapshot is where it was before.
    pub(super) fn begin_chunk(&mut self, before: Checkpoint) {
        self.chunk = Some(before);
    }

    /// The open transaction of the stream ends, and every row of its chunk is sent.
    pub(super) fn end_transaction(&mut self, end_lsn: Lsn) {
        *self = Self::new(self.heeded.max(end_lsn));
    }
}

impl Incremental {
    /// The row at this place is about to be sent.
    pub(crate) fn begin_row(&mut self, place: Option<ChunkKey>) {
        self.handed_over.row = place;
    }

    /// It is not sent yet, and comes again. The place that it had.
    pub(crate) fn take_row_back(&mut self) -> Option<ChunkKey> {
        self.handed_over.row.take()
    }

    /// All of its records were handed over.
    pub(crate) fn end_row(&mut self) {
        let HandedOver { chunk: Some(chunk), row, .. } = &mut self.handed_over else { return };
        chunk.sent = row.take().or_else(|| chunk.sent.take());
    }

    /// How far the snapshots are in what was handed over. `open` is where the open transaction of the stream commits: what it has
    /// said is not in it, and is heeded when it comes again.
    pub(crate) fn handed_over(&self, open: Option<Lsn>) -> KeptCheckpoint {
        let HandedOver { chunk, heeded, .. } = &self.handed_over;
        let state = chunk.as_ref().unwrap_or_else(|| self.checkpoints.last()).clone();
        KeptCheckpoint { heeded: open.unwrap_or_default().max(*heeded), state }
    }
}
