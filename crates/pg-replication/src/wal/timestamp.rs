//! Times of the replication protocol.

use std::time::Duration;

/// Microseconds from the Unix epoch to 2000-01-01 00:00:00 UTC, where PostgreSQL's clock starts.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// A point in time as in the replication protocol: microseconds since 2000-01-01 00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PgTimestamp(pub i64);

impl PgTimestamp {
    /// Returns the same time in microseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_us(self) -> i64 {
        self.0.saturating_add(POSTGRES_EPOCH_US)
    }

    /// Returns the time `us` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_unix_us(us: i64) -> Self {
        Self(us.saturating_sub(POSTGRES_EPOCH_US))
    }

    /// Returns the duration since `earlier`; zero if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let us = self.0.saturating_sub(earlier.0);
        Duration::from_micros(if us > 0 { us.unsigned_abs() } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_moment_survives_the_way_to_unix_and_back(us in i64::MIN..i64::MAX - POSTGRES_EPOCH_US) {
            prop_assert_eq!(PgTimestamp::from_unix_us(PgTimestamp(us).unix_us()), PgTimestamp(us));
        }
    }

    #[test]
    fn a_moment_is_never_a_negative_time_after_another() {
        let [a, b] = [PgTimestamp(-5), PgTimestamp(7)];
        assert_eq!((b.since(a), a.since(b)), (Duration::from_micros(12), Duration::ZERO));
        assert_eq!(
            PgTimestamp(i64::MAX).since(PgTimestamp(i64::MIN)),
            Duration::from_micros(i64::MAX.unsigned_abs())
        );
    }

    #[test]
    fn the_clock_starts_in_2000_and_stops_at_its_ends() {
        assert_eq!(PgTimestamp(0).unix_us(), 946_684_800_000_000);
        assert_eq!(PgTimestamp::from_unix_us(0), PgTimestamp(-946_684_800_000_000));
        // PostgreSQL's infinity.
        assert_eq!(PgTimestamp(i64::MAX).unix_us(), i64::MAX);
        assert_eq!(PgTimestamp::from_unix_us(i64::MIN), PgTimestamp(i64::MIN));
    }
}
