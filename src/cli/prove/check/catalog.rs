//! Queries of the preflight alone. Each query only reads, and the session is read-only.

use postgres_protocol::escape::escape_identifier;

use crate::postgres::{Error, Sql, TableFacts, shown_application};
use crate::wal::Oid;

/// Number of rows that are read for values of the route, and number of values that are used.
const ROUTE_ROWS_MAX: u32 = 10_000;
const ROUTE_VALUES_MAX: u32 = 20;

/// Rights of the role on the publication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) superuser: bool,
    /// CREATE on the database.
    pub(super) create: bool,
    /// The captured tables that the role owns.
    pub(super) owned_tables: Vec<Oid>,
    /// True if it owns the publication.
    pub(super) owns_publication: bool,
}

/// A table as the publication sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublishedTable {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) row_filter: Option<String>,
}

/// Another logical slot of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherSlot {
    pub(super) name: String,
    /// Client that reads it.
    pub(super) application: Option<String>,
    pub(super) retained_bytes: i64,
}

const READ_ONLY: &str =
    "set default_transaction_read_only = on; set statement_timeout = '2s'; set lock_timeout = '1s'";

const RIGHTS: &str = "
select r.rolsuper, has_database_privilege(current_database(), 'CREATE'),
       array(select c.oid from pg_class c where c.oid = any($1) and pg_has_role(c.relowner, 'USAGE')),
       exists(select from pg_publication p where p.pubname = $2 and pg_has_role(p.pubowner, 'USAGE'))
from pg_roles r where r.rolname = current_user";

/// PostgreSQL 15 and later have filters and lists.
const PUBLISHED: &str = "
select schemaname::text, tablename::text, coalesce(attnames, '{}')::text[], rowfilter
from pg_publication_tables where pubname = $1 order by 1, 2";

/// Query that omits on a standby what only a primary can answer.
const OTHER_SLOTS: &str = "
select s.slot_name::text, case when s.active then coalesce(a.application_name, '') end,
       coalesce(pg_wal_lsn_diff(l.lsn, s.restart_lsn), 0)::bigint
from pg_replication_slots s
     cross join (select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn) l
     left join pg_stat_activity a on a.pid = s.active_pid
where s.plugin = 'pgoutput' and s.database = current_database() and not s.temporary and s.slot_name <> $1 order by 1";

const CLOCK: &str = "select extract(epoch from clock_timestamp())::float8";

/// Makes the session read-only, so that no later statement in it can change data.
pub(super) async fn make_read_only(sql: &Sql) -> Result<(), Error> {
    sql.execute("making the session read-only", READ_ONLY).await
}

pub(super) async fn rights(sql: &Sql, tables: &[TableFacts], publication: &str) -> Result<Rights, Error> {
    const DOING: &str = "reading the rights of the role";
    let oids: Vec<u32> = tables.iter().map(|table| table.oid.0).collect();
    let rows = sql.query(DOING, RIGHTS, &[&oids, &publication]).await?;
    let Some(row) = rows.first() else { return Ok(Rights::default()) };
    let get = unexpected(DOING);
    Ok(Rights {
        superuser: row.try_get(0).map_err(&get)?,
        create: row.try_get(1).map_err(&get)?,
        owned_tables: row.try_get::<_, Vec<u32>>(2).map_err(&get)?.into_iter().map(Oid).collect(),
        owns_publication: row.try_get(3).map_err(&get)?,
    })
}

pub(super) async fn published_tables(sql: &Sql, publication: &str) -> Result<Vec<PublishedTable>, Error> {
    const DOING: &str = "reading the publication's filters";
    let get = unexpected(DOING);
    let rows = sql.query(DOING, PUBLISHED, &[&publication]).await?;
    rows.iter()
        .map(|row| {
            Ok(PublishedTable {
                schema: row.try_get(0).map_err(&get)?,
                name: row.try_get(1).map_err(&get)?,
                columns: row.try_get(2).map_err(&get)?,
                row_filter: row.try_get(3).map_err(&get)?,
            })
        })
        .collect()
}

pub(super) async fn other_slots(sql: &Sql, slot: &str) -> Result<Vec<OtherSlot>, Error> {
    const DOING: &str = "reading the other slots";
    let get = unexpected(DOING);
    let rows = sql.query(DOING, OTHER_SLOTS, &[&slot]).await?;
    rows.iter()
        .map(|row| {
            Ok(OtherSlot {
                name: row.try_get(0).map_err(&get)?,
                application: row
                    .try_get::<_, Option<String>>(1)
                    .map_err(&get)?
                    .map(|name| shown_application(&name).to_owned()),
                retained_bytes: row.try_get(2).map_err(&get)?,
            })
        })
        .collect()
}

/// Returns the server's clock, in seconds since the Unix epoch.
pub(super) async fn clock(sql: &Sql) -> Result<f64, Error> {
    const DOING: &str = "reading the server's clock";
    let rows = sql.query(DOING, CLOCK, &[]).await?;
    rows.first().map_or(Ok(0.0), |row| row.try_get(0).map_err(unexpected(DOING)))
}

/// Reads some of the values of a column: of the first rows only, so that a large table costs no more than a
/// small one.
pub(in crate::cli) async fn route_values(
    sql: &Sql,
    table: &TableFacts,
    column: &str,
) -> Result<Vec<String>, Error> {
    const DOING: &str = "reading values of the route";
    let (column, table) = (escape_identifier(column), table.quoted());
    let text = format!(
        "select distinct route from (select {column}::text as route from {table} limit {ROUTE_ROWS_MAX}) seen \
         where route is not null order by 1 limit {ROUTE_VALUES_MAX}"
    );
    let rows = sql.query(DOING, &text, &[]).await?;
    rows.iter().map(|row| row.try_get(0).map_err(unexpected(DOING))).collect()
}

fn unexpected(doing: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |source| Error::Sql { doing: doing.to_owned(), source }
}
