//! Logical messages as change events.

use serde_json::{Value, json};

use crate::changes::{config, topic};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;

const TABLE: &str = "create table a (id int primary key)";

/// In a transaction with a row, and outside of one; those of outboxd's own prefixes are never events.
const MESSAGES: &str = "begin; select pg_logical_emit_message(true, 'm', 'one'); insert into a values (1);
    select pg_logical_emit_message(true, 'outboxd.signal', '{}'); select pg_logical_emit_message(true, 'left out', ''); commit;
    select pg_logical_emit_message(false, 'm', E'\\\\x00ff'::bytea); select txid_current()";

fn values(topic: &str) -> Vec<Value> {
    kafka().records(topic).iter().map(|record| serde_json::from_str(record.value()).unwrap()).collect()
}

#[test]
fn messages_have_their_place_in_a_transaction_and_come_once() {
    let db = Outbox::create_bare(postgres18(), TABLE);
    let messages = format!("{}.message", db.name());
    let transactions = format!("{}.transaction", db.name());
    for topic in [&messages, &transactions, &topic(&db, "a")] {
        kafka().create_topic(topic, 1, &[]);
    }
    let settings = [
        ("message.prefix.exclude.list", "left.*"),
        ("provide.transaction.metadata", "true"),
        ("binary.handling.mode", "hex"),
        ("outboxd.delivery.guarantee", "tail_dedupe"),
    ];
    let relay = Relay::start(&config(&db, &settings));
    db.wait_until_streaming();
    db.execute(MESSAGES);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);

    let [one, two] = &values(&messages)[..] else { panic!("{:?}", values(&messages)) };
    assert_eq!(one["message"], json!({"prefix": "m", "content": "6f6e65"}));
    assert_eq!(one["transaction"]["total_order"], 1);
    assert_eq!((&one["op"], &one["source"]["table"]), (&json!("m"), &json!("")));
    assert_eq!(two["message"], json!({"prefix": "m", "content": "00ff"}));
    assert_eq!((&two["transaction"], &two["source"]["txId"]), (&Value::Null, &Value::Null));
    assert_eq!(
        two["source"]["ts_us"], one["source"]["ts_us"],
        "that of the transaction before, as in Debezium"
    );
    let end = &values(&transactions)[1];
    assert_eq!(end["event_count"], 2, "{end}");
    let records = kafka().records(&messages);
    assert_ne!(records[0].header("outboxd.digest"), records[1].header("outboxd.digest"));
    assert_eq!(records[0].key.as_deref(), Some(&br#"{"prefix":"m"}"#[..]));
}

#[test]
fn a_message_that_a_transform_refuses_is_a_dead_letter() {
    let db = Outbox::create_bare(postgres18(), TABLE);
    let dead = format!("{}.dead", db.name());
    for topic in [&dead, &topic(&db, "a")] {
        kafka().create_topic(topic, 1, &[]);
    }
    let settings = [
        ("transforms", "key"),
        ("transforms.key.type", "org.apache.kafka.connect.transforms.ValueToKey"),
        ("transforms.key.fields", "after"),
        ("errors.tolerance", "all"),
        ("errors.deadletterqueue.topic.name", dead.as_str()),
    ];
    let relay = Relay::start(&config(&db, &settings));
    db.wait_until_streaming();
    db.execute(MESSAGES);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let letters = values(&dead);
    let expected = ["b25l", "", "AP8="].map(|content| content.to_owned());
    let contents: Vec<_> = letters.iter().map(|letter| letter["content"].as_str().unwrap()).collect();
    assert_eq!(contents, expected);
    assert_eq!(values(&topic(&db, "a")).len(), 1);
}
