//! Queries to PostgreSQL. The sibling modules judge their results.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::catalog::{self, Rights};
use super::codes::{self, Code};
use super::report::Check;
use super::tables::{self, Outbox, Reader};
use super::{generated, identity, publication, retention, server, slot};
use crate::cleanup::Manager;
use crate::connect::column::ColumnDescription;
use crate::error::Diagnose as _;
use crate::outbox::EventRouter;
use crate::postgres::{
    Connection, Error, Options, ServerFacts, ServerOptions, SlotFacts, SnapshotMode, Sql, TableFacts,
    TlsSetup,
};
use crate::relay::{RelayParts, learn_hypertables};
use crate::wal::Oid;

/// Time limits of a connection, of one query, and of all checks of PostgreSQL.
const CONNECT_MAX: Duration = Duration::from_secs(4);
const QUERY_MAX: Duration = Duration::from_millis(2_500);
const ALL_MAX: Duration = Duration::from_millis(6_500);

/// The `application_name` of the sessions in `pg_stat_activity`.
pub(super) const APPLICATION: &str = "outboxd check";

/// PostgreSQL 15, the first with row filters and column lists.
const FILTERS_VERSION_NUM: i32 = 150_000;

/// SQLSTATEs of a table that outboxd may not read, or not soon enough: insufficient_privilege,
/// lock_not_available, query_canceled.
const UNREADABLE: [&str; 3] = ["42501", "55P03", "57014"];

/// The results of the checks of PostgreSQL.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) checks: Vec<Check>,
    /// The captured tables that can be an outbox.
    pub(super) outboxes: Vec<FoundOutbox>,
    /// The captured tables whose rows become change events, with their columns.
    pub(super) tables: Vec<(TableFacts, Vec<ColumnDescription>)>,
    /// The slot or its absence; `None` before its query.
    pub(super) slot: Option<FoundSlot>,
}

/// An outbox, with its router.
#[derive(Debug)]
pub(super) struct FoundOutbox {
    /// The EventRouter that receives its rows.
    pub(super) router: EventRouter,
    pub(super) outbox: Outbox,
    /// Values of its route.
    pub(super) values: Vec<String>,
}

/// The slot, if it exists, and the object id of the present database.
#[derive(Debug)]
pub(super) struct FoundSlot {
    pub(super) facts: Option<SlotFacts>,
    pub(super) database: Oid,
}

/// The two connections of a relay, or the errors of those that failed.
struct Connections {
    replication: Result<Connection, Error>,
    sql: Result<Sql, Error>,
}

/// Runs every check of PostgreSQL.
pub(super) async fn check(parts: &RelayParts) -> Findings {
    let mut findings = Findings::default();
    let finished = tokio::time::timeout(ALL_MAX, findings.gather(parts)).await;
    if finished.is_err() {
        let doing = "checking PostgreSQL".to_owned();
        let error = Error::Timeout { doing, seconds: ALL_MAX.as_secs() };
        findings.checks.push(
            Check::error(codes::CATALOG, &error).fix("check what the server is busy with, and try again"),
        );
    }
    findings
}

impl Findings {
    async fn gather(&mut self, parts: &RelayParts) {
        let connections = match connect(&parts.postgres).await {
            Ok(connections) => connections,
            Err(error) => return self.checks.push(Check::error(codes::LOGIN, &error)),
        };
        let credential = parts.postgres.server.password.description().await;
        self.checks.extend(logins(&parts.postgres.server, credential.as_deref(), &connections));
        let Connections { replication, sql: Ok(sql) } = connections else {
            return self.checks.push(Check::skipped(codes::CATALOG, "nothing else of PostgreSQL is checked"));
        };
        if let Err(error) = self.ask(parts, &sql, i64::from(replication.is_ok())).await {
            self.checks.push(Check::error(codes::CATALOG, &error));
        }
    }

    /// Queries the server. Ends early only if it does not respond any more.
    async fn ask(&mut self, parts: &RelayParts, sql: &Sql, our_wal_senders: i64) -> Result<(), Error> {
        let options = &parts.postgres;
        catalog::make_read_only(sql).await?;
        self.run_initial_statements(sql, &options.server).await;
        sql.use_catalog_names().await?;
        let server = sql.server().await?;
        self.checks.extend(server::requirements(&server, options.read_only));
        self.checks.extend(server::patience(&server, options.status_interval));
        self.checks.push(server::free_wal_senders(server.free_wal_senders, our_wal_senders));
        self.checks.push(server::clock(clock_ahead(sql).await?));
        let slot_exists = self.ask_slot(options, sql, &server).await?;
        let all = sql.tables().await?;
        let tables = self.ask_tables(parts, sql, &all).await?;
        if !tables.is_empty() {
            self.ask_publication(options, sql, &tables, slot_exists, &server).await?;
            self.ask_near_misses(parts, sql, &tables, &all).await?;
        }
        Ok(())
    }

    /// Runs the user's initial statements. They may contain any SQL, so this session cannot write.
    async fn run_initial_statements(&mut self, sql: &Sql, options: &ServerOptions) {
        if let Err(error) = sql.use_role_names().await {
            return self.checks.push(Check::error(codes::INITIAL_STATEMENTS, &error));
        }
        for (index, statement) in options.initial_statements.iter().enumerate() {
            let number = index.saturating_add(1);
            let doing = format!("statement {number} of database.initial.statements");
            match sql.execute(&doing, statement).await {
                Ok(()) => {}
                Err(error) if error.sqlstate() == Some("25006") => {
                    let title = format!("{doing} writes, and was not run");
                    self.checks.push(Check::skipped(codes::INITIAL_STATEMENTS, title));
                }
                Err(error) => self.checks.push(Check::error(codes::INITIAL_STATEMENTS, &error)),
            }
        }
    }

    async fn ask_slot(&mut self, options: &Options, sql: &Sql, server: &ServerFacts) -> Result<bool, Error> {
        let facts = sql.slot(&options.slot.name).await?;
        if facts.is_none() {
            self.checks.push(server::free_slots(server.free_slots));
        }
        let database = &options.server.database;
        self.checks.extend(slot::slot(&options.slot, facts.as_ref(), database, server.version_num));
        self.checks.extend(slot::others(&catalog::other_slots(sql, options.slot.name.as_str()).await?));
        let exists = facts.is_some();
        self.slot = Some(FoundSlot { facts, database: server.database });
        Ok(exists)
    }

    async fn ask_near_misses(
        &mut self,
        parts: &RelayParts,
        sql: &Sql,
        captured: &[TableFacts],
        all: &[TableFacts],
    ) -> Result<(), Error> {
        let Some(publication) = sql.publication(&parts.postgres.publication.name).await? else {
            return Ok(());
        };
        self.checks.extend(tables::near_misses(&parts.tables, &parts.route, &publication, captured, all));
        Ok(())
    }

    async fn ask_tables(
        &mut self,
        parts: &RelayParts,
        sql: &Sql,
        all: &[TableFacts],
    ) -> Result<Vec<TableFacts>, Error> {
        let (tables, check) = tables::captured(&parts.tables, &parts.route, parts.may_capture_none(), all);
        self.checks.push(check);
        self.checks.extend(tables::passed_over(&parts.tables, all));
        if let Err(error) = learn_hypertables(sql, &parts.route).await {
            self.checks.push(Check::error(codes::TIMESCALE, &error));
        }
        let described = sql.describe_all(tables.iter().map(|table| table.oid)).await?;
        for (table, columns) in tables.iter().zip(described) {
            self.checks.extend(tables::unlogged(table));
            let (found, checks) = match parts.route.outbox() {
                Some(router) => {
                    let (outbox, checks) = tables::bind(router, table, columns);
                    (outbox.map(|outbox| (router.clone(), outbox)), checks)
                }
                None => {
                    let (found, checks) = tables::bind_routed(&parts.route, table, &columns);
                    if found.is_none() {
                        self.tables.push((table.clone(), columns));
                    }
                    (found, checks)
                }
            };
            self.checks.extend(checks);
            if let Some((router, outbox)) = found {
                self.checks.extend(tables::nullable(&outbox));
                self.checks.extend(tables::polled(&outbox, &sql.index_conditions(outbox.table.oid).await?));
                let values = self.ask_routes(sql, &outbox).await?;
                self.outboxes.push(FoundOutbox { router, outbox, values });
            }
        }
        self.ask_rights(parts, sql, &tables).await?;
        let oids: Vec<_> = tables.iter().map(|table| table.oid).collect();
        self.checks.extend(tables::unlogged_partitions(&sql.table_versions(&oids).await?));
        for table in tables.iter().filter(|table| table.partitioned) {
            self.checks.extend(retention::retention(table, &Manager::find(sql, table).await?));
        }
        if let Some(changes) = parts.route.changes() {
            let identities = identity::identities(sql, &tables).await?;
            let rules = &parts.postgres.tables.identities;
            for identity in identities {
                let (identity, checks) = identity.set_by(rules);
                self.checks.extend(checks);
                self.checks.extend(identity.checks(changes));
            }
        }
        Ok(tables)
    }

    /// Checks the rights on the tables if a snapshot may read them; streaming reads no table.
    async fn ask_rights(
        &mut self,
        parts: &RelayParts,
        sql: &Sql,
        tables: &[TableFacts],
    ) -> Result<(), Error> {
        let (options, has_slot) =
            (&parts.postgres, self.slot.as_ref().is_some_and(|slot| slot.facts.is_some()));
        let reader = match options.snapshot.mode {
            SnapshotMode::Always => Reader::Snapshot,
            SnapshotMode::InitialOnly => Reader::Snapshot,
            SnapshotMode::Initial | SnapshotMode::WhenNeeded if !has_slot => Reader::Snapshot,
            _ if parts.relay.signals.is_on() => Reader::Signal,
            SnapshotMode::Initial | SnapshotMode::WhenNeeded => Reader::FirstStart,
            _ => return Ok(()),
        };
        for lacking in sql.unreadable(tables).await? {
            let read = tables.iter().find(|table| table.oid == lacking.table).filter(|table| {
                parts.tables.is_in_snapshot(table) && options.snapshot.own_statement(table).is_none()
            });
            let told = read.map(|table| tables::unreadable(reader, lacking, table, &options.server.user));
            self.checks.extend(told);
        }
        Ok(())
    }

    /// Reads values of the route. A missing SELECT privilege is no failure, because the relay itself needs
    /// none on the table.
    async fn ask_routes(&mut self, sql: &Sql, outbox: &Outbox) -> Result<Vec<String>, Error> {
        let Some(column) = outbox.route_column() else { return Ok(Vec::new()) };
        match catalog::route_values(sql, &outbox.table, column).await {
            Err(error) if error.sqlstate().is_some_and(|code| UNREADABLE.contains(&code)) => {
                let title = format!("rows of table {} are not looked at", tables::name(&outbox.table));
                self.checks.push(Check::skipped(codes::ROUTES, title).detail(crate::error::chain(&error)));
                Ok(Vec::new())
            }
            outcome => outcome,
        }
    }

    async fn ask_publication(
        &mut self,
        options: &Options,
        sql: &Sql,
        tables: &[TableFacts],
        slot_exists: bool,
        &ServerFacts { version_num, in_recovery, .. }: &ServerFacts,
    ) -> Result<(), Error> {
        let (options, name) = (&options.publication, &options.publication.name);
        self.ask_generated(sql, tables, name, version_num).await?;
        // On a standby no role has any.
        let rights: Rights =
            if in_recovery { Rights::default() } else { catalog::rights(sql, tables, name).await? };
        let captured: Vec<_> = tables.iter().collect();
        let Some(facts) = sql.publication(name).await? else {
            if in_recovery {
                self.checks.push(publication::missing_on_standby(options, &captured));
                return Ok(());
            }
            self.checks.push(publication::to_be_made(options, &captured, &rights, slot_exists));
            return Ok(());
        };
        self.checks.extend(publication::existing(options, &facts, &captured, &rights));
        if version_num >= FILTERS_VERSION_NUM {
            let published = catalog::published_tables(sql, name).await?;
            let outboxes: Vec<_> = self.outboxes.iter().map(|found| found.outbox.clone()).collect();
            self.checks.extend(publication::filters(name, &published, &outboxes));
        }
        Ok(())
    }
}

impl Findings {
    async fn ask_generated(
        &mut self,
        sql: &Sql,
        tables: &[TableFacts],
        publication: &str,
        version_num: i32,
    ) -> Result<(), Error> {
        for unsent in generated::unsent(sql, tables, publication).await? {
            let is_it = |table: &TableFacts| table.oid == unsent.table;
            let changed = self.tables.iter().map(|(table, _)| table).find(|table| is_it(table));
            let outbox = self.outboxes.iter().map(|found| &found.outbox).find(|outbox| is_it(&outbox.table));
            let check = match (changed, outbox) {
                (Some(table), _) => Some(unsent.of_changes(table, publication, version_num)),
                (None, Some(Outbox { table, mapped, .. })) => {
                    unsent.of_outbox(table, mapped, publication, version_num)
                }
                (None, None) => None,
            };
            self.checks.extend(check);
        }
        Ok(())
    }
}

/// Opens both connections at the same time, with shorter timeouts than a relay.
async fn connect(options: &Options) -> Result<Connections, Error> {
    let server = ServerOptions {
        connect_timeout: options.server.connect_timeout.min(CONNECT_MAX),
        query_timeout: options.server.query_timeout.min(QUERY_MAX),
        initial_statements: Vec::new(),
        ..options.server.clone()
    };
    let tls = TlsSetup::new(&server)?;
    let (replication, sql) = tokio::join!(
        Connection::open(&server, &tls, APPLICATION, options.message_bytes_max),
        Sql::open(&server, &tls, APPLICATION)
    );
    Ok(Connections { replication, sql })
}

/// Returns the checks of the logins. If both failed, only the replication connection is reported, whose
/// errors are more specific.
fn logins(server: &ServerOptions, credential: Option<&str>, connections: &Connections) -> Vec<Check> {
    let (address, user, database) = (server.address(), &server.user, &server.database);
    let by = credential.map(|credential| format!(", by {credential}")).unwrap_or_default();
    let in_words = || format!("PostgreSQL at {address} lets user {user:?} in to database {database:?}{by}");
    match (&connections.sql, &connections.replication) {
        (Ok(_), Ok(_)) => vec![
            Check::ok(codes::LOGIN, in_words()),
            Check::ok(codes::REPLICATION_LOGIN, "and for replication"),
        ],
        (Ok(_), Err(error)) => {
            vec![Check::ok(codes::LOGIN, in_words()), refused(codes::REPLICATION_LOGIN, error)]
        }
        (Err(error), Ok(_)) => {
            let replication = Check::ok(
                codes::REPLICATION_LOGIN,
                "PostgreSQL lets outboxd in for \
                                                                   replication",
            );
            vec![refused(codes::LOGIN, error), replication]
        }
        (Err(_), Err(error)) => vec![refused(codes::LOGIN, error)],
    }
}

fn refused(code: Code, error: &Error) -> Check {
    let check = Check::error(code, error);
    match error.fix() {
        Some(_) => check,
        None => check.fix("see the server's log for the reason"),
    }
}

/// Returns the seconds by which the server's clock is ahead of the local one. The query is assumed to read
/// the server's clock half way through its round trip.
async fn clock_ahead(sql: &Sql) -> Result<f64, Error> {
    let before = now_s();
    let theirs = catalog::clock(sql).await?;
    Ok(theirs - f64::midpoint(before, now_s()))
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
