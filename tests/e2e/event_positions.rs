//! The position of an event is the same whatever is captured: no event is lost or repeated when the configuration
//! changes in the middle of a transaction.

use serde_json::Value;

use crate::changes;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::relay::{Config, Relay};
use crate::support::withheld::Withheld;

const ROWS: i64 = 1500;

fn config(db: &Outbox, tables: &str, guarantee: &str) -> Config {
    let settings = [
        ("table.include.list", tables),
        ("publication.autocreate.mode", "disabled"),
        ("outboxd.delivery.guarantee", guarantee),
        ("outboxd.inflight.records.max", "100"),
        ("outboxd.identity.headers", "true"),
    ];
    changes::config(db, &settings)
}

/// Kills a relay in the middle of a transaction and starts another one with another list. In the transaction each
/// delete in `b` is before an insert into `a`.
fn kill_and_change_the_list(first: &str, then: &str, guarantee: &str) -> Vec<(i64, String)> {
    let tables = "CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY)";
    let db = Outbox::create_bare(postgres18(), tables);
    db.execute(&format!(
        "CREATE PUBLICATION {} FOR TABLE a, b; INSERT INTO b SELECT generate_series(1, {ROWS})",
        db.name()
    ));
    let link = Withheld::from(&config(&db, first, guarantee), "row 1000");
    let mut relay = Relay::start(link.config());
    db.wait_until_streaming();
    db.execute(&format!(
        "DO $$ BEGIN FOR i IN 1..{ROWS} LOOP DELETE FROM b WHERE id = i; INSERT INTO a VALUES (i, 'row ' || i); END LOOP; END $$"
    ));
    let topic = changes::topic(&db, "a");
    kafka().read(&topic, 400);
    relay.kill();
    let relay = Relay::start(&config(&db, then, guarantee));
    db.wait_until_confirmed();
    kafka().wait_until_decided(db.name());
    assert_eq!(relay.stop(), 0);
    let mut rows: Vec<_> = kafka().records(&topic).iter().map(row).collect();
    rows.sort();
    rows
}

fn row(record: &Record) -> (i64, String) {
    let key: Value = serde_json::from_slice(record.key.as_deref().unwrap()).unwrap();
    (key["id"].as_i64().unwrap(), record.header("outboxd.position").to_owned())
}

const LISTS: [(&str, &str); 2] = [("public.a,public.b", "public.a"), ("public.a", "public.a,public.b")];

#[test]
fn another_table_list_inside_a_transaction_loses_and_repeats_nothing() {
    for (first, then) in LISTS {
        let rows = kill_and_change_the_list(first, then, "exactly_once");
        assert!(rows.iter().map(|(id, _)| *id).eq(1..=ROWS), "{first} and {then}: {} records", rows.len());
        assert!(rows.is_sorted_by(|one, other| one.1 < other.1), "{first} and {then}: {rows:?}");
    }
}

#[test]
fn a_row_that_comes_again_with_another_table_list_has_the_position_that_it_had() {
    for (first, then) in LISTS {
        let mut rows = kill_and_change_the_list(first, then, "at_least_once");
        let records = rows.len();
        rows.dedup();
        assert!(
            rows.iter().map(|(id, _)| *id).eq(1..=ROWS),
            "{first} and {then}: rows have several positions"
        );
        assert!(records > rows.len(), "{first} and {then}: nothing came again");
        assert!(rows.is_sorted_by(|one, other| one.1 < other.1), "{first} and {then}");
    }
}
