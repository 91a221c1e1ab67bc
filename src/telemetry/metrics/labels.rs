//! Labels of the series.

use std::borrow::Cow;

/// One label and its value.
pub(super) type Label = [(&'static str, Cow<'static, str>); 1];

pub(super) const fn fixed(name: &'static str, value: &'static str) -> Label {
    [(name, Cow::Borrowed(value))]
}

pub(super) fn owned(name: &'static str, value: &str) -> Label {
    [(name, Cow::Owned(value.to_owned()))]
}

/// A change in the WAL, as pgoutput names it: `op` of `outboxd_wal_changes_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// An INSERT.
    Insert,
    /// An UPDATE.
    Update,
    /// A DELETE.
    Delete,
    /// A TRUNCATE.
    Truncate,
    /// A `pg_logical_emit_message`.
    Message,
}

impl Change {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Insert, Self::Update, Self::Delete, Self::Truncate, Self::Message];

    /// Returns the value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Message => "message",
        }
    }
}

/// A server that we reconnect to: `side` of `outboxd_reconnects_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// PostgreSQL.
    Postgres,
    /// Kafka.
    Kafka,
}

impl Peer {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::Kafka];

    /// Returns the value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Kafka => "kafka",
        }
    }
}

/// Reasons why no collector has a span: `reason` of `outboxd_spans_lost_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SpanLoss {
    /// `OTEL_BSP_MAX_QUEUE_SIZE` waited already.
    QueueFull,
    /// Not acknowledged: not sent, or sent again.
    NotSent,
    /// The collector did not answer in time, or that it cannot just now.
    Unreachable,
    /// The collector does not take them.
    Refused,
}

impl SpanLoss {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::QueueFull, Self::NotSent, Self::Unreachable, Self::Refused];

    /// Returns the value of the label.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::NotSent => "not_sent",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
        }
    }
}

/// Result of a Kafka transaction: `result` of `outboxd_kafka_transactions_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// Committed: its rows are in Kafka for good.
    Committed,
    /// Aborted: its rows come again in another.
    Aborted,
}

impl TransactionEnd {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Committed, Self::Aborted];

    /// Returns the value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Aborted => "aborted",
        }
    }
}

/// Reasons why an event went to the dead-letter topic: `reason` of `outboxd_dead_letters_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeathCause {
    /// A column or a message cannot be read.
    Reading,
    /// No topic, partition or timestamp results from it.
    Routing,
    /// A converter does not take it.
    Conversion,
    /// Kafka finds it too large.
    TooLarge,
    /// Kafka has no such topic.
    NoTopic,
    /// Kafka refuses it: no such partition, a timestamp out of bounds, no key for a compacted topic.
    Invalid,
    /// An earlier event of its key went there.
    Key,
}

impl DeathCause {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Reading,
        Self::Routing,
        Self::Conversion,
        Self::TooLarge,
        Self::NoTopic,
        Self::Invalid,
        Self::Key,
    ];

    /// Returns the value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Routing => "routing",
            Self::Conversion => "conversion",
            Self::TooLarge => "too_large",
            Self::NoTopic => "no_topic",
            Self::Invalid => "invalid",
            Self::Key => "key",
        }
    }
}

/// `pg_replication_slots.wal_status`: whether the WAL that the slot needs is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WalStatus {
    /// Within `max_wal_size`.
    Reserved,
    /// Beyond `max_wal_size`, but retained.
    Extended,
    /// Partly removed at the next checkpoint.
    Unreserved,
    /// Partly removed; the slot is unusable.
    Lost,
}

impl WalStatus {
    /// All of them, from good to bad.
    pub const ALL: [Self; 4] = [Self::Reserved, Self::Extended, Self::Unreserved, Self::Lost];

    /// Returns PostgreSQL's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Extended => "extended",
            Self::Unreserved => "unreserved",
            Self::Lost => "lost",
        }
    }

    /// Returns the status that PostgreSQL calls `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// Nearness of the slot to being lost, or of the disk to being full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum SlotDanger {
    /// None.
    #[default]
    None,
    /// More WAL is held back than is usual.
    Watch,
    /// Most of what it may hold back is held back.
    Alarm,
    /// May be lost at the next checkpoint.
    Unreserved,
    /// Lost.
    Lost,
}

impl SlotDanger {
    /// Returns the name in probes and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Watch => "watch",
            Self::Alarm => "alarm",
            Self::Unreserved => "unreserved",
            Self::Lost => "lost",
        }
    }

    /// Returns the value of `outboxd_slot_danger`.
    #[must_use]
    pub const fn rank(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Watch => 1,
            Self::Alarm => 2,
            Self::Unreserved => 3,
            Self::Lost => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wal_status_is_read_by_its_name() {
        for status in WalStatus::ALL {
            assert_eq!(WalStatus::from_name(status.name()), Some(status));
        }
        assert_eq!(WalStatus::from_name("Lost"), None);
    }
}
