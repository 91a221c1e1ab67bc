//! The way between PostgreSQL and the relay: connections that end in the middle, messages that are lost or spoilt, servers that
//! are none.

use std::time::Duration;

use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::pg_proxy::{Fault, PgProxy};
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;

const BACKLOG: Backlog = Backlog { key_count: 7 };

fn through(proxy: &PgProxy, db: &Outbox) -> Config {
    let port = proxy.port().to_string();
    with(
        db.config(kafka()),
        &[("database.port", &port), ("database.sslmode", "disable"), ("snapshot.mode", "no_data")],
    )
}

#[test]
fn a_fault_on_the_way_loses_nothing_and_reorders_nothing() {
    let faults = [
        Fault::CutAfterInserts(1),
        Fault::CutAfterInserts(250),
        Fault::CutAfterInserts(500),
        Fault::UnknownType,
        Fault::TooManyColumns,
        Fault::FrameTooLong,
        Fault::RelationLost,
    ];
    let db = Outbox::create(postgres18());
    let proxy = PgProxy::start(db.address().port);
    let mut relay = Relay::start(&through(&proxy, &db));
    db.wait_until_streaming();
    let mut written = 0;
    for fault in faults {
        proxy.arm(fault);
        if fault == Fault::RelationLost {
            // A table is described once on a connection.
            db.end_the_stream();
        }
        BACKLOG.insert(&db, written..written + 500, 500);
        written += 500;
        db.wait_until_confirmed();
        assert!(proxy.is_over() && relay.is_running(), "{fault:?}: {}", relay.stderr());
    }
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..written);
}

#[test]
fn unknown_messages_are_requested_again_and_never_skipped() {
    let db = Outbox::create(postgres18());
    let proxy = PgProxy::start(db.address().port);
    let mut relay = Relay::start(&through(&proxy, &db));
    db.wait_until_streaming();
    proxy.arm_for_ever(Fault::UnknownType);
    BACKLOG.insert(&db, 0..10, 10);
    assert_eq!(relay.wait_for_exit(DEADLINE), 1);
    assert!(relay.stderr().contains("cannot be decoded"), "{}", relay.stderr());
    assert_eq!(kafka().record_count(&db.topic(Backlog::TYPE)), 0);
    // Nothing of it was confirmed: it comes again.
    let relay = Relay::start(&with(db.config(kafka()), &[("snapshot.mode", "no_data")]));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..10);
}

/// The first relay's machine is gone, and the server is not notified.
#[test]
fn a_relay_behind_a_dead_link_is_succeeded_when_the_server_gives_it_up() {
    let server = postgres::start_with(18, &[("wal_sender_timeout", "2s")]);
    let db = Outbox::create(&server);
    let proxy = PgProxy::start(server.port());
    let mut first = Relay::start(&through(&proxy, &db));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..100, 10);
    db.wait_until_confirmed();
    proxy.swallow();
    first.kill();
    BACKLOG.insert(&db, 100..200, 10);
    let second = Relay::start(&with(db.config(kafka()), &[("snapshot.mode", "no_data")]));
    second.wait_for_stderr("standing by");
    let end = db.current_wal_lsn();
    db.wait_until_confirmed_to(end, Duration::from_secs(20));
    assert_eq!(second.stop(), 0);
    BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..200);
}
