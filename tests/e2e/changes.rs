//! Change events: what Debezium's connector sends of a table without an EventRouter. The words were recorded from Debezium
//! 3.7.0.Final.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};

const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

const CUSTOMERS: &str = "create table customers (id int primary key, name text not null, score numeric(6,2) default 0, \
                         note text)";

/// Returns a configuration of tables, without schemas.
pub(crate) fn config(db: &Outbox, settings: &[(&str, &str)]) -> Config {
    let mut config = db.config(kafka());
    config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
    let plain = [
        ("key.converter", JSON),
        ("key.converter.schemas.enable", "false"),
        ("value.converter", JSON),
        ("value.converter.schemas.enable", "false"),
        ("snapshot.mode", "no_data"),
    ];
    with(with(config, &plain), settings)
}

fn streaming(db: &Outbox, settings: &[(&str, &str)]) -> Relay {
    let relay = Relay::start(&config(db, settings));
    db.wait_until_streaming();
    relay
}

pub(crate) fn topic(db: &Outbox, table: &str) -> String {
    format!("{}.public.{table}", db.name())
}

/// Returns key, operation, row before and row after; null is a tombstone.
fn told(record: &Record) -> Value {
    let key: Value = record.key.as_deref().map_or(Value::Null, |key| serde_json::from_slice(key).unwrap());
    let Some(value) = record.value.as_deref() else { return json!([key, null]) };
    let value: Value = serde_json::from_slice(value).unwrap();
    json!([key, value["op"], value["before"], value["after"]])
}

fn all(db: &Outbox, table: &str) -> Vec<Value> {
    kafka().records(&topic(db, table)).iter().map(told).collect()
}

#[test]
fn inserts_updates_and_deletes_become_envelopes() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create_bare(server, CUSTOMERS);
        kafka().create_topic(&topic(&db, "customers"), 1, &[]);
        let relay = streaming(&db, &[]);
        db.execute("insert into customers(id, name) values (1, 'Ann')");
        db.execute("update customers set score = 12.5 where id = 1");
        db.execute("update customers set id = 2");
        db.execute("delete from customers");
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        let row = |id, score| json!({"id": id, "name": "Ann", "score": score, "note": null});
        // The server sends only the key of a deleted row; the other columns have the value that their types require.
        let gone = |id| json!({"id": id, "name": "", "score": "AA==", "note": null});
        let expected = [
            json!([{"id": 1}, "c", null, row(1, "AA==")]),
            json!([{"id": 1}, "u", null, row(1, "BOI=")]),
            json!([{"id": 1}, "d", gone(1), null]),
            json!([{"id": 1}, null]),
            json!([{"id": 2}, "c", null, row(2, "BOI=")]),
            json!([{"id": 2}, "d", gone(2), null]),
            json!([{"id": 2}, null]),
        ];
        assert_eq!(all(&db, "customers"), expected);

        let records = kafka().records(&topic(&db, "customers"));
        assert_eq!(records[2].header("__debezium.newkey"), r#"{"id":2}"#);
        assert_eq!(records[3].header("__debezium.newkey"), r#"{"id":2}"#);
        assert_eq!(records[4].header("__debezium.oldkey"), r#"{"id":1}"#);
    }
}

#[test]
fn the_source_has_the_position_of_a_row() {
    let db = Outbox::create_bare(postgres18(), CUSTOMERS);
    kafka().create_topic(&topic(&db, "customers"), 1, &[]);
    let relay = streaming(&db, &[]);
    db.execute("insert into customers(id, name) values (1, 'Ann'), (2, 'Bob')");
    db.execute("insert into customers(id, name) values (3, 'Cid')");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let records = kafka().records(&topic(&db, "customers"));
    let sources: Vec<Value> = records
        .iter()
        .map(|record| serde_json::from_str::<Value>(record.value()).unwrap()["source"].clone())
        .collect();
    let lsn = |source: &Value| source["lsn"].as_u64().unwrap();
    assert!(sources.windows(2).all(|pair| lsn(&pair[0]) < lsn(&pair[1])), "{sources:?}");
    let [first, second, third] = sources.as_slice() else { panic!("{sources:?}") };
    assert_eq!(first["sequence"], format!("[null,\"{}\"]", lsn(first)));
    assert_eq!(first["txId"], second["txId"]);
    assert_ne!(first["txId"], third["txId"]);
    let sequence: Vec<String> = serde_json::from_str(third["sequence"].as_str().unwrap()).unwrap();
    let commit: u64 = sequence[0].parse().unwrap();
    assert!(lsn(second) < commit && commit <= lsn(third), "{sequence:?}");
    let order = r#""source":{"version":"3.7.0.Final","connector":"postgresql","name":""#;
    assert!(records[0].value().contains(order), "{}", records[0].value());
}

#[test]
fn a_snapshot_is_marked_and_goes_over_into_the_stream() {
    let db = Outbox::create_bare(postgres18(), CUSTOMERS);
    kafka().create_topic(&topic(&db, "customers"), 1, &[]);
    db.execute("insert into customers(id, name) values (1, 'Ann'), (2, 'Bob'), (3, 'Cid')");
    let relay = streaming(&db, &[("snapshot.mode", "initial")]);
    db.execute("insert into customers(id, name) values (4, 'Dan')");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let marks: Vec<(String, String)> = kafka()
        .records(&topic(&db, "customers"))
        .iter()
        .map(|record| {
            let value: Value = serde_json::from_str(record.value()).unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&value["op"]), text(&value["source"]["snapshot"]))
        })
        .collect();
    let expected = [("r", "first"), ("r", "true"), ("r", "last"), ("c", "false")];
    assert_eq!(marks, expected.map(|(op, mark)| (op.to_owned(), mark.to_owned())));
}

#[test]
fn transaction_metadata_is_sent_and_events_are_transformed() {
    let db = Outbox::create_bare(postgres18(), CUSTOMERS);
    let transactions = format!("{}.transaction", db.name());
    for topic in [&transactions, &topic(&db, "customers")] {
        kafka().create_topic(topic, 1, &[]);
    }
    let settings = [
        ("provide.transaction.metadata", "true"),
        ("transforms", "unwrap"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
        ("transforms.unwrap.add.fields", "op,transaction.total_order"),
    ];
    let relay = streaming(&db, &settings);
    db.execute("insert into customers(id, name) values (1, 'Ann'), (2, 'Bob')");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let values: Vec<Value> = kafka()
        .records(&topic(&db, "customers"))
        .iter()
        .map(|record| serde_json::from_str(record.value()).unwrap())
        .collect();
    let row = |id: i32, name: &str, order: i32| json!({"id": id, "name": name, "score": "AA==", "note": null, "__op": "c", "__transaction_total_order": order});
    assert_eq!(values, [row(1, "Ann", 1), row(2, "Bob", 2)]);
    let told: Vec<Value> = kafka()
        .records(&transactions)
        .iter()
        .map(|record| {
            let value: Value = serde_json::from_str(record.value()).unwrap();
            json!([value["status"], value["event_count"], value["data_collections"]])
        })
        .collect();
    let collections = json!([{"data_collection": "public.customers", "event_count": 2}]);
    assert_eq!(told, [json!(["BEGIN", null, null]), json!(["END", 2, collections])]);
}

/// The relay is killed repeatedly.
#[test]
fn a_killed_relay_loses_no_change_and_keeps_the_order_of_a_key() {
    killed("at_least_once");
}

#[test]
fn exactly_once_holds_for_changes() {
    killed("exactly_once");
}

#[test]
fn tail_dedupe_holds_for_changes() {
    killed("tail_dedupe");
}

fn killed(guarantee: &str) {
    const KEYS: i64 = 20;
    let settings = [("outboxd.delivery.guarantee", guarantee), ("provide.transaction.metadata", "true")];
    let db = Outbox::create_bare(postgres18(), "create table counters (id int primary key, n int not null)");
    kafka().create_topic(&topic(&db, "counters"), 1, &[]);
    let mut relay = streaming(&db, &settings);
    db.execute(&format!("insert into counters select g, 0 from generate_series(1, {KEYS}) g"));
    for round in 1..=4 {
        for _ in 0..25 {
            db.execute("update counters set n = n + 1");
        }
        if round < 4 {
            relay.kill();
            relay = Relay::start(&config(&db, &settings));
            db.wait_until_streaming();
        }
    }
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let mut orders = BTreeMap::<i64, BTreeMap<u64, i64>>::new();
    let mut last = vec![-1; usize::try_from(KEYS).unwrap() + 1];
    for record in kafka().records(&topic(&db, "counters")) {
        let value: Value = serde_json::from_str(record.value()).unwrap();
        let (id, n) = (value["after"]["id"].as_u64().unwrap(), value["after"]["n"].as_i64().unwrap());
        let last = &mut last[usize::try_from(id).unwrap()];
        // Unconfirmed changes may be repeated from there on; no change is skipped.
        let repeats = guarantee == "at_least_once" && n <= *last;
        assert!(n == *last + 1 || repeats, "key {id}: {n} comes behind {last}");
        // The place in the transaction does not depend on where a relay went on.
        let order = value["transaction"]["total_order"].as_i64().unwrap();
        let of_transaction = orders.entry(value["source"]["txId"].as_i64().unwrap()).or_default();
        assert_eq!(*of_transaction.entry(id).or_insert(order), order, "{value}");
        *last = n;
    }
    assert!(last[1..].iter().all(|n| *n == 100), "{last:?}");
    for (transaction, orders) in orders {
        let orders: BTreeSet<_> = orders.into_values().collect();
        assert_eq!(orders, (1..=KEYS).collect(), "transaction {transaction}");
    }
}
