//! Kafka is away, dies, or does not answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use outboxd::internals::throwaway::unused_port;

use crate::support::backlog::Backlog;
use crate::support::http::get_until;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually_some};

#[test]
fn a_start_without_a_broker_fails_soon_and_leaves_nothing_behind() {
    let db = Outbox::create(postgres18());
    let servers = format!("127.0.0.1:{}", unused_port().unwrap());
    let settings = [("bootstrap.servers", servers.as_str()), ("outboxd.startup.timeout.ms", "5000")];
    let mut relay = Relay::start(&with(db.config(kafka()), &settings));
    assert_eq!(relay.wait_for_exit(Duration::from_secs(10)), 5);
    assert!(relay.stderr().contains(&servers), "{}", relay.stderr());
    assert!(db.leftovers().is_empty(), "{:?}", db.leftovers());
}

#[test]
fn a_patient_start_waits_for_the_first_broker() {
    let mut kafka = Kafka::start();
    kafka.stop();
    let db = Outbox::create(postgres15());
    let port = unused_port().unwrap();
    let config = with(db.config(&kafka), &[("outboxd.startup.timeout.ms", "120000")]);
    let _relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    get_until(port, "/readyz", "waits for Kafka", |page| page.code == 503 && page.body.contains("kafka"));
    assert!(db.leftovers().is_empty(), "{:?}", db.leftovers());
    kafka.start_again();
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    kafka.read(&db.topic("order"), 1);
}

#[test]
fn a_stop_while_the_first_broker_is_awaited_ends_at_once() {
    let db = Outbox::create(postgres18());
    let servers = format!("127.0.0.1:{}", unused_port().unwrap());
    let settings = [("bootstrap.servers", servers.as_str()), ("outboxd.startup.timeout.ms", "300000")];
    let port = unused_port().unwrap();
    let config = with(db.config(kafka()), &settings);
    let mut relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    get_until(port, "/readyz", "waits for Kafka", |page| page.code == 503);
    relay.terminate();
    assert_eq!(relay.wait_for_exit(Duration::from_secs(10)), 0);
}

#[test]
fn a_broker_that_dies_in_the_middle_makes_no_gap() {
    let (mut kafka, backlog) = (Kafka::start(), Backlog { key_count: 100 });
    let db = Outbox::create(postgres18());
    let topic = db.topic(Backlog::TYPE);
    let config = with(db.config(&kafka), &[("outboxd.inflight.records.max", "100")]);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    let over = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| backlog.insert_until(&db, 0, &over));
        kafka.wait_for_count(&topic, 500);
        kafka.kill();
        over.store(true, Ordering::Relaxed);
        kafka.start_again();
        writer.join().unwrap()
    });
    db.wait_until_confirmed();
    assert!(relay.is_running());
    assert_eq!(backlog.check(&kafka.records(&topic), 0..written), 0, "repeats");
}

#[test]
fn a_full_window_does_not_silence_status_updates() {
    let server = postgres::start_with(18, &[("wal_sender_timeout", "3s")]);
    let (mut kafka, backlog) = (Kafka::start(), Backlog { key_count: 10 });
    let db = Outbox::create(&server);
    let topic = db.topic(Backlog::TYPE);
    let _relay = Relay::start(&with(db.config(&kafka), &[("outboxd.inflight.records.max", "10")]));
    db.wait_until_streaming();
    backlog.insert(&db, 0..10, 1);
    kafka.wait_for_count(&topic, 10);
    let walsender = active_pid(&db);
    kafka.pause();
    backlog.insert(&db, 10..1000, 10);
    db.wait_for_status_updates(Duration::from_secs(8));
    assert!(is_behind(&db), "the window was never full");
    kafka.resume();
    db.wait_until_confirmed();
    assert_eq!(active_pid(&db), walsender);
    assert_eq!(backlog.check(&kafka.records(&topic), 0..1000), 0, "repeats");
}

fn active_pid(db: &Outbox) -> i32 {
    let sql = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1 AND active";
    eventually_some(DEADLINE, "a relay streams", || Some(db.query(sql, &[&db.name()]).first()?.get(0)))
}

fn is_behind(db: &Outbox) -> bool {
    db.query("SELECT flush_lsn < pg_current_wal_lsn() FROM pg_stat_replication", &[])[0].get(0)
}
