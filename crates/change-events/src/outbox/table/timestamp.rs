//! The column of an event's timestamp.

use super::BoundColumn;
use connect_data::column::{Moment, parse_timestamp, parse_timestamptz};

/// The column of the record's timestamp.
#[derive(Debug)]
pub(in crate::outbox) struct EventTimestamp {
    pub(in crate::outbox) column: BoundColumn,
    pub(in crate::outbox) kind: TimestampKind,
}

/// The representation of time in the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::outbox) enum TimestampKind {
    Timestamp,
    /// A type that Debezium refuses.
    TimestampTz,
    /// A `bigint` with milliseconds since the Unix epoch. Debezium refuses it.
    EpochMillis,
}

impl TimestampKind {
    /// Returns the earliest time that Kafka accepts, as a literal of SQL.
    pub(in crate::outbox) const fn earliest(self) -> &'static str {
        match self {
            Self::Timestamp => "'1970-01-01'",
            Self::TimestampTz => "'1970-01-01 00:00:00+00'",
            Self::EpochMillis => "0",
        }
    }

    /// Reports whether a value is one of PostgreSQL's infinities.
    pub(in crate::outbox) fn is_infinite(self, text: &str) -> bool {
        self != Self::EpochMillis && ["infinity", "-infinity"].contains(&text)
    }

    /// Converts a value to milliseconds since the Unix epoch, truncated toward zero as by Java's division.
    /// Returns `None` for the infinities.
    pub(in crate::outbox) fn millis(self, text: &str) -> Option<i64> {
        let moment = match self {
            Self::EpochMillis => return text.parse().ok(),
            Self::Timestamp => parse_timestamp(text)?,
            Self::TimestampTz => parse_timestamptz(text)?,
        };
        match moment {
            Moment::At(micros) => Some(micros / 1000),
            Moment::Infinity | Moment::NegativeInfinity => None,
        }
    }
}
