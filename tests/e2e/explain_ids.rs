//! `outboxd explain` where the id of an event is that of another one too.

use std::fs;

use serde_json::Value;

use crate::explain::{event, explain, produce};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

/// Ids that are numbers occur in other services too, whose dead letters may be in the same topic.
#[test]
fn a_record_or_a_dead_letter_with_the_id_of_another_event_is_not_taken_for_it() {
    let (kafka, db) = (kafka(), Outbox::create(postgres18()));
    let (letters, topic) = (format!("{}.dead", db.name()), db.topic("order"));
    for topic in [&letters, &topic] {
        kafka.create_topic(topic, 1, &[]);
    }
    let settings = [("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", letters.as_str())];
    let config = with(db.config(kafka), &settings);
    let folder = Watcher::new("outboxd-explain-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    let unsent = event(46);
    db.insert(std::slice::from_ref(&unsent));
    let id = unsent.id.to_string();
    produce(kafka, &letters, &id);
    produce(kafka, &topic, &id);
    let (exit, seen) = explain(&file, &id, &[]);
    assert_eq!((exit, &seen["standing"]), (1, &"nobody_reads".into()), "{seen}");
    assert_eq!(
        (&seen["records"][0]["is_of_row"], &seen["dead_letters"][0]["is_of_row"]),
        (&false.into(), &false.into())
    );
    let mut told = Relay::command(&["explain", &id, "-c", &file]);
    assert_eq!(told.wait_for_exit(DEADLINE), 1, "{}", told.stderr());
    let said = told.stdout();
    assert_eq!(said.matches("is not the row's").count(), 2, "{said}");
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    let (exit, seen) = explain(&file, &id, &[]);
    assert_eq!((exit, &seen["standing"]), (0, &"arrived".into()), "{seen}");
    assert_eq!(
        (&seen["records"][0]["is_of_row"], &seen["records"][1]["is_of_row"]),
        (&false.into(), &Value::Null),
        "{seen}"
    );
    assert_eq!(relay.stop(), 0);
    // A row that one transaction inserts and deletes is in the WAL and nowhere else.
    let id = uuid::Uuid::now_v7().to_string();
    db.execute(&format!(
        "BEGIN; INSERT INTO outbox VALUES ('{id}', 'order', '47', 'Made', '{{}}'); DELETE FROM outbox WHERE id = '{id}'; COMMIT"
    ));
    let mut told = Relay::command(&["explain", &id, "-c", &file]);
    assert_eq!(told.wait_for_exit(DEADLINE), 1, "{}", told.stderr());
    let said = told.stdout();
    assert!(said.contains("a row that was inserted and deleted again is only there"), "{said}");
}
