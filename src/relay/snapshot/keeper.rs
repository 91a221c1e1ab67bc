//! Remembers what of a snapshot was sent, so that it goes on after an interruption.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::chain;
use crate::postgres::{SlotOptions, SnapshotSlot, Sql};
use crate::relay::position::{Position, SentTable, Unfinished};
use crate::relay::position_store::Positions;

/// How often it is remembered at most. All that is on its way is waited for then.
const INTERVAL: Duration = Duration::from_secs(2);

/// Keeps what was sent of a snapshot in the relay's position, and the WAL that is needed to go on in a slot of its own.
#[derive(Debug)]
pub(in crate::relay) struct Keeper<'k> {
    pub(in crate::relay) positions: &'k Positions,
    /// What is written; it says that a snapshot is being sent.
    pub(in crate::relay) position: Position,
    pub(in crate::relay) slot: &'k SlotOptions,
    pub(in crate::relay) sql: Arc<Sql>,
    pub(in crate::relay) temporary: &'k SnapshotSlot,
    /// What was sent before.
    pub(in crate::relay) before: Vec<SentTable>,
    /// The slot is there.
    pub(in crate::relay) is_made: bool,
    /// It cannot be remembered.
    pub(in crate::relay) is_off: bool,
    pub(in crate::relay) kept: Instant,
}

impl Keeper<'_> {
    /// Whether it is time to remember.
    pub(super) fn is_due(&self) -> bool {
        !self.is_off && self.kept.elapsed() >= INTERVAL
    }

    /// Remembers that this was sent, and that Kafka has it. What fails is tried again the next time; the snapshot goes on.
    pub(super) async fn keep(&mut self, tables: Vec<SentTable>) {
        self.kept = Instant::now();
        if !self.is_made {
            if let Err(error) = self.slot.keep_aside(self.temporary, &self.sql).await {
                tracing::warn!(
                    error = chain(&error),
                    "the snapshot begins again if it is interrupted: there is no slot for what it has to go on from"
                );
                self.is_off = true;
                return;
            }
            self.is_made = true;
        }
        let unfinished = Unfinished { slot: self.slot.aside(), lsn: self.temporary.consistent_point, tables };
        if !self.position.keep_unfinished(unfinished) {
            tracing::warn!("there are too many tables to remember which of them were sent");
            self.is_off = true;
            return;
        }
        if let Err(error) = self.positions.write(&self.position).await {
            tracing::warn!(error = chain(&error), "what was sent of the snapshot is not remembered now");
        }
    }
}
