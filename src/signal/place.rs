use crate::wal::Oid;

/// The values of the columns by which chunks are cut, as text.
pub(crate) type ChunkKey = Vec<Option<String>>;

/// A row of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRow {
    /// The key by which the stream identifies it.
    pub(crate) key: super::RowKey,
    pub(crate) values: Vec<Option<Vec<u8>>>,
    /// Its chunk key, if the rows that are sent are tracked.
    pub(crate) place: Option<ChunkKey>,
}

/// A request for the next rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRequest {
    /// `schema.table`
    pub(crate) table: String,
    pub(crate) filter: Option<String>,
    pub(crate) surrogate_key: Option<String>,
    /// The chunk key after which the rows begin.
    pub(crate) after: Option<ChunkKey>,
    /// The chunk key at which the table ends; it is queried if it is not known.
    pub(crate) end: Option<ChunkKey>,
    /// The columns of these two chunk keys. The checkpoint of an earlier outboxd does not have them.
    pub(crate) columns: Option<Vec<String>>,
    /// The maximum number of rows.
    pub(crate) rows_max: usize,
    /// True if the number of the table's rows is requested too.
    pub(crate) counts: bool,
}

/// The rows of a chunk.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) table: Oid,
    pub(crate) rows: Vec<ReadRow>,
    /// The chunk key of the last row that was read; `None` if there was none.
    pub(crate) last: Option<ChunkKey>,
    /// The chunk key at which the table ends.
    pub(crate) end: ChunkKey,
    /// The columns of the chunk keys, with their types. If they differ from the requested ones, the rows
    /// begin at the table's beginning.
    pub(crate) columns: Vec<String>,
    /// The number of the table's rows, if it was requested.
    pub(crate) total: Option<u64>,
    /// The transactions that the reading transaction sees.
    pub(crate) visible: super::PgSnapshot,
}

/// Reason why no rows of a table were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoChunk {
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
