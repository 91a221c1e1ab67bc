//! `heartbeat.interval.ms`: records for those who watch them, and a query of the user's own.

use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const INTERVAL: (&str, &str) = ("heartbeat.interval.ms", "100");

#[test]
fn heartbeats_are_those_of_debezium() {
    let db = Outbox::create(postgres18());
    db.execute("CREATE TABLE beats (at timestamptz DEFAULT now())");
    let topic = format!("__debezium-heartbeat.{}", db.name());
    let settings = [
        INTERVAL,
        ("topic.prefix", db.name()),
        ("heartbeat.action.query", "INSERT INTO beats DEFAULT VALUES"),
        ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
        ("value.converter.schemas.enable", "false"),
    ];
    let relay = Relay::start(&with(db.config(kafka()), &settings));
    let records = kafka().read(&topic, 3);
    for record in &records {
        assert_eq!(record.partition, 0);
        assert_eq!(record.key.as_deref(), Some(format!("Struct{{serverName={}}}", db.name()).as_bytes()));
        let value: Value = serde_json::from_slice(record.value.as_ref().unwrap()).unwrap();
        assert_eq!(value["ts_ms"].as_i64(), Some(record.timestamp_ms));
        assert_eq!(value.as_object().unwrap().len(), 1);
        assert!(record.headers.is_empty());
    }
    eventually(DEADLINE, "the action query has run", || {
        db.query("SELECT count(*) > 1 FROM beats", &[])[0].get(0)
    });
    db.insert(&[Event::new("order", "1", "OrderCreated", "{}")]);
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1, "events go on beside heartbeats");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_query_that_fails_is_reported_and_stops_nothing() {
    let db = Outbox::create(postgres15());
    let settings = [INTERVAL, ("heartbeat.action.query", "INSERT INTO nowhere DEFAULT VALUES")];
    let relay = Relay::start(&with(db.config(kafka()), &settings));
    relay.wait_for_stderr("heartbeat.action.query failed");
    db.insert(&[Event::new("order", "1", "OrderCreated", "{}")]);
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_topic_that_cannot_be_is_refused_with_a_fix() {
    let mut relay = refused(&[INTERVAL, ("topic.heartbeat.name", "not a topic")]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 2, "{}", relay.stderr());
    assert!(relay.stderr().contains("topic.heartbeat.name"), "{}", relay.stderr());
}

#[test]
fn a_converter_that_takes_no_structs_is_refused() {
    let converter = "org.apache.kafka.connect.converters.ByteArrayConverter";
    let mut relay = refused(&[INTERVAL, ("value.converter", converter)]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 2, "{}", relay.stderr());
    assert!(relay.stderr().contains("heartbeat.interval.ms"), "{}", relay.stderr());
}

fn refused(settings: &[(&str, &str)]) -> Relay {
    let config = Outbox::create(postgres18()).config(kafka());
    Relay::start(&with(config, settings))
}
