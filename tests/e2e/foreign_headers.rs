//! Records of other programs in outboxd's topics, with headers whose names are any bytes.

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::raw_record::produce;
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;

#[test]
fn a_record_with_a_header_whose_name_is_not_utf_8_ends_nothing() {
    let db = Outbox::create(postgres18());
    let (topic, dead) = (db.topic("order"), db.topic("dead"));
    for topic in [&topic, &dead] {
        kafka().create_topic(topic, 1, &[]);
    }
    let settings = [
        ("outboxd.delivery.guarantee", "tail_dedupe"),
        ("errors.tolerance", "all"),
        ("errors.deadletterqueue.topic.name", &dead),
    ];
    let config = with(db.config(kafka()), &settings);
    let event = |id| Event::new("order", id, "OrderCreated", "{}");
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[event("o-1")]);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    for topic in [&topic, &dead] {
        produce(&kafka().bootstrap(), topic, &[(b"na\xEFve", b"x")]);
    }
    db.insert(&[event("o-2")]);
    // This start reads the end of the topic.
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    let file = relay.file().display().to_string();
    for command in [&["verify"][..], &["tail", "--since", "1h", "-n", "3"], &["dlq", "ls"]] {
        let mut program = Relay::command(&[command, &["-c", &file]].concat());
        let exit = program.wait_for_exit(DEADLINE);
        assert!(exit <= 1 && !program.stderr().contains("panicked"), "{command:?}: {}", program.stderr());
    }
    assert!(!relay.stop_and_tell().contains("panicked"));
}
