use super::table::BoundColumn;
use crate::connect::column::{Moment, parse_timestamp, parse_timestamptz};

/// The column of the record's timestamp.
#[derive(Debug)]
pub(super) struct EventTimestamp {
    pub(super) column: BoundColumn,
    pub(super) kind: TimestampKind,
}

/// How the column counts time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimestampKind {
    Timestamp,
    /// Debezium refuses it.
    TimestampTz,
    /// A `bigint`. Debezium refuses it.
    EpochMillis,
}

impl TimestampKind {
    /// Milliseconds since the epoch, cut off toward zero as Java's division does. The infinities have none.
    pub(super) fn millis(self, text: &str) -> Option<i64> {
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
