use super::{connect, outboxd, share_group, spring};

/// Whose headers a dead letter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// outboxd's: `outboxd.errors.*`. The relay writes `__connect.errors.*` besides.
    Outboxd,
    /// Kafka Connect's: `__connect.errors.*`.
    Connect,
    /// Spring for Apache Kafka's: `kafka_dlt-*`.
    Spring,
    /// Of Kafka's share groups: `__dlq.errors.*`.
    ShareGroup,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Outboxd, Self::Connect, Self::Spring, Self::ShareGroup];

    /// `outboxd`, `connect`, `spring` or `share-group`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outboxd => "outboxd",
            Self::Connect => "connect",
            Self::Spring => "spring",
            Self::ShareGroup => "share-group",
        }
    }

    /// The dialect that a header shows.
    pub(super) fn of_header(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| name.starts_with(dialect.prefix()))
    }

    /// Whether a header is about the failure. It is left out when the record is sent again.
    #[must_use]
    pub fn owns(self, name: &str) -> bool {
        match self {
            // The relay's letters have both.
            Self::Outboxd => [outboxd::PREFIX, connect::PREFIX].iter().any(|prefix| name.starts_with(prefix)),
            // With its count of attempts, Spring would give the record up at once.
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
