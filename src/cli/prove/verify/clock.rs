//! Columns of a table with the time at which a row was written, and the order of rows.

use postgres_protocol::escape::escape_identifier;

use super::error::VerifyError;
use crate::connect::column::ColumnDescription;
use crate::wal::Oid;

/// Commit timestamps are taken a little before the commit is written: transactions that end together may have theirs the
/// wrong way round. In microseconds.
pub(super) const COMMIT_TIME_SLACK_US: i64 = 1_000_000;

/// Source of the time at which a row was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Clock {
    /// A column.
    Column(TimeColumn),
    /// `pg_xact_commit_timestamp`, with `track_commit_timestamp=on`.
    CommitTime,
    /// Nothing.
    Unknown,
}

/// A column with a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimeColumn {
    pub(super) name: String,
    kind: TimeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeKind {
    /// `timestamp`: UTC, as Debezium reads it.
    Timestamp,
    TimestampTz,
    /// `bigint`: milliseconds since 1970.
    EpochMillis,
}

/// The time range that is looked at; in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Window {
    pub(super) since_ms: Option<i64>,
    pub(super) until_ms: Option<i64>,
}

/// Source of the order of a key's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// A column, as a number that grows.
    Column(String),
    CommitTime,
    Unknown,
}

impl TimeColumn {
    pub(super) fn new(column: &ColumnDescription) -> Option<Self> {
        let kind = match column.type_oid {
            Oid(20) => TimeKind::EpochMillis,
            Oid(1114) => TimeKind::Timestamp,
            Oid(1184) => TimeKind::TimestampTz,
            _ => return None,
        };
        Some(Self { name: column.name.clone(), kind })
    }
}

impl Clock {
    /// Returns the milliseconds since 1970, as SQL.
    pub(super) fn millis(&self) -> String {
        match self {
            Self::Column(TimeColumn { name, kind: TimeKind::EpochMillis }) => escape_identifier(name),
            Self::Column(TimeColumn { name, .. }) => epoch(&escape_identifier(name), 1_000),
            Self::CommitTime => epoch(COMMIT_TIME, 1_000),
            Self::Unknown => "NULL".to_owned(),
        }
    }

    /// Returns the condition that limits rows to the window, as SQL that an index on the column serves.
    pub(super) fn condition(&self, window: Window) -> Option<String> {
        let bounds = [(window.since_ms, ">="), (window.until_ms, "<")];
        let conditions: Vec<_> = bounds
            .into_iter()
            .filter_map(|(bound, operator)| {
                Some(format!("{} {operator} {}", self.value()?, self.bound(bound?)?))
            })
            .collect();
        (!conditions.is_empty()).then(|| conditions.join(" AND "))
    }

    fn value(&self) -> Option<String> {
        match self {
            Self::Column(column) => Some(escape_identifier(&column.name)),
            Self::CommitTime => Some(COMMIT_TIME.to_owned()),
            Self::Unknown => None,
        }
    }

    fn bound(&self, millis: i64) -> Option<String> {
        let moment = format!("to_timestamp({millis} / 1000.0)");
        match self {
            Self::Column(TimeColumn { kind: TimeKind::EpochMillis, .. }) => Some(millis.to_string()),
            Self::Column(TimeColumn { kind: TimeKind::Timestamp, .. }) => {
                Some(format!("({moment} AT TIME ZONE 'UTC')"))
            }
            Self::Column(TimeColumn { kind: TimeKind::TimestampTz, .. }) | Self::CommitTime => Some(moment),
            Self::Unknown => None,
        }
    }
}

impl Order {
    /// Makes the order by a column.
    ///
    /// # Errors
    /// When its type has no order that can be compared as a number.
    pub(super) fn by(column: &ColumnDescription) -> Result<Self, VerifyError> {
        let name = escape_identifier(&column.name);
        match column.type_oid {
            Oid(20 | 21 | 23) => Ok(Self::Column(format!("{name}::bigint"))),
            Oid(1114 | 1184) => Ok(Self::Column(epoch(&name, 1_000_000))),
            _ => Err(VerifyError::Usage {
                problem: format!(
                    "--order-by: column \"{}\" is neither a number nor a timestamp",
                    column.name
                ),
                fix:
                    "name a smallint, integer, bigint, timestamp or timestamptz column that grows with each \
                       row of a key"
                        .to_owned(),
            }),
        }
    }

    /// Returns a number that grows with each row of a key, as SQL.
    pub(super) fn number(&self) -> String {
        match self {
            Self::Column(expression) => expression.clone(),
            Self::CommitTime => epoch(COMMIT_TIME, 1_000_000),
            Self::Unknown => "NULL".to_owned(),
        }
    }

    /// Returns by how much it may go back.
    pub(super) const fn slack(&self) -> i64 {
        match self {
            Self::Column(_) | Self::Unknown => 0,
            Self::CommitTime => COMMIT_TIME_SLACK_US,
        }
    }
}

/// A row without a transaction, as a foreign table may have one, has no time.
const COMMIT_TIME: &str = "(CASE WHEN xmin::text <> '0' THEN pg_xact_commit_timestamp(xmin) END)";

fn epoch(moment: &str, per_second: u32) -> String {
    format!("(CASE WHEN isfinite({moment}) THEN (extract(epoch FROM {moment}) * {per_second})::bigint END)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::column::TypeKind;

    fn column(type_oid: u32) -> ColumnDescription {
        ColumnDescription {
            name: "at\"".to_owned(),
            type_oid: Oid(type_oid),
            type_modifier: -1,
            kind: TypeKind::Base { name: "x".to_owned() },
            not_null: true,
            default: None,
            key_position: None,
        }
    }

    #[test]
    fn a_window_is_a_condition_on_the_bare_column() {
        let window = Window { since_ms: Some(1_500), until_ms: Some(2_000) };
        let cases = [
            (20, "\"at\"\"\" >= 1500 AND \"at\"\"\" < 2000"),
            (
                1114,
                "\"at\"\"\" >= (to_timestamp(1500 / 1000.0) AT TIME ZONE 'UTC') AND \"at\"\"\" < (to_timestamp(2000 / 1000.0) AT \
                 TIME ZONE 'UTC')",
            ),
            (1184, "\"at\"\"\" >= to_timestamp(1500 / 1000.0) AND \"at\"\"\" < to_timestamp(2000 / 1000.0)"),
        ];
        for (type_oid, expected) in cases {
            let clock = Clock::Column(TimeColumn::new(&column(type_oid)).unwrap());
            assert_eq!(clock.condition(window).as_deref(), Some(expected));
            assert_eq!(clock.condition(Window::default()), None);
        }
        assert_eq!(TimeColumn::new(&column(25)), None);
        assert_eq!(Clock::Unknown.condition(window), None);
    }

    #[test]
    fn rows_are_ordered_by_numbers_and_times_only() {
        for (type_oid, is_order) in
            [(20, true), (21, true), (23, true), (1114, true), (1184, true), (25, false)]
        {
            assert_eq!(Order::by(&column(type_oid)).is_ok(), is_order, "{type_oid}");
        }
    }
}
