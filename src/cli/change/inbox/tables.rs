//! Sessions with the inbox's tables.

use postgres_protocol::escape::escape_identifier;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, ToSql};

use super::args::TablesArgs;
use super::error::InboxError;
use crate::cli::shell::address::Address;
use crate::cli::shell::sql::open;
use crate::config::DatabaseConfig;
use crate::postgres::{Error, Sql};

/// The application name in `pg_stat_activity`.
const APPLICATION: &str = "outboxd inbox";

/// The version of the tables that these statements are written for.
const VERSION: i32 = 5;

const DOING: &str = "reading the inbox's tables";

/// Every name is qualified: it runs with the role's own search_path.
const FIND_VISIBLE: &str =
    "SELECT pg_catalog.to_regclass('inbox_partition')::pg_catalog.oid::pg_catalog.text";
const SCHEMA_OF: &str = "SELECT nspname::text FROM pg_class JOIN pg_namespace AS schema ON schema.oid = relnamespace WHERE pg_class.oid::text = $1";
const FIND_ALL: &str = "SELECT nspname::text FROM pg_class JOIN pg_namespace AS schema ON schema.oid = relnamespace \
     WHERE relname = 'inbox_partition' AND relkind IN ('r', 'p') ORDER BY nspname";
const HAS_VERSION: &str = "SELECT to_regclass('inbox_version') IS NOT NULL";
const FIND_VERSION: &str = "SELECT max(version) FROM inbox_version";
const CONSUMERS: &str = "SELECT DISTINCT consumer FROM inbox_partition ORDER BY consumer";

/// A session whose `search_path` has PostgreSQL's own objects, and then the inbox's tables of one schema.
pub(super) struct Tables {
    sql: Sql,
    pub(super) schema: String,
    pub(super) version: i32,
}

impl Tables {
    /// Connects, finds the tables and checks their version.
    pub(super) async fn open(args: &TablesArgs) -> Result<Self, InboxError> {
        let address = args.postgres.as_deref().map(Address::parse).transpose()?;
        let mut sources = args.config.sources();
        if address.is_none() && sources.is_empty() {
            return Err(InboxError::NoServer);
        }
        if let Some(address) = &address {
            address.add_to(&mut sources);
        }
        let config = DatabaseConfig::load(&sources).map_err(|error| InboxError::Config(Box::new(error)))?;
        let server = config.options.server;
        let sql = open(&server, APPLICATION).await?;
        let schema = find_schema(&sql, args.schema.as_deref()).await?;
        let Some(schema) = schema else {
            let others = texts(&sql.query(DOING, FIND_ALL, &[]).await?)?;
            return Err(InboxError::NoTables {
                database: server.database,
                schema: args.schema.clone(),
                others,
            });
        };
        let path = format!("SET search_path = pg_catalog, {}", escape_identifier(&schema));
        sql.execute(DOING, &path).await?;
        let version = check_version(&sql, &server.database, &schema).await?;
        Ok(Self { sql, schema, version })
    }

    /// Runs a query on the tables.
    pub(super) async fn query(&self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.sql.query(DOING, text, values).await
    }

    /// Runs statements without parameters and without an answer.
    pub(super) async fn execute(&self, text: &str) -> Result<(), Error> {
        self.sql.execute("changing the inbox's tables", text).await
    }

    /// Runs a statement that changes rows.
    pub(super) async fn change(&self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.sql.query("changing the inbox's tables", text, values).await
    }

    /// Fails when no partition belongs to this consumer.
    pub(super) async fn check_consumer(&self, consumer: &str) -> Result<(), InboxError> {
        let known = texts(&self.query(CONSUMERS, &[]).await?)?;
        if known.iter().any(|name| name == consumer) {
            return Ok(());
        }
        Err(InboxError::NoConsumer { consumer: consumer.to_owned(), schema: self.schema.clone(), known })
    }
}

/// Returns a column of a row.
pub(super) fn get<T: FromSqlOwned>(row: &Row, column: usize) -> Result<T, Error> {
    row.try_get(column).map_err(|error| Error::sql(DOING, error))
}

fn texts(rows: &[Row]) -> Result<Vec<String>, Error> {
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Returns the schema with the tables: the given one, or the first one of the role's search_path.
async fn find_schema(sql: &Sql, given: Option<&str>) -> Result<Option<String>, Error> {
    if let Some(given) = given {
        let all = texts(&sql.query(DOING, FIND_ALL, &[]).await?)?;
        return Ok(all.into_iter().find(|schema| schema == given));
    }
    sql.use_role_names().await?;
    let visible = sql.texts(DOING, FIND_VISIBLE).await?;
    sql.use_catalog_names().await?;
    let Some(oid) = visible.and_then(|row| row.into_iter().next()).flatten() else { return Ok(None) };
    Ok(texts(&sql.query(DOING, SCHEMA_OF, &[&oid]).await?)?.pop())
}

async fn check_version(sql: &Sql, database: &str, schema: &str) -> Result<i32, InboxError> {
    let (database, schema) = (database.to_owned(), schema.to_owned());
    let has_version = sql.query(DOING, HAS_VERSION, &[]).await?;
    let found = match has_version.first().map(|row| get(row, 0)).transpose()? {
        Some(true) => {
            let rows = sql.query(DOING, FIND_VERSION, &[]).await?;
            rows.first().map(|row| get::<Option<i32>>(row, 0)).transpose()?.flatten()
        }
        _ => None,
    };
    match found {
        Some(VERSION) => Ok(VERSION),
        Some(found) if found > VERSION => Err(InboxError::NewerTables { schema, found, needed: VERSION }),
        found => Err(InboxError::OldTables { database, schema, found, needed: VERSION }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_tables() {
        let script = include_str!("../../../../sql/inbox.sql");
        assert!(script.contains(&format!("INSERT INTO inbox_version (version) VALUES ({VERSION}) ")));
    }
}
