/// Microseconds from the Unix epoch to 2000-01-01 00:00:00 UTC, where PostgreSQL's clock starts.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// A moment as the replication protocol writes it: microseconds since 2000-01-01 00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PgTimestamp(pub i64);

impl PgTimestamp {
    /// The same moment in microseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_us(self) -> i64 {
        self.0.saturating_add(POSTGRES_EPOCH_US)
    }

    /// The moment that is `us` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_unix_us(us: i64) -> Self {
        Self(us.saturating_sub(POSTGRES_EPOCH_US))
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
    fn the_clock_starts_in_2000_and_stops_at_its_ends() {
        assert_eq!(PgTimestamp(0).unix_us(), 946_684_800_000_000);
        assert_eq!(PgTimestamp::from_unix_us(0), PgTimestamp(-946_684_800_000_000));
        // PostgreSQL's infinity.
        assert_eq!(PgTimestamp(i64::MAX).unix_us(), i64::MAX);
        assert_eq!(PgTimestamp::from_unix_us(i64::MIN), PgTimestamp(i64::MIN));
    }
}
