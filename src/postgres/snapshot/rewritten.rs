//! Tables that ALTER TABLE has rewritten after a snapshot was taken and before its rows were read. All rows are written again by a
//! transaction that the snapshot does not see, so to the snapshot such a table is empty.

use crate::postgres::Error;
use crate::postgres::connections::connection::Connection;
use crate::wal::Oid;

const DOING: &str = "looking for tables that were rewritten";

/// Lists those of a table and its descendants whose file has changed since the snapshot. `pg_relation_filenode` reads the current catalog,
/// the query reads the catalog of the snapshot.
const OTHER_FILES: &str = "
WITH RECURSIVE tree(oid) AS (
    SELECT {table}::pg_catalog.oid
    UNION ALL
    SELECT i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent OPERATOR(pg_catalog.=) tree.oid)
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname)
FROM tree JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) tree.oid
     JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.relkind OPERATOR(pg_catalog.=) 'r'
      AND pg_catalog.pg_relation_filenode(c.oid) OPERATOR(pg_catalog.<>) c.relfilenode";

/// Checks a table that the transaction of this session has read. The read has locked it, so it cannot be rewritten any more. VACUUM FULL and
/// CLUSTER change the file, too, but not the rows that a snapshot sees.
///
/// # Errors
/// When the file of a table has changed and the snapshot sees no row in it, or the role may not read it by itself; or when the connection
/// breaks.
pub(super) async fn check(connection: &mut Connection, table: Oid) -> Result<(), Error> {
    let others = connection.command(DOING, &OTHER_FILES.replace("{table}", &table.0.to_string())).await?;
    for name in others.into_iter().flatten().flatten() {
        match connection.command(DOING, &format!("SELECT FROM ONLY {name} LIMIT 1")).await {
            Ok(rows) if !rows.is_empty() => {}
            // A role that reads partitions through their table only gets an error here.
            Ok(_) | Err(Error::Server { .. }) => return Err(Error::Rewritten { table: name }),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
