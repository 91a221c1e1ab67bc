//! Queries for the present state of single relations.

use crate::postgres::Error;
use crate::postgres::connections::sql::Sql;
use crate::signal::PgSnapshot;
use crate::wal::Oid;

/// A relation, as far as it matters for whether it is captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationFacts {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The topmost table that it is a partition of.
    pub root: Option<NamedTable>,
    /// True if it inherits from another table, as a partition or otherwise.
    pub inherits: bool,
}

/// A table and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTable {
    /// Object id.
    pub oid: Oid,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
}

const RELATION: &str = "
select n.nspname::text, c.relname::text, root.oid, root.schema, root.name,
       exists(select from pg_inherits i where i.inhrelid = c.oid)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
     left join lateral (
         select r.oid, s.nspname::text as schema, r.relname::text as name
         from pg_partition_ancestors(c.oid) with ordinality a(relid, ord)
              join pg_class r on r.oid = a.relid join pg_namespace s on s.oid = r.relnamespace
         where c.relispartition order by a.ord desc limit 1) root on true
where c.oid = $1";

impl Sql {
    /// Reads the snapshot of other transactions that a query has at present.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn sight(&self) -> Result<PgSnapshot, Error> {
        const DOING: &str = "reading which transactions are seen";
        let row = self.texts(DOING, "SELECT pg_current_snapshot()").await?;
        let sight = row.and_then(|row| PgSnapshot::parse(row.first()?.as_deref()?));
        sight.ok_or_else(|| Error::Unexpected { message: "answer".to_owned(), doing: DOING })
    }

    /// Reads the relation of this object id; `None` if it was dropped.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn relation(&self, oid: Oid) -> Result<Option<RelationFacts>, Error> {
        const DOING: &str = "reading a relation";
        let get = |error| Error::sql(DOING, error);
        let rows = self.query(DOING, RELATION, &[&oid.0]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let root = match row.try_get::<_, Option<u32>>(2).map_err(get)? {
            Some(oid) => Some(NamedTable {
                oid: Oid(oid),
                schema: row.try_get(3).map_err(get)?,
                name: row.try_get(4).map_err(get)?,
            }),
            None => None,
        };
        Ok(Some(RelationFacts {
            schema: row.try_get(0).map_err(get)?,
            name: row.try_get(1).map_err(get)?,
            root,
            inherits: row.try_get(5).map_err(get)?,
        }))
    }
}
