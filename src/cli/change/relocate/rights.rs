//! The privileges for a cut-over, checked before the first step that cannot be undone.

use postgres_protocol::escape::escape_identifier;

use super::cut_over::TABLE;
use super::site::MissingRight;
use crate::postgres::{Error, Sql, TableFacts};

/// For a table of ids that exists: may it be filled. Otherwise: may it be created.
const MAY_WRITE: &str = "
select coalesce(
  (select has_table_privilege(c.oid, 'SELECT') and has_table_privilege(c.oid, 'INSERT') and has_table_privilege(c.oid, 'TRUNCATE')
   from pg_class c where c.relnamespace = n.oid and c.relname = $2),
  has_schema_privilege(n.oid, 'CREATE')), current_user::text
from pg_namespace n where n.nspname = $1";

/// The roles that may read the outbox, besides its owner and superusers: the relay logs in as one of them.
const READERS: &str = "
select distinct case a.grantee when 0 then 'PUBLIC' else quote_ident(pg_get_userbyid(a.grantee)) end
from pg_class c, aclexplode(c.relacl) a
where c.oid = $1 and a.privilege_type = 'SELECT' and a.grantee <> c.relowner
union select quote_ident(pg_get_userbyid(c.relowner)) from pg_class c where c.oid = $1";

/// Returns the right that the role lacks to store the ids, if it lacks one.
pub(super) async fn missing_right(sql: &Sql, outbox: &TableFacts) -> Result<Option<MissingRight>, Error> {
    const DOING: &str = "reading the rights of the role";
    let get = |error| Error::sql(DOING, error);
    let rows = sql.query(DOING, MAY_WRITE, &[&outbox.schema, &TABLE]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (may_write, role): (bool, String) = (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
    if may_write {
        return Ok(None);
    }
    let (table, grantee) = (quoted(outbox), escape_identifier(&role));
    let fix = format!(
        "CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY); GRANT SELECT, INSERT, TRUNCATE ON {table} TO {grantee};"
    );
    Ok(Some(MissingRight { role, table, fix }))
}

/// Lets the roles that read the outbox read the ids: the first start, which may have another role, compares with them.
pub(super) async fn let_readers_read(sql: &Sql, outbox: &TableFacts) -> Result<(), Error> {
    const DOING: &str = "granting SELECT on the ids of what was sent";
    let rows = sql.query(DOING, READERS, &[&outbox.oid.0]).await?;
    let readers: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
    let readers = readers.map_err(|error| Error::sql(DOING, error))?;
    sql.execute(DOING, &format!("GRANT SELECT ON {} TO {}", quoted(outbox), readers.join(", "))).await
}

/// Returns the table of the ids, quoted for SQL.
pub(super) fn quoted(outbox: &TableFacts) -> String {
    format!("{}.{TABLE}", escape_identifier(&outbox.schema))
}
