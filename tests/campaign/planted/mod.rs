//! Mistakes that are planted outside the product: in the link to PostgreSQL, in Kafka behind its back, in the database, or in what a
//! command is asked. Each stands for a class of faults that was found once, and must be found by the oracle within `BUDGET` seeds.
//!
//! Two classes cannot be planted from outside, because nothing outside shows them: memory that a window does not count, and reasons that
//! are not printed. docs/reliability.md names the tests that stand for them.

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
    /// The publication was without the table for a while, and no start reports it (a stop stays).
    StopForgotten,
    /// Rows are deleted before a snapshot has read them (nothing is deleted that something relies on).
    FalseCleanup,
    /// `outboxd verify` is asked about other rows (a tool excuses no more than it can prove).
    VerifyLooksAway,
    /// An old record of a row is written once more (records that are skipped as repeats).
    OldRecordLast,
    /// A snapshot skips some rows (a decision is made after what it depends on).
    SnapshotSkipsRows,
    /// A table that was created later is not captured (data that is not in the event is reported).
    TableLeftOut,
    /// A broken connection ends the relay (errors that pass are retried).
    RetriesForbidden,
    /// The statement that sets `search_path` does not reach PostgreSQL (a session trusts no name).
    NamesTrusted,
    /// A table is unlogged for a moment, which no operation does (an alarm has a reason).
    AlarmRaised,
    /// The slot was made with `two_phase` (the limits of a slot are reported).
    SlotTwoPhase,
    /// The publication was changed while no relay ran, and nothing is stored by which a start notices it (a stop stays).
    GapUnreported,
    /// A stop that is stored is removed from Kafka (a stop stays).
    StopErased,
    /// The poller sends the rows of outboxd too (each row has one sender).
    PollerSendsAll,
    /// The password is in the configuration, and changes (a restart reads it from its source).
    PasswordFixed,
    RecordRemoved,
    RecordRepeated,
    RecordInvented,
}

use Planted::*;

impl Planted {
    pub(crate) const ALL: [Self; 20] = [
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
        NamesTrusted,
        AlarmRaised,
        SlotTwoPhase,
        GapUnreported,
        StopErased,
        PollerSendsAll,
        PasswordFixed,
        RecordRemoved,
        RecordRepeated,
        RecordInvented,
    ];

    /// Returns the rule that must be violated.
    pub(crate) const fn rule(self) -> &'static str {
        match self {
            RowSkipped | SlotShared | StopForgotten | FalseCleanup | TableLeftOut | RecordRemoved => "lost",
            RecordReplaced => "altered",
            VerifyLooksAway => "disagreement",
            OldRecordLast | SnapshotSkipsRows => "stale",
            RetriesForbidden | PasswordFixed => "ended",
            GapUnreported => "unreported",
            StopErased => "forgotten",
            PollerSendsAll => "both",
            NamesTrusted => "trusted",
            AlarmRaised => "alarm",
            SlotTwoPhase => "unexplained",
            RecordRepeated => "repeated",
            RecordInvented => "invented",
        }
    }

    /// Returns the run in which it is planted: the features that are its occasion, and nothing else.
    pub(crate) fn draw(self, seed: u64) -> Draw {
        let (shape, features, faults) = match self {
            RowSkipped => (Feature::Outbox, vec![], vec![Fault::PostgresCut]),
            RetriesForbidden => (Feature::Outbox, vec![], vec![Fault::BackendTerminated]),
            FalseCleanup => (Feature::Outbox, vec![Feature::InitialSnapshot], vec![]),
            SnapshotSkipsRows => (Feature::Tables, vec![Feature::IncrementalSnapshot], vec![]),
            GapUnreported => (Feature::Outbox, vec![Feature::GapAccepted], vec![Fault::Killed]),
            StopErased => (Feature::Outbox, vec![Feature::GapAccepted], vec![]),
            PollerSendsAll => (Feature::Outbox, vec![Feature::Migrated], vec![]),
            PasswordFixed => (Feature::Outbox, vec![Feature::Credentials], vec![Fault::BackendTerminated]),
            TableLeftOut => (Feature::Tables, vec![Feature::Created], vec![]),
            OldRecordLast | VerifyLooksAway | AlarmRaised => (Feature::Tables, vec![], vec![Fault::Stopped]),
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
