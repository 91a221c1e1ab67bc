//! Cleanup gives way: to locks, to old transactions, to standbys, and to rows that must be retained. Each test has a
//! server of its own: a transaction that is open anywhere on a server delays cleanup.

use std::fs;
use std::thread;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::start;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::{Address, Session as Sql};
use crate::support::standby::Pair;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};
use crate::support::watcher::Watcher;

fn events(count: u32) -> Vec<Event> {
    (0..count).map(|n| Event::new("order", &n.to_string(), "Made", "{}")).collect()
}

fn rows(db: &Outbox) -> i64 {
    db.query("SELECT count(*) FROM outbox", &[])[0].get(0)
}

fn config(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("status.update.interval.ms", "100")])
}

fn eager(db: &Outbox, more: &[(&str, &str)]) -> Config {
    let settings = [
        ("outboxd.cleanup.enable", "true"),
        ("outboxd.cleanup.before.slot", "delete"),
        ("outboxd.cleanup.interval.ms", "100"),
    ];
    with(with(config(db), &settings), more)
}

#[test]
fn what_another_client_has_locked_and_what_is_young_stays() {
    let server = start(15);
    let db = Outbox::create(&server);
    db.execute("ALTER TABLE outbox ADD COLUMN created_at timestamptz NOT NULL DEFAULT now()");
    let folder = Watcher::new("outboxd-cleanup-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config(&db)).unwrap()).unwrap();
    let cleanup = |more: &[&str]| {
        let execute = ["cleanup", "-c", &file, "--execute", "--also-before-slot", "--yes"];
        let mut process = Relay::command(&[&execute[..], more].concat());
        assert_eq!(process.wait_for_exit(DEADLINE), 0, "{}", process.stderr());
        process.stderr()
    };
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    db.insert(&events(10));
    db.wait_until_confirmed();

    // A row.
    let other = Sql::new(db.address().clone());
    other.execute("BEGIN; SELECT FROM outbox WHERE aggregateid = '3' FOR UPDATE");
    // The maximum of the setting; the server accepts less.
    let stderr = cleanup(&["-X", "outboxd.cleanup.statement.timeout.ms=31536000000"]);
    assert!(stderr.contains("deleted 9 rows of public.outbox"), "{stderr}");
    assert_eq!(db.query("SELECT FROM outbox WHERE aggregateid = '3'", &[]).len(), 1);
    other.execute("COMMIT");

    // The table: writes are blocked.
    other.execute("BEGIN; LOCK TABLE outbox IN EXCLUSIVE MODE");
    let stderr = cleanup(&["-X", "outboxd.cleanup.lock.timeout.ms=200"]);
    assert!(
        stderr.contains("1 batches of public.outbox were skipped: another session had locked the table"),
        "{stderr}"
    );
    assert_eq!(rows(&db), 1);
    other.execute("COMMIT");

    // Young rows.
    db.execute(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, created_at)
         SELECT gen_random_uuid(), 'order', n::text, 'Made', now() - n * interval '1 day' FROM generate_series(2, 4) n",
    );
    db.wait_until_confirmed();
    let stderr = cleanup(&["--older-than", "36h", "--time-column", "created_at"]);
    assert!(stderr.contains("deleted 3 rows of public.outbox"), "{stderr}");
    assert_eq!(rows(&db), 1);
    let stderr = cleanup(&[]);
    assert!(stderr.contains("deleted 1 rows of public.outbox"), "{stderr}");
    assert_eq!(relay.stop(), 0);
}

/// The rows are older than the transaction, and so proven all the same.
#[test]
fn while_a_transaction_is_old_nothing_is_taken_away() {
    let server = start(15);
    let db = Outbox::create(&server);
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    db.insert(&events(10));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let other = Sql::new(db.address().clone());
    // Vacuum does not look at transactions of other databases.
    let elsewhere = Sql::new(Address::of(&server, "postgres"));
    let old = |database: &str| {
        let sql = "SELECT FROM pg_stat_activity WHERE datname = $1 AND xact_start < now() - interval '1500 milliseconds'";
        !db.query(sql, &[&database]).is_empty()
    };
    elsewhere.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    elsewhere.query("SELECT FROM pg_class", &[]);
    eventually(DEADLINE, "the transaction elsewhere is old", || old("postgres"));
    let limit = [("outboxd.cleanup.pause.transaction.age.ms", "1000")];
    let relay = Relay::start(&eager(&db, &limit));
    eventually_eq(DEADLINE, &0, || rows(&db));
    assert!(!relay.stderr().contains("a transaction is old"), "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
    elsewhere.execute("COMMIT");
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    db.insert(&events(10));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);

    other.execute("BEGIN");
    other.query("SELECT pg_current_xact_id()::text", &[]);
    eventually(DEADLINE, "the transaction is old", || old(db.name()));
    let relay = Relay::start(&eager(&db, &limit));
    eventually(DEADLINE, "it waits", || relay.stderr().contains("a transaction is old"));
    let folder = Watcher::new("outboxd-cleanup-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config(&db)).unwrap()).unwrap();
    let execute = ["cleanup", "-c", &file, "--execute", "--also-before-slot", "--yes"];
    let limit = ["-X", "outboxd.cleanup.pause.transaction.age.ms=1000"];
    let mut command = Relay::command(&[&execute[..], &limit].concat());
    command.wait_for_stderr("waiting for a transaction that is ");
    assert_eq!(rows(&db), 10);
    other.execute("COMMIT");
    assert_eq!(command.wait_for_exit(DEADLINE), 0, "{}", command.stderr());
    eventually_eq(DEADLINE, &0, || rows(&db));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn while_a_standby_is_behind_nothing_is_taken_away() {
    let pair = Pair::start(18);
    let db = Outbox::create(&pair.primary);
    let standby = Sql::new(Address::of(&pair.standby, "postgres"));
    let replays = "SELECT FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()";
    eventually(DEADLINE, "the standby follows", || !db.query(replays, &[]).is_empty());
    standby.execute("SELECT pg_wal_replay_pause()");
    eventually(DEADLINE, "it stands", || {
        let state = standby.query("SELECT pg_get_wal_replay_pause_state()", &[]);
        state[0].get::<_, &str>(0) == "paused"
    });
    db.execute("SELECT pg_logical_emit_message(false, 'wal', repeat('x', 1000000))");
    let relay = Relay::start(&eager(&db, &[("outboxd.cleanup.pause.lag.bytes", "500000")]));
    db.wait_until_streaming();
    db.insert(&events(10));
    eventually(DEADLINE, "it waits", || relay.stderr().contains("a standby is behind"));
    db.wait_until_confirmed();
    assert_eq!(rows(&db), 10);
    standby.execute("SELECT pg_wal_replay_resume()");
    eventually_eq(DEADLINE, &0, || rows(&db));
    assert_eq!(relay.stop(), 0);
}

/// A session writes to a partition while its rows are moved into the archive: it waits for some of them, and not for
/// all.
#[test]
fn while_another_client_wants_to_write_to_a_partition_it_is_not_moved_into_a_table() {
    let server = start(15);
    let db = Outbox::create_bare(
        &server,
        "CREATE TABLE outbox (id uuid NOT NULL DEFAULT gen_random_uuid(), aggregatetype text DEFAULT 'order', aggregateid text,
                              type text, payload jsonb, n int NOT NULL) PARTITION BY RANGE (n);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (1000) WITH (fillfactor = 10);
         CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM (1000) TO (2000);
         CREATE TABLE archive (LIKE outbox); CREATE TABLE may_go_on (n int); CREATE SEQUENCE moved;
         CREATE FUNCTION move_slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             PERFORM nextval('public.moved');
             WHILE NOT EXISTS (SELECT FROM public.may_go_on) LOOP PERFORM pg_sleep(0.01); END LOOP;
             RETURN NEW;
         END $$;
         CREATE TRIGGER slowly BEFORE INSERT ON archive FOR EACH ROW EXECUTE FUNCTION move_slowly()",
    );
    let folder = Watcher::new("outboxd-cleanup-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config(&db)).unwrap()).unwrap();
    let cleanup = || {
        let execute = ["cleanup", "-c", &file, "--execute", "--also-before-slot", "--yes"];
        Relay::command(&[&execute[..], &["--partitions", "drop", "--archive-table", "archive"]].concat())
    };
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    db.execute(
        "INSERT INTO outbox (aggregateid, n) SELECT repeat('x', 300), n FROM generate_series(1, 1000) n",
    );
    db.wait_until_confirmed();

    let mut first = cleanup();
    let moved = || db.query("SELECT last_value FROM moved WHERE is_called", &[]);
    eventually(DEADLINE, "it moves rows", || !moved().is_empty());
    let address = db.address().clone();
    let late = thread::spawn(move || {
        Sql::new(address).execute("INSERT INTO outbox (aggregateid, n) VALUES ('late', 1)");
    });
    let waits = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'outbox_1'::regclass";
    eventually(DEADLINE, "somebody waits", || !db.query(waits, &[]).is_empty());
    db.execute("INSERT INTO may_go_on VALUES (1)");
    assert_eq!(first.wait_for_exit(DEADLINE), 0, "{}", first.stderr());
    late.join().unwrap();
    assert!(
        first.stderr().contains("left public.outbox_1: another session has locked it"),
        "{}",
        first.stderr()
    );
    let seen: i64 = moved()[0].get(0);
    assert!(seen < 999, "all {seen} rows were moved before it gave up");

    let mut second = cleanup();
    assert_eq!(second.wait_for_exit(DEADLINE), 0, "{}", second.stderr());
    assert!(second.stderr().contains("dropped public.outbox_1 with 1000 rows"), "{}", second.stderr());
    assert_eq!(db.query("SELECT DISTINCT id FROM archive WHERE n < 1000", &[]).len(), 1000);
    assert_eq!(relay.stop(), 0);
}
