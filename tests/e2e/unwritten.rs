//! Kafka's client says that a record is written, and it is not.

use std::time::{Duration, SystemTime};

use outboxd::throwaway::unused_port;

use crate::support::broker_proxy::{BrokerProxy, Fault};
use crate::support::http::get_until;
use crate::support::kafka::Kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};

#[test]
fn a_record_that_librdkafka_takes_for_written_is_sent_again() {
    // The broker takes the second record without the first, and librdkafka concludes from it that the first is there too.
    let (relay, said) = lose_one(Fault::FirstRefused, |proxy| proxy.wait_until_held());
    assert!(said.contains("without an offset"), "{said}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_record_that_the_broker_takes_for_another_is_sent_again() {
    let (relay, said) = lose_one(Fault::SecondTakenForFirst, |_| {});
    assert!(said.contains("with offset 0"), "{said}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_record_that_waits_for_its_topic_holds_up_neither_status_updates_nor_a_stop() {
    let server = postgres::start_with(18, &[("wal_sender_timeout", "3s")]);
    let (db, mut kafka, port) = (Outbox::create(&server), Kafka::start(), unused_port().unwrap());
    let mut relay = Relay::start_with(&db.config(&kafka), &["--http", &port.to_string()], &[]);
    get_until(port, "/readyz", "is ready", |page| page.code == 200);
    kafka.pause();
    let long_after = SystemTime::now() + Duration::from_secs(6);
    db.insert(&[
        Event::new("order", "1", "OrderCreated", "{}"),
        Event::new("order", "2", "OrderCreated", "{}"),
    ]);
    eventually(DEADLINE, "status updates go on for 6 s", || {
        let rows = db.query("SELECT reply_time FROM pg_stat_replication", &[]);
        rows.first().expect("the walsender has left").get::<_, SystemTime>(0) > long_after
    });
    let samples = ["relay_wal_changes_total{op=\"insert\"}", "relay_inflight_events"];
    get_until(port, "/metrics", "shows one row that waits", |page| {
        samples.map(|name| page.sample(name)) == [Some(1.0), Some(0.0)]
    });
    relay.terminate();
    assert_eq!(relay.wait_for_exit(Duration::from_secs(10)), 0);
    kafka.resume();
    let _relay = Relay::start(&db.config(&kafka));
    let records = kafka.read(&db.topic("order"), 2);
    assert_eq!(records.len(), 2, "{records:?}");
}

/// Sends two records, of which one is lost; the relay, and what it has said of it.
fn lose_one(fault: Fault, first_sent: impl FnOnce(&BrokerProxy)) -> (Relay, String) {
    let db = Outbox::create(postgres18());
    let (topic, broker_port) = (db.topic("order"), unused_port().unwrap());
    let proxy = BrokerProxy::start(broker_port, &topic, fault);
    let kafka = Kafka::start_at(broker_port, proxy.port());
    kafka.create_topic(&topic, 1, &[]);
    let port = unused_port().unwrap();
    let config = with(db.config(&kafka), &[("bootstrap.servers", &proxy.bootstrap())]);
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    let events = ["1", "2"].map(|key| Event::new("order", key, "OrderCreated", "{}"));
    db.insert(&events[..1]);
    if fault == Fault::SecondTakenForFirst {
        db.wait_until_confirmed();
    }
    first_sent(&proxy);
    db.insert(&events[1..]);
    db.wait_until_confirmed();
    assert!(proxy.is_over());
    let records = kafka.records(&topic);
    for event in &events {
        let id = event.id.to_string();
        assert!(records.iter().any(|record| record.header("id") == id), "{id} is not among {records:?}");
    }
    let said = relay.wait_for_stderr("Kafka acknowledged a record that it may not have written");
    let lost = if fault == Fault::FirstRefused { &events[0] } else { &events[1] };
    assert!(said.contains(&lost.id.to_string()) && said.contains(&topic), "{said}");
    let reconnects = "relay_reconnects_total{side=\"kafka\"}";
    get_until(port, "/metrics", "counts a new producer", |page| page.sample(reconnects) == Some(1.0));
    (relay, said)
}
