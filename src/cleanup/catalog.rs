//! Tables of the outbox in the catalog.

use std::time::Duration;

use postgres_protocol::escape::escape_identifier;

use super::horizon::Horizon;
use super::options::ArchiveTo;
use super::pace::Pressure;
use crate::postgres::{Error, Sql, TableFacts};
use crate::wal::Oid;

/// A table that holds rows itself: the outbox, or a partition of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) oid: Oid,
    /// Name for messages.
    pub(crate) name: String,
    /// Name, quoted for SQL.
    pub(crate) quoted: String,
    pub(crate) pages: i64,
    pub(crate) columns: Vec<String>,
}

/// Reasons why rows of a table may be there that the stream does not bring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Doubt {
    /// The publication does not have it.
    #[error("the publication does not publish its inserts")]
    Unpublished,
    /// The publication does not have a table that holds rows of it, itself or one of its partitions, or has it under another name.
    #[error(
        "the publication does not publish the rows of {0}, or publishes them by the name of the table above"
    )]
    Missing(String),
    /// Its rows, or those of a partition, are not in the WAL.
    #[error("the rows of {0} are not in the WAL: it is unlogged or a foreign table")]
    Unlogged(String),
    /// The publication has some of its rows only.
    #[error("the publication has a filter: {0}")]
    Filtered(String),
    /// A migration is not finished.
    #[error("outboxd migrate is not finished with it")]
    Migrating,
    /// Archived rows become events again.
    #[error("rows would be archived into table {0}, which is captured itself: each would be sent again")]
    Archive(String),
}

/// Query in one statement: its snapshot is taken before anything in it is computed.
const HORIZON: &str =
    "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_current_wal_insert_lsn()::text";

const LEAVES: &str = "
select c.oid, n.nspname::text, c.relname::text,
       pg_relation_size(c.oid) / current_setting('block_size')::bigint,
       array(select a.attname::text from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and (c.oid = $1 or c.oid in (select relid from pg_partition_tree($1::oid::regclass) where isleaf))
order by 2, 3";

const COLUMN_NAMES: &str = "
select attname::text from pg_attribute where attrelid = $1 and attnum > 0 and not attisdropped order by attnum";

const LACKING: &str = "
select string_agg(format('ADD COLUMN %I %s', c.attname, format_type(c.atttypid, c.atttypmod)), ', ' order by c.attnum)
from pg_attribute c
where c.attrelid = $1 and c.attnum > 0 and not c.attisdropped
      and not exists(select from pg_attribute a where a.attrelid = to_regclass($2) and a.attname = c.attname
                     and a.attnum > 0 and not a.attisdropped)";

/// Every name is qualified: this one runs with the role's own `search_path`.
const ARCHIVE: &str = "
select pg_catalog.format('%I.%I', n.nspname, c.relname)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
where c.oid operator(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid";

const PRESSURE: &str = "
select coalesce((select max(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn)) from pg_stat_replication r
                 join pg_replication_slots s on s.active_pid = r.pid and s.slot_type = 'physical'), 0)::bigint,
       coalesce((select extract(epoch from max(clock_timestamp() - a.xact_start)) * 1000 from pg_stat_activity a
                 where a.pid <> pg_backend_pid() and a.backend_type = 'client backend' and a.datname = current_database()
                   and (a.backend_xmin is not null or a.backend_xid is not null)), 0)::bigint";

/// The rows of a table come under the name of the captured one when the publication has that, the table itself, or one between them, and
/// nothing above the captured one in whose name they would come instead. Older servers have no filters.
const PUBLISHED: &str = "
with tree(oid) as (select $2::oid union select relid::oid from pg_partition_tree($2::oid::regclass)),
     published as (select c.oid, to_jsonb(t)->>'rowfilter' as filter
                   from pg_publication_tables t join pg_namespace n on n.nspname = t.schemaname
                        join pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
                   where t.pubname = $1),
     above(oid) as (select relid::oid from pg_partition_ancestors($2::oid::regclass) where relid::oid <> $2),
     holding as (select c.oid, c.oid::regclass::text as name, c.relkind = 'r' and c.relpersistence = 'p' as logged
                 from tree join pg_class c on c.oid = tree.oid where c.relkind <> 'p')
select p.pubinsert, obj_description(p.oid, 'pg_publication') like 'outboxd migrate: %',
       (select filter from published join tree using (oid) where filter is not null limit 1),
       (select min(name) from holding h where p.pubviaroot and exists(select from published join above using (oid)) or not exists(
            select from published join tree using (oid)
            where oid = h.oid or oid in (select relid from pg_partition_ancestors(h.oid::regclass)))),
       (select min(name) from holding where not logged)
from pg_publication p where p.pubname = $1";

impl Horizon {
    /// Reads the present horizon.
    pub(crate) async fn take(sql: &Sql) -> Result<Self, Error> {
        const DOING: &str = "reading the oldest transaction and the end of the WAL";
        let get = |error| Error::sql(DOING, error);
        let rows = sql.query(DOING, HORIZON, &[]).await?;
        let row =
            rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
        let lsn: &str = row.try_get(1).map_err(get)?;
        let lsn = lsn.parse();
        let lsn = lsn.map_err(|_| Error::Unexpected { message: "answer".to_owned(), doing: DOING })?;
        Ok(Self { xid: row.try_get(0).map_err(get)?, lsn })
    }
}

/// Reads the tables that contain the rows of an outbox.
pub(crate) async fn leaves(sql: &Sql, table: &TableFacts) -> Result<Vec<Leaf>, Error> {
    const DOING: &str = "reading the partitions";
    let get = |error| Error::sql(DOING, error);
    let rows = sql.query(DOING, LEAVES, &[&table.oid.0]).await?;
    rows.iter()
        .map(|row| {
            let (schema, name): (String, String) =
                (row.try_get(1).map_err(get)?, row.try_get(2).map_err(get)?);
            Ok(Leaf {
                oid: Oid(row.try_get(0).map_err(get)?),
                quoted: format!("{}.{}", escape_identifier(&schema), escape_identifier(&name)),
                name: format!("{schema}.{name}"),
                pages: row.try_get(3).map_err(get)?,
                columns: row.try_get(4).map_err(get)?,
            })
        })
        .collect()
}

/// Reads the columns of a table, in their order.
pub(super) async fn column_names(sql: &Sql, table: Oid) -> Result<Vec<String>, Error> {
    const DOING: &str = "reading the columns of a table";
    let rows = sql.query(DOING, COLUMN_NAMES, &[&table.0]).await?;
    let name = |row: &tokio_postgres::Row| row.try_get(0).map_err(|error| Error::sql(DOING, error));
    rows.iter().map(name).collect()
}

/// Reads the number of pages of a table.
pub(super) async fn pages(sql: &Sql, table: Oid) -> Result<i64, Error> {
    const DOING: &str = "reading how large a table is";
    let text = "select pg_relation_size($1::oid::regclass) / current_setting('block_size')::bigint";
    let rows = sql.query(DOING, text, &[&table.0]).await?;
    let row = rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
    row.try_get(0).map_err(|error| Error::sql(DOING, error))
}

/// Returns the archive's table as SQL wants it. One that is named without a schema is looked for in the role's own `search_path`; one that
/// does not exist keeps its name.
pub(super) async fn archive_table(sql: &Sql, archive: &ArchiveTo) -> Result<String, Error> {
    const DOING: &str = "looking for the archive";
    let table = archive.table();
    if archive.has_schema() {
        return Ok(table);
    }
    sql.use_role_names().await?;
    let rows = sql.query(DOING, ARCHIVE, &[&table]).await;
    sql.use_catalog_names().await?;
    let found = rows?.first().map(|row| row.try_get(0)).transpose();
    Ok(found.map_err(|error| Error::sql(DOING, error))?.unwrap_or(table))
}

/// Returns the statement that adds the missing columns of a table to the archive, whose name is quoted for
/// SQL.
pub(super) async fn lacking(sql: &Sql, table: Oid, archive: &str) -> Result<Option<String>, Error> {
    const DOING: &str = "comparing the columns of the archive";
    let rows = sql.query(DOING, LACKING, &[&table.0, &archive]).await?;
    let additions = rows.first().map(|row| row.try_get(0)).transpose();
    let additions: Option<String> = additions.map_err(|error| Error::sql(DOING, error))?.flatten();
    Ok(additions.map(|additions| format!("ALTER TABLE {archive} {additions};")))
}

/// Returns a doubt if the archive is one of the captured tables.
pub(crate) fn captured_archive(archive: Option<&ArchiveTo>, captured: &[TableFacts]) -> Option<Doubt> {
    let table = captured.iter().find(|table| archive.is_some_and(|to| to.is(&table.schema, &table.name)))?;
    Some(Doubt::Archive(format!("{}.{}", table.schema, table.name)))
}

/// Returns the reasons for which the publication may exclude rows of this table.
pub(crate) async fn doubts(sql: &Sql, publication: &str, table: &TableFacts) -> Result<Vec<Doubt>, Error> {
    const DOING: &str = "reading what the publication excludes";
    let get = |error| Error::sql(DOING, error);
    let rows = sql.query(DOING, PUBLISHED, &[&publication, &table.oid.0]).await?;
    let Some(row) = rows.first() else { return Ok(vec![Doubt::Unpublished]) };
    let inserts: bool = row.try_get(0).map_err(get)?;
    let migrating: Option<bool> = row.try_get(1).map_err(get)?;
    let [filter, missing, unlogged] = [2, 3, 4].map(|at| row.try_get::<_, Option<String>>(at).map_err(get));
    let unpublished = (!inserts).then_some(Doubt::Unpublished);
    let missing = missing?.map(Doubt::Missing);
    let migrating = migrating.unwrap_or(false).then_some(Doubt::Migrating);
    let others = filter?.map(Doubt::Filtered).into_iter().chain(unlogged?.map(Doubt::Unlogged));
    Ok(unpublished.into_iter().chain(missing).chain(others).chain(migrating).collect())
}

/// Reads the load of the server.
pub(super) async fn pressure(sql: &Sql) -> Result<Pressure, Error> {
    const DOING: &str = "reading how busy the server is";
    let get = |error| Error::sql(DOING, error);
    let rows = sql.query(DOING, PRESSURE, &[]).await?;
    let Some(row) = rows.first() else { return Ok(Pressure::default()) };
    let (lag, age): (i64, i64) = (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
    Ok(Pressure {
        lag_bytes: u64::try_from(lag).unwrap_or_default(),
        transaction_age: Duration::from_millis(u64::try_from(age).unwrap_or_default()),
    })
}
