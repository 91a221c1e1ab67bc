//! Facts of an event that the row does not contain.

use std::sync::Arc;

use super::envelope::transaction::Before;
use pg_replication::wal::{Lsn, PgTimestamp, Xid};

/// The parts of an event that the row itself does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeContext {
    /// The present time, in microseconds since the Unix epoch.
    pub now_us: i64,
    /// The commit time of the row's transaction.
    pub commit_time: PgTimestamp,
    /// The row's transaction; `None` for a row of a snapshot.
    pub xid: Option<Xid>,
    /// The row's position in the WAL.
    pub lsn: Lsn,
    /// The end of the last commit that was read before the row's transaction.
    pub last_commit: Option<Lsn>,
    /// The number of earlier events of the same transaction; `None` if events have no transaction block.
    pub before: Option<Before>,
    /// The replication origin of the row's transaction, if it was replicated into this database.
    pub origin: Option<Arc<ReplicationOrigin>>,
    /// The slot's `catalog_xmin`, if it was requested and the row comes from the stream.
    pub xmin: Option<Xid>,
    /// The value of `source.snapshot`.
    pub snapshot: Snapshot,
    /// The halves of a changed key that become no event.
    pub skipped: SkippedHalves,
    /// True if a record that cannot be made is skipped and the other records of the change are sent
    /// (`errors.tolerance=all`).
    pub tolerates: bool,
}

/// The replication origin of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationOrigin {
    /// `pg_replication_origin.roname`
    pub name: String,
    /// The position of the transaction's commit in the WAL of the origin, or any other position that the
    /// session has set.
    pub lsn: Lsn,
}

/// The halves of a changed key (a delete and a create) that `skipped.operations` skips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkippedHalves {
    /// `d`
    pub delete: bool,
    /// `c`
    pub create: bool,
}

/// First or last place in a sequence, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// True if it is the first one.
    pub first: bool,
    /// True if it is the last one.
    pub last: bool,
}

/// `source.snapshot`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// A row of the stream.
    False,
    /// A row that is neither the first nor the last row of its table.
    True,
    /// The first row of the first table; no row has it if that table is empty.
    First,
    /// The first row of a further table.
    FirstInDataCollection,
    /// The last row of a table, if a later table has rows.
    LastInDataCollection,
    /// The last row of the snapshot.
    Last,
    /// A row of an incremental snapshot.
    Incremental,
}

impl Snapshot {
    /// Returns the value for a row of a snapshot. `row` is the row's place in its table. `table` is the
    /// table's place in the snapshot: `first` counts tables without rows, `last` does not.
    #[must_use]
    pub const fn of(row: Edge, table: Edge) -> Self {
        match (row.last, table.last, row.first, table.first) {
            (true, true, ..) => Self::Last,
            (_, _, true, true) => Self::First,
            (true, false, ..) => Self::LastInDataCollection,
            (false, _, true, false) => Self::FirstInDataCollection,
            (false, _, false, _) => Self::True,
        }
    }

    /// Returns Debezium's word, or `None` for the schema's default `false`, for which the field is null.
    pub(super) const fn word(self) -> Option<&'static str> {
        match self {
            Self::False => None,
            Self::True => Some("true"),
            Self::First => Some("first"),
            Self::FirstInDataCollection => Some("first_in_data_collection"),
            Self::LastInDataCollection => Some("last_in_data_collection"),
            Self::Last => Some("last"),
            Self::Incremental => Some("incremental"),
        }
    }
}
