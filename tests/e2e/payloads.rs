//! Keys and values that something on the way could spoil.

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::relay::{Relay, with};

/// U+1F600, in UTF-16 the pair D83D DE00.
const BEYOND_BMP: &str = "😀";

#[test]
fn a_payload_of_a_megabyte_comes_whole() {
    let db = Outbox::create(postgres18());
    let payload = format!("{{\"a\": \"{}\"}}", "x".repeat(1_000_000));
    let _relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "1", "OrderCreated", &payload), Event::new("order", "1", "Small", "{}")]);
    let records = kafka().read(&db.topic("order"), 2);
    assert!(records[0].value() == payload, "{} bytes came", records[0].value().len());
    assert_eq!(records[1].value(), "{}");
}

#[test]
fn characters_beyond_the_bmp_are_raw_in_strings_and_escaped_in_json() {
    let json = "org.apache.kafka.connect.json.JsonConverter";
    let raw = format!("{{\"s\": \"{BEYOND_BMP}\"}}");
    let cases = [
        ("org.apache.kafka.connect.storage.StringConverter", raw.clone()),
        (json, r#""{\"s\": \"\uD83D\uDE00\"}""#.to_owned()),
    ];
    for (converter, expected) in cases {
        let settings = [("value.converter", converter), ("value.converter.schemas.enable", "false")];
        let settings = if converter == json { &settings[..] } else { &settings[..1] };
        let record = relay_one(&Event::new("order", BEYOND_BMP, "OrderCreated", &raw), settings);
        assert_eq!((record.key(), record.value()), (BEYOND_BMP, expected.as_str()), "{converter}");
    }
}

#[test]
fn a_null_payload_is_a_record_without_a_value() {
    let event = Event { payload: None, ..Event::new("order", "o-1", "OrderDeleted", "") };
    let record = relay_one(&event, &[]);
    assert_eq!((record.key(), &record.value), ("o-1", &None));
    assert_eq!(record.header("id"), event.id.to_string());
}

#[test]
fn a_null_key_is_a_record_without_a_key() {
    let db = Outbox::create(postgres15());
    db.execute("ALTER TABLE outbox ALTER COLUMN aggregateid DROP NOT NULL");
    let _relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    db.execute("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', NULL, 'OrderCreated', '{}')");
    let records = kafka().read(&db.topic("order"), 1);
    assert_eq!((&records[0].key, records[0].value()), (&None, "{}"));
}

fn relay_one(event: &Event, settings: &[(&str, &str)]) -> Record {
    let db = Outbox::create(postgres15());
    let _relay = Relay::start(&with(db.config(kafka()), settings));
    db.wait_until_streaming();
    db.insert(std::slice::from_ref(event));
    kafka().read(&db.topic(&event.aggregate_type), 1).remove(0)
}
