//! Column by which a poller distinguishes sent rows.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::cli::change::migrate::error::MigrateError;
use crate::cli::shell::marks::{FLAGS, STATES, TIMES, is_condition_on, plain};
use crate::connect::column::ColumnDescription;
use crate::postgres::{Handover, HandoverPhase};

/// Object ids of `date`, `timestamp` and `timestamptz`; then of `bool`; then of texts and numbers.
const TIME_TYPES: [u32; 3] = [1082, 1114, 1184];
const FLAG_TYPE: u32 = 16;
const VALUE_TYPES: [u32; 7] = [20, 21, 23, 25, 1042, 1043, 1700];

/// Mark of a sent row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    column: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// NULL until the row was sent.
    Time,
    /// False until then.
    Flag,
    /// Another value until then.
    Value { sent: String, unsent: Vec<String> },
}

impl Mark {
    /// Returns the mark that the user names (`COLUMN` or `COLUMN=VALUE`), or else the only column with a known name.
    /// For several such columns the error names the likeliest: the one in the condition of a partial index
    /// (`conditions`).
    pub(super) fn find(
        table: &str,
        columns: &[ColumnDescription],
        conditions: &[String],
        named: Option<&str>,
        unsent: &[String],
    ) -> Result<Self, MigrateError> {
        let Some(named) = named else { return Self::known(table, columns, conditions) };
        let (column, sent) = named.split_once('=').map_or((named, None), |(name, value)| (name, Some(value)));
        Self::of(table, columns, column, sent, unsent)
    }

    /// Returns the mark that an earlier command has stored.
    pub(super) fn kept(
        table: &str,
        columns: &[ColumnDescription],
        handover: &Handover,
    ) -> Result<Self, MigrateError> {
        Self::of(table, columns, &handover.mark, handover.sent.as_deref(), &handover.unsent)
    }

    fn of(
        table: &str,
        columns: &[ColumnDescription],
        column: &str,
        sent: Option<&str>,
        unsent: &[String],
    ) -> Result<Self, MigrateError> {
        let (table, name) = (table.to_owned(), column.to_owned());
        let Some(found) = columns.iter().find(|known| known.name == column) else {
            return Err(MigrateError::NoColumn { table, column: name });
        };
        let kind = match (found.type_oid.0, sent) {
            (oid, None) if TIME_TYPES.contains(&oid) => Kind::Time,
            (FLAG_TYPE, None) => Kind::Flag,
            (oid, Some(sent)) if VALUE_TYPES.contains(&oid) => {
                Kind::Value { sent: sent.to_owned(), unsent: unsent.to_vec() }
            }
            (oid, None) if VALUE_TYPES.contains(&oid) => {
                return Err(MigrateError::NoSentValue { table, column: name });
            }
            _ => return Err(MigrateError::MarkType { table, column: name }),
        };
        Ok(Self { column: name, kind })
    }

    fn known(
        table: &str,
        columns: &[ColumnDescription],
        conditions: &[String],
    ) -> Result<Self, MigrateError> {
        let found: Vec<_> = columns.iter().filter(|column| may_be_mark(column)).collect();
        match found.as_slice() {
            [column] => Self::of(table, columns, &column.name, None, &[]),
            [] => Err(MigrateError::NoMark { table: table.to_owned() }),
            several => {
                let mut names: Vec<_> = several.iter().map(|column| column.name.clone()).collect();
                let is_read = |name: &str| conditions.iter().any(|it| is_condition_on(it, name));
                names.sort_by_key(|name| !is_read(name));
                let read = names.first().filter(|name| is_read(name)).cloned();
                Err(MigrateError::ManyMarks { table: table.to_owned(), columns: names, read })
            }
        }
    }

    /// Returns the columns that a poller sets when it has sent a row: the mark, and any other column that may be one.
    pub(super) fn set_columns(&self, columns: &[ColumnDescription]) -> Vec<String> {
        let others = columns.iter().filter(|column| may_be_mark(column)).map(|column| column.name.clone());
        let others = others.filter(|name| *name != self.column);
        std::iter::once(self.column.clone()).chain(others).collect()
    }

    pub(super) fn column(&self) -> &str {
        &self.column
    }

    /// Returns the condition of rows that are sent for the poller.
    pub(super) fn is_sent(&self) -> String {
        let column = escape_identifier(&self.column);
        match &self.kind {
            Kind::Time => format!("{column} IS NOT NULL"),
            Kind::Flag => column,
            Kind::Value { sent, .. } => format!("{column} = {}", escape_literal(sent).trim_start()),
        }
    }

    /// Returns the condition of rows that were sent for the poller before an UPDATE.
    pub(super) fn was_sent(&self) -> String {
        format!("OLD.{}", self.is_sent())
    }

    /// Returns the condition of rows that the poller will send.
    pub(super) fn is_unsent(&self) -> String {
        let column = escape_identifier(&self.column);
        match &self.kind {
            Kind::Time => format!("{column} IS NULL"),
            Kind::Flag => format!("NOT {column}"),
            Kind::Value { sent, unsent } if unsent.is_empty() => {
                format!("{column} IS DISTINCT FROM {}", escape_literal(sent).trim_start())
            }
            Kind::Value { unsent, .. } => {
                let values: Vec<_> =
                    unsent.iter().map(|value| escape_literal(value).trim_start().to_owned()).collect();
                format!("{column} IN ({})", values.join(", "))
            }
        }
    }

    /// Returns the value that the trigger sets the mark to.
    pub(super) fn value(&self) -> String {
        match &self.kind {
            Kind::Time => "pg_catalog.now()".to_owned(),
            Kind::Flag => "true".to_owned(),
            Kind::Value { sent, .. } => escape_literal(sent).trim_start().to_owned(),
        }
    }

    /// Returns the mark and the phase as they are stored on the publication.
    pub(super) fn handover(&self, phase: HandoverPhase) -> Handover {
        let (sent, unsent) = match &self.kind {
            Kind::Time | Kind::Flag => (None, Vec::new()),
            Kind::Value { sent, unsent } => (Some(sent.clone()), unsent.clone()),
        };
        Handover { phase, mark: self.column.clone(), sent, unsent }
    }
}

/// Returns whether a column may be the mark. A table with a status often has a time as well, and the catalog does not
/// show by which of them the poller reads.
fn may_be_mark(column: &ColumnDescription) -> bool {
    let (name, oid) = (plain(&column.name), column.type_oid.0);
    let is_among = |names: &[&str]| names.contains(&name.as_str());
    let time = is_among(&TIMES) && TIME_TYPES.contains(&oid) && !column.not_null;
    // A state may have any type, even an enum: it must not be missed only because a row filter could not compare it.
    time || (is_among(&FLAGS) && oid == FLAG_TYPE) || is_among(&STATES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::column::TypeKind;
    use crate::error::Diagnose as _;
    use crate::wal::Oid;

    fn column(name: &str, oid: u32, not_null: bool) -> ColumnDescription {
        ColumnDescription {
            name: name.to_owned(),
            type_oid: Oid(oid),
            type_modifier: -1,
            kind: TypeKind::Base { name: "it".to_owned() },
            not_null,
            default: None,
            key_position: None,
        }
    }

    fn columns() -> Vec<ColumnDescription> {
        vec![
            column("id", 2950, true),
            column("created_at", 1184, true),
            column("processed_at", 1184, false),
            column("status", 1043, true),
            column("mood", 16_400, true),
        ]
    }

    /// Returns the condition of sent rows, that of unsent ones, and the trigger's value.
    fn told(
        columns: &[ColumnDescription],
        named: Option<&str>,
        unsent: &[&str],
    ) -> Result<[String; 3], String> {
        let unsent: Vec<_> = unsent.iter().map(|value| (*value).to_owned()).collect();
        let mark =
            Mark::find("public.outbox", columns, &[], named, &unsent).map_err(|error| error.to_string())?;
        let kept = Mark::kept("public.outbox", columns, &mark.handover(HandoverPhase::Drained));
        assert_eq!(kept.map_err(|error| error.to_string()), Ok(mark.clone()));
        Ok([mark.is_sent(), mark.is_unsent(), mark.value()])
    }

    #[test]
    fn a_mark_is_known_by_its_name_or_named() {
        let own = |texts: [&str; 3]| Ok(texts.map(str::to_owned));
        let time = ["\"processed_at\" IS NOT NULL", "\"processed_at\" IS NULL", "pg_catalog.now()"];
        assert_eq!(told(&columns()[..3], None, &[]), own(time));
        assert_eq!(told(&columns(), Some("processed_at"), &[]), own(time));
        // The names are those that init knows.
        let own_names = [column("publishedOn", 1184, false)];
        assert_eq!(
            told(&own_names, None, &[]),
            own(["\"publishedOn\" IS NOT NULL", "\"publishedOn\" IS NULL", "pg_catalog.now()"])
        );
        let sent = [column("sent", 16, true)];
        assert_eq!(told(&sent, None, &[]), own(["\"sent\"", "NOT \"sent\"", "true"]));
        let status = ["\"status\" = 'O''K'", "\"status\" IS DISTINCT FROM 'O''K'", "'O''K'"];
        assert_eq!(told(&columns(), Some("status=O'K"), &[]), own(status));
        let status = ["\"status\" = 'DONE'", "\"status\" IN ('PENDING', 'BUSY')", "'DONE'"];
        assert_eq!(told(&columns(), Some("status=DONE"), &["PENDING", "BUSY"]), own(status));
    }

    #[test]
    fn the_column_of_a_partial_index_is_proposed() {
        let columns = columns();
        let conditions = ["((status)::text = 'NEW'::text)".to_owned()];
        let error = Mark::find("public.outbox", &columns, &conditions, None, &[]).unwrap_err();
        let fix = error.fix().unwrap();
        assert!(fix.starts_with("name it: --mark status=PUBLISHED"), "{fix}");
        let by_time = Mark::find("public.outbox", &columns, &[], Some("processed_at"), &[]).unwrap();
        assert_eq!(by_time.set_columns(&columns), ["processed_at", "status"]);
    }

    #[test]
    fn what_is_no_mark_is_refused() {
        let two = [column("sent", 16, true), column("sent_at", 1114, false)];
        let not_null = [column("processed_at", 1184, true)];
        let cases = [
            (
                &two[..],
                None,
                "several columns of table public.outbox may be the mark of a row that the poller has sent: sent, sent_at",
            ),
            (&columns(), None, "may be the mark of a row that the poller has sent: processed_at, status"),
            (&columns()[3..4], None, "the one of a sent row is not given"),
            (&not_null, None, "no column of table public.outbox shows which rows the poller has sent"),
            (&columns(), Some("status"), "the one of a sent row is not given"),
            (&columns(), Some("mood=good"), "of a type that"),
            (&columns(), Some("id"), "of a type that"),
            (&columns(), Some("done_at"), "has no column \"done_at\""),
        ];
        for (columns, named, expected) in cases {
            let error = told(columns, named, &[]).unwrap_err();
            assert!(error.contains(expected), "{named:?}: {error}");
        }
    }
}
