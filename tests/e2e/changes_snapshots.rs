//! Rows that were in tables before the slot, when their changes are sent.

use serde_json::Value;

use crate::changes::{config, topic};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::Relay;

/// In the order of their names, with the first one in several ranges of pages.
const TABLES: &str = "create table a (id int primary key, filler text not null); \
                      create table b (id int primary key); \
                      create table c (id int primary key)";

const ROWS: i64 = 20_000;

fn fill(db: &Outbox) {
    db.execute(&format!("insert into a select g, repeat('x', 100) from generate_series(1, {ROWS}) g"));
    db.execute("insert into c select g from generate_series(1, 10) g");
}

/// Id and mark of each record.
fn sent(db: &Outbox, table: &str) -> Vec<(i64, String)> {
    let told = |value: Value| {
        let mark = value["source"]["snapshot"].as_str().unwrap_or_default().to_owned();
        (value["after"]["id"].as_i64().unwrap(), mark)
    };
    let records = kafka().records(&topic(db, table));
    records.iter().map(|record| told(serde_json::from_str(record.value()).unwrap())).collect()
}

fn ids(sent: &[(i64, String)]) -> Vec<i64> {
    sent.iter().map(|(id, _)| *id).collect()
}

/// The marks that say more than that it is a snapshot.
fn marks(sent: &[(i64, String)]) -> Vec<&str> {
    sent.iter().map(|(_, mark)| mark.as_str()).filter(|mark| *mark != "true").collect()
}

#[test]
fn several_connections_read_tables_and_ranges_of_one_table() {
    for (server, connections) in [(postgres15(), "3"), (postgres18(), "1")] {
        let db = Outbox::create_bare(server, TABLES);
        fill(&db);
        ["a", "b", "c"].iter().for_each(|table| kafka().create_topic(&topic(&db, table), 1, &[]));
        let settings = [("snapshot.mode", "initial"), ("snapshot.max.threads", connections)];
        let relay = Relay::start(&config(&db, &settings));
        db.wait_until_streaming();
        db.execute("insert into b values (1)");
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);

        let (a, b, c) = (sent(&db, "a"), sent(&db, "b"), sent(&db, "c"));
        let (in_order, mut sorted) = (ids(&a), ids(&a));
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=ROWS).collect::<Vec<_>>());
        assert_eq!((ids(&b), marks(&b)), (vec![1], vec!["false"]));
        assert_eq!(ids(&c), (1..=10).collect::<Vec<_>>());
        assert_eq!(in_order == sorted, connections == "1", "ranges are read at once");
        let all = [marks(&a), marks(&c)].concat();
        let count = |mark: &str| all.iter().filter(|found| **found == mark).count();
        let marked = ["first", "first_in_data_collection", "last_in_data_collection", "last"].map(count);
        assert_eq!(marked, [1, 1, 1, 1], "{all:?}");
        if connections == "1" {
            assert_eq!(marks(&a), ["first", "last_in_data_collection"]);
            assert_eq!(marks(&c), ["first_in_data_collection", "last"]);
        }
    }
}
