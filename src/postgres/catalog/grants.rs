//! Missing privileges of a role, as the statement that grants them.

use postgres_protocol::escape::escape_identifier;

use crate::error::chain;
use crate::postgres::connections::sql::Sql;
use crate::postgres::{Error, TableFacts};
use crate::wal::Oid;
use crate::wire::ServerError;

/// `insufficient_privilege`
const FORBIDDEN: &str = "42501";

/// Server's message for a schema without USAGE, untranslated.
const SCHEMA: &str = "permission denied for schema ";

/// Setting with which a table whose policies hide rows from the role is refused; without, it has fewer rows.
pub(in crate::postgres) const ALL_ROWS: &str = "SET row_security = off";

/// Beginning of the server's message about a table that a role may not read; the name has no schema, and is untranslated.
const TABLE: &str = "permission denied for table ";

/// The server's message, untranslated.
const HIDING: &str = "query would be affected by row-level security policy for table ";

/// Rights on each column are as good as one on the table.
const UNREADABLE: &str = "
select c.oid, has_schema_privilege(c.relnamespace, 'USAGE'), row_security_active(c.oid)
from pg_class c
where c.oid = any($1) and (row_security_active(c.oid) or not has_schema_privilege(c.relnamespace, 'USAGE') or not has_table_privilege(c.oid, 'SELECT') and exists(
  select from pg_attribute a
  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and not has_column_privilege(c.oid, a.attnum, 'SELECT')))";

/// A table that the role may not read completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) table: Oid,
    /// True if the role has USAGE on the table's schema.
    pub(crate) sees_schema: bool,
    /// Policies hide rows from it.
    pub(crate) hides_rows: bool,
}

impl Sql {
    /// Reads the tables that the role may not read.
    pub(crate) async fn unreadable(&self, tables: &[TableFacts]) -> Result<Vec<Unreadable>, Error> {
        const DOING: &str = "reading the rights of the role";
        let oids: Vec<u32> = tables.iter().map(|table| table.oid.0).collect();
        let rows = self.query(DOING, UNREADABLE, &[&oids]).await?;
        let facts = rows.iter().map(|row| {
            let (table, sees_schema) = (Oid(row.try_get(0)?), row.try_get(1)?);
            Ok(Unreadable { table, sees_schema, hides_rows: row.try_get(2)? })
        });
        facts.collect::<Result<_, _>>().map_err(|error| Error::sql(DOING, error))
    }
}

impl Unreadable {
    /// Returns the statement that grants the missing privileges.
    pub(crate) fn grants(self, table: &TableFacts, role: &str) -> String {
        if self.hides_rows {
            return no_policies(role);
        }
        let select = on_table("SELECT", &table.quoted(), role);
        if self.sees_schema { select } else { format!("{}\n{select}", on_schema(&table.schema, role)) }
    }
}

impl Error {
    /// Returns the error with the statement to apply, when the server has refused it to the role. `table` is
    /// quoted for SQL.
    pub(crate) fn or_grant(self, privileges: &str, table: &str, role: &str) -> Self {
        let Self::Server { source, .. } = &self else { return self };
        if source.code != FORBIDDEN {
            return self;
        }
        let fix = match (source.message.strip_prefix(SCHEMA), source.message.strip_prefix(TABLE)) {
            (Some(schema), _) => on_schema(schema, role),
            (None, Some(named)) => on_table(privileges, &denied_table(table, named), role),
            (None, None) => on_table(privileges, table, role),
        };
        Self::Precondition { problem: chain(&self), fix }
    }
}

/// Returns the table that the server has named. A statement about a table may read another one, such as the ids beside an outbox, and
/// that one is taken to be in the same schema.
fn denied_table(table: &str, named: &str) -> String {
    let named = escape_identifier(named);
    let is_one = !table.contains(", ");
    match table.rsplit_once("\".\"") {
        Some((schema, _)) if is_one && !table.ends_with(&named) => format!("{schema}\".{named}"),
        _ => table.to_owned(),
    }
}

/// Returns the table whose policies hide rows, as the server names it. `lc_messages` may translate that, but not the file.
pub(in crate::postgres) fn hiding_table(error: &ServerError) -> Option<&str> {
    let translated = || (error.file.as_deref() == Some("rls.c")).then_some("that the message names");
    error.message.strip_prefix(HIDING).or_else(translated).filter(|_| error.code == FORBIDDEN)
}

/// Returns the statement that bypasses policies. The stream has all rows, whatever policies hide, so this
/// discloses nothing more.
fn no_policies(role: &str) -> String {
    format!(
        "as a superuser: ALTER ROLE {} BYPASSRLS; the stream has the rows of all, and a snapshot must have them too",
        escape_identifier(role)
    )
}

fn on_table(privileges: &str, table: &str, role: &str) -> String {
    format!("as the owner of the table: GRANT {privileges} ON {table} TO {};", escape_identifier(role))
}

fn on_schema(schema: &str, role: &str) -> String {
    let [schema, role] = [schema, role].map(escape_identifier);
    format!("as the owner of the schema: GRANT USAGE ON SCHEMA {schema} TO {role};")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Diagnose as _, Exit};

    #[test]
    fn a_refusal_is_reported_with_the_statement() {
        let told = |code: &str, message: &str| {
            let (code, message) = (code.to_owned(), message.to_owned());
            let source = Box::new(ServerError { code, message, ..ServerError::default() });
            let error = Error::Server { doing: "reading".to_owned(), source };
            let error = error.or_grant("SELECT, DELETE", "\"public\".\"outbox\"", "relay");
            assert_eq!(error.exit(), Exit::Precondition);
            (error.to_string(), error.fix().unwrap_or_default())
        };
        let (problem, fix) = told(FORBIDDEN, "permission denied for table outbox");
        assert!(problem.contains("permission denied for table outbox"), "{problem}");
        assert!(fix.ends_with(": GRANT SELECT, DELETE ON \"public\".\"outbox\" TO \"relay\";"), "{fix}");
        let (_, fix) = told(FORBIDDEN, "permission denied for table outboxd_moved");
        assert!(
            fix.ends_with(": GRANT SELECT, DELETE ON \"public\".\"outboxd_moved\" TO \"relay\";"),
            "{fix}"
        );
        let (_, fix) = told(FORBIDDEN, "permission denied for schema Sales");
        assert!(fix.ends_with(": GRANT USAGE ON SCHEMA \"Sales\" TO \"relay\";"), "{fix}");
        assert_eq!(told("42P01", "relation \"outbox\" does not exist").1, "");
    }
}
