//! The snapshot that comes before a slot, or before the stream of one that is there: from its beginning, or from where it was
//! interrupted.

use std::sync::Arc;
use std::time::Instant;

use super::order::Found;
use super::slot_start::{Made, Opening};
use crate::error::chain;
use crate::postgres::{Slot, SnapshotSlot, TableFacts};
use crate::relay::capture::captured::{CapturedTable, Suspicion, SuspicionCause};
use crate::relay::capture::preflight::{Capture, Preflight};
use crate::relay::error::Error;
use crate::relay::progress::comparison::PARTIAL_SNAPSHOT_FIX;
use crate::relay::progress::position::{Position, Unfinished};
use crate::relay::snapshot::SnapshotProgressStore;
use crate::relay::time::liveness::alive;
use crate::wal::Lsn;

impl Opening<'_> {
    /// Sends the rows that are in the tables, and then makes the slot where they were read.
    pub(in crate::relay) async fn make_with_snapshot(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
        unfinished: Option<Unfinished>,
    ) -> Result<Slot, Error> {
        let slot = &self.parts.postgres.slot;
        let (temporary, position) = self.send_rows(preflight, capture, unfinished, None).await?;
        made.snapshot = true;
        let kept = slot.keep(&temporary, &mut preflight.connection, &preflight.sql).await?;
        made.slot = true;
        self.end_snapshot(preflight, capture, &temporary, position, kept, made).await?;
        Ok(kept)
    }

    /// Sends the rows of the tables, and continues from a slot that was never streamed from. What the slot
    /// has from before is in these rows, and it is advanced past that as Debezium does; but not where rows
    /// may be in the stream only.
    pub(in crate::relay) async fn snapshot_beside(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
        mut found: Box<Found>,
    ) -> Result<Box<Found>, Error> {
        let slot = &self.parts.postgres.slot;
        let confirmed = found.slot.confirmed_flush_lsn;
        tracing::info!(
            slot = %slot.name, lsn = %confirmed,
            "the slot exists and no stored position refers to it: sending the existing rows first"
        );
        let unfinished = found.unfinished.take();
        let (temporary, position) = self.send_rows(preflight, capture, unfinished, Some(confirmed)).await?;
        made.snapshot = true;
        let to = temporary.consistent_point;
        if self.skips_what_rows_show(*made) {
            found.slot = alive(self.status, slot.advance_to(&temporary, &preflight.sql)).await?;
            tracing::info!(slot = %slot.name, from = %confirmed, %to, "slot advanced to the snapshot");
        } else {
            tracing::info!(
                slot = %slot.name, from = %confirmed, %to,
                "events between the slot and the snapshot are sent too, because deleted rows are in the stream only"
            );
        }
        self.end_snapshot(preflight, capture, &temporary, position, found.slot, made).await?;
        Ok(found)
    }

    /// Settles what may have been missing in the stream, as far as the snapshot has the rows, and reports that.
    pub(in crate::relay) fn settle(self, capture: &Capture, was_stopped: bool) {
        let is_sent = |table: &CapturedTable| {
            let is_of = |facts: &&TableFacts| [table.oid(), table.root()].contains(&facts.oid);
            // A table that is not captured any more lacks nothing.
            capture.in_snapshot.iter().find(is_of).is_none_or(|facts| self.sends_all_of(facts))
        };
        if self.parts.has_whole_snapshots() {
            self.captured.trust_publication();
        }
        let had_suspicions = !self.captured.suspicions().is_empty();
        let left = self.captured.settle_suspicions(is_sent);
        if !left.is_empty() {
            tracing::warn!(
                tables = left.join(", "),
                fix = PARTIAL_SNAPSHOT_FIX,
                "rows that may be missing in the stream are not all in the snapshot: these tables are not in \
                 snapshot.include.collection.list, or have a statement of their own"
            );
        } else if had_suspicions || was_stopped {
            tracing::info!(
                "rows that may have been missing in the stream are sent: snapshot.mode=always is not needed any more"
            );
        }
    }

    /// Suspects the tables of which the snapshot behind a lost slot does not have all rows: what the slot had of them is lost.
    pub(in crate::relay) fn suspect_excluded(self, capture: &Capture, wal_end: Lsn) {
        for facts in capture.tables.iter().filter(|facts| !self.sends_all_of(facts)) {
            let table = CapturedTable::new(facts.oid, facts.oid, &facts.schema, &facts.name);
            self.captured.suspect(table, Suspicion::new(SuspicionCause::SlotLost, wal_end));
        }
    }

    /// Returns whether a snapshot has all rows of a captured table.
    fn sends_all_of(self, table: &TableFacts) -> bool {
        let (tables, snapshot) = (&self.parts.tables, &self.parts.postgres.snapshot);
        tables.is_signals(table) || tables.is_in_snapshot(table) && snapshot.own_statement(table).is_none()
    }

    /// Stores that the snapshot is complete, and drops what it needed. Another instance waits as long as the
    /// temporary slot exists. From here on the next attempt continues from the slot, and nothing that was
    /// created for it is undone.
    async fn end_snapshot(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        temporary: &SnapshotSlot,
        position: Option<Position>,
        slot: Slot,
        made: &mut Made,
    ) -> Result<(), Error> {
        self.settle(capture, false);
        if let (Some(positions), Some(position)) = (self.positions, position) {
            let position = position.after_snapshot(slot.confirmed_flush_lsn, self.captured.list_kept());
            positions.write(&position).await?;
            let is_stored = positions.is_on();
            (made.slot, made.publication) = (made.slot && !is_stored, made.publication && !is_stored);
        }
        self.parts.postgres.slot.drop_temporary(temporary, &mut preflight.connection).await?;
        self.drop_aside(preflight).await;
        Ok(())
    }

    /// Returns true if the rows of the snapshot show everything that the stream has before it. They do not show an event whose row
    /// was deleted, nor a logical message, unless the publication was created now.
    fn skips_what_rows_show(self, made: Made) -> bool {
        made.publication || self.parts.route.outbox().is_none() && self.parts.messages.is_none()
    }

    /// Sends the rows that are in the tables, as a temporary slot's snapshot shows them. `beside` is where a slot stands that is there.
    async fn send_rows(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        unfinished: Option<Unfinished>,
        beside: Option<Lsn>,
    ) -> Result<(SnapshotSlot, Option<Position>), Error> {
        let slot = &self.parts.postgres.slot;
        // A slot that was moved past that snapshot since has lost what lies in between.
        let unfinished = unfinished.filter(|unfinished| beside.is_none_or(|slot| slot <= unfinished.lsn));
        let unfinished = self.still_there(unfinished, preflight).await?;
        let position = self.report_snapshot(preflight, unfinished.clone()).await?;
        let temporary = match &unfinished {
            Some(unfinished) => {
                tracing::info!(lsn = %unfinished.lsn, "resuming the interrupted snapshot");
                slot.reopen(unfinished.lsn, &mut preflight.connection).await?
            }
            None => {
                self.drop_aside(preflight).await;
                let Preflight { connection, sql, server, .. } = &mut *preflight;
                slot.create_with_snapshot(connection, sql, server).await?
            }
        };
        let mut keeper = self.keeper(preflight, &temporary, position.clone(), unfinished);
        let Preflight { sql, system_id, .. } = &*preflight;
        let sent = self.snapshot(sql, system_id, capture, Some(&temporary), keeper.as_mut()).await;
        if sent.is_err() && keeper.is_some_and(|keeper| keeper.is_made) {
            tracing::warn!(
                slot = slot.aside(),
                "the snapshot is incomplete. The next attempt resumes it; until then this slot retains WAL"
            );
        }
        sent?;
        Ok((temporary, position))
    }

    /// Returns true if an interrupted snapshot can be resumed: of change events only, since outbox rows are identified by their place
    /// in one snapshot, and only if a slot may stay.
    fn can_resume(self) -> bool {
        self.parts.route.outbox().is_none() && !self.parts.postgres.slot.drop_on_stop
    }

    /// Returns the progress to resume from, if its slot is unchanged and has its WAL.
    async fn still_there(
        self,
        unfinished: Option<Unfinished>,
        preflight: &Preflight,
    ) -> Result<Option<Unfinished>, Error> {
        let slot = &self.parts.postgres.slot;
        let Some(unfinished) =
            unfinished.filter(|unfinished| self.can_resume() && unfinished.slot == slot.aside())
        else {
            return Ok(None);
        };
        let facts = preflight.sql.slot_named(&unfinished.slot).await?;
        let is_there = facts.is_some_and(|facts| {
            let adopted = slot.adopt(&facts, &self.parts.postgres.server.database);
            adopted.is_ok_and(|adopted| adopted.confirmed_flush_lsn == unfinished.lsn)
        });
        if !is_there {
            tracing::warn!(
                slot = unfinished.slot,
                "restarting the interrupted snapshot: the slot to resume from no longer exists"
            );
        }
        Ok(Some(unfinished).filter(|_| is_there))
    }

    fn keeper<'k>(
        &'k self,
        preflight: &Preflight,
        temporary: &'k SnapshotSlot,
        position: Option<Position>,
        unfinished: Option<Unfinished>,
    ) -> Option<SnapshotProgressStore<'k>> {
        let positions = self.positions.filter(|positions| self.can_resume() && positions.is_on())?;
        Some(SnapshotProgressStore {
            positions,
            position: position?,
            slot: &self.parts.postgres.slot,
            sql: Arc::clone(&preflight.sql),
            temporary,
            is_made: unfinished.is_some(),
            before: unfinished.map(|unfinished| unfinished.tables).unwrap_or_default(),
            is_off: false,
            kept: Instant::now(),
        })
    }

    /// Drops the slot of an interrupted snapshot, which is not needed any more.
    pub(in crate::relay) async fn drop_aside(self, preflight: &Preflight) {
        if !self.can_resume() {
            return;
        }
        let slot = &self.parts.postgres.slot;
        if let Err(error) = slot.drop_aside(&preflight.sql).await {
            tracing::warn!(
                slot = slot.aside(),
                error = chain(&error),
                "cannot drop the slot of an interrupted snapshot; it retains WAL"
            );
        }
    }

    /// Stores that the snapshot has begun, so that the next start restarts or resumes it.
    async fn report_snapshot(
        self,
        preflight: &Preflight,
        unfinished: Option<Unfinished>,
    ) -> Result<Option<Position>, Error> {
        let Some(positions) = self.positions else { return Ok(None) };
        let mut position = self.position(preflight, Lsn::ZERO).in_snapshot();
        if let Some(unfinished) = unfinished {
            position.keep_unfinished(unfinished);
        }
        positions.begin(&mut position);
        positions.write(&position).await?;
        Ok(Some(position))
    }
}
