//! What has to be there in the database: statements, and which of them are done.

use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::cli::steps::Step;
use crate::postgres::{Error, PublicationOptions, Sql, TableFacts};

const TABLE: &str = include_str!("../../../sql/outbox.sql");

/// What the role has. Of one that is not there, nothing; of a superuser, everything.
const ROLE: &str = "
select r.rolsuper, r.rolreplication or coalesce((select pg_has_role(r.oid, a.oid, 'member') from pg_roles a
                                                  where a.rolname = 'rds_replication'), false),
       has_database_privilege(r.oid, current_database(), 'CONNECT'),
       coalesce(has_schema_privilege(r.oid, to_regnamespace($2), 'USAGE'), false),
       coalesce(has_table_privilege(r.oid, to_regclass($3), 'SELECT'), false)
from pg_roles r where r.rolname = $1";

const AWS: &str = "select exists(select from pg_roles where rolname = 'rds_replication')";

/// The table, when it is to be made.
pub(super) fn table(there: bool) -> Step {
    // Its comments are for who reads the file.
    let said = TABLE.lines().filter(|line| !line.trim_start().starts_with("--") && !line.trim().is_empty());
    let body: Vec<_> = said.collect();
    let body = body.join("\n");
    Step::new("table public.outbox", body.trim_end().trim_end_matches(';'), "DROP TABLE public.outbox")
        .unless(there)
}

/// The publication of this table.
pub(super) async fn publication(
    sql: &Sql,
    options: &PublicationOptions,
    table: &TableFacts,
) -> Result<Step, Error> {
    let (quoted, name) = (table.quoted(), escape_identifier(&options.name));
    let what = format!("publication {name} of {quoted}, inserts only");
    let Some(existing) = sql.publication(&options.name).await? else {
        let create = options.create_statement(&[table]);
        return Ok(Step::new(what, create, format!("DROP PUBLICATION {name}")));
    };
    if !existing.inserts {
        return Err(Error::Precondition {
            problem: format!("publication {name} is there and does not publish inserts"),
            cure: format!(
                "give publication.name another name, or, if nobody else reads it: ALTER PUBLICATION {name} SET (publish = 'insert');"
            ),
        });
    }
    let add = Step::new(
        format!("publication {name} of {quoted}"),
        format!("ALTER PUBLICATION {name} ADD TABLE {quoted}"),
        format!("ALTER PUBLICATION {name} DROP TABLE {quoted}"),
    );
    Ok(add.unless(existing.publishes(table)))
}

/// The role, and what it needs.
pub(super) async fn role(
    sql: &Sql,
    role: &str,
    database: &str,
    table: &TableFacts,
) -> Result<Vec<Step>, Error> {
    const DOING: &str = "reading the rights of the role";
    let get = |error| Error::sql(DOING, error);
    let (quoted, schema) = (escape_identifier(role), escape_identifier(&table.schema));
    let rows = sql.query(DOING, ROLE, &[&role, &schema, &table.quoted()]).await?;
    let mut has = [false; 5];
    if let Some(row) = rows.first() {
        for (at, has) in has.iter_mut().enumerate() {
            *has = row.try_get(at).map_err(get)?;
        }
    }
    let [superuser, replicates, connects, uses, selects] = has;
    if superuser {
        return Ok(vec![Step::new(format!("role {quoted}, a superuser"), "", "").unless(true)]);
    }
    let on_aws = sql.query(DOING, AWS, &[]).await?;
    let on_aws: bool = on_aws.first().map_or(Ok(false), |row| row.try_get(0)).map_err(get)?;
    let replication = if on_aws {
        Step::new(
            format!("role {quoted} may read the stream"),
            format!("GRANT rds_replication TO {quoted}"),
            format!("REVOKE rds_replication FROM {quoted}"),
        )
    } else {
        Step::new(
            format!("role {quoted} may read the stream"),
            format!("ALTER ROLE {quoted} REPLICATION"),
            format!("ALTER ROLE {quoted} NOREPLICATION"),
        )
    };
    let grant = |right: &str, on: &str| {
        Step::new(
            format!("role {quoted} has {right} on {on}"),
            format!("GRANT {right} ON {on} TO {quoted}"),
            format!("REVOKE {right} ON {on} FROM {quoted}"),
        )
    };
    let database = escape_identifier(database);
    Ok(vec![
        Step::new(
            format!("role {quoted}"),
            format!("CREATE ROLE {quoted} LOGIN"),
            format!("DROP ROLE {quoted}"),
        )
        .unless(!rows.is_empty()),
        replication.unless(replicates),
        grant("CONNECT", &format!("DATABASE {database}")).unless(connects),
        grant("USAGE", &format!("SCHEMA {schema}")).unless(uses),
        grant("SELECT", &format!("TABLE {}", table.quoted())).unless(selects),
    ])
}

/// The slot, when it is to be made before the first start.
pub(super) async fn slot(sql: &Sql, name: &str) -> Result<Step, Error> {
    let literal = escape_literal(name);
    let make = format!("SELECT pg_create_logical_replication_slot({literal}, 'pgoutput')");
    let there = sql.slot_named(name).await?.is_some();
    let undo = format!("SELECT pg_drop_replication_slot({literal})");
    Ok(Step::new(format!("replication slot {name}"), make, undo).unless(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_file() {
        let step = table(false);
        assert!(
            step.sql.starts_with("CREATE TABLE IF NOT EXISTS public.outbox (") && !step.sql.ends_with(';'),
            "{step:?}"
        );
        assert!(TABLE.contains(&format!("-- Undo: {};", step.undo.unwrap())));
    }
}
