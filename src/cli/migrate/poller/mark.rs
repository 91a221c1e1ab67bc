//! The column by which a poller knows what it has sent.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::cli::marks::{FLAGS, TIMES, plain};
use crate::cli::migrate::error::MigrateError;
use crate::connect::column::ColumnDescription;
use crate::postgres::{Handover, HandoverPhase};

/// `date`, `timestamp`, `timestamptz`; `bool`; texts and numbers.
const TIME_TYPES: [u32; 3] = [1082, 1114, 1184];
const FLAG_TYPE: u32 = 16;
const VALUE_TYPES: [u32; 7] = [20, 21, 23, 25, 1042, 1043, 1700];

/// The mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    column: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Null until the row was sent.
    Time,
    /// False until then.
    Flag,
    /// Another value until then.
    Value { sent: String, unsent: Vec<String> },
}

impl Mark {
    /// The one that the user names (`COLUMN` or `COLUMN=VALUE`), or else the only one that has a known name.
    pub(super) fn find(
        table: &str,
        columns: &[ColumnDescription],
        named: Option<&str>,
        unsent: &[String],
    ) -> Result<Self, MigrateError> {
        let Some(named) = named else { return Self::known(table, columns) };
        let (column, sent) = named.split_once('=').map_or((named, None), |(name, value)| (name, Some(value)));
        Self::of(table, columns, column, sent, unsent)
    }

    /// The one that an earlier command has kept.
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

    fn known(table: &str, columns: &[ColumnDescription]) -> Result<Self, MigrateError> {
        let is_mark = |column: &&ColumnDescription| {
            let (name, oid) = (plain(&column.name), column.type_oid.0);
            let is_among = |names: &[&str]| names.contains(&name.as_str());
            let time = is_among(&TIMES) && TIME_TYPES.contains(&oid) && !column.not_null;
            time || (is_among(&FLAGS) && oid == FLAG_TYPE)
        };
        let found: Vec<_> = columns.iter().filter(is_mark).collect();
        match found.as_slice() {
            [column] => Self::of(table, columns, &column.name, None, &[]),
            [] => Err(MigrateError::NoMark { table: table.to_owned() }),
            several => Err(MigrateError::ManyMarks {
                table: table.to_owned(),
                columns: several.iter().map(|column| column.name.clone()).collect(),
            }),
        }
    }

    pub(super) fn column(&self) -> &str {
        &self.column
    }

    /// True of a row that the poller takes for sent.
    pub(super) fn is_sent(&self) -> String {
        let column = escape_identifier(&self.column);
        match &self.kind {
            Kind::Time => format!("{column} IS NOT NULL"),
            Kind::Flag => column,
            Kind::Value { sent, .. } => format!("{column} = {}", escape_literal(sent).trim_start()),
        }
    }

    /// True of a row that the poller will send.
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

    /// What the trigger gives a row.
    pub(super) fn value(&self) -> String {
        match &self.kind {
            Kind::Time => "pg_catalog.now()".to_owned(),
            Kind::Flag => "true".to_owned(),
            Kind::Value { sent, .. } => escape_literal(sent).trim_start().to_owned(),
        }
    }

    /// The same as kept on the publication.
    pub(super) fn handover(&self, phase: HandoverPhase) -> Handover {
        let (sent, unsent) = match &self.kind {
            Kind::Time | Kind::Flag => (None, Vec::new()),
            Kind::Value { sent, unsent } => (Some(sent.clone()), unsent.clone()),
        };
        Handover { phase, mark: self.column.clone(), sent, unsent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::column::TypeKind;
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

    /// The condition of sent rows, of unsent ones, and the trigger's value.
    fn told(
        columns: &[ColumnDescription],
        named: Option<&str>,
        unsent: &[&str],
    ) -> Result<[String; 3], String> {
        let unsent: Vec<_> = unsent.iter().map(|value| (*value).to_owned()).collect();
        let mark = Mark::find("public.outbox", columns, named, &unsent).map_err(|error| error.to_string())?;
        let kept = Mark::kept("public.outbox", columns, &mark.handover(HandoverPhase::Drained));
        assert_eq!(kept.map_err(|error| error.to_string()), Ok(mark.clone()));
        Ok([mark.is_sent(), mark.is_unsent(), mark.value()])
    }

    #[test]
    fn a_mark_is_known_by_its_name_or_named() {
        let own = |texts: [&str; 3]| Ok(texts.map(str::to_owned));
        let time = ["\"processed_at\" IS NOT NULL", "\"processed_at\" IS NULL", "pg_catalog.now()"];
        assert_eq!(told(&columns(), None, &[]), own(time));
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
    fn what_is_no_mark_is_refused() {
        let two = [column("sent", 16, true), column("sent_at", 1114, false)];
        let not_null = [column("processed_at", 1184, true)];
        let cases = [
            (
                &two[..],
                None,
                "several columns of table public.outbox may tell what the poller has sent: sent, sent_at",
            ),
            (&not_null, None, "no column of table public.outbox tells what the poller has sent"),
            (&columns(), Some("status"), "it is not said which one means sent"),
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
