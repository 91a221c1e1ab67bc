//! The first queries of a start, which change nothing: the server, the captured tables, and whether the route fits them.

use std::sync::Arc;

use tokio::{join, try_join};

use super::captured::{CapturedTables, Rules, not_in_the_wal};
use super::hypertables;
use super::resolution::{key_of, relation_of};
use super::route::Route;
use super::standby;
use crate::postgres::{
    self, Connection, Guardrail, Options, ServerFacts, Sql, Storage, TableFacts, TableFilter, TlsSetup,
};
use crate::relay::error::Error;
use crate::relay::origin::Origin;
use crate::relay::parts::RelayParts;
use crate::wal::{Lsn, Oid, SystemId, TimelineId};

/// The oldest PostgreSQL that we support: logical messages came to pgoutput in 14.
pub(crate) const OLDEST_VERSION_NUM: i32 = 140_000;

/// The oldest one that decodes on a standby.
const STANDBY_VERSION_NUM: i32 = 160_000;

/// Returns the `application_name` of this configuration's sessions.
pub(in crate::relay) fn application(options: &Options) -> String {
    options.slot.peer.application(options.slot.name.as_str())
}

/// PostgreSQL, reached and found fit; nothing has been changed in it.
#[derive(Debug)]
pub(crate) struct Preflight {
    /// The replication connection, logged in.
    pub connection: Connection,
    /// The SQL connection.
    pub sql: Arc<Sql>,
    /// The server's settings.
    pub server: ServerFacts,
    /// Identifier of the cluster.
    pub system_id: SystemId,
    /// Timeline of the cluster.
    pub timeline: TimelineId,
    /// Flushed end of its WAL.
    pub wal_end: Lsn,
}

/// The captured tables.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    /// Each captured table.
    pub tables: Vec<TableFacts>,
    /// Tables whose rows a snapshot sends. As in Debezium, a partition that is captured by its own name is
    /// one more table, so its rows are sent twice, under both names.
    pub(in crate::relay) in_snapshot: Vec<TableFacts>,
    /// Assumptions under which they fit, one line each.
    pub assumptions: Vec<String>,
    /// Those of them that are worth no warning: a default column is absent, and its twin in snake case is there.
    pub(in crate::relay) twins: Vec<String>,
    /// `server_version_num`
    pub(in crate::relay) version_num: i32,
    /// Tables that were captured before.
    pub(in crate::relay) known: CapturedTables,
    /// The primary key of each, if their changes are events.
    keys: Vec<(Oid, Vec<String>)>,
}

/// The server and the database in which a start compares its slot with what is kept of it.
#[derive(Debug)]
pub(in crate::relay) struct Site {
    pub(in crate::relay) origin: Origin,
    pub(in crate::relay) database: Oid,
    /// The server is a standby.
    pub(in crate::relay) in_recovery: bool,
}

impl Preflight {
    /// Returns the server and the database whose slot is compared.
    pub(in crate::relay) fn site(&self) -> Site {
        let ServerFacts { database, in_recovery, .. } = self.server;
        Site { origin: self.origin(), database, in_recovery }
    }

    /// Returns the history that its LSNs belong to.
    pub(in crate::relay) fn origin(&self) -> Origin {
        Origin { system_id: self.system_id.clone(), timeline: self.timeline }
    }

    /// Connects and checks the server.
    ///
    /// # Errors
    /// When it cannot be reached, refuses the login, or cannot decode logically.
    pub(crate) async fn reach(options: &Options, tls: &TlsSetup) -> Result<Self, postgres::Error> {
        let application = application(options);
        let (connection, sql) = join!(
            Connection::open(&options.server, tls, &application, options.message_bytes_max),
            Sql::open(&options.server, tls, &application),
        );
        // This connection first: it reports the finer reasons.
        let (mut connection, sql) = (connection?, sql?);
        let ((system_id, timeline, wal_end), server) = try_join!(identify(&mut connection), sql.server())?;
        check_server(&server, options.read_only)?;
        Ok(Self { connection, sql: Arc::new(sql), server, system_id, timeline, wal_end })
    }

    /// Finds the captured tables, including those that an earlier session has captured.
    ///
    /// # Errors
    /// As [`Capture::find`], and when a table or a partition never reaches the WAL.
    pub(in crate::relay) async fn capture(
        &self,
        parts: &RelayParts,
        known: &CapturedTables,
    ) -> Result<Capture, Error> {
        let mut capture = Capture::find_with(&self.sql, parts, known, self.server.version_num).await?;
        capture.assumptions.extend(guard(parts.postgres.tables.guardrail, capture.tables.len())?);
        let oids: Vec<Oid> = capture.tables.iter().map(|table| table.oid).collect();
        if self.server.in_recovery {
            capture.assumptions.extend(standby::notes(parts, &self.sql).await?);
        }
        let versions = self.sql.table_versions(&oids).await?;
        if let Some(table) = versions.iter().find(|table| table.storage != Storage::Logged) {
            return Err(not_in_the_wal(table).into());
        }
        known.learn(&versions);
        for (table, key) in std::mem::take(&mut capture.keys) {
            known.set_key(table, key);
        }
        Ok(capture)
    }
}

impl Capture {
    /// Returns the names of the captured tables, with their schemas.
    pub(in crate::relay) fn names(&self) -> Vec<String> {
        self.tables.iter().map(|table| format!("{}.{}", table.schema, table.name)).collect()
    }

    /// Finds the captured tables and tries the router on each. There need not always be one ([`RelayParts::may_capture_none`]).
    ///
    /// # Errors
    /// When none is captured, one has not the columns that the router needs, or the router's predicate leaves one out.
    pub(crate) async fn find(sql: &Sql, parts: &RelayParts) -> Result<Self, Error> {
        let version_num = sql.server().await?.version_num;
        Self::find_with(sql, parts, &CapturedTables::default(), version_num).await
    }

    /// Finds them with what an earlier session has captured.
    async fn find_with(
        sql: &Sql,
        parts: &RelayParts,
        known: &CapturedTables,
        version_num: i32,
    ) -> Result<Self, Error> {
        let (filter, route) = (&parts.tables, &parts.route);
        let all = sql.tables().await?;
        let captured = Rules { filter, route, captured: known }.select(&all)?;
        let (mut assumptions, mut twins) = (Vec::new(), Vec::new());
        hypertables::learn(sql, route).await?;
        if captured.is_empty() {
            if !parts.may_capture_none() {
                return Err(no_table(filter, route, &all).into());
            }
            assumptions.extend(parts.messages.is_none().then(|| none_yet(filter, &all)));
        }
        let described = sql.describe_all(captured.iter().map(|table| table.oid)).await?;
        let mut keys = Vec::new();
        for (table, columns) in captured.iter().zip(described) {
            if route.changes().is_some() {
                keys.push((table.oid, key_of(&columns)));
            }
            let bound = route.bind(&relation_of(table, &columns), &columns)?;
            twins.extend(bound.twins());
            let notes = bound.notes();
            for note in &notes {
                known.note(note);
            }
            assumptions.extend(notes);
        }
        if !filter.names_tables() && !captured.is_empty() && route.outbox().is_some() {
            let names: Vec<_> =
                captured.iter().map(|table| format!("{}.{}", table.schema, table.name)).collect();
            assumptions.push(format!(
                "table.include.list is not set: capturing the tables that have the router's columns: {}",
                names.join(", ")
            ));
        }
        assumptions.dedup();
        let in_snapshot = in_snapshot(parts, &captured, &all);
        let tables = captured.into_iter().cloned().collect();
        Ok(Self { tables, in_snapshot, assumptions, twins, version_num, known: known.clone(), keys })
    }
}

/// Applies `guardrail.collections.max` to the number of captured tables.
fn guard(guardrail: Option<Guardrail>, tables: usize) -> Result<Option<String>, postgres::Error> {
    let Some(Guardrail { tables_max, fails }) = guardrail.filter(|limit| tables > limit.tables_max) else {
        return Ok(None);
    };
    let problem = format!("{tables} tables are captured, and guardrail.collections.max={tables_max}");
    if !fails {
        return Ok(Some(problem));
    }
    let fix = "name fewer tables in table.include.list, raise guardrail.collections.max, or set \
                guardrail.collections.limit.action=warn";
    Err(postgres::Error::Precondition { problem, fix: fix.to_owned() })
}

fn in_snapshot(parts: &RelayParts, captured: &[&TableFacts], all: &[TableFacts]) -> Vec<TableFacts> {
    let is_captured = |oid: Oid| captured.iter().any(|table| table.oid == oid);
    let sends_partitions = parts.route.changes().is_some();
    let is_more = |table: &TableFacts| {
        sends_partitions
            && table.root.is_some_and(is_captured)
            && parts.tables.matches(&table.schema, &table.name)
    };
    all.iter().filter(|table| is_captured(table.oid) || is_more(table)).cloned().collect()
}

async fn identify(connection: &mut Connection) -> Result<(SystemId, TimelineId, Lsn), postgres::Error> {
    const DOING: &str = "IDENTIFY_SYSTEM";
    let rows = connection.command(DOING, DOING).await?;
    let field = |index: usize| rows.first().and_then(|row| row.get(index)).and_then(Option::as_deref);
    let timeline = field(1).and_then(|text| text.parse().ok()).map(TimelineId);
    let wal_end = field(2).and_then(|text| text.parse().ok());
    match (field(0), timeline, wal_end) {
        (Some(system_id), Some(timeline), Some(wal_end)) => {
            Ok((SystemId(system_id.to_owned()), timeline, wal_end))
        }
        _ => Err(postgres::Error::Unexpected { message: "answer".to_owned(), doing: DOING }),
    }
}

/// Checks that the server can be read from. It may be a standby when nothing must be written.
///
/// # Errors
/// When it is too old, a standby, or does not decode logically.
pub(crate) fn check_server(server: &ServerFacts, read_only: bool) -> Result<(), postgres::Error> {
    let refuse =
        |problem: String, fix: &str| Err(postgres::Error::Precondition { problem, fix: fix.to_owned() });
    if server.version_num < OLDEST_VERSION_NUM {
        let major = server.version_num / 10_000;
        return refuse(
            format!("PostgreSQL {major} is too old: 14 is the oldest supported"),
            "upgrade the server",
        );
    }
    if server.in_recovery && !read_only {
        return Err(postgres::Error::Standby);
    }
    if server.in_recovery && server.version_num < STANDBY_VERSION_NUM {
        let major = server.version_num / 10_000;
        return refuse(
            format!(
                "this PostgreSQL is a standby, and {major} does not decode on one: 16 is the first that does"
            ),
            "point database.hostname at the primary",
        );
    }
    if !server.can_decode() {
        return refuse(
            format!("wal_level is {:?}, logical decoding needs \"logical\"", server.wal_level),
            "as a superuser: ALTER SYSTEM SET wal_level = 'logical';\nthen restart the server (on RDS: set the \
             parameter rds.logical_replication to 1)",
        );
    }
    Ok(())
}

/// Returns the error that explains why no table is captured.
pub(crate) fn no_table(filter: &TableFilter, route: &Route, all: &[TableFacts]) -> postgres::Error {
    let there = some_of(all);
    let (problem, fix) = if filter.names_tables() {
        let make =
            if route.outbox().is_some() { ". To make an outbox table: psql -f sql/outbox.sql" } else { "" };
        let rule = "the entries are regular expressions that must match the whole of schema.table";
        ("no table matches table.include.list", format!("{rule}; the database has: {there}{make}"))
    } else if route.outbox().is_some() {
        let set = format!("set table.include.list to your outbox table (the database has: {there})");
        (
            "no table has the columns that the router needs",
            format!("{set}, or make one: psql -f sql/outbox.sql"),
        )
    } else {
        let set =
            "make the tables first, or set publication.autocreate.mode=all_tables, which waits for them";
        ("no table is captured", format!("{set}; the database has: {there}"))
    };
    postgres::Error::Precondition { problem: problem.to_owned(), fix }
}

/// Returns the same explanation as a note, where tables may be created later.
pub(crate) fn none_yet(filter: &TableFilter, all: &[TableFacts]) -> String {
    let why = if filter.names_tables() { "none matches table.include.list" } else { "there is none" };
    format!(
        "no table is captured yet: {why}; the database has: {}. A table that is made later is captured from its first row",
        some_of(all)
    )
}

fn some_of(all: &[TableFacts]) -> String {
    let some: Vec<_> = all.iter().take(8).map(|table| format!("{}.{}", table.schema, table.name)).collect();
    if some.is_empty() { "no tables at all".to_owned() } else { some.join(", ") }
}
