//! Chunks of a table, and requests for them.

use pg_replication::wal::Oid;

/// The values of the columns by which chunks are cut, as text.
pub type ChunkKey = Vec<Option<String>>;

/// A row of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRow {
    /// The key by which the stream identifies it.
    pub key: super::RowKey,
    /// Its columns as text, in the order of the table.
    pub values: Vec<Option<Vec<u8>>>,
    /// Its chunk key, if the rows that are sent are tracked.
    pub place: Option<ChunkKey>,
}

/// A request for the next rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkRequest {
    /// `schema.table`
    pub table: String,
    /// The condition for the rows, as SQL.
    pub filter: Option<String>,
    /// The column that chunks are cut by instead of the key.
    pub surrogate_key: Option<String>,
    /// The chunk key after which the rows begin.
    pub after: Option<ChunkKey>,
    /// The chunk key at which the table ends; it is queried if it is not known.
    pub end: Option<ChunkKey>,
    /// The columns of these two chunk keys. The checkpoint of an earlier outboxd does not have them.
    pub columns: Option<Vec<String>>,
    /// The maximum number of rows.
    pub rows_max: usize,
    /// True if the number of the table's rows is requested too.
    pub counts: bool,
}

/// The rows of a chunk.
#[derive(Debug)]
pub struct Chunk {
    /// The table.
    pub table: Oid,
    /// The rows, in the order of the chunk key.
    pub rows: Vec<ReadRow>,
    /// The chunk key of the last row that was read; `None` if there was none.
    pub last: Option<ChunkKey>,
    /// The chunk key at which the table ends.
    pub end: ChunkKey,
    /// The columns of the chunk keys, with their types. If they differ from the requested ones, the rows
    /// begin at the table's beginning.
    pub columns: Vec<String>,
    /// The number of the table's rows, if it was requested.
    pub total: Option<u64>,
    /// The transactions that the reading transaction sees.
    pub visible: super::PgSnapshot,
}

/// Reason why no rows of a table were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoChunk {
    /// The table does not exist, or is not captured.
    Unknown,
    /// The table's rows have no key.
    NoKey,
    /// The table has no rows.
    Empty,
    /// PostgreSQL returned an error.
    Failed,
}

impl NoChunk {
    /// Returns the status as it is in notifications.
    pub(super) const fn status(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN_SCHEMA",
            Self::NoKey => "NO_PRIMARY_KEY",
            Self::Empty => "EMPTY",
            Self::Failed => "SQL_EXCEPTION",
        }
    }
}
