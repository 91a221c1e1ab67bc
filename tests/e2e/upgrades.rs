//! A previous build before and behind this one, on the same servers: each continues from what the other has stored.
//!
//! `tests/previous COMMIT` builds that commit and runs this test with it.

use std::env;
use std::path::PathBuf;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, ours, with};

/// Stored value, and the settings for it. `$offsets` is a topic of the test.
const STORES: [(&str, &[(&str, &str)]); 4] = [
    ("position", &[]),
    ("position and the ends of the topics", &[("outboxd.delivery.guarantee", "tail_dedupe")]),
    ("state of the last Kafka transaction", &[("exactly.once.support", "required")]),
    ("Debezium's offset alone", &[("offset.storage.topic", "$offsets"), ("outboxd.position.topic", "")]),
];

#[test]
#[ignore = "needs a previous build: tests/previous COMMIT"]
fn an_upgrade_and_a_rollback_lose_and_repeat_nothing() {
    let previous =
        PathBuf::from(env::var_os("OUTBOXD_TEST_PREVIOUS").expect("OUTBOXD_TEST_PREVIOUS is not set"));
    for (what, settings) in STORES {
        let db = Outbox::create(postgres18());
        let offsets = format!("{}.offsets", db.name());
        kafka().create_topic(&offsets, 1, &[("cleanup.policy", "compact")]);
        let settings: Vec<_> = settings
            .iter()
            .map(|(key, value)| (*key, if *value == "$offsets" { &offsets } else { *value }))
            .collect();
        let config = with(with(db.config(kafka()), &settings), &[("name", db.name())]);
        let mut written = Vec::new();
        for program in [&previous, &ours(), &previous] {
            // One row while none runs, and one while it streams.
            written.push(insert(&db));
            let relay = Relay::start_program(program, &config);
            db.wait_until_streaming();
            written.push(insert(&db));
            db.wait_until_confirmed();
            assert_eq!(relay.stop(), 0, "{what}");
        }
        kafka().wait_until_decided(db.name());
        let records = kafka().records(&db.topic("order"));
        let sent: Vec<_> = records.iter().map(|record| record.header("id").to_owned()).collect();
        assert_eq!(sent, written, "{what}");
    }
}

/// Inserts an event, and returns its id.
fn insert(db: &Outbox) -> String {
    let event = Event::new("order", "o-1", "Made", "{}");
    db.insert(std::slice::from_ref(&event));
    event.id.to_string()
}
