//! Requests that PostgreSQL refuses for lack of resources, of rights, or because of timeouts, and how the relay waits
//! until they succeed.

use std::time::Duration;

use outboxd::internals::secret::Secret;
use outboxd::internals::throwaway::{Options, StopMode, ThrowawayPostgres, unused_port};

use crate::changes;
use crate::check;
use crate::support::http::{get_until, try_get};
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually};

fn no_snapshot(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data"), ("outboxd.startup.timeout.ms", "3000")])
}

fn insert(db: &Outbox) {
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
}

#[track_caller]
fn refused(config: &Config, exit: i32, words: &[&str]) {
    let mut relay = Relay::start(config);
    assert_eq!(relay.wait_for_exit(DEADLINE), exit, "{}", relay.stderr());
    let said = relay.stderr();
    words.iter().for_each(|word| assert!(said.contains(word), "{word} is not in {said}"));
}

#[test]
fn a_server_without_room_is_reported_with_the_setting_that_gives_it() {
    let server = postgres::start_with(18, &[("max_wal_senders", "1"), ("max_replication_slots", "1")]);
    let (db, other) = (Outbox::create(&server), Outbox::create(&server));
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    refused(&no_snapshot(&other), 4, &["max_wal_senders"]);
    assert_eq!(relay.stop(), 0);
    refused(&no_snapshot(&other), 4, &["max_replication_slots", "SELECT slot_name, database, active"]);
    let ours = other.leftovers();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn a_role_that_may_not_gets_the_names_of_the_missing_rights() {
    for major in [15, 18] {
        let hba = [
            "host replication only_replication all trust",
            "host all         only_replication all reject",
            "host all         expired          all scram-sha-256",
        ];
        let options = Options { hba: hba.map(str::to_owned).into(), ..postgres::options(major, &[]) };
        let server = ThrowawayPostgres::start(&options).unwrap();
        let db = Outbox::create(&server);
        db.execute(
            "CREATE ROLE only_replication LOGIN REPLICATION;
             CREATE ROLE plain LOGIN;
             CREATE ROLE expired LOGIN REPLICATION PASSWORD 'right' VALID UNTIL '2000-01-01';
             CREATE ROLE hurried LOGIN SUPERUSER;
             ALTER ROLE hurried SET statement_timeout = '1ms';
             ALTER ROLE hurried SET lock_timeout = '1ms';
             ALTER ROLE hurried SET idle_session_timeout = '300ms';
             ALTER ROLE hurried SET default_transaction_isolation = 'serializable'",
        );
        let login =
            |user: &str| with(no_snapshot(&db), &[("database.user", user), ("database.password", "right")]);
        let cases: [(&str, &[&str]); 3] = [
            ("only_replication", &["pg_hba.conf", "is not enough for logical replication"]),
            ("plain", &["ALTER ROLE ", " REPLICATION;"]),
            ("expired", &["database.password", "expired"]),
        ];
        cases.iter().for_each(|(user, words)| refused(&login(user), 4, words));
        assert!(db.leftovers().is_empty(), "{:?}", db.leftovers());

        // Time-outs of a role are for its people, not for sessions that live as long as the relay. A guard asks each second,
        // so the session is never idle for much longer.
        let relay = Relay::start(&login("hurried"));
        db.wait_until_streaming();
        let idle =
            "SELECT FROM pg_stat_activity WHERE usename = 'hurried' AND backend_type = 'client backend'
                    AND state = 'idle' AND state_change < now() - interval '500 ms'";
        eventually(DEADLINE, "the SQL session is idle for longer than its role may", || {
            !db.query(idle, &[]).is_empty()
        });
        insert(&db);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_patient_start_waits_for_postgres_and_says_so_once() {
    let mut server = postgres::start(18);
    let (db, port) = (Outbox::create(&server), unused_port().unwrap());
    db.disconnect();
    server.stop(StopMode::Fast, DEADLINE).unwrap();
    let config = with(no_snapshot(&db), &[("outboxd.startup.timeout.ms", "-1")]);
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    get_until(port, "/readyz", "tells how long PostgreSQL has been away", |page| {
        page.code == 503 && (2..60).any(|s| page.body.contains(&format!("postgres has been down for {s} s")))
    });
    assert_eq!(try_get(port, "/livez").unwrap().code, 200, "a restart would help nothing");
    server.start_again().unwrap();
    db.wait_until_streaming();
    insert(&db);
    db.wait_until_confirmed();
    let said = relay.stop_and_tell();
    assert_eq!(said.lines().filter(|line| line.contains("cannot be reached")).count(), 1, "{said}");
}

#[test]
fn another_timeout_of_the_server_is_applied() {
    const PATIENCE: Duration = Duration::from_secs(3);
    let mut server = postgres::start(18);
    let db = Outbox::create(&server);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    // Under the relay the server asks by itself; after a restart the relay knows.
    db.execute("ALTER SYSTEM SET wal_sender_timeout = '3s'");
    db.query("SELECT pg_reload_conf()", &[]);
    db.wait_for_status_updates(2 * PATIENCE);
    db.disconnect();
    server.stop(StopMode::Fast, DEADLINE).unwrap();
    server.start_again().unwrap();
    db.wait_until_streaming();
    db.wait_for_status_updates(2 * PATIENCE);
    insert(&db);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_slot_that_no_client_read_for_too_long_is_reported_as_that() {
    let server = postgres::start_with(18, &[("idle_replication_slot_timeout", "1s")]);
    let db = Outbox::create(&server);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    eventually(DEADLINE, "the slot is invalidated", || {
        db.execute("CHECKPOINT");
        db.slot().unwrap().wal_status.as_deref() == Some("lost")
    });
    refused(&no_snapshot(&db), 7, &["idle_replication_slot_timeout", "slot.recovery=snapshot"]);
}

/// Who runs databases for many ends what takes long. A snapshot does.
#[test]
fn a_server_that_ends_long_transactions_leaves_a_snapshot_alone() {
    const ROWS: i64 = 20_000;
    let table = format!(
        "CREATE TABLE t AS SELECT generate_series(1, {ROWS}) AS id; ALTER TABLE t ADD PRIMARY KEY (id)"
    );
    let db = Outbox::create_bare(postgres18(), &table);
    for limit in ["transaction_timeout = '500ms'", "idle_in_transaction_session_timeout = '100ms'"] {
        db.execute(&format!("ALTER DATABASE \"{}\" SET {limit}", db.name()));
    }
    let topic = changes::topic(&db, "t");
    kafka().create_topic(&topic, 1, &[]);
    // So it takes more than a second.
    let slow = [("snapshot.mode", "initial"), ("outboxd.inflight.records.max", "20")];
    let relay = Relay::start(&changes::config(&db, &slow));
    kafka().wait_for_count(&topic, ROWS);
    db.wait_until_streaming();
    assert!(!relay.stderr().contains("timeout"), "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
    assert_eq!(kafka().record_count(&topic), ROWS, "rows came twice");
}

/// The stream has all rows. A snapshot with fewer would lack them for ever, and without any sign.
#[test]
fn a_role_that_does_not_see_all_rows_gets_no_snapshot() {
    let table = "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2); \
                 ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON t USING (id = 1)";
    let db = Outbox::create_bare(postgres18(), table);
    let role = db.name();
    db.execute(&format!(
        "CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON t TO {role}; CREATE PUBLICATION {role} FOR TABLE t"
    ));
    let login =
        [("database.user", role), ("publication.autocreate.mode", "disabled"), ("snapshot.mode", "initial")];
    let config = changes::config(&db, &login);
    let report = check::Report::of(&config);
    let found = report.find("PG047", "failure");
    assert!(found["title"].as_str().unwrap().ends_with("may not read all rows of table public.t"), "{found}");
    assert!(found["fix"].as_str().unwrap().contains(&format!("ALTER ROLE \"{role}\" BYPASSRLS;")), "{found}");
    refused(&config, 3, &["row-level security policy for table", "BYPASSRLS"]);
    assert!(kafka().topics(db.name()).is_empty());

    db.execute(&format!("ALTER ROLE {role} BYPASSRLS"));
    let relay = Relay::start(&config);
    assert_eq!(kafka().read(&changes::topic(&db, "t"), 2).len(), 2);
    assert_eq!(relay.stop(), 0);
    db.execute(&format!("REVOKE ALL ON t FROM {role}; DROP ROLE {role}"));
}

/// Making a slot waits for every transaction that has begun to write.
#[test]
fn a_slot_that_waits_for_an_old_transaction_can_be_given_up() {
    let server = postgres::start_with(18, &[("max_prepared_transactions", "1")]);
    let db = Outbox::create(&server);
    db.execute("CREATE TABLE other (n int)");
    let writer = Session::new(db.address().clone());
    writer.execute("BEGIN; INSERT INTO other VALUES (1)");
    let waits = "SELECT FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock'";
    let config = with(no_snapshot(&db), &[("outboxd.startup.timeout.ms", "-1")]);
    let mut relay = Relay::start(&config);
    eventually(DEADLINE, "the slot waits", || !db.query(waits, &[]).is_empty());
    let pid: i32 = writer.query("SELECT pg_backend_pid()", &[])[0].get(0);
    relay.wait_for_stderr(&format!("SELECT pg_terminate_backend({pid});"));
    relay.terminate();
    assert_eq!(relay.wait_for_exit(DEADLINE), 0, "{}", relay.stderr());
    writer.execute("COMMIT");
    eventually(DEADLINE, "nothing is left behind", || db.slot().is_none());

    writer.execute("BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'forgotten'");
    let relay = Relay::start(&config);
    relay.wait_for_stderr("ROLLBACK PREPARED 'forgotten';");
    writer.execute("COMMIT PREPARED 'forgotten'");
    db.wait_until_streaming();
    insert(&db);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// A rotation does not end a stream; the next connection needs the new one.
#[test]
fn a_password_that_changes_is_needed_at_the_next_connection_only() {
    let authentication = outboxd::internals::throwaway::Authentication::ScramSha256(Secret::new("right"));
    let server = ThrowawayPostgres::start(&Options { authentication, ..postgres::options(18, &[]) }).unwrap();
    let db = Outbox::create(&server);
    db.execute("CREATE ROLE relay LOGIN SUPERUSER PASSWORD 'old'");
    let login = |password: &str| {
        with(no_snapshot(&db), &[("database.user", "relay"), ("database.password", password)])
    };
    let mut relay = Relay::start(&login("old"));
    db.wait_until_streaming();
    db.execute("ALTER ROLE relay PASSWORD 'new'");
    insert(&db);
    db.wait_until_confirmed();
    db.end_the_stream();
    assert_eq!(relay.wait_for_exit(DEADLINE), 4, "a retry would lock accounts: {}", relay.stderr());
    let relay = Relay::start(&login("new"));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}
