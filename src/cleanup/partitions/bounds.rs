//! Ranges of partitions.

use jiff::civil::DateTime;

/// The types of keys whose ranges we can read. PostgreSQL writes times in UTC for us: see `postgres::login`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyType {
    /// `smallint`, `integer`, `bigint`.
    Number,
    /// `timestamp with time zone`.
    Moment,
    /// `date` and `timestamp`: of a zone that only the application knows.
    Local,
}

/// Begin or end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bound {
    Number(i64),
    Time(DateTime),
}

/// The values that a partition takes: from the first, and not the last. None is MINVALUE or MAXVALUE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) lower: Option<Bound>,
    pub(crate) upper: Option<Bound>,
}

impl KeyType {
    /// Returns the key type for a type by PostgreSQL's name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "smallint" | "integer" | "bigint" => Some(Self::Number),
            "timestamp with time zone" => Some(Self::Moment),
            // Quoted with quote_all_identifiers.
            "date" | "\"date\"" | "timestamp without time zone" => Some(Self::Local),
            _ => None,
        }
    }

    fn bound(self, text: &str) -> Option<Bound> {
        let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
        match self {
            Self::Number => text.parse().ok().map(Bound::Number),
            Self::Moment => text.strip_suffix("+00")?.parse().ok().map(Bound::Time),
            Self::Local => text.parse().ok().map(Bound::Time),
        }
    }
}

impl Range {
    /// Parses the output of `pg_get_expr` for a partition. Returns none for the default partition, several
    /// columns, and other values.
    pub(super) fn read(text: &str, key: KeyType) -> Option<Self> {
        let (lower, upper) =
            text.strip_prefix("FOR VALUES FROM (")?.strip_suffix(')')?.split_once(") TO (")?;
        let read = |text: &str, open: &str| match text {
            text if text == open => Some(None),
            text => key.bound(text).map(Some),
        };
        Some(Self { lower: read(lower, "MINVALUE")?, upper: read(upper, "MAXVALUE")? })
    }
}

impl Bound {
    /// Returns the literal for SQL.
    pub(super) fn literal(self, key: Option<KeyType>) -> String {
        match self {
            Self::Number(number) => format!("'{number}'"),
            Self::Time(time) => {
                let zone = if key == Some(KeyType::Moment) { "+00" } else { "" };
                format!("'{}{zone}'", time.strftime("%Y-%m-%d %H:%M:%S%.f"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn ranges_are_read_as_postgres_writes_them() {
        let time = |day| Some(Bound::Time(date(2026, 1, day).at(0, 0, 0, 0)));
        let number = |number| Some(Bound::Number(number));
        let range = |lower, upper| Some(Range { lower, upper });
        let cases = [
            (
                "FOR VALUES FROM ('2026-01-30 00:00:00+00') TO ('2026-01-31 00:00:00+00')",
                KeyType::Moment,
                range(time(30), time(31)),
            ),
            (
                "FOR VALUES FROM ('2026-01-30 00:00:00') TO ('2026-01-31 00:00:00')",
                KeyType::Local,
                range(time(30), time(31)),
            ),
            ("FOR VALUES FROM ('2026-01-30') TO ('2026-01-31')", KeyType::Local, range(time(30), time(31))),
            ("FOR VALUES FROM ('1') TO ('1000')", KeyType::Number, range(number(1), number(1_000))),
            ("FOR VALUES FROM (1) TO (1000)", KeyType::Number, range(number(1), number(1_000))),
            ("FOR VALUES FROM (MINVALUE) TO (1000)", KeyType::Number, range(None, number(1_000))),
            ("FOR VALUES FROM (1) TO (MAXVALUE)", KeyType::Number, range(number(1), None)),
            ("DEFAULT", KeyType::Number, None),
            ("FOR VALUES IN (1)", KeyType::Number, None),
            ("FOR VALUES FROM (1, 2) TO (2, 1)", KeyType::Number, None),
            ("FOR VALUES FROM ('-infinity') TO ('2026-01-31')", KeyType::Local, None),
            (
                "FOR VALUES FROM ('2026-01-30 00:00:00+01') TO ('2026-01-31 00:00:00+01')",
                KeyType::Moment,
                None,
            ),
        ];
        for (text, key, expected) in cases {
            assert_eq!(Range::read(text, key), expected, "{text}");
        }
    }

    #[test]
    fn a_bound_is_written_as_it_is_read() {
        for (text, key) in [
            ("'2026-01-30 10:20:30.5+00'", KeyType::Moment),
            ("'2026-01-30 00:00:00'", KeyType::Local),
            ("'-5'", KeyType::Number),
        ] {
            assert_eq!(key.bound(text).unwrap().literal(Some(key)), text);
        }
    }
}
