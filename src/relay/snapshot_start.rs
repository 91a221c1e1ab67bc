//! The snapshot that comes before a slot: from its beginning, or from where it was interrupted.

use std::sync::Arc;
use std::time::Instant;

use super::error::Error;
use super::position::{Phase, Position, Unfinished};
use super::preflight::{Capture, Preflight};
use super::slot_start::{Made, Opening};
use super::snapshot::Keeper;
use crate::error::chain;
use crate::postgres::{Slot, SnapshotSlot};
use crate::wal::Lsn;

impl Opening<'_> {
    /// Sends the rows that are in the tables, and then makes the slot where they were read.
    pub(super) async fn make_with_snapshot(
        self,
        preflight: &mut Preflight,
        capture: &Capture,
        made: &mut Made,
        unfinished: Option<Unfinished>,
    ) -> Result<Slot, Error> {
        let slot = &self.parts.postgres.slot;
        let unfinished = self.still_there(unfinished, preflight).await?;
        let position = self.tell_snapshot(preflight, unfinished.clone()).await?;
        let temporary = match &unfinished {
            Some(unfinished) => {
                tracing::info!(lsn = %unfinished.lsn, "the snapshot goes on where it was interrupted");
                slot.reopen(unfinished.lsn, &mut preflight.connection).await?
            }
            None => {
                self.drop_aside(preflight).await;
                let Preflight { connection, sql, server, .. } = &mut *preflight;
                slot.create_with_snapshot(connection, sql, server).await?
            }
        };
        let mut keeper = self.keeper(preflight, &temporary, position, unfinished);
        let sent = self.snapshot(preflight, capture, Some(&temporary), keeper.as_mut()).await;
        if sent.is_err() && keeper.is_some_and(|keeper| keeper.is_made) {
            tracing::warn!(
                slot = slot.aside(),
                "the snapshot is not sent to its end. The next attempt goes on with it; until then this slot holds WAL back"
            );
        }
        sent?;
        made.snapshot = true;
        let kept = slot.keep(&temporary, &mut preflight.connection, &preflight.sql).await?;
        made.slot = true;
        self.drop_aside(preflight).await;
        Ok(kept)
    }

    /// Of change events only: the rows of an outbox are known again by their places in one snapshot. And not where no slot may
    /// stay.
    fn goes_on(self) -> bool {
        self.parts.route.outbox().is_none() && !self.parts.postgres.slot.drop_on_stop
    }

    /// What can be gone on from: its slot stands where it stood, and has its WAL.
    async fn still_there(
        self,
        unfinished: Option<Unfinished>,
        preflight: &Preflight,
    ) -> Result<Option<Unfinished>, Error> {
        let slot = &self.parts.postgres.slot;
        let Some(unfinished) =
            unfinished.filter(|unfinished| self.goes_on() && unfinished.slot == slot.aside())
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
                "the snapshot was interrupted and begins again: the slot that it could go on from is gone"
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
    ) -> Option<Keeper<'k>> {
        let positions = self.positions.filter(|positions| self.goes_on() && positions.is_on())?;
        Some(Keeper {
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

    /// Nothing goes on from it any more.
    pub(super) async fn drop_aside(self, preflight: &Preflight) {
        if !self.goes_on() {
            return;
        }
        let slot = &self.parts.postgres.slot;
        if let Err(error) = slot.drop_aside(&preflight.sql).await {
            tracing::warn!(
                slot = slot.aside(),
                error = chain(&error),
                "the slot of an interrupted snapshot holds WAL back and could not be dropped"
            );
        }
    }

    /// Whoever comes after a start that was broken off in its snapshot begins it again, or goes on with it.
    async fn tell_snapshot(
        self,
        preflight: &Preflight,
        unfinished: Option<Unfinished>,
    ) -> Result<Option<Position>, Error> {
        let Some(positions) = self.positions else { return Ok(None) };
        let mut position = self.position(preflight, Lsn::ZERO);
        position.phase = Phase::Snapshot;
        if let Some(unfinished) = unfinished {
            position.keep_unfinished(unfinished);
        }
        positions.begin(&mut position);
        positions.write(&position).await?;
        Ok(Some(position))
    }
}
