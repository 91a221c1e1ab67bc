//! PostgreSQL restarts under the relay.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use outboxd::internals::throwaway::StopMode;

use crate::support::backlog::Backlog;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::Outbox;
use crate::support::postgres;
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;

#[test]
fn a_restart_of_postgres_15_loses_nothing() {
    survive_restarts(15);
}

#[test]
fn a_restart_of_postgres_18_loses_nothing() {
    survive_restarts(18);
}

/// The server waits for its walsenders until everything is confirmed; without Kafka nothing ever is.
#[test]
fn postgres_can_stop_while_kafka_is_down() {
    let (mut server, mut kafka) = (postgres::start(18), Kafka::start());
    let (db, backlog) = (Outbox::create(&server), Backlog { key_count: 10 });
    let relay = Relay::start(&db.config(&kafka));
    db.wait_until_streaming();
    backlog.insert(&db, 0..100, 10);
    kafka.wait_for_count(&db.topic(Backlog::TYPE), 100);
    kafka.pause();
    backlog.insert(&db, 100..200, 10);
    db.disconnect();
    server.stop(StopMode::Fast, Duration::from_secs(20)).unwrap();
    server.start_again().unwrap();
    kafka.resume();
    db.wait_until_streaming();
    db.wait_until_confirmed();
    backlog.check(&kafka.records(&db.topic(Backlog::TYPE)), 0..200);
    assert_eq!(relay.stop(), 0);
}

fn survive_restarts(major: u16) {
    let (mut server, backlog) = (postgres::start(major), Backlog { key_count: 100 });
    let db = Outbox::create(&server);
    let topic = db.topic(Backlog::TYPE);
    let mut relay = Relay::start(&with(db.config(kafka()), &[("outboxd.inflight.records.max", "100")]));
    db.wait_until_streaming();
    let mut written = 0;
    for mode in [StopMode::Fast, StopMode::Immediate] {
        thread::scope(|scope| {
            scope.spawn(|| backlog.insert_until(&db, written, &AtomicBool::new(false)));
            kafka().wait_for_count(&topic, i64::try_from(written).unwrap() + 300);
            server.stop(mode, DEADLINE).unwrap();
        });
        server.start_again().unwrap();
        written = u64::try_from(db.query("SELECT count(*) FROM outbox", &[])[0].get::<_, i64>(0)).unwrap();
        db.wait_until_streaming();
        db.wait_until_confirmed();
        assert!(relay.is_running(), "after {mode:?}");
        backlog.check(&kafka().records(&topic), 0..written);
    }
}
