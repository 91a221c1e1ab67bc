//! The time. The driver of the core reads the clock, once a turn; the core accepts the time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::wal::PgTimestamp;

/// One moment, for measurements and for output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) struct Now {
    /// For measurements.
    pub(in crate::relay) instant: Instant,
    /// For output: microseconds since the Unix epoch.
    pub(in crate::relay) unix_us: i64,
}

impl Now {
    /// Reads both clocks.
    pub(in crate::relay) fn read() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let unix_us = since.and_then(|since| i64::try_from(since.as_micros()).ok()).unwrap_or_default();
        Self { instant: Instant::now(), unix_us }
    }

    /// Returns the milliseconds since the Unix epoch.
    pub(in crate::relay) const fn unix_ms(self) -> i64 {
        self.unix_us / 1_000
    }

    /// Returns the time as PostgreSQL counts it.
    pub(in crate::relay) const fn postgres(self) -> PgTimestamp {
        PgTimestamp::from_unix_us(self.unix_us)
    }

    /// Returns the time for the status.
    pub(in crate::relay) fn system_time(self) -> SystemTime {
        let since = Duration::from_micros(u64::try_from(self.unix_us).unwrap_or_default());
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }
}
