//! The column that a polling relay writes into when it has sent a row.

use postgres_protocol::escape::escape_identifier;

use crate::cli::shell::marks::{FLAGS, STATES, TIMES, is_condition_on};
use crate::cli::shell::text::clean;
use crate::postgres::{Error, Sql, TableFacts};

/// Maximum number of unmarked rows that are counted.
const ROWS_MAX: i64 = 100_000;

/// Mark of a sent row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Mark {
    /// A time; NULL until then.
    Time(String),
    /// A boolean or a number; false or 0 until then.
    Flag { column: String, is_number: bool },
    /// A state whose meaning is defined by the program.
    State(String),
    /// None: rows that were sent are deleted.
    Deletes,
}

/// Number of rows that a program has not marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unmarked {
    /// Number of rows; one more than [`ROWS_MAX`] means more than that.
    Rows(i64),
    /// Rows by the value of the column, the most frequent first.
    States(Vec<(String, i64)>),
}

impl Mark {
    /// Returns every column that may be the mark, the likeliest first. `typed` gives a column and its type for a plain name. A program
    /// with a status often writes a time as well, and reads by the status.
    pub(super) fn among<'c>(
        preset: Option<&'static str>,
        typed: impl Fn(&str) -> Option<(&'c str, &'c str)>,
    ) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for name in preset.into_iter().chain(STATES).chain(FLAGS).chain(TIMES) {
            let mark = typed(name).map(|(column, kind)| Self::of(name, column, kind));
            found.extend(mark.filter(|mark| found.iter().all(|other| other.column() != mark.column())));
        }
        found
    }

    fn of(name: &str, column: &str, kind: &str) -> Self {
        let (column, is_state) = (column.to_owned(), STATES.contains(&name));
        match kind {
            "bool" => Self::Flag { column, is_number: false },
            "int2" | "int4" | "int8" if !is_state => Self::Flag { column, is_number: true },
            "timestamp" | "timestamptz" | "date" => Self::Time(column),
            _ if TIMES.contains(&name) => Self::Time(column),
            _ => Self::State(column),
        }
    }

    /// Moves the column in the condition of a partial index to the front: the program reads by it.
    pub(in crate::cli) fn by_indexes(mut marks: Vec<Self>, conditions: &[String]) -> Vec<Self> {
        let is_read = |mark: &Self| {
            let names = |column| conditions.iter().any(|condition| is_condition_on(condition, column));
            mark.column().is_some_and(names)
        };
        marks.sort_by_key(|mark| !is_read(mark));
        marks
    }

    pub(in crate::cli) fn column(&self) -> Option<&str> {
        match self {
            Self::Time(column) | Self::Flag { column, .. } | Self::State(column) => Some(column),
            Self::Deletes => None,
        }
    }

    /// Returns the command that shows how to migrate from such a program; none where its rows are only deleted.
    pub(in crate::cli) fn migrate_command(&self, config: &str) -> Option<String> {
        let mark = match self {
            Self::Time(column) | Self::Flag { column, is_number: false } => column.clone(),
            Self::Flag { column, is_number: true } => format!("{column}=1"),
            Self::State(column) => format!("{column}=VALUE-OF-SENT-ROWS"),
            Self::Deletes => return None,
        };
        Some(format!("outboxd migrate plan -c {config} --mark {}", clean(&mark)))
    }

    /// Counts the rows that are not marked: every row for a program that deletes sent rows.
    pub(super) async fn unmarked(&self, sql: &Sql, table: &TableFacts) -> Result<Unmarked, Error> {
        const DOING: &str = "counting rows that are not marked as sent";
        let (table, get) = (table.quoted(), |error| Error::sql(DOING, error));
        let column = escape_identifier(self.column().unwrap_or_default());
        if matches!(self, Self::State(_)) {
            let text = format!(
                "select coalesce(state, 'NULL'), count(*) from (select {column}::text as state from {table} limit {ROWS_MAX}) s \
                 group by 1 order by 2 desc, 1 limit 8"
            );
            let rows = sql.query(DOING, &text, &[]).await?;
            let states =
                rows.iter().map(|row| Ok((row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?)));
            return states.collect::<Result<_, _>>().map(Unmarked::States);
        }
        let unsent = match self {
            Self::Time(_) => format!("{column} is null"),
            Self::Flag { is_number: false, .. } => format!("{column} is not true"),
            Self::Flag { is_number: true, .. } => format!("coalesce({column}, 0) = 0"),
            Self::State(_) | Self::Deletes => "true".to_owned(),
        };
        let text =
            format!("select count(*) from (select from {table} where {unsent} limit {ROWS_MAX} + 1) s");
        let rows = sql.query(DOING, &text, &[]).await?;
        rows.first().map_or(Ok(Unmarked::Rows(0)), |row| row.try_get(0).map(Unmarked::Rows).map_err(get))
    }
}

impl Unmarked {
    /// Returns the number as text.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Rows(1) => "1 row is not marked".to_owned(),
            Self::Rows(rows) if *rows > ROWS_MAX => format!("more than {ROWS_MAX} rows are not marked"),
            Self::Rows(rows) => format!("{rows} rows are not marked"),
            Self::States(states) if states.is_empty() => "there are no rows".to_owned(),
            Self::States(states) => {
                let states: Vec<_> = states.iter().map(|(state, rows)| format!("{state} {rows}")).collect();
                format!("rows by what it holds: {}", states.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_what_its_type_says() {
        let flag = |column: &str, is_number| Mark::Flag { column: column.to_owned(), is_number };
        let (time, state) =
            (|column: &str| Mark::Time(column.to_owned()), |column: &str| Mark::State(column.to_owned()));
        let cases = [
            (&[("published_at", "timestamptz")][..], vec![time("published_at")]),
            (&[("published", "bool"), ("id", "uuid")], vec![flag("published", false)]),
            (&[("published", "int2")], vec![flag("published", true)]),
            (&[("status", "int4")], vec![state("status")]),
            (&[("ProcessedAt", "timestamp"), ("Status", "text")], vec![state("Status"), time("ProcessedAt")]),
            (&[("sent", "timestamptz")], vec![time("sent")]),
            (&[("SentTime", "timestamptz"), ("created_at", "timestamptz")], vec![]),
        ];
        for (columns, expected) in cases {
            let plain = |name: &str| name.to_lowercase().replace('_', "");
            let typed = |name: &str| columns.iter().find(|(column, _)| plain(column) == name).copied();
            assert_eq!(Mark::among(None, typed), expected, "{columns:?}");
        }
    }

    #[test]
    fn the_column_of_a_partial_index_comes_first() {
        let (state, time) = (Mark::State("status".to_owned()), Mark::Time("sent_at".to_owned()));
        let both = || vec![state.clone(), time.clone()];
        assert_eq!(Mark::by_indexes(both(), &[]), both());
        let conditions = ["(sent_at IS NULL)".to_owned()];
        assert_eq!(Mark::by_indexes(both(), &conditions), [time.clone(), state.clone()]);
    }

    #[test]
    fn unmarked_rows_are_reported() {
        let states = vec![("PENDING".to_owned(), 3), ("NULL".to_owned(), 1)];
        for (unmarked, told) in [
            (Unmarked::Rows(0), "0 rows are not marked"),
            (Unmarked::Rows(1), "1 row is not marked"),
            (Unmarked::Rows(100_001), "more than 100000 rows are not marked"),
            (Unmarked::States(Vec::new()), "there are no rows"),
            (Unmarked::States(states), "rows by what it holds: PENDING 3, NULL 1"),
        ] {
            assert_eq!(unmarked.told(), told);
        }
    }
}
