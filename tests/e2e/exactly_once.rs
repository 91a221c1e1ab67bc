//! Exactly once, for consumers that read committed records only.

use crate::support::backlog::Backlog;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const BACKLOG: Backlog = Backlog { key_count: 200 };

#[test]
fn rows_are_committed_and_then_confirmed() {
    let db = Outbox::create(postgres18());
    let relay = Relay::start(&exactly_once(&db, kafka()));
    db.wait_until_streaming();
    let events: Vec<_> = (0..5).map(|n| Event::new("order", &n.to_string(), "OrderCreated", "{}")).collect();
    for event in &events {
        db.insert(std::slice::from_ref(event));
        db.wait_until_confirmed();
        let records = kafka().records(&db.topic("order"));
        assert!(records.iter().any(|record| record.header("id") == event.id.to_string()), "{records:?}");
    }
    assert_eq!(kafka().records(&db.topic("order")).len(), events.len());
    assert_eq!(relay.stop(), 0);
    assert_eq!(kafka().undecided_count(db.name()), 0);
}

#[test]
fn a_relay_that_is_killed_again_and_again_repeats_nothing() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let (config, topic) = (exactly_once(&db, kafka()), db.topic(Backlog::TYPE));
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
        BACKLOG.insert(&db, 0..20_000, 100);
        for round in 1..=5 {
            let mut relay = Relay::start(&config);
            kafka().wait_for_count(&topic, round * 2500);
            relay.kill();
        }
        let count = kafka().records(&topic).len();
        assert!(count < 20_000, "all {count} rows were sent before the last kill");
        let relay = Relay::start(&config);
        db.wait_until_confirmed();
        assert_eq!(BACKLOG.check(&kafka().records(&topic), 0..20_000), 0, "repeats");
        assert_eq!(relay.stop(), 0);
        assert_eq!(kafka().undecided_count(db.name()), 0);
    }
}

fn exactly_once(db: &Outbox, kafka: &Kafka) -> Config {
    with(db.config(kafka), &[("exactly.once.support", "required"), ("outboxd.inflight.records.max", "500")])
}
