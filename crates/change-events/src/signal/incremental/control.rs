//! Pause, resume and stop of incremental snapshots.

use super::telling::TABLES;
use super::{Incremental, Stage};
use crate::signal::condition::expand;
use crate::signal::notification::SnapshotStatus;

impl Incremental {
    pub(super) fn stop(&mut self, tables: &[String]) {
        if !self.state.is_running() {
            tracing::info!("no incremental snapshot is running");
            return;
        }
        let all = [".*".to_owned()];
        self.state.stops.extend_from_slice(if tables.is_empty() { &all } else { tables });
        if self.stage == Stage::Idle {
            self.take_stops();
        }
    }

    pub(super) fn pause(&mut self) {
        if self.state.is_running() && !self.state.paused {
            self.state.paused = true;
            let tables = self.state.tables();
            self.report(SnapshotStatus::Paused, vec![(TABLES, tables)]);
        }
    }

    pub(super) fn resume(&mut self) {
        if self.state.is_running() && self.state.paused {
            self.state.paused = false;
            let tables = self.state.tables();
            self.report(SnapshotStatus::Resumed, vec![(TABLES, tables)]);
            if self.stage == Stage::Idle {
                self.start_chunk();
            }
        }
    }

    pub(super) fn take_stops(&mut self) {
        let stops = std::mem::take(&mut self.state.stops);
        if stops.is_empty() {
            return;
        }
        let queued: Vec<String> = self.state.queue.iter().map(|queued| queued.table.clone()).collect();
        let mut stopped = expand(&stops, &queued);
        stopped.retain(|table| queued.contains(table));
        if stopped.is_empty() {
            tracing::warn!("stop-snapshot: none of these tables is in the incremental snapshot");
            return;
        }
        let is_current = queued.first().is_some_and(|first| stopped.contains(first));
        self.state.queue.retain(|queued| !stopped.contains(&queued.table));
        if is_current {
            self.state.forget_place();
        }
        tracing::info!(tables = stopped.join(","), "the incremental snapshot was stopped");
        self.report(SnapshotStatus::Aborted, vec![(TABLES, stopped.join(","))]);
        if !self.state.is_running() {
            self.state.correlation = None;
        }
    }
}
