//! Slots that were made before the first start: as in Debezium, the rows of the tables come first.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::changes::{config, topic};
use crate::changes_snapshots::{is_begun, kept};
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const TABLE: &str = "create table stock (id int primary key, n int not null)";

/// Slow relay: a bounded number of records each 50 ms, also on a fast machine.
const SLOW: [(&str, &str); 2] =
    [("outboxd.inflight.records.max", "100"), ("producer.override.linger.ms", "50")];

const ROWS: usize = 20_000;

fn database(server: &outboxd::internals::throwaway::ThrowawayPostgres) -> Outbox {
    let db = Outbox::create_bare(server, TABLE);
    kafka().create_topic(&topic(&db, "stock"), 1, &[]);
    db
}

fn make_slot(db: &Outbox) {
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
}

fn make_publication(db: &Outbox) {
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE stock", db.name()));
}

fn initial(db: &Outbox, settings: &[(&str, &str)]) -> Config {
    with(config(db, &[("snapshot.mode", "initial"), ("table.include.list", "public.stock")]), settings)
}

/// Returns operation, id and number of each record.
fn sent(db: &Outbox) -> Vec<(String, i64, i64)> {
    let told = |value: Value| {
        let row = &value["after"];
        (value["op"].as_str().unwrap().to_owned(), row["id"].as_i64().unwrap(), row["n"].as_i64().unwrap())
    };
    let records = kafka().records(&topic(db, "stock"));
    records.iter().map(|record| told(serde_json::from_str(record.value()).unwrap())).collect()
}

fn change(op: &str, id: i64, n: i64) -> (String, i64, i64) {
    (op.to_owned(), id, n)
}

/// Streams this statement, and stops.
fn run(db: &Outbox, config: &Config, sql: &str) -> String {
    let relay = Relay::start(config);
    db.wait_until_streaming();
    if config["snapshot.mode"] == "always" {
        relay.wait_for_snapshot();
    }
    db.execute(sql);
    db.wait_until_confirmed();
    let said = relay.stderr();
    assert_eq!(relay.stop(), 0);
    said
}

#[test]
fn a_slot_that_was_made_by_hand_begins_with_a_snapshot() {
    for (server, mode) in [(postgres15(), "initial"), (postgres18(), "when_needed")] {
        let db = database(server);
        db.execute("insert into stock values (1, 1)");
        make_publication(&db);
        make_slot(&db);
        let config = initial(&db, &[("snapshot.mode", mode)]);
        run(&db, &config, "insert into stock values (2, 2)");
        run(&db, &config, "insert into stock values (3, 3)");
        assert_eq!(sent(&db), [change("r", 1, 1), change("c", 2, 2), change("c", 3, 3)], "{mode}");
    }
}

/// Up to PostgreSQL 17 the stream of what is older than the publication ends with an error.
#[test]
fn what_is_older_than_the_snapshot_is_not_streamed() {
    for server in [postgres15(), postgres18()] {
        for made_by_hand in [true, false] {
            let db = database(server);
            make_slot(&db);
            db.execute("insert into stock values (1, 1), (2, 2)");
            db.execute("update stock set n = 3 where id = 1");
            if made_by_hand {
                make_publication(&db);
            }
            db.execute("delete from stock where id = 2");
            run(&db, &initial(&db, &[]), "insert into stock values (4, 4)");
            assert_eq!(sent(&db), [change("r", 1, 3), change("c", 4, 4)]);
        }
    }
}

/// A row is in the snapshot or in the stream, whatever commits meanwhile.
#[test]
fn the_snapshot_and_the_stream_of_an_older_slot_meet_without_gap_or_overlap() {
    let db = database(postgres18());
    make_publication(&db);
    make_slot(&db);
    db.execute(&format!("insert into stock select g, 0 from generate_series(1, {ROWS}) g"));
    let relay = Relay::start(&initial(&db, &SLOW));
    kafka().wait_for_count(&topic(&db, "stock"), 100);
    for n in 1..=200 {
        db.execute(&format!(
            "insert into stock values ({ROWS} + {n}, 0); update stock set n = {n} where id = {n}"
        ));
    }
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let sent = sent(&db);
    assert_eq!(sent.len(), ROWS + 400);
    let last: BTreeMap<_, _> = sent.iter().map(|(_, id, n)| (*id, *n)).collect();
    assert_eq!(last.len(), ROWS + 200);
    assert!((1..=200).all(|n| last.get(&n) == Some(&n)), "the stream comes behind the snapshot");
}

#[test]
fn a_snapshot_beside_a_slot_that_was_killed_continues() {
    let db = database(postgres15());
    // Sent to its end, so that there is something to go on behind.
    db.execute("create table lead (id int primary key); insert into lead values (1)");
    make_publication(&db);
    db.execute(&format!("ALTER PUBLICATION {} ADD TABLE lead", db.name()));
    make_slot(&db);
    let tables = ("table.include.list", "public.lead,public.stock");
    db.execute(&format!("insert into stock select g, 0 from generate_series(1, {ROWS}) g"));
    let before = db.slot().unwrap().confirmed_flush_lsn;
    let mut first = Relay::start(&initial(&db, &[SLOW[0], SLOW[1], tables]));
    eventually(DEADLINE, "a table that is remembered", || is_begun(&kept(&db)));
    let second = Relay::start(&initial(&db, &[tables]));
    second.wait_for_stderr("standing by");
    first.kill();
    assert_eq!(db.slot().unwrap().confirmed_flush_lsn, before, "the slot stays until every row is sent");
    db.wait_until_streaming();
    db.execute("insert into stock values (0, 0)");
    db.wait_until_confirmed();
    second.wait_for_stderr("resuming the interrupted snapshot");
    assert_eq!(second.stop(), 0);
    let sent = sent(&db);
    let ids: BTreeMap<_, _> = sent.iter().map(|(op, id, _)| (*id, op.as_str())).collect();
    assert_eq!(ids.len(), ROWS + 1);
    assert_eq!(ids[&0], "c");
    assert_eq!(
        db.query("SELECT FROM pg_replication_slots WHERE database = current_database()", &[]).len(),
        1
    );
}

/// An event whose row is deleted at once is in the stream only.
#[test]
fn an_outbox_loses_no_event_that_an_older_slot_has() {
    let db = Outbox::create(postgres18());
    let event = |n: u32| Event::new("order", "o-1", "Numbered", &n.to_string());
    db.insert(&[event(1)]);
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox WITH (publish = 'insert')", db.name()));
    make_slot(&db);
    db.insert(&[event(2)]);
    db.execute("DELETE FROM outbox WHERE payload = '2'");
    db.insert(&[event(3)]);
    let config = db.config(kafka());
    for n in [4, 5] {
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        db.insert(&[event(n)]);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
    }
    let values: Vec<_> =
        kafka().records(&db.topic("order")).iter().map(|record| record.value().to_owned()).collect();
    assert_eq!(values, ["1", "3", "2", "3", "4", "5"], "the row of 3 is in the table and in the stream");
}

/// Its transactions contain the position that it reached, and the poller's migration records the owner of the rows.
#[test]
fn what_is_stored_of_a_slot_counts_as_its_first_start() {
    let db = database(postgres18());
    make_publication(&db);
    make_slot(&db);
    let once = [("outboxd.delivery.guarantee", "exactly_once"), ("snapshot.mode", "no_data")];
    let nowhere = ("outboxd.position.topic", "");
    run(&db, &initial(&db, &[once[0], once[1], nowhere]), "insert into stock values (1, 1)");
    run(&db, &initial(&db, &[once[0]]), "insert into stock values (2, 2)");
    assert_eq!(sent(&db), [change("c", 1, 1), change("c", 2, 2)]);
}

/// As in Debezium the user's publication decides: what it lacks is not sent, and a warning names it.
#[test]
fn a_publication_that_lacks_captured_tables_is_streamed_with_a_warning() {
    let db = database(postgres18());
    db.execute("create table orders (id int primary key)");
    make_publication(&db);
    let config = with(initial(&db, &[]), &[("table.include.list", "public.stock,public.orders")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    relay.wait_for_stderr("captured tables are not in the publication");
    db.execute("insert into orders values (1); insert into stock values (1, 1)");
    db.wait_until_confirmed();
    assert_eq!(sent(&db), [change("c", 1, 1)]);
    // A table that was published must not leave it unnoticed.
    db.execute(&format!("ALTER PUBLICATION {} SET TABLE orders", db.name()));
    let mut relay = relay;
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
}

#[test]
fn a_slot_that_was_moved_is_gone_on_from_where_the_configuration_trusts_it() {
    let db = database(postgres15());
    make_publication(&db);
    let config = initial(&db, &[("offset.mismatch.strategy", "trust_slot")]);
    run(&db, &config, "insert into stock values (1, 1)");
    db.execute("insert into stock values (2, 2)");
    db.query("SELECT pg_replication_slot_advance($1::text::name, pg_current_wal_lsn())::text", &[&db.name()]);
    let said = run(&db, &config, "insert into stock values (3, 3)");
    assert!(said.contains("offset.mismatch.strategy trusts it"), "{said}");
    run(&db, &initial(&db, &[]), "insert into stock values (4, 4)");
    assert_eq!(sent(&db), [change("c", 1, 1), change("c", 3, 3), change("c", 4, 4)]);
}

#[test]
fn without_a_place_for_positions_no_snapshot_is_sent_and_a_warning_says_so() {
    let db = database(postgres18());
    db.execute("insert into stock values (1, 1)");
    make_publication(&db);
    make_slot(&db);
    let said = run(&db, &initial(&db, &[("outboxd.position.topic", "")]), "insert into stock values (2, 2)");
    assert!(said.contains("no position is stored") && said.contains("snapshot.mode=always"), "{said}");
    assert!(said.contains("or set snapshot.mode=no_data"), "{said}");
    // The settings of the message.
    let always = [("outboxd.position.topic", ""), ("snapshot.mode", "always")];
    run(&db, &initial(&db, &always), "insert into stock values (3, 3)");
    let expected = [change("c", 2, 2), change("r", 1, 1), change("r", 2, 2), change("c", 3, 3)];
    assert_eq!(sent(&db), expected);
    // The other one: rows that are there are not sent, which is no warning any more.
    let none = [("outboxd.position.topic", ""), ("snapshot.mode", "no_data")];
    let said = run(&db, &initial(&db, &none), "insert into stock values (4, 4)");
    assert!(!said.contains("no position is stored"), "{said}");
    assert_eq!(sent(&db).len(), 5);
}
