//! Topics that brokers refuse to create: the reason is reported, and with a topic for dead letters the other events
//! continue.

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;

const CREATION: [(&str, &str); 2] =
    [("topic.creation.default.partitions", "1"), ("topic.creation.default.replication.factor", "1")];

fn event(kind: &str) -> Event {
    Event::new(kind, "1", "Paid", "{}")
}

/// Returns two configurations: the brokers create topics by themselves, or outboxd does.
fn makers(db: &Outbox) -> [Config; 2] {
    [db.config(kafka()), with(db.config(kafka()), &CREATION)]
}

#[test]
fn a_name_that_collides_is_reported_with_the_other_topic() {
    for maker in 0..2 {
        let db = Outbox::create(postgres18());
        kafka().create_topic(&db.topic("pay_done"), 1, &[]);
        let mut relay = Relay::start(&makers(&db)[maker]);
        db.wait_until_streaming();
        db.insert(&[event("pay.done")]);
        assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
        let said = relay.stderr();
        assert!(said.contains(&db.topic("pay_done")) && said.contains("differs"), "{said}");
        assert!(!said.contains("--create"), "{said}");
    }
}

#[test]
fn an_event_whose_topic_is_refused_becomes_a_dead_letter() {
    for maker in 0..2 {
        let db = Outbox::create(postgres18());
        let letters = db.topic("dead");
        for topic in [&db.topic("pay_done"), &letters] {
            kafka().create_topic(topic, 1, &[]);
        }
        let settings = [
            ("errors.tolerance", "all"),
            ("errors.deadletterqueue.topic.name", letters.as_str()),
            ("errors.deadletterqueue.context.headers.enable", "true"),
        ];
        let config = with(makers(&db)[maker].clone(), &settings);
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        db.insert(&[event("pay.done"), event("pay_done")]);
        let letter = &kafka().read(&letters, 1)[0];
        assert!(letter.header("__connect.errors.exception.message").contains("pay_done"));
        assert_eq!(kafka().read(&db.topic("pay_done"), 1).len(), 1);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_setting_that_brokers_refuse_is_named() {
    for (name, value) in [("retention.days", "3"), ("cleanup.policy", "nonsense")] {
        let db = Outbox::create(postgres18());
        let key = format!("topic.creation.default.{name}");
        // One that they take is not named.
        let settings = [(key.as_str(), value), ("topic.creation.default.retention.ms", "1000")];
        let mut relay = Relay::start(&with(with(db.config(kafka()), &CREATION), &settings));
        db.wait_until_streaming();
        db.insert(&[event("order")]);
        assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
        let said = relay.stderr();
        assert!(said.contains(&format!("{key}={value}")) && !said.contains("retention.ms"), "{said}");
    }
}
