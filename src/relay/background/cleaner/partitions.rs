//! The part of the cleaner that creates future partitions, and removes those whose rows have all been sent.

use tokio_util::sync::CancellationToken;

use crate::cleanup::{CleanupOptions, Event, Partitions, Pass, PassError, SkipReason, Tree};
use crate::postgres::{Error, Sql, TableFacts};
use crate::relay::parts::RelayParts;
use crate::telemetry::Metrics;

/// Creates the partitions that these tables will need, unless another program does.
pub(super) async fn make(sql: &Sql, options: &CleanupOptions, tables: &[TableFacts]) -> Result<(), Error> {
    if options.partitions == Partitions::Rows && options.partitions_ahead == 0 {
        return Ok(());
    }
    for table in tables {
        let Some(tree) = Tree::look(sql, table).await? else { continue };
        match tree.manager.reason() {
            Some(reason) => {
                tracing::warn!(table = tree.name(), reason, "cleanup skips the partitions");
            }
            None => {
                tree.make(sql, options.partitions_ahead, |event| report_made(&tree.name(), event)).await?;
            }
        }
    }
    Ok(())
}

/// Drops or detaches partitions of a table, unless another program does.
pub(super) async fn take(
    parts: &RelayParts,
    pass: &Pass<'_>,
    tree: &Tree,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> Result<(), PassError> {
    if tree.manager.reason().is_some() {
        return Ok(());
    }
    let captured = |schema: &str, name: &str| is_captured(parts, schema, name);
    pass.take_partitions(tree, captured, stop, |event| report(metrics, event)).await
}

/// Returns whether a table of this name that is not a partition would be captured, or could be by its
/// columns.
pub(crate) fn is_captured(parts: &RelayParts, schema: &str, name: &str) -> bool {
    parts.tables.excluded_by(schema, name).is_none()
}

fn report_made(table: &str, event: Event) {
    match event {
        Event::Made(partition) => tracing::info!(table = partition, "created a partition"),
        Event::NotMade(partition, reason) => {
            tracing::warn!(table = partition, reason, "cannot create a partition; retrying");
        }
        Event::Irregular(reason) => tracing::warn!(table, %reason, "no partitions are created"),
        Event::Gone { .. } | Event::Skipped(..) => {}
    }
}

fn report(metrics: &Metrics, event: Event) {
    match event {
        Event::Gone { name, rows, file } => {
            metrics.partition_taken(rows);
            tracing::info!(table = name, rows, file, "removed a partition: all its rows have been sent");
        }
        Event::Skipped(partition, reason @ (SkipReason::Busy | SkipReason::Slow)) => {
            metrics.cleaned(0, 1);
            if reason == SkipReason::Slow {
                tracing::warn!(table = partition, %reason, "keeping a partition");
            } else {
                tracing::debug!(table = partition, %reason, "keeping a partition");
            }
        }
        // The most frequent reason: every pass would log it.
        Event::Skipped(partition, reason @ SkipReason::Unproven) => {
            tracing::debug!(table = partition, %reason, "keeping a partition");
        }
        Event::Skipped(partition, reason) => {
            tracing::warn!(table = partition, %reason, "keeping a partition")
        }
        Event::Made(_) | Event::NotMade(..) | Event::Irregular(_) => {}
    }
}
