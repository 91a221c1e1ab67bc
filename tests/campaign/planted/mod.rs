//! Mistakes that are planted outside the product: in the link to PostgreSQL, in Kafka behind its back, in the database, or in what a
//! command is asked. Each stands for a class of faults that was found once, and must be found by the oracle within `BUDGET` seeds.
//!
//! Some classes cannot be planted from outside, because neither a record nor a row shows them: names that a session trusts, memory that
//! a window does not count, alarms without a reason, a slot with `two_phase`, and reasons that are not printed.

mod making;

use crate::plan::draw::Draw;
use crate::plan::feature::{Fault, Feature};

/// Seeds in which a mistake must be found.
pub(crate) const BUDGET: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// The first row of a connection counts as sent (an event has one identity).
    RowSkipped,
    /// Another service reads from the slot (a peer is known by what it is).
    SlotShared,
    /// A record has its id and other contents (a row is known by its contents).
    RecordReplaced,
    /// The publication was without the table for a while, and no start says so (a stop stays).
    StopForgotten,
    /// Rows are deleted before a snapshot has read them (nothing is deleted that something relies on).
    FalseCleanup,
    /// `outboxd verify` is asked about other rows (a tool excuses no more than it can prove).
    VerifyLooksAway,
    /// An old record of a row is written once more (what is left out as a repeat).
    OldRecordLast,
    /// A snapshot leaves out some rows (a decision is made after what it depends on).
    SnapshotSkipsRows,
    /// A table that was made later is not captured (what is not in the event is said).
    TableLeftOut,
    /// A broken connection ends the relay (errors that pass are retried).
    RetriesForbidden,
    RecordRemoved,
    RecordRepeated,
    RecordInvented,
}

use Planted::*;

impl Planted {
    pub(crate) const ALL: [Self; 13] = [
        RowSkipped,
        SlotShared,
        RecordReplaced,
        StopForgotten,
        FalseCleanup,
        VerifyLooksAway,
        OldRecordLast,
        SnapshotSkipsRows,
        TableLeftOut,
        RetriesForbidden,
        RecordRemoved,
        RecordRepeated,
        RecordInvented,
    ];

    /// The rule that must be violated.
    pub(crate) const fn rule(self) -> &'static str {
        match self {
            RowSkipped | SlotShared | StopForgotten | FalseCleanup | TableLeftOut | RecordRemoved => "lost",
            RecordReplaced => "altered",
            VerifyLooksAway => "disagreement",
            OldRecordLast | SnapshotSkipsRows => "stale",
            RetriesForbidden => "ended",
            RecordRepeated => "repeated",
            RecordInvented => "invented",
        }
    }

    /// The run in which it is planted: the features that are its occasion, and nothing else.
    pub(crate) fn draw(self, seed: u64) -> Draw {
        let (shape, features, faults) = match self {
            RowSkipped => (Feature::Outbox, vec![], vec![Fault::PostgresCut]),
            RetriesForbidden => (Feature::Outbox, vec![], vec![Fault::BackendTerminated]),
            FalseCleanup => (Feature::Outbox, vec![Feature::InitialSnapshot], vec![]),
            SnapshotSkipsRows => (Feature::Tables, vec![Feature::IncrementalSnapshot], vec![]),
            TableLeftOut => (Feature::Tables, vec![Feature::Created], vec![]),
            OldRecordLast | VerifyLooksAway => (Feature::Tables, vec![], vec![Fault::Stopped]),
            _ => (Feature::Outbox, vec![], vec![]),
        };
        Draw {
            seed,
            guarantee: Feature::ExactlyOnce,
            shape,
            features,
            faults,
            window: 50,
            all_tables: true,
            full_identity: true,
            later: Vec::new(),
        }
    }
}
