//! Possible parts of a run: features of the product, operations of its users, and faults.

use std::fmt;

/// A feature or an operation. The order is that of the coverage matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    AtLeastOnce,
    TailDedupe,
    ExactlyOnce,
    Outbox,
    Tables,
    Both,
    GuaranteeChanged,
    ListGrows,
    ListShrinks,
    SkippedUpdates,
    SkippedDeletes,
    Filter,
    KeyColumns,
    NoTombstones,
    Unwrap,
    Heartbeat,
    /// `offset.storage.topic`: the offset is stored as Debezium does it.
    OffsetStored,
    DeadLetters,
    TooLarge,
    Unroutable,
    Cleanup,
    CleanupCommand,
    InitialSnapshot,
    /// `snapshot.mode=always`: each start sends the rows of the tables.
    AlwaysSnapshot,
    /// `snapshot.include.collection.list`, or a statement of a table: snapshots exclude tables or rows.
    PartialSnapshot,
    IncrementalSnapshot,
    BlockingSnapshot,
    /// An incremental snapshot that signals pause and resume.
    SnapshotPaused,
    TwoServices,
    LargeTransaction,
    /// `outboxd dlq replay`, in the end.
    Replayed,
    /// `outboxd move` after the slot was dropped, in the end.
    Moved,
    /// `outboxd migrate` takes a second outbox over from a poller.
    Migrated,
    /// The publication is without tables for a while, and the operator sends the rows of the tables again.
    GapResent,
    /// The same, and the operator accepts the reported position.
    GapAccepted,
    /// The slot is dropped. The relay, or the operator, lets all rows of the tables be sent (`slot.recovery=snapshot`).
    SlotDropped,
    /// The password of PostgreSQL changes, and a restart reads it from another source.
    Credentials,
    /// The topics get more partitions.
    PartitionsAdded,
    Created,
    ColumnAdded,
    TypeChanged,
    Renamed,
    NewPrimaryKey,
    Truncated,
    Swapped,
    PartitionAttached,
    Inherited,
    Dropped,
    Rewritten,
}

/// Fault while an operation is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Killed,
    Stopped,
    Frozen,
    /// A second instance takes over from a killed one.
    TakenOver,
    /// A second instance takes over from a frozen one, which then continues.
    Replaced,
    PostgresKilled,
    BackendTerminated,
    WalsenderCancelled,
    PostgresCut,
    KafkaHeld,
    KafkaCut,
    KafkaGarbled,
    KafkaSlow,
    /// The broker is killed, or stopped where it may forget a commit in progress, and started again.
    KafkaRestarted,
}

use Feature::*;

pub(crate) const GUARANTEES: [Feature; 3] = [AtLeastOnce, TailDedupe, ExactlyOnce];
pub(crate) const SHAPES: [Feature; 3] = [Outbox, Tables, Both];
/// Everything that a run may have besides a guarantee and a shape.
pub(crate) const OTHERS: [Feature; 43] = [
    GuaranteeChanged,
    ListGrows,
    ListShrinks,
    SkippedUpdates,
    SkippedDeletes,
    Filter,
    KeyColumns,
    NoTombstones,
    Unwrap,
    Heartbeat,
    OffsetStored,
    DeadLetters,
    TooLarge,
    Unroutable,
    Cleanup,
    CleanupCommand,
    InitialSnapshot,
    AlwaysSnapshot,
    PartialSnapshot,
    IncrementalSnapshot,
    BlockingSnapshot,
    SnapshotPaused,
    TwoServices,
    LargeTransaction,
    Replayed,
    Moved,
    Migrated,
    GapResent,
    GapAccepted,
    SlotDropped,
    Credentials,
    PartitionsAdded,
    Created,
    ColumnAdded,
    TypeChanged,
    Renamed,
    NewPrimaryKey,
    Truncated,
    Swapped,
    PartitionAttached,
    Inherited,
    Dropped,
    Rewritten,
];
pub(crate) const FAULTS: [Fault; 14] = [
    Fault::Killed,
    Fault::Stopped,
    Fault::Frozen,
    Fault::TakenOver,
    Fault::Replaced,
    Fault::PostgresKilled,
    Fault::BackendTerminated,
    Fault::WalsenderCancelled,
    Fault::PostgresCut,
    Fault::KafkaHeld,
    Fault::KafkaCut,
    Fault::KafkaGarbled,
    Fault::KafkaSlow,
    Fault::KafkaRestarted,
];

impl Feature {
    /// Returns whether it is a feature of captured tables, and has no meaning for an outbox alone.
    pub(crate) fn is_of_tables(self) -> bool {
        self.is_of_configuration()
            && !matches!(self, GuaranteeChanged | Heartbeat | OffsetStored | DeadLetters)
            || self == AlwaysSnapshot
            || self.is_operation()
            || self.is_signalled()
    }

    /// Returns whether a signal asks for it. A run has one of them.
    pub(crate) const fn is_signalled(self) -> bool {
        matches!(self, IncrementalSnapshot | BlockingSnapshot | SnapshotPaused)
    }

    /// Returns whether the publication is without tables for a while.
    pub(crate) const fn is_gap(self) -> bool {
        matches!(self, GapResent | GapAccepted)
    }

    /// Returns whether it is carried out at one moment of the run.
    pub(crate) fn is_step(self) -> bool {
        self.is_operation()
            || self.is_signalled()
            || self.is_gap()
            || matches!(self, CleanupCommand | Migrated | SlotDropped | Credentials | PartitionsAdded)
    }

    /// Returns whether it needs an outbox.
    pub(crate) const fn is_of_outbox(self) -> bool {
        matches!(self, Unroutable | Cleanup | CleanupCommand | Replayed | Moved)
    }

    /// Returns whether a setting enables it, from the first start or from a later one.
    pub(crate) const fn is_of_configuration(self) -> bool {
        matches!(
            self,
            GuaranteeChanged
                | ListGrows
                | ListShrinks
                | SkippedUpdates
                | SkippedDeletes
                | Filter
                | KeyColumns
                | NoTombstones
                | Unwrap
                | Heartbeat
                | OffsetStored
                | DeadLetters
                | PartialSnapshot
        )
    }

    /// Returns whether only a change between two processes shows it.
    pub(crate) const fn is_change(self) -> bool {
        matches!(self, GuaranteeChanged | ListGrows | ListShrinks)
    }

    /// Returns whether it changes the definition or the rows of a whole table.
    pub(crate) fn is_operation(self) -> bool {
        self >= Created
    }

    /// Returns whether it makes a table that a publication of listed tables does not have.
    pub(crate) const fn is_of_new_table(self) -> bool {
        matches!(self, Created | Swapped | PartitionAttached | Inherited)
    }

    /// Returns whether a run can have both.
    pub(crate) fn goes_with(self, other: Self) -> bool {
        let excludes = |a: Self, b: Self| {
            (GUARANTEES.contains(&a) && GUARANTEES.contains(&b) || SHAPES.contains(&a) && SHAPES.contains(&b))
                || a == Outbox && b.is_of_tables()
                || a == Tables && b.is_of_outbox()
                // They need one EventRouter and nothing else.
                || matches!(a, Cleanup | CleanupCommand | Moved) && (b == Both || b.is_of_tables())
                || a.is_signalled() && b.is_signalled()
                || a.is_gap() && b.is_gap()
                // Each start would settle the gap.
                || a == AlwaysSnapshot && (b == InitialSnapshot || b.is_gap())
                || a == SlotDropped && (b == Moved || b.is_gap())
        };
        self != other && !excludes(self, other) && !excludes(other, self)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
