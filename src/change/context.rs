use std::sync::Arc;

use super::transaction::Before;
use crate::wal::{Lsn, PgTimestamp, Xid};

/// What a row does not say itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeContext {
    /// The time, in microseconds since the Unix epoch.
    pub now_us: i64,
    /// When the row's transaction committed.
    pub commit_time: PgTimestamp,
    /// The row's transaction; none for a row of a snapshot.
    pub xid: Option<Xid>,
    /// Where the row stands in the WAL.
    pub lsn: Lsn,
    /// Where the last commit ended that was read before the row's transaction.
    pub last_commit: Option<Lsn>,
    /// How many events of its transaction came before, when events tell their place in it.
    pub before: Option<Before>,
    /// Where the row's transaction was written first, when it was replicated into this database.
    pub origin: Option<Arc<ReplicationOrigin>>,
    /// The slot's `catalog_xmin`, when it is asked for and the row comes from the stream.
    pub xmin: Option<Xid>,
    /// Whether the row is one of a snapshot.
    pub snapshot: Snapshot,
    /// What makes no event of a changed key.
    pub skipped: SkippedHalves,
    /// Whether a record that cannot be made is left out, and the others of the change are sent (`errors.tolerance=all`).
    pub tolerates: bool,
}

/// The replication origin of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationOrigin {
    /// `pg_replication_origin.roname`
    pub name: String,
    /// Where the transaction's commit stands in the WAL of the origin, or what else was said to be its place.
    pub lsn: Lsn,
}

/// A changed key is a delete and a create, and `skipped.operations` is about each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SkippedHalves {
    /// `d`
    pub delete: bool,
    /// `c`
    pub create: bool,
}

/// Where something stands in a row of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub first: bool,
    pub last: bool,
}

/// `source.snapshot`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// It comes from the stream.
    False,
    /// Neither the first nor the last row of its table.
    True,
    /// The first row of the first table; there is none when that table is empty.
    First,
    /// The first row of a further table.
    FirstInDataCollection,
    /// The last row of a table behind which others have rows.
    LastInDataCollection,
    /// The last row of the snapshot.
    Last,
    /// A row of an incremental snapshot.
    Incremental,
}

impl Snapshot {
    /// Of a row of a snapshot: whether it is the first or the last of its table, and whether the table is the first one, with or
    /// without rows, or the last that has rows.
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

    /// The word that Debezium writes. `false` is the schema's default: the field itself is null.
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
