//! Pause, resume, restart, stop: the relay runs in this process, since signals can only stop it.

use outboxd::internals::error::{Diagnose as _, Exit};
use outboxd::internals::relay::Target;
use outboxd::internals::telemetry::Phase;

use crate::support::backlog::Backlog;
use crate::support::in_process::RelayInProcess;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::withheld::Withheld;

const BACKLOG: Backlog = Backlog { key_count: 20 };

fn topic(db: &Outbox) -> String {
    db.topic(Backlog::TYPE)
}

/// Returns the id of the server's process that streams from the slot.
fn walsender(db: &Outbox) -> Option<i32> {
    let sql = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1";
    db.query(sql, &[&db.name()])[0].get(0)
}

/// Waits until nothing of a relay is left at the server.
fn wait_until_disconnected(db: &Outbox) {
    let sql = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'outboxd%' AND datname = current_database()";
    eventually(DEADLINE, "no relay is connected", || db.query(sql, &[]).is_empty());
}

/// Checks that each event is there once and in order.
#[track_caller]
fn check_once(db: &Outbox, kafka: &Kafka, count: u64) {
    kafka.wait_for_count(&topic(db), i64::try_from(count).unwrap());
    db.wait_until_confirmed();
    assert_eq!(BACKLOG.check(&kafka.records(&topic(db)), 0..count), 0, "repeats");
}

#[test]
fn a_pause_lets_the_slot_go_and_continues_from_there() {
    for server in [postgres15(), postgres18()] {
        for guarantee in ["at_least_once", "exactly_once", "tail_dedupe"] {
            let db = Outbox::create(server);
            let relay = RelayInProcess::start(&with(
                db.config(kafka()),
                &[("outboxd.delivery.guarantee", guarantee), ("outboxd.inflight.records.max", "100")],
            ));
            db.wait_until_streaming();
            BACKLOG.insert(&db, 0..2_000, 100);
            relay.pause();
            wait_until_disconnected(&db);
            let page = relay.metrics();
            assert!(page.contains("outboxd_phase{phase=\"paused\"} 1"), "{page}");
            assert!(page.contains("outboxd_inflight_events 0"), "{page}");
            BACKLOG.insert(&db, 2_000..2_100, 100);
            relay.set(Target::Run);
            check_once(&db, kafka(), 2_100);
            assert!(relay.metrics().contains("outboxd_reconnects_total{side=\"postgres\"} 0"));
            relay.stop().unwrap();
        }
    }
}

#[test]
fn a_restart_under_load_begins_another_session_and_repeats_nothing() {
    let db = Outbox::create(postgres18());
    let relay = RelayInProcess::start(&with(db.config(kafka()), &[("outboxd.inflight.records.max", "100")]));
    db.wait_until_streaming();
    for number in 0..5 {
        let before = walsender(&db);
        BACKLOG.insert(&db, number * 2_000..(number + 1) * 2_000, 50);
        relay.set(Target::Restart);
        eventually(DEADLINE, "another session streams", || {
            walsender(&db).is_some_and(|pid| Some(pid) != before)
        });
    }
    check_once(&db, kafka(), 10_000);
    assert!(relay.metrics().contains("outboxd_reconnects_total{side=\"postgres\"} 0"));
    relay.stop().unwrap();
}

#[test]
fn another_relay_takes_the_slot_in_a_pause_and_gives_it_back() {
    let db = Outbox::create(postgres18());
    let paused = RelayInProcess::start(&db.config(kafka()));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..100, 10);
    paused.pause();
    let other = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 100..200, 10);
    db.wait_until_confirmed();
    assert_eq!(other.stop(), 0);
    BACKLOG.insert(&db, 200..300, 10);
    paused.set(Target::Run);
    check_once(&db, kafka(), 300);
    paused.stop().unwrap();
}

#[test]
fn a_slot_that_is_moved_in_a_pause_is_noticed() {
    let db = Outbox::create(postgres15());
    let relay = RelayInProcess::start(&db.config(kafka()));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..10, 10);
    kafka().wait_for_count(&topic(&db), 10);
    relay.pause();
    BACKLOG.insert(&db, 10..20, 10);
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())::text", &[&db.name()]);
    relay.set(Target::Run);
    assert_eq!(relay.join().unwrap_err().exit(), Exit::SlotLost);
}

#[test]
fn a_stop_ends_a_pause_and_is_the_last_word() {
    let db = Outbox::create(postgres18());
    let relay = RelayInProcess::start(&with(db.config(kafka()), &[("slot.drop.on.stop", "true")]));
    db.wait_until_streaming();
    relay.pause();
    relay.set(Target::Stop);
    relay.set(Target::Run);
    relay.join().unwrap();
    assert!(!db.slot().unwrap().active, "it was not the relay's any more, and stays");
}

#[test]
fn a_pause_does_not_hold_the_slot_while_kafka_is_silent() {
    let (mut kafka, db) = (Kafka::start(), Outbox::create(postgres18()));
    let relay = RelayInProcess::start(&with(db.config(&kafka), &[("outboxd.shutdown.timeout.ms", "1000")]));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..10, 10);
    kafka.wait_for_count(&topic(&db), 10);
    db.wait_until_confirmed();
    kafka.pause();
    BACKLOG.insert(&db, 10..20, 10);
    eventually(DEADLINE, "records are on their way", || {
        relay.metrics().contains("outboxd_inflight_events 10")
    });
    relay.set(Target::Pause);
    eventually(DEADLINE, "the slot is free", || walsender(&db).is_none());
    relay.wait_for(&Phase::Draining);
    kafka.resume();
    relay.wait_for(&Phase::Paused);
    relay.set(Target::Run);
    check_once(&db, &kafka, 20);
    relay.stop().unwrap();
}

#[test]
fn a_snapshot_that_is_paused_begins_again() {
    let db = Outbox::create(postgres18());
    BACKLOG.insert(&db, 0..5_000, 5_000);
    let config =
        with(db.config(kafka()), &[("snapshot.mode", "initial"), ("outboxd.inflight.records.max", "100")]);
    let link = Withheld::from(&config, &Backlog::payload(4_000));
    let relay = RelayInProcess::start(link.config());
    kafka().wait_for_count(&topic(&db), 500);
    relay.pause();
    link.end();
    assert!(db.slot().is_none(), "the slot exists only once the snapshot is sent");
    relay.set(Target::Run);
    db.wait_until_streaming();
    BACKLOG.insert(&db, 5_000..5_100, 100);
    db.wait_until_confirmed();
    BACKLOG.check(&kafka().records(&topic(&db)), 0..5_100);
    relay.stop().unwrap();
}
