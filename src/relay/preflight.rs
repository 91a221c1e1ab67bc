use std::sync::Arc;

use tokio::{join, try_join};

use super::supervisor::RelayParts;
use crate::connect::column::ColumnDescription;
use crate::pgoutput::{Column, Relation, ReplicaIdentity};
use crate::postgres::{Connection, Error, Options, ServerFacts, Sql, TableFacts, TableFilter, TlsSetup};
use crate::wal::{Lsn, SystemId, TimelineId};

/// The oldest PostgreSQL that we support: logical messages came to pgoutput in 14.
pub(crate) const OLDEST_VERSION_NUM: i32 = 140_000;

/// What `application_name` our sessions carry begins with; it tells a second instance from a foreign program.
pub(super) const APPLICATION: &str = "outboxd";

/// The `application_name` of this configuration's sessions.
pub(super) fn application(options: &Options) -> String {
    format!("{APPLICATION}/{}", options.slot.name)
}

/// PostgreSQL, reached and found fit; nothing has been changed in it.
#[derive(Debug)]
pub struct Preflight {
    /// The replication connection, logged in.
    pub connection: Connection,
    /// The SQL connection.
    pub sql: Arc<Sql>,
    /// The server's settings.
    pub server: ServerFacts,
    /// Which cluster this is.
    pub system_id: SystemId,
    /// On which timeline.
    pub timeline: TimelineId,
    /// How far its WAL is flushed.
    pub wal_end: Lsn,
}

/// The captured tables.
#[derive(Debug)]
pub struct Capture {
    /// Each captured table.
    pub tables: Vec<TableFacts>,
    /// What had to be assumed to make them fit, one line each.
    pub assumptions: Vec<String>,
}

impl Preflight {
    /// Connects and checks the server.
    ///
    /// # Errors
    /// When it cannot be reached, refuses the login, or cannot decode logically.
    pub async fn reach(options: &Options, tls: &TlsSetup) -> Result<Self, Error> {
        let application = application(options);
        let (connection, sql) = join!(
            Connection::open(&options.server, tls, &application, options.message_bytes_max),
            Sql::open(&options.server, tls, &application),
        );
        // First the connection that tells the finer reasons.
        let (mut connection, sql) = (connection?, sql?);
        let ((system_id, timeline, wal_end), server) = try_join!(identify(&mut connection), sql.server())?;
        check_server(&server)?;
        Ok(Self { connection, sql: Arc::new(sql), server, system_id, timeline, wal_end })
    }

    /// Finds the captured tables and tries the router on each. Where logical messages are events there need be none.
    ///
    /// # Errors
    /// When none is captured, one has not the columns that the router needs, or the router's predicate leaves one out.
    pub async fn capture(&self, parts: &RelayParts) -> Result<Capture, super::Error> {
        let (filter, router) = (&parts.tables, &parts.router);
        let all = self.sql.tables().await?;
        let is_outbox =
            |table: &TableFacts| router.acts_on(&table.schema, &table.name) && router.fits(&table.columns);
        let captured = filter.captured(&all, is_outbox)?;
        if captured.is_empty() && parts.messages.is_none() {
            return Err(no_table(filter, &all).into());
        }
        if let Some(table) = captured.iter().find(|table| !router.acts_on(&table.schema, &table.name)) {
            return Err(left_out(&table.schema, &table.name).into());
        }
        let mut assumptions = Vec::new();
        for table in &captured {
            let columns = self.sql.describe(table.oid).await?;
            let bound = router.bind(&relation_of(table, &columns), &columns)?;
            assumptions.extend(bound.assumptions().iter().map(ToString::to_string));
            assumptions.extend(bound.unmasked().iter().map(ToString::to_string));
        }
        if !filter.names_tables() && !captured.is_empty() {
            let names: Vec<_> =
                captured.iter().map(|table| format!("{}.{}", table.schema, table.name)).collect();
            assumptions.push(format!(
                "table.include.list is not set: capturing the tables that have the router's columns: {}",
                names.join(", ")
            ));
        }
        assumptions.dedup();
        Ok(Capture { tables: captured.into_iter().cloned().collect(), assumptions })
    }
}

/// The table as the stream would describe it.
pub(crate) fn relation_of(table: &TableFacts, columns: &[ColumnDescription]) -> Relation {
    let columns = columns.iter().map(|column| Column {
        name: column.name.clone(),
        type_oid: column.type_oid,
        type_modifier: column.type_modifier,
        in_identity: false,
    });
    Relation {
        oid: table.oid,
        schema: table.schema.clone(),
        table: table.name.clone(),
        replica_identity: ReplicaIdentity::Default,
        columns: columns.collect(),
    }
}

async fn identify(connection: &mut Connection) -> Result<(SystemId, TimelineId, Lsn), Error> {
    const DOING: &str = "IDENTIFY_SYSTEM";
    let rows = connection.command(DOING, DOING).await?;
    let field = |index: usize| rows.first().and_then(|row| row.get(index)).and_then(Option::as_deref);
    let timeline = field(1).and_then(|text| text.parse().ok()).map(TimelineId);
    let wal_end = field(2).and_then(|text| text.parse().ok());
    match (field(0), timeline, wal_end) {
        (Some(system_id), Some(timeline), Some(wal_end)) => {
            Ok((SystemId(system_id.to_owned()), timeline, wal_end))
        }
        _ => Err(Error::Unexpected { message: "answer".to_owned(), doing: DOING }),
    }
}

fn check_server(server: &ServerFacts) -> Result<(), Error> {
    let refuse = |problem: String, cure: &str| Err(Error::Precondition { problem, cure: cure.to_owned() });
    if server.version_num < OLDEST_VERSION_NUM {
        let major = server.version_num / 10_000;
        return refuse(
            format!("PostgreSQL {major} is too old: 14 is the oldest supported"),
            "upgrade the server",
        );
    }
    if server.in_recovery {
        return refuse(
            "this PostgreSQL is a standby (pg_is_in_recovery)".to_owned(),
            "point database.hostname at the primary",
        );
    }
    if server.wal_level != "logical" {
        return refuse(
            format!("wal_level is {:?}, logical decoding needs \"logical\"", server.wal_level),
            "as a superuser: ALTER SYSTEM SET wal_level = 'logical';\nthen restart the server (on RDS: set the \
             parameter rds.logical_replication to 1)",
        );
    }
    Ok(())
}

/// A captured table whose rows the router's predicate leaves as they are.
pub(crate) fn left_out(schema: &str, table: &str) -> Error {
    Error::Precondition {
        problem: format!(
            "the router's predicate leaves out table {schema}.{table}, which table.include.list captures: its rows would be \
             plain change events, and outboxd sends only what is routed"
        ),
        cure: "take the table out of table.include.list, or correct the predicate".to_owned(),
    }
}

/// Why nothing is captured.
pub(crate) fn no_table(filter: &TableFilter, all: &[TableFacts]) -> Error {
    let some: Vec<_> = all.iter().take(8).map(|table| format!("{}.{}", table.schema, table.name)).collect();
    let there = if some.is_empty() { "no tables at all".to_owned() } else { some.join(", ") };
    if filter.names_tables() {
        return Error::Precondition {
            problem: "no table matches table.include.list".to_owned(),
            cure: format!(
                "the entries are regular expressions that must match the whole of schema.table; the database has: \
                 {there}. To make an outbox table: psql -f sql/outbox.sql"
            ),
        };
    }
    Error::Precondition {
        problem: "no table has the columns that the router needs".to_owned(),
        cure: format!(
            "set table.include.list to your outbox table (the database has: {there}), or make one: psql -f \
             sql/outbox.sql"
        ),
    }
}
