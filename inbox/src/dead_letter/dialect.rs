//! Dialects of dead letters.

use super::{connect, outboxd, share_group, spring};

/// Naming scheme of the headers of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Headers of outboxd: `outboxd.errors.*`. The relay writes `__connect.errors.*` as well.
    Outboxd,
    /// Headers of Kafka Connect: `__connect.errors.*`.
    Connect,
    /// Headers of Spring for Apache Kafka: `kafka_dlt-*`.
    Spring,
    /// Headers of Kafka's share groups: `__dlq.errors.*`.
    ShareGroup,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 4] = [Self::Outboxd, Self::Connect, Self::Spring, Self::ShareGroup];

    /// Returns the name: `outboxd`, `connect`, `spring` or `share-group`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outboxd => "outboxd",
            Self::Connect => "connect",
            Self::Spring => "spring",
            Self::ShareGroup => "share-group",
        }
    }

    /// Returns the dialect that a header belongs to.
    pub(super) fn of_header(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| name.starts_with(dialect.prefix()))
    }

    /// Reports whether a header describes the failure. Such headers are omitted when the record is sent again.
    #[must_use]
    pub fn owns(self, name: &str) -> bool {
        match self {
            // The relay's dead letters have both.
            Self::Outboxd => [outboxd::PREFIX, connect::PREFIX].iter().any(|prefix| name.starts_with(prefix)),
            // With this count of attempts, Spring would give the record up at once.
            Self::Spring => name.starts_with(spring::PREFIX) || name.starts_with(spring::RETRY_PREFIX),
            Self::Connect | Self::ShareGroup => name.starts_with(self.prefix()),
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Outboxd => outboxd::PREFIX,
            Self::Connect => connect::PREFIX,
            Self::Spring => spring::PREFIX,
            Self::ShareGroup => share_group::PREFIX,
        }
    }
}
