//! Counts of rows that are not sent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Most pairs of table and reason that get a series of their own. Later ones are counted by reason alone, as
/// `table="other"`: tables may come and go for years.
pub(crate) const NOT_SENT_LABELS_MAX: usize = 200;

type Labels = [(&'static str, Cow<'static, str>); 2];

/// Reason for an update that changes no captured column.
pub(crate) const UNCHANGED: &str = "unchanged";

/// `outboxd_rows_not_sent_total` by table and reason.
#[derive(Debug, Default)]
pub(super) struct RowsNotSent {
    pub(super) family: Family<Labels, Counter>,
    named: Mutex<HashSet<(Box<str>, &'static str)>>,
}

/// Name that stands for the tables beyond the limit.
const OTHER: &str = "other";

/// Counts the rows of one table that are not sent for one reason: one addition for each row.
#[derive(Debug, Clone, Default)]
pub struct RowTally {
    rows: Counter,
    first: bool,
}

impl RowsNotSent {
    pub(super) fn tally(&self, table: &str, reason: &'static str) -> RowTally {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let room = named.len() < NOT_SENT_LABELS_MAX;
        let first = room && named.insert((table.into(), reason));
        let known = first || named.contains(&(table.into(), reason));
        let table = if known { Cow::Owned(table.to_owned()) } else { Cow::Borrowed(OTHER) };
        let rows = self.family.get_or_create_owned(&labels(table, reason));
        RowTally { rows, first }
    }

    /// Returns table, reason and rows of each pair that is named.
    pub(super) fn counts(&self) -> Vec<(String, &'static str, u64)> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |(table, reason): &(Box<str>, &'static str)| {
            let rows = self.family.get(&labels(Cow::Owned(table.to_string()), reason))?.get();
            Some((table.to_string(), *reason, rows))
        };
        named.iter().filter_map(count).collect()
    }
}

const fn labels(table: Cow<'static, str>, reason: &'static str) -> Labels {
    [("table", table), ("reason", Cow::Borrowed(reason))]
}

impl RowTally {
    /// Returns whether this pair was requested for the first time.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.first
    }

    /// Counts one row.
    pub fn count(&self) {
        self.rows.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigInfo, Metrics};
    use super::*;

    #[test]
    fn a_pair_is_new_once_and_later_ones_share_a_series() {
        let metrics = Metrics::new(&ConfigInfo::default());
        assert!(metrics.rows_not_sent("public.a", "columns").is_first());
        assert!(!metrics.rows_not_sent("public.a", "columns").is_first());
        assert!(metrics.rows_not_sent("public.a", "delete").is_first());
        for table in 0..NOT_SENT_LABELS_MAX + 50 {
            metrics.rows_not_sent(&format!("public.t{table}"), "columns").count();
        }
        let page = metrics.encode().unwrap();
        let series = page.lines().filter(|line| line.starts_with("outboxd_rows_not_sent_total{")).count();
        assert_eq!(series, NOT_SENT_LABELS_MAX + 1);
        assert!(page.contains("outboxd_rows_not_sent_total{table=\"public.t0\",reason=\"columns\"} 1\n"));
        assert!(page.contains("outboxd_rows_not_sent_total{table=\"other\",reason=\"columns\"} 52\n"));
    }
}
