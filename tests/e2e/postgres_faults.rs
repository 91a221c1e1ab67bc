//! PostgreSQL restarts under the relay.

use outboxd::throwaway::StopMode;

use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
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

fn survive_restarts(major: u16) {
    let (mut server, backlog) = (postgres::start(major), Backlog { key_count: 100 });
    let db = Outbox::create(&server);
    let topic = db.topic(Backlog::TYPE);
    let mut relay = Relay::start(&with(db.config(kafka()), &[("outboxd.inflight.records.max", "100")]));
    db.wait_until_streaming();
    let mut written = 0;
    for mode in [StopMode::Fast, StopMode::Immediate] {
        relay.pause();
        backlog.insert(&db, written..written + 20_000, 100);
        let end = db.current_wal_lsn();
        relay.resume();
        kafka().wait_for_count(&topic, i64::try_from(written).unwrap() + 300);
        assert!(db.slot().unwrap().confirmed_flush_lsn < Some(end), "everything was sent before the stop");
        db.disconnect();
        server.stop(mode, DEADLINE).unwrap();
        server.start_again().unwrap();
        written += 20_000;
        db.wait_until_streaming();
        db.wait_until_confirmed();
        assert!(relay.is_running(), "after {mode:?}");
        backlog.check(&kafka().records(&topic), 0..written);
    }
}
