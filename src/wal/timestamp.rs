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
