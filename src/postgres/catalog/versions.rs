//! Versions of the catalog's rows: they change even when a row is changed and changed back. All queries are
//! cheap enough for every second.

use postgres_protocol::escape::escape_identifier;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::relations::NamedTable;
use crate::postgres::Error;
use crate::postgres::connections::sql::Sql;
use crate::wal::Oid;

/// Schemas can be published since PostgreSQL 15.
const SCHEMAS_VERSION_NUM: i32 = 150_000;

/// A publication, as far as it matters for some tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicationVersion {
    /// Object id.
    pub oid: Oid,
    /// `xmin` of its row.
    pub version: u32,
    /// `pubowner`: a new owner is a new version as well.
    pub owner: Oid,
    /// `FOR ALL TABLES`.
    pub all_tables: bool,
    /// True if inserts are published.
    pub inserts: bool,
    /// The published operations, as `publish` names them.
    pub operations: String,
    /// `publish_via_partition_root`
    pub via_root: bool,
    /// True if it lists tables that were not requested.
    pub others: bool,
    /// Requested tables that are named in it.
    pub members: Vec<Member>,
    /// The schemas that are named in it.
    pub schemas: Vec<SchemaMember>,
}

/// A table that is named in a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Object id of the membership, which changes when a table is removed and added again.
    pub oid: Oid,
    /// `xmin` of its row.
    pub version: u32,
    /// The table.
    pub table: Oid,
    /// True if a row filter sends some of its rows only.
    pub filtered: bool,
    /// True if a column list sends some of its columns only.
    pub listed: bool,
}

/// A schema that is named in a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaMember {
    /// The object id of the membership.
    pub oid: Oid,
    /// `xmin` of its row.
    pub version: u32,
    /// The schema.
    pub schema: String,
}

/// A table, or a partition of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableVersion {
    /// Object id.
    pub oid: Oid,
    /// The requested table: itself, or the one that it is a partition of.
    pub root: Oid,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The table that it is a partition of, quoted for SQL.
    pub parent: Option<String>,
    /// Every table that it is a partition of, directly or not.
    pub ancestors: Vec<Oid>,
    /// Storage of the rows.
    pub storage: Storage,
    /// `relfilenode`: where its rows are. Zero when it has none of its own.
    pub filenode: Oid,
    /// `reltoastrelid`: where its long values are. Zero when there is no such table.
    pub toast: Oid,
    /// `relfilenode` of the sequences that belong to it, since PostgreSQL 15: unlogging a table rewrites
    /// them.
    pub sequences: Vec<u32>,
}

/// A table that was found by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTable {
    /// Object id and name.
    pub table: NamedTable,
    /// Every table that it is a partition of, directly or not.
    pub ancestors: Vec<Oid>,
}

/// Storage of a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Also in the WAL.
    Logged,
    /// Not in the WAL.
    Unlogged,
    /// Elsewhere.
    Foreign,
}

const PUBLICATION: &str = "
select p.oid, p.xmin::text, p.pubowner, p.puballtables, p.pubinsert,
       concat_ws(', ', case when p.pubinsert then 'insert' end, case when p.pubupdate then 'update' end,
                 case when p.pubdelete then 'delete' end, case when p.pubtruncate then 'truncate' end),
       p.pubviaroot,
       exists(select from pg_publication_rel r where r.prpubid = p.oid and not r.prrelid = any($2::oid[]))
from pg_publication p where p.pubname = $1";

/// Columns that older servers have not got are read by their names.
const MEMBERS: &str = "
select r.oid, r.xmin::text, r.prrelid, to_jsonb(r)->>'prqual' is not null, to_jsonb(r)->>'prattrs' is not null
from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
where p.pubname = $1 and r.prrelid = any($2::oid[]) and not coalesce((to_jsonb(r)->>'prexcept')::boolean, false)
order by r.oid";

const SCHEMAS: &str = "
select m.oid, m.xmin::text, n.nspname::text
from pg_publication_namespace m join pg_publication p on p.oid = m.pnpubid join pg_namespace n on n.oid = m.pnnspid
where p.pubname = $1 order by m.oid";

const TABLES: &str = "
with recursive tree(oid, root, parent) as (
    select r, r, null::oid from unnest($1::oid[]) r
    union
    select i.inhrelid, t.root, i.inhparent from tree t join pg_inherits i on i.inhparent = t.oid
         join pg_class c on c.oid = i.inhrelid where c.relispartition)
select c.oid, t.root, n.nspname::text, c.relname::text, c.relkind = 'f', c.relpersistence = 'p' or c.relkind = 'p',
       c.relfilenode,
       c.reltoastrelid,
       t.parent::regclass::text,
       array(select a::oid from pg_partition_ancestors(c.oid) a where c.relispartition and a::oid <> c.oid),
       array(select s.relfilenode from pg_depend d join pg_class s on s.oid = d.objid and s.relkind = 'S'
             where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
                   and current_setting('server_version_num')::int >= 150000 order by s.oid)
from tree t join pg_class c on c.oid = t.oid join pg_namespace n on n.oid = c.relnamespace order by c.oid";

const NAMESAKES: &str = "
select c.oid, n.nspname::text, c.relname::text,
       array(select a::oid from pg_partition_ancestors(c.oid) a where c.relispartition and a::oid <> c.oid)
from unnest($1::text[], $2::text[]) wanted(schema, name)
     join pg_namespace n on n.nspname = wanted.schema
     join pg_class c on c.relnamespace = n.oid and c.relname = wanted.name and c.relkind in ('r', 'p')";

/// ALTER TABLE gives all rows that it rewrites its own transaction and command, and changes the table's row in `pg_class` by the same
/// command or a later one. Behind TRUNCATE there are only rows of a later command, and VACUUM FULL and CLUSTER leave the rows their
/// transactions. `cmin` is that of the row as long as nothing has deleted it.
const REWRITTEN: &str = "
select exists(
    select from (select t.xmin as made, t.xmax as gone, t.cmin as command from only {table} t limit 100) r
           join pg_class c on c.oid = $1 and c.xmin = r.made
    where r.gone::text = '0' and r.command::text::bigint <= c.cmin::text::bigint)";

impl TableVersion {
    /// Returns the name, quoted for SQL.
    #[must_use]
    pub fn quoted(&self) -> String {
        format!("{}.{}", escape_identifier(&self.schema), escape_identifier(&self.name))
    }

    /// Returns the name for messages.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

impl Sql {
    /// Reads the publication of this name, as far as it matters for these tables.
    ///
    /// # Errors
    /// When a query fails.
    pub async fn publication_version(
        &self,
        name: &str,
        tables: &[Oid],
        version_num: i32,
    ) -> Result<Option<PublicationVersion>, Error> {
        const DOING: &str = "reading the publication's versions";
        let get = |error| Error::sql(DOING, error);
        let tables: Vec<u32> = tables.iter().map(|oid| oid.0).collect();
        let values: [&(dyn ToSql + Sync); 2] = [&name, &tables];
        let (rows, members, schemas) = tokio::try_join!(
            self.query(DOING, PUBLICATION, &values),
            self.query(DOING, MEMBERS, &values),
            async {
                match version_num {
                    ..SCHEMAS_VERSION_NUM => Ok(Vec::new()),
                    _ => self.query(DOING, SCHEMAS, &[&name]).await,
                }
            }
        )?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(PublicationVersion {
            oid: Oid(row.try_get(0).map_err(get)?),
            version: version(row, 1)?,
            owner: Oid(row.try_get(2).map_err(get)?),
            all_tables: row.try_get(3).map_err(get)?,
            inserts: row.try_get(4).map_err(get)?,
            operations: row.try_get(5).map_err(get)?,
            via_root: row.try_get(6).map_err(get)?,
            others: row.try_get(7).map_err(get)?,
            members: members.iter().map(member).collect::<Result<_, _>>()?,
            schemas: schemas.iter().map(schema_member).collect::<Result<_, _>>()?,
        }))
    }

    /// Reads these tables and all their partitions, without dropped ones.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn table_versions(&self, tables: &[Oid]) -> Result<Vec<TableVersion>, Error> {
        const DOING: &str = "reading the versions of the tables";
        let tables: Vec<u32> = tables.iter().map(|oid| oid.0).collect();
        let rows = self.query(DOING, TABLES, &[&tables]).await?;
        rows.iter().map(table_version).collect()
    }

    /// Returns a text that changes when a table is created or dropped, or gets another name or schema.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn names_of_tables(&self) -> Result<String, Error> {
        const DOING: &str = "looking for new tables";
        const NAMES: &str = "SELECT concat(count(*), ' ', sum(hashtext(concat(oid, ' ', relnamespace, ' ', relname))::bigint)) \
                             FROM pg_class WHERE relkind IN ('r', 'p') AND relpersistence <> 't'";
        let rows = self.query(DOING, NAMES, &[]).await?;
        let names = rows.first().map(|row| row.try_get(0)).transpose();
        Ok(names.map_err(|error| Error::sql(DOING, error))?.unwrap_or_default())
    }

    /// Reads the tables that inherit from these otherwise than as partitions, and their names quoted for SQL.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn inheriting(&self, parents: &[Oid]) -> Result<Vec<(Oid, String)>, Error> {
        const DOING: &str = "looking for tables that inherit";
        const CHILDREN: &str = "SELECT DISTINCT c.oid, format('%I.%I', n.nspname, c.relname) FROM pg_inherits i \
                                JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                                WHERE NOT c.relispartition AND i.inhparent = ANY($1) ORDER BY 2";
        let parents: Vec<u32> = parents.iter().map(|oid| oid.0).collect();
        let rows = self.query(DOING, CHILDREN, &[&parents]).await?;
        let child = |row: &Row| Ok((Oid(row.try_get(0)?), row.try_get(1)?));
        rows.iter().map(child).collect::<Result<_, _>>().map_err(|error| Error::sql(DOING, error))
    }

    /// Returns whether the last change of a table was an ALTER TABLE that has rewritten its rows, as far as
    /// some of its rows show that.
    ///
    /// # Errors
    /// When the query fails, or the role may not read the table.
    pub(crate) async fn is_rewritten_by_alter(&self, table: Oid, quoted: &str) -> Result<bool, Error> {
        const DOING: &str = "reading what has rewritten a table";
        let rows = self.query(DOING, &REWRITTEN.replace("{table}", quoted), &[&table.0]).await?;
        let altered = rows.first().map(|row| row.try_get(0)).transpose();
        Ok(altered.map_err(|error| Error::sql(DOING, error))?.unwrap_or_default())
    }

    /// Reads the tables that have these names, of schema and table, at present.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn tables_named(&self, names: &[(&str, &str)]) -> Result<Vec<FoundTable>, Error> {
        const DOING: &str = "reading the tables of some names";
        let (schemas, tables): (Vec<_>, Vec<_>) = names.iter().copied().unzip();
        let rows = self.query(DOING, NAMESAKES, &[&schemas, &tables]).await?;
        let get = |error| Error::sql(DOING, error);
        let named = |row: &Row| {
            let ancestors: Vec<u32> = row.try_get(3).map_err(get)?;
            let table = NamedTable {
                oid: Oid(row.try_get(0).map_err(get)?),
                schema: row.try_get(1).map_err(get)?,
                name: row.try_get(2).map_err(get)?,
            };
            Ok(FoundTable { table, ancestors: ancestors.into_iter().map(Oid).collect() })
        };
        rows.iter().map(named).collect()
    }
}

fn member(row: &Row) -> Result<Member, Error> {
    const DOING: &str = "reading the tables of the publication";
    let get = |error| Error::sql(DOING, error);
    Ok(Member {
        oid: Oid(row.try_get(0).map_err(get)?),
        version: version(row, 1)?,
        table: Oid(row.try_get(2).map_err(get)?),
        filtered: row.try_get(3).map_err(get)?,
        listed: row.try_get(4).map_err(get)?,
    })
}

fn schema_member(row: &Row) -> Result<SchemaMember, Error> {
    const DOING: &str = "reading the schemas of the publication";
    let get = |error| Error::sql(DOING, error);
    Ok(SchemaMember {
        oid: Oid(row.try_get(0).map_err(get)?),
        version: version(row, 1)?,
        schema: row.try_get(2).map_err(get)?,
    })
}

fn table_version(row: &Row) -> Result<TableVersion, Error> {
    const DOING: &str = "reading the versions of a table";
    let get = |error| Error::sql(DOING, error);
    let (foreign, logged): (bool, bool) = (row.try_get(4).map_err(get)?, row.try_get(5).map_err(get)?);
    Ok(TableVersion {
        oid: Oid(row.try_get(0).map_err(get)?),
        root: Oid(row.try_get(1).map_err(get)?),
        schema: row.try_get(2).map_err(get)?,
        name: row.try_get(3).map_err(get)?,
        storage: match (foreign, logged) {
            (true, _) => Storage::Foreign,
            (false, true) => Storage::Logged,
            (false, false) => Storage::Unlogged,
        },
        filenode: Oid(row.try_get(6).map_err(get)?),
        toast: Oid(row.try_get(7).map_err(get)?),
        parent: row.try_get(8).map_err(get)?,
        ancestors: row.try_get::<_, Vec<u32>>(9).map_err(get)?.into_iter().map(Oid).collect(),
        sequences: row.try_get(10).map_err(get)?,
    })
}

/// Returns `xmin`, which the server sends as text.
fn version(row: &Row, column: usize) -> Result<u32, Error> {
    const DOING: &str = "reading the version of a catalog row";
    let text: &str = row.try_get(column).map_err(|error| Error::sql(DOING, error))?;
    text.parse().map_err(|_| Error::Unexpected { message: "xmin".to_owned(), doing: DOING })
}
