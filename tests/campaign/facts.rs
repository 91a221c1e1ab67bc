//! The input of the oracle.

use std::collections::{BTreeMap, BTreeSet};

/// A row, or the key of outbox events: its table's name in the journal, and its number.
pub(crate) type RowId = (String, i64);

/// The effect of a committed change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// An event of the outbox, with one record of its own.
    Event,
    /// The row exists after an INSERT or UPDATE.
    Written,
    /// The row does not exist any more.
    Gone,
}

/// A committed change. The changes of a row are numbered in commit order, because writers lock the row's counter.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) row: RowId,
    pub(crate) n: i64,
    pub(crate) effect: Effect,
    /// The digest of the contents.
    pub(crate) digest: String,
    pub(crate) need: Need,
}

/// Required records of a change in Kafka. They depend on the configuration and on the operations on the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// This state of the row or a later one, as a snapshot reads it.
    State,
    /// A record of this change.
    Record,
}

/// A record, or a dead letter with the contents of a record.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) partition: (String, i32),
    pub(crate) offset: i64,
    /// For messages only.
    pub(crate) key: String,
    pub(crate) row: RowId,
    /// Unknown in a delete that has the key alone.
    pub(crate) n: Option<i64>,
    pub(crate) effect: Effect,
    /// Unknown where PostgreSQL does not send the value.
    pub(crate) digest: Option<String>,
    /// Read by a snapshot.
    pub(crate) read: bool,
    pub(crate) dead_letter: bool,
    /// Sent by a poller that outboxd replaces.
    pub(crate) by_poller: bool,
}

/// Deviations that the run's configuration and faults allow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowances {
    pub(crate) repeats: bool,
    /// Tables that were filled from another table, so that their rows were inserted twice.
    pub(crate) copied: BTreeSet<String>,
    /// Tables whose rows may stand in several partitions, because their key or their topic changes.
    pub(crate) moved: BTreeSet<String>,
    /// Dead letters are sent again.
    pub(crate) replayed: bool,
    /// A snapshot beside an older stream sends rows before their older changes.
    pub(crate) reread: bool,
    /// A frozen and replaced relay without transactions may write an old record last.
    pub(crate) late_records: bool,
}

/// The rows of the tables at the end, with the number of the change that made each of them.
pub(crate) type Tables = BTreeMap<RowId, i64>;
