use crate::wal::Oid;

/// The values of the columns by which chunks are cut, as text.
pub(crate) type ChunkKey = Vec<Option<String>>;

/// A row as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRow {
    /// What the stream knows it by.
    pub(crate) key: super::RowKey,
    pub(crate) values: Vec<Option<Vec<u8>>>,
    /// Its chunk key, when somebody wants to know which rows of a chunk are sent.
    pub(crate) place: Option<ChunkKey>,
}

/// Which rows are to be read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRequest {
    /// `schema.table`
    pub(crate) table: String,
    pub(crate) filter: Option<String>,
    pub(crate) surrogate_key: Option<String>,
    /// Only rows behind this.
    pub(crate) after: Option<ChunkKey>,
    /// Where the table ends; it is looked for when it is not known.
    pub(crate) end: Option<ChunkKey>,
    /// Of which columns these two are the values. A state of an earlier outboxd does not say it.
    pub(crate) columns: Option<Vec<String>>,
    /// At most so many.
    pub(crate) rows_max: usize,
    /// Whether somebody wants to know how many rows the table has.
    pub(crate) counts: bool,
}

/// Rows that were read.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) table: Oid,
    pub(crate) rows: Vec<ReadRow>,
    /// The chunk key of the last row that was read; none when there was none.
    pub(crate) last: Option<ChunkKey>,
    /// Where the table ends.
    pub(crate) end: ChunkKey,
    /// By which columns of which types the rows were cut. When they are others than was asked for, the rows are those from the table's beginning.
    pub(crate) columns: Vec<String>,
    /// How many rows the table has, as far as that was asked for.
    pub(crate) total: Option<u64>,
    /// What the reading transaction saw of others.
    pub(crate) visible: super::PgSnapshot,
}

/// Why nothing was read of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoChunk {
    /// There is no such table, or it is not captured.
    Unknown,
    /// Its rows have no key.
    NoKey,
    /// It has no rows.
    Empty,
    /// The server refuses.
    Failed,
}

impl NoChunk {
    /// As notifications tell it.
    pub(super) const fn status(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN_SCHEMA",
            Self::NoKey => "NO_PRIMARY_KEY",
            Self::Empty => "EMPTY",
            Self::Failed => "SQL_EXCEPTION",
        }
    }
}
