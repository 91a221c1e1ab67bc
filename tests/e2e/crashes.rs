//! The relay dies or is stopped at any moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outboxd::internals::throwaway::unused_port;

use crate::support::backlog::Backlog;
use crate::support::http::{Page, get_until};
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::withheld::Withheld;

const BACKLOG: Backlog = Backlog { key_count: 200 };

#[test]
fn a_relay_killed_in_the_middle_of_a_backlog_loses_nothing() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let topic = db.topic(Backlog::TYPE);
        let (mut relay, _link) = start_with_backlog(&db, 10_000);
        kafka().wait_for_count(&topic, 2000);
        relay.kill();
        let _relay = Relay::start(&db.config(kafka()));
        db.wait_until_confirmed();
        BACKLOG.check(&kafka().records(&topic), 0..10_000);
    }
}

#[test]
fn a_stop_in_the_middle_of_a_backlog_repeats_nothing() {
    let db = Outbox::create(postgres18());
    let topic = db.topic(Backlog::TYPE);
    let (relay, _link) = start_with_backlog(&db, 10_000);
    kafka().wait_for_count(&topic, 2000);
    assert_eq!(relay.stop(), 0);
    let _relay = Relay::start(&db.config(kafka()));
    db.wait_until_confirmed();
    assert_eq!(BACKLOG.check(&kafka().records(&topic), 0..10_000), 0, "repeats");
}

#[test]
fn ten_stops_under_load_repeat_nothing() {
    let db = Outbox::create(postgres18());
    let topic = db.topic(Backlog::TYPE);
    let config = db.config(kafka());
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    let over = AtomicBool::new(false);
    let (relay, written) = thread::scope(|scope| {
        let load = scope.spawn(|| BACKLOG.insert_until(&db, 0, &over));
        for _ in 0..10 {
            let more = fastrand::i64(1..500);
            kafka().wait_for_count(&topic, kafka().record_count(&topic) + more);
            relay.terminate();
            assert_eq!(relay.wait_for_exit(DEADLINE), 0);
            relay = Relay::start(&config);
        }
        over.store(true, Ordering::Relaxed);
        (relay, load.join().unwrap())
    });
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(BACKLOG.check(&kafka().records(&topic), 0..written), 0, "repeats");
}

#[test]
fn a_stop_while_kafka_is_down_ends_in_time_and_a_second_signal_at_once() {
    let mut kafka = Kafka::start();
    let db = Outbox::create(postgres18());
    let settings = [("outboxd.shutdown.timeout.ms", "2000")];
    let mut relay = start_with_stuck_record(&db, &with(db.config(&kafka), &settings), &mut kafka);
    let began = Instant::now();
    relay.terminate();
    assert_eq!(relay.wait_for_exit(Duration::from_secs(20)), 1);
    assert!(began.elapsed() >= Duration::from_secs(2), "it waited {:?} for Kafka", began.elapsed());
    assert!(relay.stderr().contains("outboxd.shutdown.timeout.ms"), "{}", relay.stderr());

    kafka.resume();
    let mut relay = start_with_stuck_record(&db, &db.config(&kafka), &mut kafka);
    relay.terminate();
    relay.wait_for_stderr("a second signal aborts");
    relay.terminate();
    // Without it, the drain would have lasted 25 s.
    assert_eq!(relay.wait_for_exit(Duration::from_secs(15)), 130);
    kafka.resume();
}

/// The row behind the stuck record cannot be sent, so the relay has to end; it waits for Kafka no longer than a stop does.
#[test]
fn a_row_that_cannot_be_routed_while_kafka_is_down_ends_the_relay_in_time() {
    let mut kafka = Kafka::start();
    let db = Outbox::create(postgres18());
    let settings = [("outboxd.shutdown.timeout.ms", "2000")];
    let mut relay = start_with_stuck_record(&db, &with(db.config(&kafka), &settings), &mut kafka);
    db.insert(&[Event::new("no such topic", "o-2", "OrderCreated", "{}")]);
    assert_eq!(relay.wait_for_exit(Duration::from_secs(20)), 6, "{}", relay.stderr());
    let said = relay.stderr();
    let words =
        ["outboxd.shutdown.timeout.ms", "are sent again at the next start", "\"records\":1", "public.outbox"];
    words.iter().for_each(|word| assert!(said.contains(word), "{word} is not in {said}"));
    kafka.resume();
}

/// Starts a relay with a small window and `count` rows to send, the last tenth of which it does not get.
fn start_with_backlog(db: &Outbox, count: u64) -> (Relay, Withheld) {
    let config = with(db.config(kafka()), &[("outboxd.inflight.records.max", "100")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    BACKLOG.insert(db, 0..count, 100);
    let link = Withheld::from(&config, &Backlog::payload(count * 9 / 10));
    (Relay::start(link.config()), link)
}

/// Pauses Kafka, and returns once the relay waits for an acknowledgement.
fn start_with_stuck_record(db: &Outbox, config: &Config, kafka: &mut Kafka) -> Relay {
    let port = unused_port().unwrap();
    let relay = Relay::start_with(config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    // The first record of a topic is not handed over before a broker knows the topic.
    db.insert(&[Event::new("order", "o-0", "OrderCreated", "{}")]);
    db.wait_until_confirmed();
    get_until(port, "/readyz", "is ready", |page| page.code == 200);
    let in_flight = |page: &Page| page.sample("outboxd_inflight_events");
    get_until(port, "/metrics", "shows that nothing is in flight", |page| in_flight(page) == Some(0.0));
    kafka.pause();
    // The position is behind, and cannot be written any more.
    db.execute("SELECT pg_logical_emit_message(true, 'other', 'message')");
    let written: f64 = db.current_wal_lsn().get().to_string().parse().unwrap();
    let flushed = |page: &Page| page.sample("outboxd_lsn{kind=\"flushed\"}");
    get_until(port, "/metrics", "is past the message", |page| flushed(page) >= Some(written));
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    get_until(port, "/metrics", "shows the record in flight", |page| {
        in_flight(page).is_some_and(|count| count > 0.0)
    });
    relay
}
