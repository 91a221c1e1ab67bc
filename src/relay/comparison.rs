//! What a start concludes when it has found a slot, or none: from what an earlier session of this process knows, and from
//! the position that is in Kafka. There is no I/O here: whoever asks has the answers.

use super::capture::CapturedTables;
use super::clock::Now;
use super::error::Error;
use super::origin::Origin;
use super::position::{Facts, Phase, Position, Verdict, judge, other_history};
use crate::error::chain;
use crate::postgres::{SlotOptions, SnapshotMode, TableFilter};
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, PgTimestamp};

/// What an earlier session of this process has left.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) origin: Origin,
    /// Everything before is acknowledged, and nothing beyond was ever confirmed by us.
    pub(super) to: Lsn,
    /// Another outboxd has had the slot since.
    pub(super) shared: bool,
}

/// What a start compares with.
#[derive(Clone, Copy)]
pub(super) struct Comparison<'c> {
    pub(super) slot: &'c SlotOptions,
    pub(super) mode: SnapshotMode,
    /// `database.dbname`
    pub(super) database: &'c str,
    pub(super) tables: &'c TableFilter,
    /// `outboxd.position.accept`
    pub(super) accept: Option<Lsn>,
    /// What an earlier session of this process has left; the start is over.
    pub(super) known: Option<&'c Known>,
    /// This process has waited for the slot: it was there.
    pub(super) saw_slot: bool,
    /// Every table that this process has captured.
    pub(super) captured: &'c CapturedTables,
}

/// What it has found.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundSlot<'f> {
    /// The server's history.
    pub(super) origin: &'f Origin,
    /// Where the slot stands and where the WAL ends, if there is a slot.
    pub(super) at: Option<(Lsn, Lsn)>,
    /// The offset that is stored for the slot.
    pub(super) stored: Option<&'f SourceOffset>,
}

impl Comparison<'_> {
    /// Refuses to make a slot that this process has used before.
    pub(super) fn without_slot(&self) -> Result<(), Error> {
        match self.known.is_some_and(|known| !known.shared) {
            true => Err(self.slot.vanished().into()),
            false => Ok(()),
        }
    }

    /// Refuses a slot that stands where this process has not been, though nobody else of ours has had it.
    pub(super) fn with_what_is_known(&self, confirmed: Lsn, origin: &Origin) -> Result<(), Error> {
        match self.known.filter(|known| known.is_passed_by(confirmed, origin)) {
            Some(known) => Err(self.slot.moved_ahead(confirmed, known.to).into()),
            None => Ok(()),
        }
    }

    /// Whether only the position can tell what has become of the slot.
    pub(super) fn needs_position(&self) -> bool {
        self.known.is_none_or(|known| known.shared)
    }

    /// Compares what is there with the position that is kept in Kafka. True when the user has accepted what does not agree.
    pub(super) fn with_position(
        &self,
        position: Option<&Position>,
        found: FoundSlot<'_>,
        now: Now,
    ) -> Result<bool, Error> {
        if let Some(position) = position {
            self.recall(position, found.origin);
        }
        let verdict = judge(&Facts {
            position,
            origin: found.origin,
            slot: found.at.map(|(confirmed, _)| confirmed),
            wal_end: found.at.map(|(_, wal_end)| wal_end),
            stored: found.stored.map(SourceOffset::furthest),
            accept: self.accept,
            saw_slot: self.saw_slot,
            drop_on_stop: self.slot.drop_on_stop,
            begins_with_snapshot: self.mode != SnapshotMode::NoData,
        });
        let age = position.and_then(Position::committed_at).map(|at| seconds_since(at, now));
        let error = match verdict {
            Verdict::GoOn => return Ok(false),
            Verdict::Accepted => {
                let accept = self.accept.unwrap_or_default();
                tracing::warn!(slot = %self.slot.name, %accept, "outboxd.position.accept: rows that were \
                                                                 written before this position are not \
                                                                 looked for");
                return Ok(true);
            }
            Verdict::MovedAhead { from, to } => self.slot.moved_while_away(from, to, age),
            Verdict::Vanished { from } => self.slot.vanished_while_away(from, age),
            Verdict::OtherHistory { difference, accept } => {
                return Err(Error::OtherHistory { difference, accept: Some(accept) });
            }
        };
        if self.mode == SnapshotMode::Always {
            tracing::error!(
                slot = %self.slot.name, error = chain(&error),
                "snapshot.mode=always sends all rows that are in the table. Rows that were deleted before \
                 now are missing"
            );
            return Ok(false);
        }
        Err(error.into())
    }

    /// What the relay had captured that kept this position stays captured, whatever it is named by now. Object ids of another
    /// database mean nothing, and rows of a slot that is to be made are named as the tables are now.
    fn recall(&self, position: &Position, origin: &Origin) {
        let same_database =
            position.origin().system_id == origin.system_id && position.database == self.database;
        if same_database && position.phase == Phase::Streaming {
            self.captured.remember(position.tables.clone(), self.tables);
        }
    }
}

impl Known {
    /// Refuses a server whose WAL is not the one that was read: neither the same nor its continuation.
    pub(super) fn check(&self, origin: &Origin, wal_end: Lsn) -> Result<(), Error> {
        match other_history((&self.origin, self.to), (origin, wal_end)) {
            Some(difference) => Err(Error::OtherHistory { difference, accept: None }),
            None => Ok(()),
        }
    }

    fn is_passed_by(&self, confirmed: Lsn, origin: &Origin) -> bool {
        !self.shared && self.origin == *origin && confirmed > self.to
    }
}

/// How many seconds ago a transaction committed, by our clock.
fn seconds_since(committed: PgTimestamp, now: Now) -> u64 {
    let microseconds = now.unix_us.saturating_sub(committed.unix_us());
    u64::try_from(microseconds).unwrap_or_default() / 1_000_000
}
