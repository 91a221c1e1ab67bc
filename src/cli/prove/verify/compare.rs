//! Compares what was read, one range of identities after another.

use super::error::VerifyError;
use super::report::Report;
use super::scratch::{RANGES, Spill};
use crate::cli::shell::progress::Progress;
use crate::verification::{Change, Comparison, Expected, Found, Latest, OrderCheck, OrderEntry, Row, Tally};

/// Rows and records.
pub(super) struct Entries {
    pub(super) rows: Spill<Expected>,
    pub(super) records: Spill<Found>,
    /// Room for what the order of keys needs.
    pub(super) orders: Spill<OrderEntry>,
}

/// Reports all findings.
pub(super) async fn compare(
    mut comparison: Comparison,
    entries: Entries,
    check: OrderCheck,
    report: &mut Report,
    progress: &Progress,
) -> Result<Tally, VerifyError> {
    let Entries { mut rows, mut records, mut orders } = entries;
    progress.begin("comparing", Some(RANGES.end));
    for range in RANGES {
        let compared = comparison.compare(rows.take(range)?, records.take(range)?);
        compared.findings.iter().for_each(|finding| report.report(finding));
        compared.orders.iter().try_for_each(|entry| orders.add(entry))?;
        progress.step();
        // A signal is received here.
        tokio::task::yield_now().await;
    }
    progress.begin("looking at the order", Some(RANGES.end));
    for range in RANGES {
        comparison
            .compare_order(orders.take(range)?, check)
            .iter()
            .for_each(|finding| report.report(finding));
        progress.step();
        tokio::task::yield_now().await;
    }
    Ok(comparison.tally)
}

/// Reports all findings about the last records of keys.
pub(super) async fn compare_latest(
    mut comparison: Latest,
    mut rows: Spill<Row>,
    mut changes: Spill<Change>,
    report: &mut Report,
    progress: &Progress,
) -> Result<Tally, VerifyError> {
    progress.begin("comparing", Some(RANGES.end));
    for range in RANGES {
        let findings = comparison.compare(rows.take(range)?, changes.take(range)?);
        findings.iter().for_each(|finding| report.report(finding));
        progress.step();
        // A signal is received here.
        tokio::task::yield_now().await;
    }
    Ok(comparison.tally)
}
