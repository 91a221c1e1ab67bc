//! The time. Whoever drives the core reads the clock, once a turn; the core takes the time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::wal::PgTimestamp;

/// One moment, for measuring and for telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Now {
    /// For what is measured.
    pub(super) instant: Instant,
    /// For what is told: microseconds since the Unix epoch.
    pub(super) unix_us: i64,
}

impl Now {
    /// Reads both clocks.
    pub(super) fn read() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let unix_us = since.and_then(|since| i64::try_from(since.as_micros()).ok()).unwrap_or_default();
        Self { instant: Instant::now(), unix_us }
    }

    /// Milliseconds since the Unix epoch.
    pub(super) const fn unix_ms(self) -> i64 {
        self.unix_us / 1_000
    }

    /// As PostgreSQL counts.
    pub(super) const fn postgres(self) -> PgTimestamp {
        PgTimestamp::from_unix_us(self.unix_us)
    }

    /// As the status tells it.
    pub(super) fn system_time(self) -> SystemTime {
        let since = Duration::from_micros(u64::try_from(self.unix_us).unwrap_or_default());
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }
}
