use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use outboxd::internals::throwaway::ThrowawayPostgres;
use pg_replication::wal::Lsn;
use serde_json::{Value, json};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::kafka::Kafka;
use super::relay::Config;
use super::session::{Address, Session};
use super::wait::{DEADLINE, eventually, eventually_some};

/// Naming scheme of the outbox table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// `aggregatetype`, `aggregateid`, `type`: Debezium's defaults.
    Debezium,
    /// `aggregate_type`, `aggregate_id`, `event_type`.
    SnakeCase,
}

impl Columns {
    /// Returns the names of the columns for the aggregate's type, the aggregate's id and the event's type.
    const fn names(self) -> [&'static str; 3] {
        match self {
            Self::Debezium => ["aggregatetype", "aggregateid", "type"],
            Self::SnakeCase => ["aggregate_type", "aggregate_id", "event_type"],
        }
    }
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Uuid,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: String,
    pub(crate) event_type: String,
    /// `None` is NULL, of which Debezium makes a tombstone.
    pub(crate) payload: Option<String>,
}

impl Event {
    /// Returns an event with a new id.
    pub(crate) fn new(aggregate_type: &str, aggregate_id: &str, event_type: &str, payload: &str) -> Self {
        Self {
            id: Uuid::now_v7(),
            aggregate_type: aggregate_type.to_owned(),
            aggregate_id: aggregate_id.to_owned(),
            event_type: event_type.to_owned(),
            payload: Some(payload.to_owned()),
        }
    }
}

/// State of a replication slot in PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) active: bool,
    pub(crate) restart_lsn: Option<Lsn>,
    pub(crate) confirmed_flush_lsn: Option<Lsn>,
    pub(crate) wal_status: Option<String>,
}

/// A database with an outbox table `public.outbox`, and names for its slot, publication and topics that no other test
/// uses. It knows the server by address only, so that a test may stop and start the server meanwhile.
#[derive(Debug)]
pub(crate) struct Outbox {
    name: String,
    columns: Columns,
    session: Session,
}

impl Outbox {
    /// Creates an outbox with Debezium's columns.
    pub(crate) fn create(server: &ThrowawayPostgres) -> Self {
        Self::create_with(server, Columns::Debezium)
    }

    /// Creates an outbox with these columns, in a database of its own.
    pub(crate) fn create_with(server: &ThrowawayPostgres, columns: Columns) -> Self {
        let outbox = Self::create_empty(server, columns);
        outbox.execute(&outbox.table());
        outbox
    }

    /// Creates a database with tables of the test's own.
    pub(crate) fn create_bare(server: &ThrowawayPostgres, schema: &str) -> Self {
        let outbox = Self::create_empty(server, Columns::Debezium);
        outbox.execute(schema);
        outbox
    }

    fn create_empty(server: &ThrowawayPostgres, columns: Columns) -> Self {
        let name = unique_name();
        create_database(server, &name);
        let session = Session::new(Address::of(server, &name));
        Self { name, columns, session }
    }

    /// Returns the same outbox at another server, which has its own slots.
    pub(crate) fn at(&self, server: &ThrowawayPostgres) -> Self {
        let session = Session::new(Address::of(server, &self.name));
        Self { name: self.name.clone(), columns: self.columns, session }
    }

    /// Drops the database with its slots, and makes it again with an empty outbox.
    pub(crate) fn make_anew(&self, server: &ThrowawayPostgres) {
        self.session.disconnect();
        let admin = Session::new(Address::of(server, "postgres"));
        admin.execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
        create_database(server, &self.name);
        self.execute(&self.table());
    }

    /// Returns a configuration that works: topics are `{name}.{aggregate type}`.
    pub(crate) fn config(&self, kafka: &Kafka) -> Config {
        config_of(self.session.address(), &kafka.bootstrap())
    }

    /// Returns the topic of this aggregate type.
    pub(crate) fn topic(&self, aggregate_type: &str) -> String {
        format!("{}.{aggregate_type}", self.name)
    }

    /// Returns the name of the database, the slot and the publication; every topic begins with it and a dot.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Inserts the events in one transaction.
    pub(crate) fn insert(&self, events: &[Event]) {
        let [kind, key, name] = self.columns.names();
        let sql = format!(
            "INSERT INTO outbox (id, {kind}, {key}, {name}, payload)
             SELECT id::uuid, kind, key, name, payload::jsonb
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY
                  AS event (id, kind, key, name, payload, position)
             ORDER BY position"
        );
        let column = |value: fn(&Event) -> Option<String>| events.iter().map(value).collect::<Vec<_>>();
        let columns = [
            column(|event| Some(event.id.to_string())),
            column(|event| Some(event.aggregate_type.clone())),
            column(|event| Some(event.aggregate_id.clone())),
            column(|event| Some(event.event_type.clone())),
            column(|event| event.payload.clone()),
        ];
        let parameters: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|c| c as &(dyn ToSql + Sync)).collect();
        self.query(&sql, &parameters);
    }

    /// Runs statements, all in one transaction unless they control transactions themselves.
    #[track_caller]
    pub(crate) fn execute(&self, sql: &str) {
        self.session.execute(sql);
    }

    /// Runs one query that may fail.
    pub(crate) fn try_query(&self, sql: &str) -> Result<Vec<Row>, Error> {
        self.session.try_query(sql)
    }

    /// Runs one query.
    #[track_caller]
    pub(crate) fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        self.session.query(sql, parameters)
    }

    /// Returns the address of the database.
    pub(crate) fn address(&self) -> &Address {
        self.session.address()
    }

    /// Returns the names of the publication and of the slot in the database, if they exist.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let sql = "SELECT 'publication ' || pubname FROM pg_publication UNION ALL
                   SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE database = current_database()";
        self.query(sql, &[]).iter().map(|row| row.get(0)).collect()
    }

    /// Ends the SQL session; the next statement opens another.
    pub(crate) fn disconnect(&self) {
        self.session.disconnect();
    }

    /// Returns the slot; `None` if it does not exist.
    pub(crate) fn slot(&self) -> Option<Slot> {
        let sql = "SELECT active, restart_lsn::text, confirmed_flush_lsn::text, wal_status
                   FROM pg_replication_slots WHERE slot_name = $1";
        let rows = self.query(sql, &[&self.name]);
        rows.first().map(|row| Slot {
            active: row.get(0),
            restart_lsn: lsn(row.get(1)),
            confirmed_flush_lsn: lsn(row.get(2)),
            wal_status: row.get(3),
        })
    }

    /// Ends the walsender that streams from the slot, if there is one.
    #[track_caller]
    pub(crate) fn end_the_stream(&self) {
        let end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1";
        self.query(end, &[&self.name]);
    }

    /// Drops the slot under its walsender, before a relay can take it again.
    #[track_caller]
    pub(crate) fn drop_slot_in_use(&self) {
        self.execute(&format!(
            "DO $$ BEGIN
                LOOP
                    PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{name}';
                    BEGIN PERFORM pg_drop_replication_slot('{name}'); EXIT;
                    EXCEPTION WHEN object_in_use THEN PERFORM pg_sleep(0.001); END;
                END LOOP;
             END $$",
            name = self.name
        ));
    }

    /// Waits until a relay streams from the slot. While a slot is being created or copied it is active too, for the
    /// session that does it, and transactions that are committed then may not be streamed.
    #[track_caller]
    pub(crate) fn wait_until_streaming(&self) {
        let sql = "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
                   WHERE slot_name = $1 AND state IN ('catchup', 'streaming')";
        eventually(DEADLINE, "a relay streams from the slot", || !self.query(sql, &[&self.name]).is_empty());
    }

    /// Returns the process id of the slot's walsender, and the time of the last reply that it received from its relay;
    /// `None` before the first one.
    #[track_caller]
    pub(crate) fn last_reply(&self) -> Option<(i32, SystemTime)> {
        let sql =
            "SELECT pid, reply_time FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
                   WHERE slot_name = $1 AND reply_time IS NOT NULL";
        self.query(sql, &[&self.name]).first().map(|row| (row.get(0), row.get(1)))
    }

    /// Waits until status updates of one walsender have gone on for as long as that.
    #[track_caller]
    pub(crate) fn wait_for_status_updates(&self, lasting: Duration) {
        let (walsender, _) = eventually_some(DEADLINE, "the slot has a walsender", || self.last_reply());
        let later = SystemTime::now() + lasting;
        eventually(DEADLINE, &format!("status updates go on for {lasting:?}"), || {
            let reply = self.last_reply();
            assert!(reply.is_none_or(|(pid, _)| pid == walsender), "another walsender serves the slot");
            reply.is_some_and(|(_, at)| at > later)
        });
    }

    /// Waits until everything written so far is confirmed; the LSN that was waited for. A relay has to run: each test on
    /// this server moves that LSN.
    #[track_caller]
    pub(crate) fn wait_until_confirmed(&self) -> Lsn {
        let target = self.current_wal_lsn();
        self.wait_until_confirmed_to(target, DEADLINE);
        target
    }

    /// Waits until a client streams from the slot and it is confirmed up to `target`; what is confirmed then. Without the
    /// client a test that waits for a relay that it has stopped would pass on a quiet machine.
    #[track_caller]
    pub(crate) fn wait_until_confirmed_to(&self, target: Lsn, within: Duration) -> Lsn {
        eventually_some(within, &format!("the slot is confirmed up to {target}"), || {
            let slot = self.slot().filter(|slot| slot.active)?;
            slot.confirmed_flush_lsn.filter(|&confirmed| confirmed >= target)
        })
    }

    /// Returns the position up to which the server has written or, as a standby, replayed WAL.
    pub(crate) fn current_wal_lsn(&self) -> Lsn {
        let ask = "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)::text";
        let rows = self.query(ask, &[]);
        lsn(rows[0].get(0)).unwrap()
    }

    fn table(&self) -> String {
        let [kind, key, name] = self.columns.names();
        format!(
            "CREATE TABLE outbox (
                 id uuid PRIMARY KEY,
                 {kind} varchar(255) NOT NULL,
                 {key} varchar(255) NOT NULL,
                 {name} varchar(255) NOT NULL,
                 payload jsonb
             )"
        )
    }
}

/// Returns the configuration for the outbox of a database, whose name is that of the slot and the publication too.
pub(crate) fn config_of(address: &Address, bootstrap: &str) -> Config {
    let name = &address.database;
    let config = json!({
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": address.host,
        "database.port": address.port.to_string(),
        "database.user": address.user,
        "database.password": address.password.as_deref().unwrap_or_default(),
        "database.dbname": name,
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": name,
        "table.include.list": "public.outbox",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.route.topic.replacement": format!("{name}.${{routedByValue}}"),
        "bootstrap.servers": bootstrap,
        // On a busy machine a server may take longer than by default for its first answer.
        "outboxd.startup.timeout.ms": "20000",
    });
    match config {
        Value::Object(config) => config,
        _ => unreachable!("written as an object"),
    }
}

/// Drops the slots, since a server has room for a limited number of slots, and an abandoned one retains WAL.
impl Drop for Outbox {
    fn drop(&mut self) {
        let sql = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
                   WHERE database = current_database() AND NOT active";
        // The server may be gone already, together with the slot.
        drop(self.session.try_execute(sql));
    }
}

fn lsn(text: Option<&str>) -> Option<Lsn> {
    text.map(|text| text.parse().unwrap())
}

/// Creates a database by copying files, where the server supports the option. The other strategy writes 8 MB of WAL for
/// each, which every walsender of the server has to read.
fn create_database(server: &ThrowawayPostgres, name: &str) {
    let strategy = if server.major() >= 15 { "STRATEGY FILE_COPY" } else { "" };
    Session::new(Address::of(server, "postgres")).execute(&format!("CREATE DATABASE {name} {strategy}"));
}

/// Returns a name that is legal for databases, slots, publications and topics, and that no other test process uses.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("outbox_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
