//! Conclusion of a start that has found a slot, or none: from the memory of an earlier session of this
//! process, and from the position that is in Kafka. There is no I/O here: the caller has made the queries.

use super::position::{Facts, Phase, Position, Unfinished, Verdict, WalHistory, judge};
use crate::error::chain;
use crate::postgres::{SlotOptions, SnapshotMode, TableFilter};
use crate::relay::capture::captured::{CapturedTables, Suspicion, SuspicionCause};
use crate::relay::error::Error;
use crate::relay::origin::Origin;
use crate::relay::parts::RelayParts;
use crate::relay::time::clock::Now;
use crate::signal::StoredCheckpoint;
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, Oid, PgTimestamp};

/// Result of an earlier session of this process.
#[derive(Debug, Clone)]
pub(in crate::relay) struct Known {
    pub(in crate::relay) origin: Origin,
    /// Everything before is acknowledged, and nothing beyond was ever confirmed by us.
    pub(in crate::relay) to: Lsn,
    /// Another outboxd has had the slot since.
    pub(in crate::relay) shared: bool,
}

/// Inputs of a start's comparison.
#[derive(Clone, Copy)]
pub(in crate::relay) struct Comparison<'c> {
    pub(in crate::relay) slot: &'c SlotOptions,
    pub(in crate::relay) mode: SnapshotMode,
    /// `database.dbname`
    pub(in crate::relay) database: &'c str,
    pub(in crate::relay) tables: &'c TableFilter,
    /// `outboxd.position.accept`
    pub(in crate::relay) accept: Option<Lsn>,
    /// `offset.mismatch.strategy`: continue from a slot that was moved ahead.
    pub(in crate::relay) trusts_slot: bool,
    /// Result of an earlier session of this process; with it the start is over.
    pub(in crate::relay) known: Option<&'c Known>,
    /// LSN that this process confirms before it sends the snapshot of `snapshot.mode=always`, which is not sent yet.
    pub(in crate::relay) snapshot_after: Option<Lsn>,
    /// True if rows are sent as change events.
    pub(in crate::relay) has_changes: bool,
    /// True if a snapshot has all rows of all tables.
    pub(in crate::relay) has_whole_snapshots: bool,
    /// True if this process has waited for the slot, which therefore existed.
    pub(in crate::relay) saw_slot: bool,
    /// Every table that this process has captured.
    pub(in crate::relay) captured: &'c CapturedTables,
}

/// Slot that was found, or its absence.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct FoundSlot<'f> {
    /// The server's history.
    pub(in crate::relay) origin: &'f Origin,
    /// The database that is there now.
    pub(in crate::relay) database: Oid,
    /// Positions of the slot and of the end of the WAL, if there is a slot.
    pub(in crate::relay) at: Option<(Lsn, Lsn)>,
    /// The offset that is stored for the slot.
    pub(in crate::relay) stored: Option<&'f SourceOffset>,
}

/// Progress of incremental snapshots when a position was stored, and its server.
#[derive(Debug, Clone)]
pub(in crate::relay) struct StoredSnapshots {
    pub(in crate::relay) origin: Origin,
    pub(in crate::relay) kept: StoredCheckpoint,
}

impl StoredSnapshots {
    /// Returns whether it covers more of the stream.
    pub(in crate::relay) fn is_newer_than(&self, other: &Self) -> bool {
        (self.origin.timeline, self.kept.heeded) > (other.origin.timeline, other.kept.heeded)
    }
}

/// Beginning of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Beginning {
    /// From the slot's position; without a slot, according to what else is stored of it.
    GoesOn,
    /// From nothing, regardless of an earlier slot: the database is another one.
    Anew,
    /// The same: the user has accepted that.
    Accepted,
}

impl<'c> Comparison<'c> {
    /// Makes the comparison of a first session, which knows the configuration only.
    pub(in crate::relay) fn of_parts(parts: &'c RelayParts, captured: &'c CapturedTables) -> Self {
        Self {
            slot: &parts.postgres.slot,
            mode: parts.postgres.snapshot.mode,
            database: &parts.postgres.server.database,
            tables: &parts.tables,
            accept: parts.relay.position.accept,
            trusts_slot: parts.relay.position.trusts_slot,
            known: None,
            snapshot_after: None,
            has_changes: parts.route.changes().is_some(),
            has_whole_snapshots: parts.has_whole_snapshots(),
            saw_slot: false,
            captured,
        }
    }
}

impl Comparison<'_> {
    /// Returns whether a snapshot is sent although there is a slot, with the offset `stored` for it. After an earlier session of this
    /// process none is, but for one that it still owes.
    pub(in crate::relay) fn takes_again(&self, stored: Option<&SourceOffset>) -> bool {
        self.snapshot_after.is_some() || self.known.is_none() && self.mode.takes_again(stored)
    }

    /// Returns whether that snapshot waits for what the slot still has from before it. Behind the snapshot an older change would
    /// replace a newer row, and nothing would follow it where the newer change is not in the stream.
    pub(in crate::relay) fn catches_up_first(&self, confirmed: Lsn) -> bool {
        match self.snapshot_after {
            Some(lsn) => confirmed < lsn,
            None => self.has_changes && self.mode == SnapshotMode::Always,
        }
    }

    /// Refuses to make a slot that this process has used before.
    pub(in crate::relay) fn without_slot(&self) -> Result<(), Error> {
        match self.known.is_some_and(|known| !known.shared) {
            true => Err(self.slot.vanished().into()),
            false => Ok(()),
        }
    }

    /// Returns whether the position must be read before the stream: this process has not had the slot yet, another
    /// outboxd may have had it since, it is where this process has not been, or a snapshot comes first.
    pub(in crate::relay) fn needs_position(&self, slot: Option<Lsn>, origin: &Origin) -> bool {
        let is_passed_by = |known: &Known| slot.is_some_and(|slot| known.is_passed_by(slot, origin));
        self.snapshot_after.is_some() || self.known.is_none_or(|known| known.shared || is_passed_by(known))
    }

    /// Compares what is there with the position that is kept in Kafka.
    ///
    /// # Errors
    /// When they do not agree, and the user has not accepted that.
    pub(in crate::relay) fn with_position(
        &self,
        position: Option<&Position>,
        found: FoundSlot<'_>,
        now: Now,
    ) -> Result<Beginning, Error> {
        if let Some(position) = position {
            self.recall(position, found.origin, found.database);
        }
        let has_settled = self.settle_suspicions();
        if let Some(beginning) = self.with_stop(position, found)? {
            return Ok(beginning);
        }
        self.with_what_is_known(position, found)?;
        let verdict = judge(&Facts {
            position,
            origin: found.origin,
            database: found.database,
            slot: found.at.map(|(confirmed, _)| confirmed),
            wal_end: found.at.map(|(_, wal_end)| wal_end),
            stored: found.stored.map(SourceOffset::furthest),
            accept: self.accept,
            saw_slot: self.saw_slot,
            drop_on_stop: self.slot.drop_on_stop,
            begins_with_snapshot: self.mode != SnapshotMode::NoData,
        });
        let age = position.and_then(Position::committed_at).map(|at| seconds_since(at, now));
        let acceptable = position.and_then(|kept| kept.acceptable(found.at.map(|(confirmed, _)| confirmed)));
        let error = match verdict {
            Verdict::GoOn => {
                if !has_settled {
                    self.warn_of_unneeded(position);
                }
                return Ok(Beginning::GoesOn);
            }
            Verdict::MadeAnew => {
                tracing::warn!(
                    slot = %self.slot.name, database = self.database,
                    "the database was created again since outboxd last ran: {FIRST_START}"
                );
                return Ok(Beginning::Anew);
            }
            Verdict::Accepted => {
                let accept =
                    self.accept.or_else(|| position.and_then(|position| position.accepted.last().copied()));
                tracing::warn!(slot = %self.slot.name, accept = %accept.unwrap_or_default(),
                               "outboxd.position.accept: rows written before this position are not \
                                searched for");
                return Ok(Beginning::Accepted);
            }
            Verdict::MovedAhead { from, to } if self.trusts_slot => {
                self.warn_of_trust(from, to);
                return Ok(Beginning::Accepted);
            }
            Verdict::MovedAhead { from, to } => self.slot.moved_while_away(from, to, age, acceptable),
            Verdict::Vanished { from } => self.slot.vanished_while_away(from, age, acceptable),
            Verdict::OtherHistory { difference } => {
                return Err(Error::OtherHistory { difference, accept: acceptable });
            }
        };
        if self.mode == SnapshotMode::Always {
            tracing::error!(
                slot = %self.slot.name, error = chain(&error),
                "snapshot.mode=always sends all rows that are in the table. Rows that were deleted before \
                 now are missing"
            );
            self.suspect_excluded(position);
            return Ok(Beginning::GoesOn);
        }
        Err(error.into())
    }

    /// Suspects all tables if the snapshot that stands for what was lost is not of all rows. It settles those that it has.
    fn suspect_excluded(&self, position: Option<&Position>) {
        let Some(position) = position.filter(|_| !self.has_whole_snapshots) else { return };
        let suspicion = Suspicion::new(SuspicionCause::SlotLost, position.lsn);
        self.captured.roots().into_iter().for_each(|table| self.captured.suspect(table, suspicion));
    }

    /// Applies the stop of an earlier process, which holds until the rows are sent from the table, or the
    /// operator continues without them.
    fn with_stop(
        &self,
        position: Option<&Position>,
        found: FoundSlot<'_>,
    ) -> Result<Option<Beginning>, Error> {
        let Some((position, stopped)) = position.and_then(|kept| Some((kept, kept.stopped.as_ref()?))) else {
            return Ok(None);
        };
        let sends_rows = self.mode == SnapshotMode::Always && self.takes_again(found.stored);
        if !self.is_of(position, found.origin, found.database) || sends_rows && self.has_whole_snapshots {
            return Ok(None);
        }
        let acceptable = position.acceptable(found.at.map(|(confirmed, _)| confirmed));
        if self.accept.is_some() && self.accept == acceptable {
            tracing::warn!(slot = %self.slot.name, because = stopped.problem,
                           "outboxd.position.accept: rows that were not in the stream are not searched for");
            self.captured.trust_publication();
            // The slot is where it was left, and so are the snapshots that signals have asked for.
            return Ok(Some(match found.at {
                Some(_) => Beginning::GoesOn,
                None => Beginning::Accepted,
            }));
        }
        let hint = sends_rows.then_some(PARTIAL_SNAPSHOT_FIX);
        Err(stopped.error(acceptable, hint).into())
    }

    /// Takes over what another outboxd has stored that had the slot unnoticed: its tables, and the progress of its snapshots.
    ///
    /// # Errors
    /// When it has ended because rows are not in the stream.
    pub(in crate::relay) fn catch_up(
        &self,
        position: &Position,
        found: FoundSlot<'_>,
    ) -> Result<Option<StoredSnapshots>, Error> {
        self.recall(position, found.origin, found.database);
        self.with_stop(Some(position), found)?;
        Ok(self.snapshots(position, found.origin, found.database))
    }

    /// Settles what the operator has accepted: rows that may be missing in the stream. Returns false if there was nothing of that value.
    fn settle_suspicions(&self) -> bool {
        let accepted = self.accept.filter(|accept| self.captured.accept_suspicions(*accept));
        if let Some(accept) = accepted {
            tracing::warn!(slot = %self.slot.name, %accept,
                           "outboxd.position.accept: rows that may be missing in the stream are not searched for");
        }
        accepted.is_some()
    }

    /// Warns that the value does nothing, and that this start uses it up.
    fn warn_of_unneeded(&self, position: Option<&Position>) {
        let is_new = |accept: &Lsn| position.is_none_or(|position| !position.accepted.contains(accept));
        if let Some(accept) = self.accept.filter(is_new) {
            tracing::warn!(
                slot = %self.slot.name, %accept,
                "outboxd.position.accept: nothing has to be accepted; remove it. This value is not used \
                 again"
            );
        }
    }

    fn warn_of_trust(&self, from: Lsn, to: Lsn) {
        tracing::warn!(
            slot = %self.slot.name, %from, %to,
            "the slot was moved, and offset.mismatch.strategy trusts it: rows that were written in between are not sent. Without that \
             option outboxd ends instead, and prints how to send them"
        );
    }

    /// Refuses a slot that stands where this process has not been, unless another outboxd has moved it there: while this one
    /// was frozen, it need not have noticed.
    fn with_what_is_known(&self, position: Option<&Position>, found: FoundSlot<'_>) -> Result<(), Error> {
        let (Some(known), Some((slot, _))) = (self.known, found.at) else { return Ok(()) };
        if !known.is_passed_by(slot, found.origin)
            || position.is_some_and(|kept| known.is_explained_by(kept, slot))
        {
            return Ok(());
        }
        if self.trusts_slot {
            self.warn_of_trust(known.to, slot);
            return Ok(());
        }
        Err(self.slot.moved_ahead(slot, known.to).into())
    }

    /// Takes over the tables that the relay of this position had captured, under any present name. Object ids
    /// of another database mean nothing, and rows of a slot that must be created have the present names of
    /// the tables.
    pub(in crate::relay) fn recall(&self, position: &Position, origin: &Origin, database: Oid) {
        if self.is_of(position, origin, database) && position.phase == Phase::Streaming {
            self.captured.remember(position.tables.clone(), self.tables);
        }
    }

    /// Returns the progress of incremental snapshots of the relay that stored this position.
    pub(in crate::relay) fn snapshots(
        &self,
        position: &Position,
        origin: &Origin,
        database: Oid,
    ) -> Option<StoredSnapshots> {
        let kept = position.snapshots().filter(|_| self.is_of(position, origin, database))?;
        Some(StoredSnapshots { origin: position.origin(), kept: kept.clone() })
    }

    /// Returns the part of an unfinished snapshot that the relay of this position had sent.
    pub(in crate::relay) fn unfinished(
        &self,
        position: &Position,
        origin: &Origin,
        database: Oid,
    ) -> Option<Unfinished> {
        let is_of = self.is_of(position, origin, database) && position.origin() == *origin;
        position.unfinished().filter(|_| is_of).cloned()
    }

    fn is_of(&self, position: &Position, origin: &Origin, database: Oid) -> bool {
        position.origin().system_id == origin.system_id
            && position.database == self.database
            && !position.is_of_dropped(database)
    }
}

/// Fix where a snapshot that is asked for does not have all rows.
pub(in crate::relay) const PARTIAL_SNAPSHOT_FIX: &str = "start once with -X snapshot.include.collection.list= -X \
                                                          snapshot.select.statement.overrides=";

/// Effect of a first start on existing rows.
pub(crate) const FIRST_START: &str =
    "this is a first start, and snapshot.mode decides about rows that are there already";

impl Known {
    /// Refuses a server whose WAL is not the one that was read: neither the same nor its continuation.
    pub(in crate::relay) fn check(&self, origin: &Origin, wal_end: Lsn) -> Result<(), Error> {
        let read = WalHistory { origin: &self.origin, end: self.to };
        match read.difference_from(WalHistory { origin, end: wal_end }) {
            Some(difference) => Err(Error::OtherHistory { difference, accept: None }),
            None => Ok(()),
        }
    }

    /// Returns whether another outboxd has stored a position behind the slot. Positions of this process on
    /// this timeline are before `to`.
    fn is_explained_by(&self, position: &Position, slot: Lsn) -> bool {
        let Origin { system_id, timeline } = position.origin();
        let is_later = system_id == self.origin.system_id && timeline >= self.origin.timeline;
        is_later && position.phase == Phase::Streaming && position.lsn >= slot
    }

    fn is_passed_by(&self, confirmed: Lsn, origin: &Origin) -> bool {
        !self.shared && self.origin.system_id == origin.system_id && confirmed > self.to
    }
}

/// Returns the number of seconds since a transaction committed, by the local clock.
fn seconds_since(committed: PgTimestamp, now: Now) -> u64 {
    let microseconds = now.unix_us.saturating_sub(committed.unix_us());
    u64::try_from(microseconds).unwrap_or_default() / 1_000_000
}

#[cfg(test)]
mod tests;
