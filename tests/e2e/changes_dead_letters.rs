//! Changes that make no event, and events that Kafka refuses, go to the dead-letter topic; a digest distinguishes them
//! from repeats.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::changes::{config, topic};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};

const NOTES: &str = "create table notes (id int primary key, score numeric, text text)";
const DIGEST: &str = "outboxd.digest";

fn dead(db: &Outbox) -> String {
    topic(db, "dead")
}

fn with_dead_letters(db: &Outbox) -> Config {
    with(config(db, &[]), &[("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", &dead(db))])
}

fn json_of(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| serde_json::from_slice(bytes).unwrap())
}

/// Returns key and operation of each record once; null is a tombstone.
fn told(records: &[Record]) -> Vec<(Value, Value)> {
    let mut told: Vec<_> = records
        .iter()
        .map(|record| (json_of(record.key.as_deref()), json_of(record.value.as_deref())["op"].clone()))
        .collect();
    told.dedup();
    told
}

#[test]
fn an_event_that_is_too_large_goes_there_and_nothing_else_does() {
    let db = Outbox::create_bare(postgres18(), NOTES);
    kafka().create_topic(&topic(&db, "notes"), 1, &[("max.message.bytes", "20000")]);
    kafka().create_topic(&dead(&db), 1, &[]);
    let relay = Relay::start(&with_dead_letters(&db));
    db.wait_until_streaming();
    // In one batch, so that it has to be found out which of them it is. The key occurs several times.
    db.execute(
        "begin;
         insert into notes select g, g, 'small' from generate_series(1, 20) g;
         update notes set text = repeat('x', 100000) where id = 7;
         update notes set text = 'small again' where id = 7;
         delete from notes where id = 7;
         commit",
    );
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let mut expected: Vec<_> = (1..=20).map(|id| (json!({"id": id}), json!("c"))).collect();
    let key = json!({"id": 7});
    expected.extend([(key.clone(), json!("u")), (key.clone(), json!("d")), (key.clone(), Value::Null)]);
    let sent = kafka().records(&topic(&db, "notes"));
    // From the beginning again after each refusal: the last time is complete.
    let sent = told(&sent[sent.len().saturating_sub(expected.len())..]);
    assert_eq!(sent, expected);
    let letters = kafka().records(&dead(&db));
    assert_eq!(told(&letters), [(key, json!("u"))]);
    let after = &json_of(letters[0].value.as_deref())["after"];
    assert_eq!(after["text"].as_str().map(str::len), Some(100_000));
    assert_eq!(letters[0].header(DIGEST).len(), 16);
}

#[test]
fn a_change_that_makes_no_event_leaves_its_row_there() {
    let db = Outbox::create_bare(postgres18(), NOTES);
    kafka().create_topic(&topic(&db, "notes"), 1, &[]);
    kafka().create_topic(&dead(&db), 1, &[]);
    let settings = [
        ("decimal.handling.mode", "precise"),
        ("event.converting.failure.handling.mode", "fail"),
        ("column.mask.with.3.chars", "public.notes.text"),
        ("errors.deadletterqueue.context.headers.enable", "true"),
    ];
    let relay = Relay::start(&with(with_dead_letters(&db), &settings));
    db.wait_until_streaming();
    db.execute("insert into notes values (1, 1.5, 'secret'), (2, 'NaN', 'secret'), (3, 2.5, 'secret')");
    db.execute("update notes set score = 'NaN' where id = 3");
    db.wait_until_confirmed();
    let said = relay.stop_and_tell();
    assert!(!said.contains("secret"), "{said}");
    let sent = told(&kafka().records(&topic(&db, "notes")));
    assert_eq!(sent, [(json!({"id": 1}), json!("c")), (json!({"id": 3}), json!("c"))]);
    let letters = kafka().records(&dead(&db));
    let values: Vec<_> = letters
        .iter()
        .map(|letter| json!([json_of(letter.key.as_deref()), json_of(letter.value.as_deref())]))
        .collect();
    let row = |id: &str| json!({"id": id, "score": "NaN", "text": "***"});
    let expected = [
        json!([{"id": 2}, {"op": "c", "before": null, "after": row("2")}]),
        json!([{"id": 3}, {"op": "u", "before": null, "after": row("3")}]),
    ];
    assert_eq!(values, expected);
    assert_eq!(letters[0].header("__connect.errors.topic"), topic(&db, "notes"));
    assert_eq!(letters[0].header("outboxd.errors.reason"), "reading");
}

/// Each reading of a snapshot has another transaction and another time. A refused row must be known again all the same, or the snapshot
/// begins again for ever.
#[test]
fn a_row_of_a_snapshot_that_is_too_large_goes_there() {
    for (mode, guarantee) in
        [("initial", "at_least_once"), ("initial", "exactly_once"), ("always", "tail_dedupe")]
    {
        let db = Outbox::create_bare(postgres18(), NOTES);
        kafka().create_topic(&topic(&db, "notes"), 1, &[("max.message.bytes", "20000")]);
        kafka().create_topic(&dead(&db), 1, &[]);
        let config = with(with_dead_letters(&db), &[("outboxd.delivery.guarantee", guarantee)]);
        if mode == "always" {
            let relay = Relay::start(&config);
            db.wait_until_streaming();
            db.wait_until_confirmed();
            assert_eq!(relay.stop(), 0);
        }
        db.execute(
            "insert into notes select g, g, 'small' from generate_series(1, 20) g;
             update notes set text = repeat('x', 100000) where id in (7, 15)",
        );
        let relay = Relay::start(&with(config, &[("snapshot.mode", mode)]));
        relay.wait_for_snapshot();
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        let read: BTreeSet<i64> = told(&kafka().records(&topic(&db, "notes")))
            .iter()
            .filter(|(_, op)| op == "r")
            .map(|(key, _)| key["id"].as_i64().unwrap())
            .collect();
        assert_eq!(read, (1..=20).filter(|id| ![7, 15].contains(id)).collect(), "{mode} {guarantee}");
        let letters = kafka().records(&dead(&db));
        let dead: BTreeSet<i64> = told(&letters)
            .iter()
            .filter(|(_, op)| op == "r")
            .map(|(key, _)| key["id"].as_i64().unwrap())
            .collect();
        assert_eq!(dead, [7, 15].into(), "{mode} {guarantee}");
    }
}
