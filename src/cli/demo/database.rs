//! Objects that the demo creates in PostgreSQL, and removes again.

use std::time::Duration;

use tokio::time::sleep;

use super::error::Error;
use super::names::{NAME, Names};
use crate::postgres::{self, ServerOptions, Sql, TlsSetup};

/// The files that users apply, so that the demo and the documentation cannot differ.
const OUTBOX: &str = include_str!("../../../sql/outbox.sql");
const PUBLICATION: &str = include_str!("../../../sql/publication.sql");

const APPLICATION: &str = "outboxd-demo";
const OBJECT_IN_USE: &str = "55006";
/// A walsender whose client has ended uses its slot until it detects that.
const SLOT_ATTEMPT_COUNT_MAX: u32 = 50;
const SLOT_PAUSE: Duration = Duration::from_millis(100);

/// Opens another session of the demo on its database.
pub(super) async fn connect(server: &ServerOptions) -> Result<Sql, postgres::Error> {
    Sql::open(server, &TlsSetup::new(server)?, APPLICATION).await
}

/// Makes a database, from within the one that every server has.
pub(super) async fn create_database(server: &ServerOptions) -> Result<(), postgres::Error> {
    let maintenance = ServerOptions { database: "postgres".to_owned(), ..server.clone() };
    let statement = format!("CREATE DATABASE {}", server.database);
    connect(&maintenance).await?.execute("creating the demo's database", &statement).await
}

/// Makes the tables and the publication, all or nothing.
pub(super) async fn create(sql: &Sql, names: &Names) -> Result<(), postgres::Error> {
    sql.execute("creating the demo's tables", &create_statements(names)).await
}

/// Refuses a server on which something has one of our names: it is not ours to drop.
pub(super) async fn refuse_existing(sql: &Sql) -> Result<(), Error> {
    const EXISTING: &str = "
        SELECT format('schema %I', nspname), format('DROP SCHEMA %I CASCADE;', nspname)
        FROM pg_namespace WHERE nspname = $1
        UNION ALL
        SELECT format('publication %I', pubname), format('DROP PUBLICATION %I;', pubname)
        FROM pg_publication WHERE pubname = $1
        UNION ALL
        SELECT format('replication slot %I', slot_name), format('SELECT pg_drop_replication_slot(%L);', slot_name)
        FROM pg_replication_slots WHERE slot_name = $1";
    const DOING: &str = "looking for what an earlier demo left";
    let rows = sql.query(DOING, EXISTING, &[&NAME]).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let column = |index: usize| rows.iter().filter_map(move |row| row.try_get::<_, String>(index).ok());
    Err(Error::Occupied {
        server: "the database of --postgres",
        objects: column(0).collect::<Vec<_>>().join(", "),
        fix: format!(
            "wait for the other demo to end; if none runs and nothing of yours is in there: {}",
            column(1).collect::<Vec<_>>().join(" ")
        ),
    })
}

/// Drops the objects of [`create`] and of the relay, and nothing else: with a table of the user in it, the schema is not dropped.
pub(super) async fn remove(sql: &Sql, names: &Names) -> Result<(), postgres::Error> {
    drop_slot(sql).await?;
    sql.execute("dropping the demo's tables", &drop_statements(names)).await
}

async fn drop_slot(sql: &Sql) -> Result<(), postgres::Error> {
    const DROP: &str =
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1";
    let mut attempts = 0;
    loop {
        let outcome = sql.query("dropping the demo's replication slot", DROP, &[&NAME]).await;
        attempts += 1;
        match outcome {
            Err(error) if error.sqlstate() == Some(OBJECT_IN_USE) && attempts < SLOT_ATTEMPT_COUNT_MAX => {
                sleep(SLOT_PAUSE).await;
            }
            outcome => return outcome.map(drop),
        }
    }
}

fn create_statements(names: &Names) -> String {
    let schema = if names.schema == NAME { format!("CREATE SCHEMA {NAME};\n") } else { String::new() };
    let ours =
        |script: &str| script.replace("public.outbox", &names.outbox()).replace("dbz_publication", NAME);
    format!(
        "{schema}
        CREATE TABLE {}.orders (
            id       bigint      PRIMARY KEY,
            customer text        NOT NULL,
            total    numeric     NOT NULL,
            status   text        NOT NULL,
            changed  timestamptz NOT NULL DEFAULT now()
        );
        {};
        {}",
        names.schema,
        ours(OUTBOX),
        ours(PUBLICATION)
    )
}

fn drop_statements(names: &Names) -> String {
    let schema = names.schema;
    format!("DROP PUBLICATION {NAME}; DROP TABLE {schema}.outbox, {schema}.orders; DROP SCHEMA {schema};")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_another_server_every_object_has_our_name() {
        let statements = create_statements(&Names::new(true, false));
        let code: Vec<_> = statements.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        for foreign in ["public.", "dbz_publication"] {
            assert!(!code.iter().any(|line| line.contains(foreign)), "{foreign}");
        }
        assert!(statements.starts_with("CREATE SCHEMA outboxd_demo;"));
    }

    #[test]
    fn on_our_own_server_the_names_are_those_of_the_files() {
        let statements = create_statements(&Names::new(false, false));
        assert!(statements.contains(OUTBOX) && !statements.contains("CREATE SCHEMA"));
    }
}
