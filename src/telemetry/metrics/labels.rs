use std::borrow::Cow;

/// One label and its value.
pub(super) type Label = [(&'static str, Cow<'static, str>); 1];

pub(super) const fn fixed(name: &'static str, value: &'static str) -> Label {
    [(name, Cow::Borrowed(value))]
}

pub(super) fn owned(name: &'static str, value: &str) -> Label {
    [(name, Cow::Owned(value.to_owned()))]
}

/// A change in the WAL, as pgoutput names it: `op` of `relay_wal_changes_total`.
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

    /// The value of the label.
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

/// A server that we reconnect to: `side` of `relay_reconnects_total`.
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

    /// The value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Kafka => "kafka",
        }
    }
}

/// Why no collector has a span: `reason` of `relay_spans_lost_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SpanLoss {
    /// `OTEL_BSP_MAX_QUEUE_SIZE` waited already.
    QueueFull,
    /// Its record was not acknowledged: it was not sent, or sent again.
    NotSent,
    /// The collector did not answer in time, or that it cannot just now.
    Unreachable,
    /// The collector does not take them.
    Refused,
}

impl SpanLoss {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::QueueFull, Self::NotSent, Self::Unreachable, Self::Refused];

    /// The value of the label.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::NotSent => "not_sent",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
        }
    }
}

/// What became of a Kafka transaction: `result` of `relay_kafka_transactions_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// Its rows are in Kafka for good.
    Committed,
    /// Its rows are taken back; they come again in another.
    Aborted,
}

impl TransactionEnd {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Committed, Self::Aborted];

    /// The value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Aborted => "aborted",
        }
    }
}

/// Why an event went to the dead-letter topic: `reason` of `relay_dead_letters_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeathCause {
    /// A column or a message cannot be read.
    Reading,
    /// It leads to no topic, no partition or no timestamp.
    Routing,
    /// A converter does not take it.
    Conversion,
    /// Kafka finds it too large.
    TooLarge,
    /// Kafka has no such topic.
    NoTopic,
    /// Kafka does not take it as it is: no such partition, a timestamp out of bounds, no key for a compacted topic.
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

    /// The value of the label.
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
    /// It is within `max_wal_size`.
    Reserved,
    /// It is beyond `max_wal_size`, but kept.
    Extended,
    /// Some of it goes at the next checkpoint.
    Unreserved,
    /// Some of it is gone; the slot is of no use any more.
    Lost,
}

impl WalStatus {
    /// All of them, from good to bad.
    pub const ALL: [Self; 4] = [Self::Reserved, Self::Extended, Self::Unreserved, Self::Lost];

    /// PostgreSQL's word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Extended => "extended",
            Self::Unreserved => "unreserved",
            Self::Lost => "lost",
        }
    }

    /// The status that PostgreSQL calls `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// How near the slot is to being lost, or the disk to being full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum SlotDanger {
    /// Not near.
    #[default]
    None,
    /// More WAL is held back than is usual.
    Watch,
    /// Most of what it may hold back is held back.
    Alarm,
    /// It may be lost at the next checkpoint.
    Unreserved,
    /// It is lost.
    Lost,
}

impl SlotDanger {
    /// The danger in probes and logs.
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

    /// The value of `relay_slot_danger`.
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
