//! Generated columns, which a table has and the stream usually lacks.

use postgres_protocol::escape::escape_identifier;

use super::codes;
use super::report::Check;
use super::tables;
use crate::postgres::{Error, Sql, TableFacts};
use crate::wal::Oid;

/// The generated columns of each table that the publication does not publish. Before PostgreSQL 18 none is
/// published, and before 15 publications have no column lists.
const UNSENT: &str = "
select t.oid, array_agg(a.attname::text order by a.attnum), bool_and(a.attgenerated = 's')
from unnest($1::oid[]) as t(oid) join pg_attribute a on a.attrelid = t.oid
where a.attnum > 0 and not a.attisdropped and a.attgenerated <> '' and not exists(
    select from pg_publication_tables p
    where p.pubname = $2 and to_jsonb(p) -> 'attnames' ? a.attname::text and (
        format('%I.%I', p.schemaname, p.tablename)::regclass = t.oid
        or format('%I.%I', p.schemaname, p.tablename)::regclass in (select relid from pg_partition_tree(t.oid))))
group by t.oid order by t.oid";

/// The first version that can publish stored generated columns.
const PUBLISHED_VERSION_NUM: i32 = 180_000;

/// Generated columns of a table that are not in the stream.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) table: Oid,
    pub(super) columns: Vec<String>,
    /// True if none of them is virtual.
    all_stored: bool,
}

pub(super) async fn unsent(
    sql: &Sql,
    tables: &[TableFacts],
    publication: &str,
) -> Result<Vec<Unsent>, Error> {
    const DOING: &str = "reading the generated columns";
    let get = |source| Error::Sql { doing: DOING.to_owned(), source };
    let oids: Vec<u32> = tables.iter().map(|table| table.oid.0).collect();
    let rows = sql.query(DOING, UNSENT, &[&oids, &publication]).await?;
    rows.iter()
        .map(|row| {
            Ok(Unsent {
                table: Oid(row.try_get(0).map_err(get)?),
                columns: row.try_get(1).map_err(get)?,
                all_stored: row.try_get(2).map_err(get)?,
            })
        })
        .collect()
}

impl Unsent {
    /// Makes the check of a table whose rows become change events.
    pub(super) fn of_changes(&self, table: &TableFacts, publication: &str, version_num: i32) -> Check {
        let title = format!("no stream has {} of table {}", self.named(), tables::name(table));
        let check = Check::warning(codes::GENERATED, title)
            .detail("it is generated: events of a snapshot have it, and those of inserts and updates have not, as in Debezium");
        match self.publishing(publication, version_num) {
            Some(statement) => check.fix(statement),
            None => check.fix("to have it in no event: column.exclude.list"),
        }
    }

    /// Makes the check of an outbox, whose router needs `needed`.
    pub(super) fn of_outbox(
        &self,
        table: &TableFacts,
        needed: &[(&'static str, String)],
        publication: &str,
        version_num: i32,
    ) -> Option<Check> {
        let (option, column) = needed.iter().find(|(_, column)| self.columns.contains(column))?;
        let title = format!(
            "{option} names column {column:?} of table {}, which is generated and in no stream",
            tables::name(table)
        );
        let fix = match self.publishing(publication, version_num) {
            Some(statement) => statement,
            None => "let the application write the column, or a trigger".to_owned(),
        };
        Some(Check::failure(codes::GENERATED, title).fix(fix))
    }

    fn named(&self) -> String {
        let word = if self.columns.len() == 1 { "column" } else { "columns" };
        format!("{word} {}", self.columns.join(", "))
    }

    fn publishing(&self, publication: &str, version_num: i32) -> Option<String> {
        let publication = escape_identifier(publication);
        (version_num >= PUBLISHED_VERSION_NUM && self.all_stored)
            .then(|| format!("ALTER PUBLICATION {publication} SET (publish_generated_columns = stored);"))
    }
}
