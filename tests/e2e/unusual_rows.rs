//! Rows that come in unusual ways, and an unusual server: prepared transactions, little memory for decoding, little patience.

use std::sync::LazyLock;
use std::time::Duration;

use outboxd::internals::throwaway::ThrowawayPostgres;

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::DEADLINE;

/// A walsender that gives up after a second, and spills transactions of 64 kB to its disk.
static UNUSUAL: LazyLock<ThrowawayPostgres> = LazyLock::new(|| {
    postgres::start_with(
        18,
        &[
            ("max_prepared_transactions", "10"),
            ("wal_sender_timeout", "1s"),
            ("logical_decoding_work_mem", "64kB"),
        ],
    )
});

fn no_snapshot(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data")])
}

fn start(db: &Outbox) -> Relay {
    let relay = Relay::start(&no_snapshot(db));
    db.wait_until_streaming();
    relay
}

fn insert(n: u32) -> String {
    format!("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'o-1', 'Numbered', '{n}')")
}

fn series(from: u32, to: u32) -> String {
    format!(
        "INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'o-1', 'Numbered', to_jsonb(n) FROM generate_series({from}, {to}) n"
    )
}

/// Returns the numbers in the order of the records: one key, so one partition.
fn published(db: &Outbox) -> Vec<u32> {
    kafka().records(&db.topic("order")).iter().map(|record| record.value().parse().unwrap()).collect()
}

fn walsender(db: &Outbox) -> i32 {
    db.query("SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1", &[&db.name()])[0].get(0)
}

/// A table without a key cannot be deleted from if deletes are published: ours publishes inserts only.
#[test]
fn rows_are_events_as_often_as_they_are_inserted_and_whatever_becomes_of_them() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        db.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey");
        let mut relay = start(&db);
        relay.pause();
        let same = "INSERT INTO outbox VALUES ('10000000-0000-4000-8000-000000000000', 'order', 'o-1', 'Numbered', '1')";
        [same, same, "DELETE FROM outbox", &insert(2), "TRUNCATE outbox"]
            .into_iter()
            .for_each(|sql| db.execute(sql));
        // Old rows come back, as from a backup.
        db.execute(&format!("CREATE TABLE backup (LIKE outbox); {}", insert(3).replace("outbox", "backup")));
        db.execute("INSERT INTO outbox SELECT * FROM backup");
        relay.resume();
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        assert_eq!(published(&db), [1, 1, 2, 3]);
    }
}

#[test]
fn thousands_of_subtransactions_leave_what_survives() {
    let db = Outbox::create(postgres18());
    let relay = start(&db);
    db.execute(&format!(
        "DO $$ BEGIN
           FOR n IN 1..3000 LOOP
             BEGIN
               INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'o-1', 'Numbered', to_jsonb(n));
               IF n % 3 > 0 THEN RAISE EXCEPTION 'not this one'; END IF;
             EXCEPTION WHEN raise_exception THEN NULL;
             END;
           END LOOP;
           {};
         END $$",
        insert(3001)
    ));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let expected: Vec<u32> = (1..=1000).map(|n| 3 * n).chain([3001]).collect();
    assert_eq!(published(&db), expected);
}

/// With streaming of transactions in progress what is rolled back would have been seen here.
#[test]
fn a_transaction_larger_than_the_servers_memory_comes_after_its_commit() {
    let db = Outbox::create(&UNUSUAL);
    let relay = start(&db);
    let other = Session::new(db.address().clone());
    other.execute(&format!("BEGIN; {}; SAVEPOINT s; {}; ROLLBACK TO s", series(1, 2000), series(2001, 4000)));
    db.execute(&insert(9000));
    db.wait_until_confirmed();
    assert_eq!(published(&db), [9000], "nothing of what is not committed");
    other.execute(&format!("{}; COMMIT", series(4001, 4500)));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let expected: Vec<u32> = [9000].into_iter().chain(1..=2000).chain(4001..=4500).collect();
    assert_eq!(published(&db), expected);
}

#[test]
fn a_prepared_transaction_comes_when_it_is_committed() {
    let db = Outbox::create(&UNUSUAL);
    let relay = start(&db);
    db.execute(&format!("BEGIN; {}; PREPARE TRANSACTION 'one'", insert(1)));
    db.execute(&format!("BEGIN; {}; PREPARE TRANSACTION 'two'", insert(2)));
    db.execute(&insert(3));
    db.wait_until_confirmed();
    assert_eq!(published(&db), [3]);
    db.execute("ROLLBACK PREPARED 'two'");
    db.execute("COMMIT PREPARED 'one'");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(published(&db), [3, 1]);
}

/// Much that is not for us is decoded, and nothing comes: that is no reason to make the connection again. The server ends a
/// silent client after a second.
#[test]
fn a_server_that_has_much_to_skip_is_waited_for_and_gets_status_updates() {
    let db = Outbox::create(&UNUSUAL);
    db.execute("CREATE TABLE other (n int)");
    let relay = start(&db);
    let before = walsender(&db);
    db.execute("INSERT INTO other SELECT generate_series(1, 300000)");
    db.execute(&insert(1));
    db.wait_until_confirmed();
    db.wait_for_status_updates(Duration::from_secs(3));
    assert_eq!((walsender(&db), published(&db)), (before, vec![1]));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn rows_that_were_replicated_from_elsewhere_are_excluded_when_asked_for() {
    for (settings, expected) in [(&[][..], &[1, 2][..]), (&[("slot.stream.params", "origin=none")], &[2])] {
        let db = Outbox::create(postgres18());
        let relay = Relay::start(&with(no_snapshot(&db), settings));
        db.wait_until_streaming();
        let origin = db.name();
        db.execute(&format!(
            "SELECT pg_replication_origin_create('{origin}'); SELECT pg_replication_origin_session_setup('{origin}')"
        ));
        db.execute(&insert(1));
        db.execute(&format!("SELECT pg_replication_origin_session_reset(); {}", insert(2)));
        db.wait_until_confirmed();
        db.query("SELECT pg_replication_origin_drop($1)", &[&origin]);
        assert_eq!(relay.stop(), 0);
        assert_eq!(published(&db), expected, "{settings:?}");
    }
}

#[test]
fn text_that_is_not_utf_8_ends_the_relay_with_the_cause() {
    let db = Outbox::create(postgres15());
    let raw = format!("{}_raw", db.name());
    db.execute(&format!(
        "CREATE DATABASE {raw} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    ));
    let mut address = db.address().clone();
    address.database.clone_from(&raw);
    let session = Session::new(address);
    session.execute(
        "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload text)",
    );
    let mut relay = Relay::start(&with(no_snapshot(&db), &[("database.dbname", &raw)]));
    db.wait_until_streaming();
    session.execute("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'o-1', 'E', E'caf\\xe9')");
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
    assert!(relay.stderr().contains("SQL_ASCII"), "{}", relay.stderr());
    session.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
}

/// A broker takes no record whose timestamp is more than an hour ahead of its clock.
#[test]
fn a_timestamp_that_kafka_refuses_is_reported() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD happened timestamptz");
    let dead = db.topic("dead");
    let at = ("transforms.outbox.table.field.event.timestamp", "happened");
    let letters = [at, ("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", dead.as_str())];
    let row = |n: u32, at: &str| insert(n).replace(&format!("'{n}')"), &format!("'{n}', {at})"));
    let mut relay = Relay::start(&with(no_snapshot(&db), &[at]));
    db.wait_until_streaming();
    db.execute(&row(1, "now()"));
    db.execute(&row(2, "'1970-01-02'"));
    // Otherwise the third may be in the second's batch, which is refused as a whole.
    db.wait_until_confirmed();
    db.execute(&row(3, "now() + interval '2 hours'"));
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    assert!(relay.stderr().contains("timestamp"), "{}", relay.stderr());
    assert_eq!(published(&db), [1, 2]);
    let relay = Relay::start(&with(no_snapshot(&db), &letters));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(
        kafka().records(&dead).iter().map(|record| record.value().to_owned()).collect::<Vec<_>>(),
        ["3"]
    );
}
