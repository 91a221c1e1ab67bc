//! Comparison of a relay's result with its case.

use std::ops::RangeInclusive;
use std::time::SystemTime;

use super::case::{Base, Case, Expected, mask};
use crate::support::record::Record;

/// Maximum difference between the clocks of a test and of a record for the record's time to be "now".
const NOW_TOLERANCE_MS: i64 = 60_000;

/// Compares exit code and records with the case. `started_ms` is when the case began, or when it was recorded.
pub(super) fn compare(case: &Case, exit: i32, records: &[Record], started_ms: i64) -> Result<(), String> {
    let run_ms = started_ms - NOW_TOLERANCE_MS..=now_ms() + NOW_TOLERANCE_MS;
    compare_records(case, exit, &as_expected(case, records, run_ms))
}

/// Returns the records as a case writes them.
fn as_expected(case: &Case, records: &[Record], run_ms: RangeInclusive<i64>) -> Vec<Expected> {
    let mut records: Vec<_> = records.iter().map(|record| Expected::of(record, *run_ms.start())).collect();
    if case.base == Base::Tables {
        mask(&mut records, run_ms);
    }
    records
}

fn compare_records(case: &Case, exit: i32, records: &[Expected]) -> Result<(), String> {
    let expected_exit = case.fails.unwrap_or(0);
    if exit != expected_exit {
        return Err(format!("exit code {exit}, expected {expected_exit}"));
    }
    if let Some((expected, actual)) = case.records.iter().zip(records).find(|(a, b)| a != b) {
        let others = records.iter().filter(|record| !case.records.contains(record));
        let missing = case.records.iter().filter(|record| !records.contains(record));
        return Err(format!(
            "expected {expected:?}\ngot      {actual:?}\n{} expected, {} came, {} of them others, {} missing",
            case.records.len(),
            records.len(),
            others.count(),
            missing.count()
        ));
    }
    match case.records.len() == records.len() {
        true => Ok(()),
        false => Err(format!("{} records expected, {} came", case.records.len(), records.len())),
    }
}

pub(super) fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(elapsed.as_millis()).unwrap()
}
