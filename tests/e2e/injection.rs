//! A client that may insert a row chooses words in it; each of them must only be used as a value.

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;

/// Topic names that the rows would create if they were accepted.
const HOSTILE_TOPICS: [&str; 8] = [
    "",
    "..",
    "a/../b",
    "a b",
    "a\u{1b}[2Jb",
    "a\r\nlevel=INFO message=fine",
    "__consumer_offsets",
    "__transaction_state",
];

/// Returns a configuration in which the row alone names the topic.
fn routed_by_value(db: &Outbox) -> Config {
    with(
        db.config(kafka()),
        &[("transforms.outbox.route.topic.replacement", "${routedByValue}"), ("snapshot.mode", "no_data")],
    )
}

#[test]
fn a_row_cannot_name_a_topic_that_is_not_for_events() {
    for hostile in HOSTILE_TOPICS {
        let db = Outbox::create(postgres18());
        let mut relay = Relay::start(&routed_by_value(&db));
        db.wait_until_streaming();
        db.insert(&[Event::new(hostile, db.name(), "OrderCreated", "{}")]);
        assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{hostile:?}: {}", relay.stderr());
        let said = relay.stderr();
        assert!(!said.contains('\u{1b}') && !said.contains("\nlevel=INFO"), "{said}");
        let is_ours = |record: &Record| record.key.as_deref() == Some(db.name().as_bytes());
        for topic in ["__consumer_offsets", "__transaction_state"] {
            assert!(!kafka().records(topic).iter().any(is_ours), "{hostile:?} in {topic}");
        }
    }
}

#[test]
fn a_value_stays_a_value_in_key_and_headers() {
    let db = Outbox::create(postgres18());
    let hostile = "x\r\nid: forged\r\n\u{1b}]0;owned\u{7}\u{202e}";
    let config = with(
        db.config(kafka()),
        &[("transforms.outbox.table.fields.additional.placement", "type:header:eventType")],
    );
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    let event = Event::new("order", hostile, hostile, "{}");
    db.insert(std::slice::from_ref(&event));
    let records = kafka().read(&db.topic("order"), 1);
    assert_eq!((records[0].key(), records[0].header("eventType")), (hostile, hostile));
    assert_eq!(records[0].header("id"), event.id.to_string());
    let ours = |name: &str| !name.starts_with("__debezium.");
    let names: Vec<_> =
        records[0].headers.iter().map(|(name, _)| name.as_str()).filter(|n| ours(n)).collect();
    assert_eq!(names, ["id", "eventType"]);
    assert!(!relay.stderr().contains("forged"), "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
}
