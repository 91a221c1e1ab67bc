//! Start with regard to the slot: continues from the existing one, creates one, or refuses.

use std::sync::Arc;

use super::order::{DueSnapshot, Found, NeedsSlot, NeedsStream, Preparation};
use super::slot_judge::{Asker, SlotJudge};
use crate::error::chain;
use crate::postgres::{Options, SlotFacts, SnapshotMode, Sql, TlsSetup};
use crate::relay::capture::captured::CapturedTables;
use crate::relay::capture::preflight::{Capture, Preflight};
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::progress::comparison::{Comparison, Known};
use crate::relay::progress::offsets::Offsets;
use crate::relay::progress::position::Position;
use crate::relay::progress::position_store::Positions;
use crate::telemetry::{Metrics, Status};
use crate::wal::Lsn;

/// Objects that this attempt has created and would have to undo.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::relay) struct Made {
    pub(in crate::relay) publication: bool,
    pub(in crate::relay) slot: bool,
    /// The rows that are in the tables were sent; that is not undone.
    pub(in crate::relay) snapshot: bool,
}

/// Inputs of opening a link besides the servers.
#[derive(Clone, Copy)]
pub(in crate::relay) struct Opening<'o> {
    pub(in crate::relay) parts: &'o Arc<RelayParts>,
    pub(in crate::relay) tls: &'o TlsSetup,
    pub(in crate::relay) status: &'o Status,
    pub(in crate::relay) metrics: &'o Metrics,
    /// Debezium's offset storage.
    pub(in crate::relay) offsets: Option<&'o Offsets>,
    /// Storage of the relay's position.
    pub(in crate::relay) positions: Option<&'o Positions>,
    /// True if this process has waited for the slot, which therefore existed.
    pub(in crate::relay) saw_slot: bool,
    /// Result of an earlier session of this process; with it the start is over.
    pub(in crate::relay) known: Option<&'o Known>,
    /// LSN that is confirmed before the snapshot that this process still owes.
    pub(in crate::relay) snapshot_after: Option<Lsn>,
    /// Every table that this process has captured.
    pub(in crate::relay) captured: &'o CapturedTables,
}

impl<'o> Opening<'o> {
    /// Adopts the slot, with the offset that is stored for it, or makes one. A new one, and one that nothing was streamed from,
    /// begins with the snapshot, if there will be one.
    pub(in crate::relay) async fn ensure_slot(
        self,
        needs: NeedsSlot,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
    ) -> Result<NeedsStream, Error> {
        let options = &self.parts.postgres;
        let facts = preflight.sql.slot(&options.slot.name).await?;
        let judge = self.judge(&preflight.sql);
        let judged =
            judge.judge(|slot, grounds| needs.found(slot, grounds), facts.as_ref(), &preflight.site()).await;
        let preparation = Preparation::of(judged, &self.comparison(), options.recovers())?;
        self.prepare_slot(preparation, facts.as_ref(), preflight, capture, made).await.map(NeedsStream::new)
    }

    async fn prepare_slot(
        self,
        preparation: Preparation,
        facts: Option<&SlotFacts>,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
    ) -> Result<Box<Found>, Error> {
        let slot = &self.parts.postgres.slot;
        match preparation {
            Preparation::Continue(found) => {
                self.warn_of_failover(facts);
                self.warn_of_unsent(&found);
                self.drop_aside(preflight).await;
                Ok(found)
            }
            Preparation::SnapshotAgain(mut found) => {
                self.warn_of_failover(facts);
                self.drop_aside(preflight).await;
                found.snapshot = DueSnapshot::First;
                Ok(found)
            }
            Preparation::CatchUp(mut found) => {
                self.warn_of_failover(facts);
                // What is published now is meant; what was not is in the snapshot, and a stop is stored until then.
                if self.parts.has_whole_snapshots() {
                    self.captured.trust_publication();
                }
                tracing::info!(
                    slot = %slot.name, from = %found.slot.confirmed_flush_lsn,
                    "snapshot.mode=always: changes that are in the slot are sent first, then the rows of the tables"
                );
                found.snapshot = DueSnapshot::Next;
                Ok(found)
            }
            Preparation::SnapshotBeside(found) => {
                self.warn_of_failover(facts);
                self.snapshot_beside(preflight, capture, made, found).await
            }
            Preparation::Create { is_accepted } => {
                self.give_up_position(preflight, is_accepted).await?;
                let Preflight { connection, sql, server, .. } = preflight;
                let slot = slot.create(connection, sql, server).await?;
                made.slot = true;
                Ok(Box::new(Found::made(slot)))
            }
            Preparation::CreateWithSnapshot { unfinished, is_accepted } => {
                self.give_up_position(preflight, is_accepted).await?;
                let slot = self.make_with_snapshot(preflight, capture, made, unfinished).await?;
                Ok(Box::new(Found::made(slot)))
            }
            Preparation::Recover(error) => {
                self.give_up(facts, &error, preflight).await?;
                self.suspect_excluded(capture, preflight.wal_end);
                let made_again = self.make_with_snapshot(preflight, capture, made, None).await?;
                self.metrics.slot_recovered();
                tracing::warn!(
                    slot = %slot.name, lsn = %made_again.confirmed_flush_lsn,
                    "creating the slot again; the rows of the snapshot are sent"
                );
                Ok(Box::new(Found::made(made_again)))
            }
        }
    }

    /// Warns of a slot that no standby has, where `slot.failover` asks for one.
    fn warn_of_failover(self, facts: Option<&SlotFacts>) {
        let slot = &self.parts.postgres.slot;
        let Some(lacking) = facts.and_then(|facts| slot.lacks_failover(facts)) else { return };
        if self.status.warn(lacking.problem.clone()) {
            tracing::warn!(slot = %slot.name, fix = lacking.fix, "{}", lacking.problem);
        }
    }

    /// Warns that existing rows of the tables are not sent, if nothing is stored that could prove that they
    /// were.
    fn warn_of_unsent(self, found: &Found) {
        let Options { snapshot, slot, .. } = &self.parts.postgres;
        let is_remembered = self.known.is_some()
            || found.stored.is_some()
            || self.parts.relay.transactions.is_some()
            || self.positions.is_some_and(Positions::is_on);
        if matches!(snapshot.mode, SnapshotMode::Initial | SnapshotMode::WhenNeeded) && !is_remembered {
            tracing::warn!(
                slot = %slot.name,
                fix = "start once with -X snapshot.mode=always if they were not, and set outboxd.position.topic; or set snapshot.mode=no_data",
                "no position is stored, so outboxd cannot know if the existing rows were sent: sending no snapshot"
            );
        }
    }

    /// Returns the judge of the slot.
    pub(in crate::relay) fn judge<'j>(self, sql: &'j Sql) -> SlotJudge<'j>
    where
        'o: 'j,
    {
        let (parts, offsets, asker) = (self.parts, self.offsets, Asker::Relay(self.positions));
        SlotJudge { parts, sql, offsets, asker, comparison: self.comparison() }
    }

    pub(in crate::relay) fn comparison(self) -> Comparison<'o> {
        Comparison {
            known: self.known,
            snapshot_after: self.snapshot_after,
            saw_slot: self.saw_slot,
            ..Comparison::of_parts(self.parts, self.captured)
        }
    }

    /// Marks a stored position that the user has given up as such, so that it is not compared with the slot that is
    /// created now. This is written before the slot is created: a start that is interrupted then, or may not
    /// write positions, leaves nothing that the next one refuses.
    async fn give_up_position(self, preflight: &Preflight, is_accepted: bool) -> Result<(), Error> {
        let Some(positions) = self.positions.filter(|_| is_accepted) else { return Ok(()) };
        self.captured.trust_publication();
        let mut position = self.position(preflight, Lsn::ZERO).given_up();
        positions.begin(&mut position);
        positions.write(&position).await
    }

    /// Makes the position of a slot at this LSN.
    pub(in crate::relay) fn position(self, preflight: &Preflight, lsn: Lsn) -> Position {
        let postgres = &self.parts.postgres;
        let (name, oid) = (&postgres.server.database, preflight.server.database);
        Position::at(lsn, &preflight.origin(), name, oid, postgres.slot.name.as_str())
    }

    /// Drops what is left of a lost slot, and reports what may be missing then.
    async fn give_up(
        self,
        facts: Option<&SlotFacts>,
        why: &Error,
        preflight: &Preflight,
    ) -> Result<(), Error> {
        let slot = &self.parts.postgres.slot;
        let confirmed = facts.and_then(|facts| facts.confirmed_flush_lsn);
        let sent_up_to = self.known.map(|known| known.to).or(confirmed).map(|lsn| lsn.to_string());
        tracing::error!(
            slot = %slot.name, error = chain(why), sent_up_to, wal_end = %preflight.wal_end,
            "the slot is lost: all rows of the table are sent, also those that were sent before. Rows \
             that committed after sent_up_to and were deleted before now are missing"
        );
        if facts.is_some() {
            slot.drop_slot(&preflight.sql).await?;
        }
        Ok(())
    }
}
