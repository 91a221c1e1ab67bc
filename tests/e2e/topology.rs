//! Another server at the address, or one that waits for others.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::changes;
use crate::slot_recovery::{copy_folder, stop};
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually};

use outboxd::internals::throwaway::{ThrowawayPostgres, unused_port};

fn no_snapshot(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data")])
}

fn insert(db: &Outbox, n: u32) {
    db.insert(&[Event::new("order", "o-1", "Numbered", &n.to_string())]);
}

fn published(db: &Outbox) -> Vec<String> {
    kafka().records(&db.topic("order")).iter().map(|record| record.value().to_owned()).collect()
}

/// Makes the server recover from an archive that has nothing, and so become a primary on a timeline of its own. No
/// client can connect before.
fn promote_at_the_next_start(server: &ThrowawayPostgres) {
    let data = server.folder().join("data");
    fs::write(data.join("recovery.signal"), "").unwrap();
    let file = data.join("postgresql.auto.conf");
    let settings = fs::read_to_string(&file).unwrap() + "restore_command = '/bin/false'\nhot_standby = off\n";
    fs::write(file, settings).unwrap();
}

/// A failover by a copy that has the slot, and then the old primary comes back.
#[test]
fn a_promoted_server_is_gone_on_with_and_the_old_primary_is_refused() {
    let mut server = postgres::start(18);
    let db = Outbox::create(&server);
    let mut relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    insert(&db, 1);
    db.wait_until_confirmed();
    stop(&db, &mut server);
    let [data, old, new] = ["data", "old", "new"].map(|name| server.folder().join(name));
    copy_folder(&data, &old);
    promote_at_the_next_start(&server);
    server.start_again().unwrap();
    db.wait_until_streaming();
    insert(&db, 2);
    db.wait_until_confirmed();
    assert_eq!(published(&db), ["1", "2"]);
    stop(&db, &mut server);
    fs::rename(&data, new).unwrap();
    fs::rename(old, &data).unwrap();
    server.start_again().unwrap();
    assert_eq!(relay.wait_for_exit(DEADLINE), 7);
    assert!(relay.stderr().contains("it is on timeline 1, and was on 2"), "{}", relay.stderr());
}

#[test]
fn a_standby_is_not_read_and_a_failover_without_the_slot_is_noticed() {
    let mut server = postgres::start(15);
    let db = Outbox::create(&server);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    insert(&db, 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    stop(&db, &mut server);
    let standby = server.folder().join("data/standby.signal");
    fs::write(&standby, "").unwrap();
    server.start_again().unwrap();
    let mut relay = Relay::start(&no_snapshot(&db));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    assert!(relay.stderr().contains("standby") && relay.stderr().contains("primary"), "{}", relay.stderr());
    let mut relay = Relay::start(&with(no_snapshot(&db), &[("read.only", "true")]));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    assert!(relay.stderr().contains("16 is the first that does"), "{}", relay.stderr());

    stop(&db, &mut server);
    fs::remove_file(standby).unwrap();
    server.start_again().unwrap();
    let mut relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    stop(&db, &mut server);
    // A standby before PostgreSQL 17 has no logical slots.
    fs::remove_dir_all(server.folder().join("data/pg_replslot").join(db.name())).unwrap();
    promote_at_the_next_start(&server);
    server.start_again().unwrap();
    insert(&db, 2);
    assert_eq!(relay.wait_for_exit(DEADLINE), 7);
    assert!(relay.stderr().contains("slot.recovery=snapshot"), "{}", relay.stderr());
    let mut sent = published(&db);
    // Before PostgreSQL 17 a restart too may forget what was confirmed, and another process cannot know.
    sent.dedup();
    assert_eq!(sent, ["1"]);
    assert!(db.slot().is_none(), "no new one is made behind a gap");
}

/// Both are the server's doing: what is shown is what to expect.
#[test]
fn a_standby_that_is_down_holds_up_the_stream_or_only_the_writer() {
    let server = postgres::start_with(18, &[("synchronized_standby_slots", "absent")]);
    let (db, port) = (Outbox::create(&server), unused_port().unwrap());
    db.query("SELECT pg_create_physical_replication_slot('absent')", &[]);
    let config = with(no_snapshot(&db), &[("slot.failover", "true")]);
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    insert(&db, 1);
    get_until(port, "/metrics", "shows a lag", |page| {
        page.sample("outboxd_lag_bytes").is_some_and(|lag| lag > 0.0)
    });
    assert_eq!(published(&db), [""; 0]);
    set(&db, "synchronized_standby_slots = ''");
    kafka().read(&db.topic("order"), 1);

    // The event comes before its row can be seen.
    let probe = hold_commits(&db);
    let writer = Session::new(db.address().clone());
    let rows = || db.query("SELECT FROM outbox", &[]).len();
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            writer.execute("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'o-1', 'Numbered', '2')");
        });
        kafka().read(&db.topic("order"), 2);
        assert_eq!(rows(), 1);
        release_commits(&db, probe);
        writing.join().unwrap();
    });
    assert_eq!(rows(), 2);
    assert_eq!(relay.stop(), 0);
}

/// The catalog shows the table only once others see the transaction that has made it.
#[test]
fn a_table_that_its_first_rows_bring_is_described_as_that_transaction_has_made_it() {
    let server = postgres::start(18);
    let db = Outbox::create_bare(&server, "");
    let relay = Relay::start(&changes::config(&db, &[]));
    db.wait_until_streaming();
    let made = "CREATE TABLE late (id int PRIMARY KEY, v text NOT NULL); INSERT INTO late VALUES (1, 'x')";
    write_unseen(&db, made);
    let records = kafka().read(&changes::topic(&db, "late"), 1);
    assert_eq!(records[0].key.as_deref(), Some(br#"{"id":1}"#.as_slice()));
    assert_eq!(relay.stop(), 0);
}

/// So does the table itself, from which large values are read again.
#[test]
fn a_row_that_is_read_again_is_not_older_than_its_transaction() {
    let server = postgres::start(18);
    let table = "CREATE TABLE t (id int PRIMARY KEY, n int, large text); \
                 ALTER TABLE t ALTER large SET STORAGE EXTERNAL; INSERT INTO t VALUES (1, 1, repeat('l', 3000))";
    let db = Outbox::create_bare(&server, table);
    let again = "io.debezium.processors.reselect.ReselectColumnsPostProcessor";
    let settings = [("post.processors", "again"), ("post.processors.again.type", again)];
    let relay = Relay::start(&changes::config(&db, &settings));
    db.wait_until_streaming();
    write_unseen(&db, "UPDATE t SET n = 2; UPDATE t SET large = 'short'");
    let records = kafka().read(&changes::topic(&db, "t"), 2);
    assert!(
        records[0].value().contains(r#""after":{"id":1,"n":2,"large":"short"}"#),
        "{}",
        records[0].value()
    );
    assert_eq!(relay.stop(), 0);
}

/// Writes a transaction that is in the WAL while others do not see it, until the relay has asked whether they do.
fn write_unseen(db: &Outbox, sql: &str) {
    let probe = hold_commits(db);
    let writer = Session::new(db.address().clone());
    let asked =
        "SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%pg_current_snapshot()%'";
    thread::scope(|scope| {
        let writing = scope.spawn(|| writer.execute(sql));
        eventually(DEADLINE, "asks which transactions are seen", || !db.query(asked, &[]).is_empty());
        release_commits(db, probe);
        writing.join().unwrap();
    });
}

/// Makes each later commit wait for a standby that does not exist. PostgreSQL's processes apply a setting one after the
/// other, so a probe commits repeatedly until one of its commits waits. It locks a row, since only a commit that has
/// written WAL waits.
fn hold_commits(db: &Outbox) -> JoinHandle<()> {
    set(db, "synchronous_standby_names = 'nobody'");
    let (address, waits) = (db.address().clone(), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&waits);
    let probe = thread::spawn(move || {
        let session = Session::new(address);
        while !over.load(Ordering::Relaxed) {
            session.execute("SELECT FROM pg_namespace WHERE nspname = 'pg_catalog' FOR UPDATE");
        }
    });
    let waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually(DEADLINE, "commits wait", || !db.query(waiting, &[]).is_empty());
    waits.store(true, Ordering::Relaxed);
    probe
}

fn release_commits(db: &Outbox, probe: JoinHandle<()>) {
    set(db, "synchronous_standby_names = ''");
    probe.join().unwrap();
}

fn set(db: &Outbox, setting: &str) {
    db.execute(&format!("ALTER SYSTEM SET {setting}"));
    db.query("SELECT pg_reload_conf()", &[]);
}
