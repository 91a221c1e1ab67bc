//! The order of the rows of a snapshot beside the stream.

use serde_json::Value;

use crate::changes::topic;
use crate::signals;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::wait::eventually_eq;

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
