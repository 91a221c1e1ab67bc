//! Tables that were rewritten after a snapshot was taken and before it has read them. ALTER TABLE writes each row again by a transaction that
//! the snapshot does not see, so to the snapshot such a table is empty.

use crate::postgres::Error;
use crate::postgres::connections::connection::Connection;
use crate::wal::Oid;

const DOING: &str = "looking for tables that were rewritten";

/// Lists the tables below one, and itself, whose file is another one now than in the snapshot. The function reads the catalog as it is
/// now, the query as the snapshot shows it.
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

/// Checks a table that this session's transaction has read, and so has locked: it is not rewritten from then on. VACUUM FULL and CLUSTER keep
/// what a snapshot sees.
///
/// # Errors
/// When a table has another file now and the snapshot sees no row in it; or when the connection breaks.
pub(super) async fn check(connection: &mut Connection, table: Oid) -> Result<(), Error> {
    let others = connection.command(DOING, &OTHER_FILES.replace("{table}", &table.0.to_string())).await?;
    for name in others.into_iter().flatten().flatten() {
        let seen = connection.command(DOING, &format!("SELECT FROM ONLY {name} LIMIT 1")).await?;
        if seen.is_empty() {
            return Err(Error::Rewritten { table: name });
        }
    }
    Ok(())
}
