//! Wait until the slot has passed the rows.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cli::shell::progress::Progress;
use crate::postgres::{Error, SlotName, Sql};
use crate::wal::Lsn;

/// Interval between two queries for the slot.
const INTERVAL: Duration = Duration::from_millis(200);

/// A page of WAL, and the longest header that one begins with.
const PAGE_BYTES: u64 = 8192;
const HEADER_BYTES: u64 = 40;

/// Position of the slot relative to the rows that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotPosition {
    /// The relay has confirmed everything that the rows were read with.
    Passed,
    /// Before them; there may be rows that it has not sent yet.
    Behind { confirmed: Lsn, rows: Lsn },
    /// No such slot.
    Absent,
}

/// Waits until the slot has confirmed `rows`. An unused slot is not waited for.
pub(super) async fn wait(
    sql: &Sql,
    name: &SlotName,
    rows: Lsn,
    patience: Duration,
    progress: &Progress,
) -> Result<SlotPosition, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let Some(slot) = sql.slot(name).await? else { return Ok(SlotPosition::Absent) };
        let confirmed = slot.confirmed_flush_lsn.unwrap_or_default();
        if has_passed(confirmed, rows) {
            return Ok(SlotPosition::Passed);
        }
        if slot.active_pid.is_none() || Instant::now() >= deadline {
            return Ok(SlotPosition::Behind { confirmed, rows });
        }
        progress.waiting(&format!("waiting for the relay: the slot is at {confirmed}, the rows at {rows}"));
        sleep(INTERVAL).await;
    }
}

/// Returns whether the slot has passed the rows. The end of the WAL may be reported behind the header of an
/// otherwise empty page.
const fn has_passed(confirmed: Lsn, rows: Lsn) -> bool {
    let into_page = rows.get() % PAGE_BYTES;
    let reachable = if into_page <= HEADER_BYTES { rows.get() - into_page } else { rows.get() };
    confirmed.get() >= reachable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_page_is_nothing_to_wait_for() {
        let cases = [
            (100, 100, true),
            (99, 100, false),
            (8192, 8216, true),
            (8191, 8216, false),
            (8192, 8233, false),
        ];
        for (confirmed, rows, passed) in cases {
            assert_eq!(has_passed(Lsn::new(confirmed), Lsn::new(rows)), passed, "{confirmed} {rows}");
        }
    }
}
