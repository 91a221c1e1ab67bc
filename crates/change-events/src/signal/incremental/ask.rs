//! Requests of an incremental snapshot to the database, and their results.

use std::collections::VecDeque;

use pg_replication::wal::{Lsn, Oid};

use crate::signal::{Chunk, ChunkRequest, NoChunk, ReadRow};

/// The next action in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Writes the first watermark of this chunk.
    Open {
        /// The id of the chunk.
        id: String,
        /// The id of the signal that requested the snapshot.
        correlation: Option<String>,
        /// `schema.table`
        table: String,
    },
    /// Reads rows.
    Read {
        /// The rows to read.
        request: ChunkRequest,
        /// True if they were read before.
        again: bool,
    },
    /// Writes the second watermark of this chunk.
    Close {
        /// The id of the chunk.
        id: String,
    },
}

/// The result of an [`Ask`].
#[derive(Debug)]
pub enum Answer {
    /// The watermark is written.
    Written,
    /// The replay position of a standby, which writes no watermarks.
    Replayed(Lsn),
    /// The rows, or the reason why there are none.
    Read(Result<Chunk, NoChunk>),
    /// PostgreSQL does not permit watermarks.
    Refused,
    /// The connection was lost; it is unknown whether the action was done.
    Lost,
}

/// Rows that may be sent now.
#[derive(Debug)]
pub struct Sendable {
    /// The table of the rows.
    pub table: Oid,
    /// The rows, in the order of the chunk key.
    pub rows: VecDeque<ReadRow>,
}
