//! Options of cleanup.

use std::path::PathBuf;
use std::time::Duration;

/// `outboxd.cleanup.*`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CleanupOptions {
    /// `outboxd.cleanup.enable` (false): whether `outboxd run` takes rows away.
    pub enabled: bool,
    /// `outboxd.cleanup.interval.ms` (60 s): from the end of one pass to the next.
    pub interval: Duration,
    /// `outboxd.cleanup.before.slot=delete`: whether rows go that the slot never brought.
    pub before_slot: bool,
    /// `outboxd.cleanup.keep.ms` (0): younger rows stay, by `time_column`.
    pub keep: Duration,
    /// `outboxd.cleanup.time.column`
    pub time_column: Option<String>,
    /// Archive of deleted rows.
    pub archive: Option<ArchiveTo>,
    /// `outboxd.cleanup.archive.format` (ndjson): of the files in a folder.
    pub archive_format: ArchiveFormat,
    /// `outboxd.cleanup.partitions` (rows): what becomes of partitions that are over.
    pub partitions: Partitions,
    /// `outboxd.cleanup.partitions.ahead` (0): number of partitions that exist before they are needed; 0
    /// creates none.
    pub partitions_ahead: usize,
    /// `outboxd.cleanup.batch.rows` (1 000): in one transaction.
    pub batch_rows: u32,
    /// `outboxd.cleanup.batch.pause.ms` (100 ms): between two of them.
    pub batch_pause: Duration,
    /// `outboxd.cleanup.lock.timeout.ms` (1 s): a batch that waits longer for a lock is left for later.
    pub lock_timeout: Duration,
    /// `outboxd.cleanup.statement.timeout.ms` (30 s): the same for a batch that lasts longer.
    pub statement_timeout: Duration,
    /// `outboxd.cleanup.pause.lag.bytes` (64 MiB): while a standby is further behind, nothing is deleted; 0 is never.
    pub lag_bytes_max: u64,
    /// `outboxd.cleanup.pause.transaction.age.ms` (5 min): the same while a transaction is older, since no vacuum could take away
    /// what is deleted; 0 is never.
    pub transaction_age_max: Duration,
}

/// Treatment of an outbox's partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partitions {
    /// Rows are deleted as those of any table, and the partitions stay.
    Rows,
    /// Each goes when it is over and every row of it is sent.
    Drop,
    /// The same, and it stays as a table of its own.
    Detach,
}

/// Archive of deleted rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArchiveTo {
    /// `outboxd.cleanup.archive.table`: a table with the columns of the outbox.
    Table(String),
    /// `outboxd.cleanup.archive.folder`: files.
    Folder(PathBuf),
}

/// Format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArchiveFormat {
    /// A JSON object in each line.
    Ndjson,
    /// Parquet files, made of such lines once nothing is added to them any more.
    Parquet,
}

impl ArchiveTo {
    /// Returns whether it is a table with a schema.
    pub(super) fn has_schema(&self) -> bool {
        matches!(self, Self::Table(table) if table.contains('.'))
    }

    /// Returns whether it may be this table; a name without a schema may be in any.
    pub(super) fn is(&self, schema: &str, name: &str) -> bool {
        let Self::Table(table) = self else { return false };
        table.split_once('.').map_or(table == name, |archive| archive == (schema, name))
    }
}

impl Default for CleanupOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            interval: Duration::from_secs(60),
            before_slot: false,
            keep: Duration::ZERO,
            time_column: None,
            archive: None,
            archive_format: ArchiveFormat::Ndjson,
            partitions: Partitions::Rows,
            partitions_ahead: 0,
            batch_rows: 1_000,
            batch_pause: Duration::from_millis(100),
            lock_timeout: Duration::from_secs(1),
            statement_timeout: Duration::from_secs(30),
            lag_bytes_max: 64 << 20,
            transaction_age_max: Duration::from_secs(300),
        }
    }
}
