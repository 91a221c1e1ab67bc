//! Notifications about incremental snapshots.

use super::Incremental;
use crate::signal::ChunkKey;
use crate::signal::notification::{Aggregate, Notification, SnapshotStatus};

/// The member with the tables of the snapshot that are not finished.
pub(super) const TABLES: &str = "data_collections";

impl Incremental {
    pub(super) fn report_progress(&mut self) {
        let text = |key: &Option<ChunkKey>| {
            let parts = key.iter().flatten().map(|part| part.as_deref().unwrap_or("<null>"));
            parts.collect::<Vec<_>>().join(",")
        };
        let rows = u64::try_from(self.chunk_rows).unwrap_or(u64::MAX);
        let mut data = vec![("chunk_index", self.state.chunks.to_string())];
        data.push((
            "current_collection_in_progress",
            self.of.iter().map(|(_, name)| name.as_str()).collect(),
        ));
        data.push((TABLES, self.state.tables()));
        data.push(("last_processed_key", text(&self.read_to)));
        data.push(("maximum_key", text(&self.state.end)));
        if let Some(total) = self.state.total {
            data.push(("total_chunks", total.div_ceil(rows).to_string()));
            data.push(("total_rows", total.to_string()));
        }
        self.report(SnapshotStatus::InProgress, data);
    }

    pub(super) fn report_scan(&mut self, status: &str) {
        let Some(front) = self.state.queue.front() else { return };
        let mut data = vec![(TABLES, self.state.tables()), ("scanned_collection", front.table.clone())];
        data.push(("status", status.to_owned()));
        if let Some(total) = self.state.total {
            data.push(("total_rows", total.to_string()));
        }
        data.push(("total_rows_scanned", self.state.scanned.to_string()));
        self.report(SnapshotStatus::TableScanCompleted, data);
    }

    pub(super) fn report(&mut self, status: SnapshotStatus, data: Vec<(&'static str, String)>) {
        if self.tells {
            let (correlation, aggregate) = (self.state.correlation.clone(), Aggregate::IncrementalSnapshot);
            self.notifications.push_back(Notification { correlation, aggregate, status, data });
        }
    }
}
