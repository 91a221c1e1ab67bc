//! Writes a session's positions, and stores that the slot is dropped on purpose.

use std::time::Duration;

use super::{PositionLog, Positions};
use crate::error::{Diagnose as _, chain};
use crate::kafka::PositionTopic;
use crate::relay::capture::captured::CapturedTables;
use crate::relay::error::Error;
use crate::relay::progress::position::{DuePosition, Pacing, Phase, Position};

/// Writes the positions of one session.
#[derive(Debug)]
pub(in crate::relay) struct PositionWriter<L: PositionLog = PositionTopic> {
    /// `None` when no position is stored.
    positions: Option<Positions<L>>,
    position: Position,
    /// Tables that each position contains.
    captured: CapturedTables,
    on_its_way: Option<L::Receipt>,
    /// Writing has failed since it last succeeded.
    has_failed: bool,
    /// Snapshots were too many to be kept.
    has_left_out: bool,
}

impl<L: PositionLog> PositionWriter<L> {
    /// Creates the writer of a session; `position` is where it continues.
    pub(in crate::relay) fn new(
        positions: Option<Positions<L>>,
        position: Position,
        captured: CapturedTables,
    ) -> Self {
        Self { positions, position, captured, on_its_way: None, has_failed: false, has_left_out: false }
    }

    /// Begins the session, after the position that Kafka has was read. Returns the schedule of its positions,
    /// which limits what may be confirmed.
    pub(in crate::relay) fn begin(&mut self, shutdown_timeout: Duration) -> Pacing {
        let Some(positions) = self.positions.as_ref().filter(|positions| positions.is_on()) else {
            return Pacing::off();
        };
        positions.begin(&mut self.position);
        Pacing::new(shutdown_timeout)
    }

    /// Hands a position over. It never blocks.
    pub(in crate::relay) fn write(&mut self, due: DuePosition, pacing: &mut Pacing) {
        let Some(positions) = &self.positions else { return };
        self.position.lsn = due.lsn;
        self.position.committed(due.committed);
        self.position.tables = self.captured.list_kept();
        if !self.position.keep_snapshots(due.snapshots) && !std::mem::replace(&mut self.has_left_out, true) {
            tracing::warn!(
                "incremental snapshots of this many tables are not stored with the position: they do not \
                 resume after a restart"
            );
        }
        match positions.send(&self.position) {
            Ok(receipt) => self.on_its_way = Some(receipt),
            Err(error) => self.failed(error, pacing),
        }
    }

    /// Collects the outcome of the last write.
    pub(in crate::relay) fn collect(&mut self, pacing: &mut Pacing) {
        let (Some(positions), Some(receipt)) = (&self.positions, &mut self.on_its_way) else { return };
        let Some(outcome) = positions.outcome(receipt) else { return };
        self.on_its_way = None;
        match outcome {
            Ok(()) => {
                positions.has_written(&self.position);
                pacing.acknowledged();
                self.has_failed = false;
            }
            Err(error) => self.failed(error.into(), pacing),
        }
    }

    fn failed(&mut self, error: Error, pacing: &mut Pacing) {
        pacing.failed();
        let Some(positions) = &self.positions else { return };
        match positions.go_without(error) {
            Ok(()) => pacing.switch_off(),
            Err(error) if !std::mem::replace(&mut self.has_failed, true) => tracing::warn!(
                error = chain(&error),
                fix = error.fix(),
                "cannot store the position; retrying. Nothing more is confirmed to PostgreSQL until then"
            ),
            Err(_) => {}
        }
    }
}

impl PositionWriter {
    /// Records that the slot is about to be dropped on purpose.
    pub(in crate::relay) async fn drop_slot(mut self) -> Result<(), Error> {
        self.position.phase = Phase::Dropped;
        match &self.positions {
            Some(positions) => positions.write(&self.position).await,
            None => Ok(()),
        }
    }
}
