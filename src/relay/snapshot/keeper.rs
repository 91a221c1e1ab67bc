//! Storage of a snapshot's progress, so that it continues after an interruption.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::chain;
use crate::postgres::{SlotOptions, SnapshotSlot, Sql};
use crate::relay::progress::position::{Position, SentTable, Unfinished};
use crate::relay::progress::position_store::Positions;

/// Shortest interval between two stores, each of which waits for all records in flight.
const INTERVAL: Duration = Duration::from_secs(2);

/// Keeps what was sent of a snapshot in the relay's position, and the WAL that is needed to go on in a slot of its own.
#[derive(Debug)]
pub(in crate::relay) struct SnapshotProgressStore<'k> {
    pub(in crate::relay) positions: &'k Positions,
    /// Position to write, which marks a snapshot as being sent.
    pub(in crate::relay) position: Position,
    pub(in crate::relay) slot: &'k SlotOptions,
    pub(in crate::relay) sql: Arc<Sql>,
    pub(in crate::relay) temporary: &'k SnapshotSlot,
    /// Tables that were sent before.
    pub(in crate::relay) before: Vec<SentTable>,
    /// The slot is there.
    pub(in crate::relay) is_made: bool,
    /// True if it cannot be stored.
    pub(in crate::relay) is_off: bool,
    pub(in crate::relay) kept: Instant,
}

impl SnapshotProgressStore<'_> {
    /// Returns whether another store is due.
    pub(super) fn is_due(&self) -> bool {
        !self.is_off && self.kept.elapsed() >= INTERVAL
    }

    /// Stores that this was sent, and that Kafka has it. After a failure the next call tries again; the
    /// snapshot continues.
    pub(super) async fn keep(&mut self, tables: Vec<SentTable>) {
        self.kept = Instant::now();
        if !self.is_made {
            if let Err(error) = self.slot.keep_aside(self.temporary, &self.sql).await {
                tracing::warn!(
                    error = chain(&error),
                    "an interrupted snapshot will restart: there is no slot to resume from"
                );
                self.is_off = true;
                return;
            }
            self.is_made = true;
        }
        let unfinished = Unfinished { slot: self.slot.aside(), lsn: self.temporary.consistent_point, tables };
        if !self.position.keep_unfinished(unfinished) {
            tracing::warn!("too many tables to store which were sent");
            self.is_off = true;
            return;
        }
        if let Err(error) = self.positions.write(&self.position).await {
            tracing::warn!(error = chain(&error), "cannot store the snapshot's progress; retrying");
        }
    }
}
