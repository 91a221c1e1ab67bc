//! Role of `outboxd run`, and the rights that it needs.

use std::collections::BTreeSet;

use postgres_protocol::escape::escape_identifier;

use crate::cli::shell::steps::Step;
use crate::postgres::{Error, Sql, TableFacts};

const DOING: &str = "reading the rights of the role";

/// Query for the rights of a role. A missing one has none; a superuser has all.
const ROLE: &str = "
select r.rolsuper, r.rolreplication or coalesce((select pg_has_role(r.oid, a.oid, 'member') from pg_roles a
                                                  where a.rolname = 'rds_replication'), false),
       has_database_privilege(r.oid, current_database(), 'CONNECT')
from pg_roles r where r.rolname = $1";

/// Query for the schemas that it may use; then for the tables that it may read.
const USES: &str = "
select n.nspname::text from pg_roles r, pg_namespace n
where r.rolname = $1 and has_schema_privilege(r.oid, n.oid, 'USAGE')";
const READS: &str = "
select c.oid from pg_roles r, pg_class c
where r.rolname = $1 and c.oid = any($2::oid[]) and has_table_privilege(r.oid, c.oid, 'SELECT')";

const AWS: &str = "select exists(select from pg_roles where rolname = 'rds_replication')";

/// Returns the steps that create the role and grant its rights.
pub(super) async fn role(
    sql: &Sql,
    role: &str,
    database: &str,
    tables: &[TableFacts],
) -> Result<Vec<Step>, Error> {
    let get = |error| Error::sql(DOING, error);
    let quoted = escape_identifier(role);
    let rows = sql.query(DOING, ROLE, &[&role]).await?;
    let mut has = [false; 3];
    if let Some(row) = rows.first() {
        for (at, has) in has.iter_mut().enumerate() {
            *has = row.try_get(at).map_err(get)?;
        }
    }
    let [superuser, replicates, connects] = has;
    if superuser {
        return Ok(vec![Step::new(format!("role {quoted}, a superuser"), "", "").unless(true)]);
    }
    let database = escape_identifier(database);
    let mut steps = vec![
        Step::new(
            format!("role {quoted}"),
            format!("CREATE ROLE {quoted} LOGIN"),
            format!("DROP ROLE {quoted}"),
        )
        .unless(!rows.is_empty()),
        replication(sql, &quoted).await?.unless(replicates),
        grant(&quoted, "CONNECT", &format!("DATABASE {database}")).unless(connects),
    ];
    steps.extend(reading(sql, role, tables).await?);
    Ok(steps)
}

async fn replication(sql: &Sql, quoted: &str) -> Result<Step, Error> {
    let on_aws = sql.query(DOING, AWS, &[]).await?;
    let on_aws = on_aws.first().map_or(Ok(false), |row| row.try_get(0));
    let (give, take) = if on_aws.map_err(|error| Error::sql(DOING, error))? {
        (format!("GRANT rds_replication TO {quoted}"), format!("REVOKE rds_replication FROM {quoted}"))
    } else {
        (format!("ALTER ROLE {quoted} REPLICATION"), format!("ALTER ROLE {quoted} NOREPLICATION"))
    };
    Ok(Step::new(format!("role {quoted} may read the stream"), give, take))
}

/// Returns the steps that grant reading of tables: streaming reads no table, a snapshot does.
async fn reading(sql: &Sql, role: &str, tables: &[TableFacts]) -> Result<Vec<Step>, Error> {
    let get = |error| Error::sql(DOING, error);
    let quoted = escape_identifier(role);
    let oids: Vec<u32> = tables.iter().map(|table| table.oid.0).collect();
    let used = sql.query(DOING, USES, &[&role]).await?;
    let used: Vec<String> = used.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(get)?;
    let read = sql.query(DOING, READS, &[&role, &oids]).await?;
    let read: Vec<u32> = read.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(get)?;
    let schemas: BTreeSet<_> = tables.iter().map(|table| table.schema.as_str()).collect();
    let uses = schemas.into_iter().map(|schema| {
        let may = used.iter().any(|used| used == schema);
        grant(&quoted, "USAGE", &format!("SCHEMA {}", escape_identifier(schema))).unless(may)
    });
    let selects = tables.iter().map(|table| {
        grant(&quoted, "SELECT", &format!("TABLE {}", table.quoted())).unless(read.contains(&table.oid.0))
    });
    Ok(uses.chain(selects).collect())
}

fn grant(quoted: &str, right: &str, on: &str) -> Step {
    Step::new(
        format!("role {quoted} has {right} on {on}"),
        format!("GRANT {right} ON {on} TO {quoted}"),
        format!("REVOKE {right} ON {on} FROM {quoted}"),
    )
}
