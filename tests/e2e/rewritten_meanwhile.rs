//! Tables that ALTER TABLE rewrites after a snapshot was taken, and before it has read them: to the snapshot they are empty.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::changes::{config, topic};
use crate::signals;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually};

const TABLES: &str =
    "create table a (id int primary key); create table b (id int primary key, v int) partition by range (id);
                      create table b1 partition of b for values from (0) to (100)";
const REWRITE: &str = "alter table b alter column v type bigint";
const DELAY: (&str, &str) = ("snapshot.delay.ms", "1500");

/// Returns the ids of the rows of a table that were read.
fn read(db: &Outbox, table: &str) -> BTreeSet<i64> {
    let records = kafka().records(&topic(db, table));
    let rows = records.iter().map(|record| serde_json::from_str::<Value>(record.value()).unwrap());
    rows.filter(|row| row["op"] == "r").map(|row| row["after"]["id"].as_i64().unwrap()).collect()
}

#[test]
fn a_first_snapshot_has_the_rows() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute(
        "insert into a select generate_series(1, 5); insert into b select g, g from generate_series(1, 5) g",
    );
    let settings = [("snapshot.mode", "initial"), ("publish.via.partition.root", "true"), DELAY];
    let relay = Relay::start(&config(&db, &settings));
    relay.wait_for_stderr("waiting for snapshot.delay.ms");
    db.execute(REWRITE);
    relay.wait_for_stderr("was rewritten or emptied");
    relay.wait_for_snapshot();
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    assert_eq!((read(&db, "a"), read(&db, "b")), ((1..=5).collect(), (1..=5).collect()));
}

#[test]
fn a_first_snapshot_of_an_outbox_has_the_events() {
    let db = Outbox::create(postgres15());
    db.insert(&[Event::new("order", "o-1", "E", "1"), Event::new("order", "o-2", "E", "2")]);
    let relay = Relay::start(&with(db.config(kafka()), &[("snapshot.mode", "initial"), DELAY]));
    relay.wait_for_stderr("waiting for snapshot.delay.ms");
    db.execute("alter table outbox alter column payload type json");
    assert_eq!(kafka().read(&db.topic("order"), 2).len(), 2);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}

/// What keeps the rows as a snapshot sees them does not make it begin again.
#[test]
fn a_table_that_is_only_compacted_is_read_at_once() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select generate_series(1, 5)");
    let settings = [("snapshot.mode", "initial"), DELAY];
    let relay = Relay::start(&config(&db, &settings));
    relay.wait_for_stderr("waiting for snapshot.delay.ms");
    db.execute("vacuum full a");
    relay.wait_for_snapshot();
    db.wait_until_streaming();
    let said = relay.stop_and_tell();
    assert!(!said.contains("was rewritten"), "{said}");
    assert_eq!(read(&db, "a"), (1..=5).collect());
}

#[test]
fn a_blocking_snapshot_has_the_rows() {
    let db = Outbox::create_bare(postgres18(), signals::TABLES);
    db.execute(
        "create table b (id int primary key, v int); insert into b select g, g from generate_series(1, 5) g",
    );
    db.execute("insert into a values (1, 1, 1)");
    let relay = signals::start(&db, &[]);
    let other = Session::new(db.address().clone());
    other.execute("begin; lock table a");
    signals::signal(
        &db,
        "s",
        "execute-snapshot",
        r#"{"data-collections": ["public.a", "public.b"], "type": "blocking"}"#,
    );
    let waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
                 and query like '%CURSOR FOR%'";
    eventually(DEADLINE, "the snapshot waits for a lock", || !db.query(waits, &[]).is_empty());
    db.execute(REWRITE);
    other.execute("commit");
    relay.wait_for_stderr("was rewritten or emptied");
    eventually(DEADLINE, "the rows are read", || read(&db, "b").len() == 5);
    assert_eq!(relay.stop(), 0);
}
