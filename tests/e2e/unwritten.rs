//! Kafka's client reports that a record is written, and it is not.

use std::time::Duration;

use outboxd::internals::throwaway::unused_port;

use crate::support::broker_proxy::{BrokerProxy, Fault};
use crate::support::http::get_until;
use crate::support::kafka::Kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;

#[test]
fn nothing_follows_the_first_record_of_a_partition_before_it_is_acknowledged() {
    let faulty = Faulty::start(Fault::FirstHeld);
    let Faulty { db, proxy, kafka, topic, port, .. } = &faulty;
    let events = ["1", "2"].map(|key| Event::new("order", key, "OrderCreated", "{}"));
    db.insert(&events[..1]);
    proxy.wait_until_held();
    db.insert(&events[1..]);
    let samples = ["outboxd_wal_changes_total{op=\"insert\"}", "outboxd_inflight_events"];
    get_until(*port, "/metrics", "shows one record on its way and one that waits", |page| {
        samples.map(|name| page.sample(name)) == [Some(2.0), Some(1.0)]
    });
    proxy.release();
    db.wait_until_confirmed();
    let ids: Vec<_> = kafka.records(topic).iter().map(|record| record.header("id").to_owned()).collect();
    assert_eq!(ids, events.map(|event| event.id.to_string()));
    assert_eq!(faulty.relay.stop(), 0);
}

#[test]
fn a_record_that_the_broker_takes_for_another_is_sent_again() {
    lose_one(Fault::SecondTakenForFirst, "with offset 0");
    lose_one(Fault::SecondTakenForOld, "without an offset");
}

#[test]
fn a_record_that_waits_for_its_topic_holds_up_neither_status_updates_nor_a_stop() {
    let server = postgres::start_with(18, &[("wal_sender_timeout", "3s")]);
    let (db, mut kafka, port) = (Outbox::create(&server), Kafka::start(), unused_port().unwrap());
    let mut relay = Relay::start_with(&db.config(&kafka), &["--http", &port.to_string()], &[]);
    get_until(port, "/readyz", "is ready", |page| page.code == 200);
    kafka.pause();
    db.insert(&[
        Event::new("order", "1", "OrderCreated", "{}"),
        Event::new("order", "2", "OrderCreated", "{}"),
    ]);
    db.wait_for_status_updates(Duration::from_secs(6));
    let samples = ["outboxd_wal_changes_total{op=\"insert\"}", "outboxd_inflight_events"];
    get_until(port, "/metrics", "shows one row that waits", |page| {
        samples.map(|name| page.sample(name)) == [Some(1.0), Some(0.0)]
    });
    relay.terminate();
    assert_eq!(relay.wait_for_exit(DEADLINE), 0);
    kafka.resume();
    kafka.wait_until_ready();
    // The controller may still fence the broker for its silence, and register it again: no broker answers meanwhile.
    let patience = [("outboxd.startup.timeout.ms", "120000")];
    let _relay = Relay::start(&with(db.config(&kafka), &patience));
    let records = kafka.read(&db.topic("order"), 2);
    assert_eq!(records.len(), 2, "{records:?}");
}

/// Sends two records, of which the second is lost, and finds both.
fn lose_one(fault: Fault, doubt: &str) {
    let Faulty { db, proxy, kafka, topic, port, relay } = Faulty::start(fault);
    let events = ["1", "2"].map(|key| Event::new("order", key, "OrderCreated", "{}"));
    for event in &events {
        db.insert(std::slice::from_ref(event));
        db.wait_until_confirmed();
    }
    assert!(proxy.is_over());
    let records = kafka.records(&topic);
    for event in &events {
        let id = event.id.to_string();
        assert!(records.iter().any(|record| record.header("id") == id), "{id} is not among {records:?}");
    }
    let said = relay.wait_for_stderr("Kafka acknowledged a record that it may not have written");
    assert!(
        said.contains(&events[1].id.to_string()) && said.contains(&topic) && said.contains(doubt),
        "{said}"
    );
    let reconnects = "outboxd_reconnects_total{side=\"kafka\"}";
    get_until(port, "/metrics", "counts a new producer", |page| page.sample(reconnects) == Some(1.0));
    assert_eq!(relay.stop(), 0);
}

/// A relay whose broker is behind a proxy.
struct Faulty {
    db: Outbox,
    proxy: BrokerProxy,
    kafka: Kafka,
    topic: String,
    /// Of its status.
    port: u16,
    relay: Relay,
}

impl Faulty {
    fn start(fault: Fault) -> Self {
        let db = Outbox::create(postgres18());
        let (topic, broker_port) = (db.topic("order"), unused_port().unwrap());
        let proxy = BrokerProxy::start(broker_port, &topic, fault);
        let kafka = Kafka::start_at(broker_port, proxy.port());
        kafka.create_topic(&topic, 1, &[]);
        let port = unused_port().unwrap();
        let config = with(db.config(&kafka), &[("bootstrap.servers", &proxy.bootstrap())]);
        let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
        db.wait_until_streaming();
        Self { db, proxy, kafka, topic, port, relay }
    }
}
