//! Counters and log lines of rows that reach the relay and make no event.

use std::collections::HashMap;

use super::identity::CapturedTable;
use crate::telemetry::{Metrics, RowTally, Status};
use crate::wal::Oid;

/// A relation whose rows are not sent.
#[derive(Debug)]
#[cfg_attr(test, derive(Default))]
pub(in crate::relay) struct NotSent {
    rows: RowTally,
}

/// Counts the rows of captured tables that make no event all the same. One look-up for each of them.
#[derive(Debug, Default)]
pub(in crate::relay) struct PassedRows(HashMap<(Oid, &'static str), NotSent>);

impl NotSent {
    /// Makes the counter of the rows of `table` that are not sent for this reason. Logs the first one; a near
    /// miss is a warning, which stays on the status port.
    pub(in crate::relay) fn new(
        metrics: &Metrics,
        status: Option<&Status>,
        table: &str,
        reason: &'static str,
        near_miss: Option<String>,
    ) -> Self {
        let rows = metrics.rows_not_sent(table, reason);
        let first = rows.is_first();
        if let Some(warning) = near_miss {
            let kept = status.is_some_and(|status| status.warn(warning.clone()));
            if first || kept {
                tracing::warn!(table, reason, "{warning}");
            }
        } else if first {
            tracing::info!(table, reason, "rows of this table are not sent");
        }
        Self { rows }
    }

    /// Counts one of them.
    pub(in crate::relay) fn count(&self) {
        self.rows.count();
    }
}

impl PassedRows {
    /// Counts a change of a captured table that makes no event.
    pub(in crate::relay) fn skip(
        &mut self,
        metrics: &Metrics,
        relation: Oid,
        table: &str,
        reason: &'static str,
    ) {
        metrics.skipped(reason, 1);
        self.count(metrics, relation, table, reason);
    }

    /// Counts a row of `table` for this reason, one from a fixed set.
    pub(in crate::relay) fn count(
        &mut self,
        metrics: &Metrics,
        relation: Oid,
        table: &str,
        reason: &'static str,
    ) {
        self.0
            .entry((relation, reason))
            .or_insert_with(|| NotSent::new(metrics, None, table, reason, None))
            .count();
    }
}

/// Warns of a captured table whose name is not captured any more.
pub(in crate::relay) fn renamed(status: &Status, table: &CapturedTable, schema: &str, name: &str) {
    let (before, now) = (table.full_name(), format!("{schema}.{name}"));
    let warning = format!(
        "table {before} is named {now} now: its rows are still sent, as rows of {before}. Before the next start, add \
         {now} to table.include.list"
    );
    if status.warn(warning.clone()) {
        tracing::warn!(table = before, "{warning}");
    }
}
