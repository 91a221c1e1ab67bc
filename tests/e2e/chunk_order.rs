//! The order of the rows of a snapshot beside the stream.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::changes::topic;
use crate::signals;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::session::Session;
use crate::support::wait::eventually_eq;

/// *Invariant:* a change removes its own row from a chunk, and no other row with the same record key.
#[test]
fn a_change_of_another_row_with_the_same_key_removes_no_row() {
    let db = Outbox::create_bare(postgres18(), signals::TABLES);
    db.execute("insert into a select g, 1, 0 from generate_series(1, 2000) g");
    let settings = [("message.key.columns", "public.a:rank"), ("incremental.snapshot.chunk.size", "100")];
    let relay = signals::start(&db, &settings);
    let is_over = AtomicBool::new(false);
    let id = |value: &str| serde_json::from_str::<Value>(value).unwrap()["after"]["id"].as_i64();
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = Session::new(db.address().clone());
            (5000..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(|row| {
                session.execute(&format!("insert into a values ({row}, 1, 0)"));
            });
        });
        let _end = signals::StopsAtTheEnd(&is_over);
        signals::signal(&db, "s", "execute-snapshot", r#"{"data-collections":["public.a"]}"#);
        signals::wait_until_told(&db, "COMPLETED");
    });
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let records = kafka().records(&topic(&db, "a"));
    let ids: BTreeSet<i64> = records.iter().filter_map(|record| id(record.value())).collect();
    let missing: Vec<i64> = (1..=2000).filter(|row| !ids.contains(row)).collect();
    assert!(missing.is_empty(), "{} rows are in no record: {missing:?}", missing.len());
}

/// Rows are read in Debezium's order. Of rows with equal keys, Debezium skips those behind the end of a chunk.
#[test]
fn rows_are_read_in_the_order_of_the_chosen_key() {
    let db = Outbox::create_bare(postgres18(), signals::TABLES);
    db.execute(
        "insert into a values (1, 30, 0), (2, 20, 0), (3, 20, 0), (4, 20, 0), (5, 10, 0), (6, null, 0)",
    );
    let settings = [("message.key.columns", "public.a:rank"), ("incremental.snapshot.chunk.size", "2")];
    let relay = signals::start(&db, &settings);
    signals::signal(&db, "s", "execute-snapshot", r#"{"data-collections":["public.a"]}"#);
    let id = |value: &str| serde_json::from_str::<Value>(value).unwrap()["after"]["id"].clone();
    let ids =
        || kafka().records(&topic(&db, "a")).iter().map(|record| id(record.value())).collect::<Vec<_>>();
    eventually_eq(signals::LONG, &[5, 2, 3, 4, 1, 6].map(Value::from).to_vec(), ids);
    assert_eq!(relay.stop(), 0);
}
