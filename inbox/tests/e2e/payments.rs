//! Each event once, in the order of its key, whatever happens.

use outboxd_inbox::dead_letter::DeadLetter;
use outboxd_inbox::postgres::Connector;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use tokio_postgres::NoTls;

use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};

#[test]
fn a_consumer_that_is_killed_again_and_again_applies_each_event_once() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(3000, 40);
    shop.produce(&events);
    for round in 1..5 {
        let consumer = shop.start(&[]);
        shop.wait_for_applied(round * 500);
        consumer.kill();
    }
    assert!(shop.applied_count() < 3000, "all were applied before the last kill");
    let consumer = shop.start(&[]);
    shop.wait_for_applied(3000);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
}

#[test]
fn a_stop_commits_what_is_done() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(500, 20);
    shop.produce(&events);
    let consumer = shop.start(&[]);
    shop.wait_for_applied(500);
    consumer.stop();
    shop.wait_until_committed();
    shop.check(&events);
}

#[test]
fn what_fails_is_tried_again_or_becomes_a_dead_letter_and_its_key_continues() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(300, 10);
    events[31].fail = "once";
    events[47].fail = "always";
    events[83].fail = "slow";
    shop.produce(&events);
    let consumer = shop.start(&["--retry", "50ms,100ms"]);
    let dead = shop.wait_for_dead_letters(1);
    shop.wait_for_applied(299);
    shop.wait_until_committed();
    consumer.stop();
    let given_up = events.remove(47);
    shop.check(&events);

    let [dead] = dead.as_slice() else { panic!("{} dead letters", dead.len()) };
    let original = kafka().records(&shop.topic());
    let original = original.iter().find(|record| record.header("id") == given_up.id).unwrap();
    assert_eq!((&dead.key, &dead.value), (&original.key, &original.value));
    let original_timestamp = original.timestamp_ms.to_string();
    assert_eq!(
        (dead.header("outboxd.errors.timestamp"), dead.header("id")),
        (original_timestamp.as_str(), given_up.id.as_str())
    );
    assert!(dead.timestamp_ms >= original.timestamp_ms);
    let headers = dead.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    let letter = DeadLetter::read(headers).unwrap();
    assert_eq!((letter.reason.as_deref(), letter.attempts), (Some("exhausted"), Some(3)));
    let origin = letter.origin.unwrap();
    let place = (origin.topic.as_str(), origin.partition.unwrap(), origin.offset.unwrap());
    assert_eq!(place, original.place());
}

/// Another cause may have ended the process. So the event is parked before it is given up, and other keys continue.
#[test]
fn an_event_that_ends_the_process_again_and_again_is_parked_and_then_becomes_a_dead_letter() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(300, 10);
    events[150].fail = "crash";
    shop.produce(&events);
    for _ in 0..3 {
        let mut consumer = shop.start(&["--park", "1h"]);
        assert!(!consumer.wait_for_exit().success());
    }
    let consumer = shop.start(&["--park", "1h"]);
    // Later events of its key wait behind it.
    let before = events.iter().filter(|event| event.customer != 0 || event.seq < 15).count();
    shop.wait_for_applied(i64::try_from(before).unwrap());
    shop.wait_until_committed();
    consumer.stop();
    assert_eq!((shop.dead_ids(), shop.applied_count()), (vec![], i64::try_from(before).unwrap()));
    let parked = "SELECT FROM inbox_parked WHERE begun = 3";
    assert_eq!(shop.query(parked, &[]).len(), 1);

    shop.query("UPDATE inbox_parked SET not_before = now() WHERE begun = 3", &[]);
    let mut consumer = shop.start(&["--park", "1h"]);
    assert!(!consumer.wait_for_exit().success());
    let consumer = shop.start(&["--park", "1h"]);
    let dead = shop.wait_for_dead_letters(1);
    shop.wait_for_applied(299);
    consumer.stop();
    let crashed = events.remove(150);
    assert_eq!(dead.iter().map(|record| record.header("id")).collect::<Vec<_>>(), [crashed.id]);
    let headers = dead[0].headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    assert_eq!(DeadLetter::read(headers).unwrap().reason.as_deref(), Some("crashed"));
    for table in ["inbox_attempt", "inbox_parked"] {
        assert_eq!(shop.query(&format!("SELECT FROM {table}"), &[]).len(), 0, "{table}");
    }
    shop.check(&events);
}

#[test]
fn the_same_events_in_all_partitions_at_once_are_applied_once() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(900, 900);
    shop.produce_everywhere(&events);
    let consumer = shop.start(&["--batch", "3"]);
    shop.wait_for_applied(900);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
}

#[test]
fn services_that_share_a_database_do_not_take_each_others_events_for_repeats() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(100, 10);
    shop.produce(&events);
    let (one, other) = (shop.start(&[]), shop.start_as("other", &[]));
    shop.wait_for_applied(200);
    one.stop();
    other.stop();
    let row = &shop.query("SELECT count(*), count(DISTINCT event_id) FROM applied", &[])[0];
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (200, 100));
}

#[test]
fn what_is_no_payment_becomes_a_dead_letter() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(60, 10);
    shop.produce(&events[..30]);
    let topic = shop.topic();
    let headers = |id| OwnedHeaders::new().insert(Header { key: "id", value: Some(id) });
    let good = br#"{"customer_id":1,"amount":5,"seq":9}"#;
    kafka().produce(BaseRecord::to(&topic).key(&b"1"[..]).payload(&good[..]));
    kafka().produce(BaseRecord::to(&topic).key(&b"2"[..]).payload(&good[..]).headers(headers("")));
    kafka().produce(BaseRecord::to(&topic).key(&b"3"[..]).payload(&b"{}"[..]).headers(headers("no-json")));
    kafka().produce(BaseRecord::to(&topic).key(&b"4"[..]).headers(headers("tombstone")));
    shop.produce(&events[30..]);
    let consumer = shop.start(&[]);
    let dead = shop.wait_for_dead_letters(4);
    shop.wait_for_applied(60);
    shop.wait_until_committed();
    consumer.stop();
    let mut keys: Vec<&str> = dead.iter().map(Record::key).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["1", "2", "3", "4"]);
    for dead in &dead {
        let headers = dead.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        assert_eq!(DeadLetter::read(headers).unwrap().reason.as_deref(), Some("poison"));
    }
    events.sort_by_key(|event| event.seq);
    shop.check(&events);
}

#[test]
fn when_everything_fails_the_topic_is_not_emptied_into_the_dead_letters() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(400, 400);
    events.iter_mut().for_each(|event| event.fail = "always");
    shop.produce(&events);
    let consumer = shop.start(&["--retry", "1ms"]);
    let tripped = "too many events failed in a row";
    eventually(DEADLINE, "the guard trips", || consumer.log().contains(tripped));
    // No event is given up while the guard tries a few between pauses.
    eventually(DEADLINE, "three trials of 16 events", || {
        let log = consumer.log();
        let (_, trials) = log.split_once(tripped).unwrap();
        trials.matches("an attempt has failed").count() >= 48
    });
    consumer.stop();
    let given_up = kafka().record_count(&shop.dead_letter_topic());
    assert!(given_up < 10, "{given_up} events were given up");
    assert_eq!(shop.applied_count(), 0);
}

#[test]
fn old_events_are_forgotten_and_a_window_that_is_too_short_is_reported() {
    let shop = Shop::open(postgres18(), kafka());
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    shop.block_on(connector.create_tables()).unwrap();
    let old = "INSERT INTO inbox_message SELECT $1, 't', n::text, now() - interval '2 days' \
               FROM generate_series(1, 2500) n";
    shop.query(old, &[&shop.name()]);
    shop.query(old, &[&"another consumer"]);
    shop.query("INSERT INTO inbox_message VALUES ($1, 't', 'new', now())", &[&shop.name()]);
    let consumer = shop.start(&["--window", "1day"]);
    eventually_eq(
        DEADLINE,
        &vec![("another consumer".to_owned(), 2500), (shop.name().to_owned(), 1)],
        || {
            let rows = shop.query("SELECT consumer, count(*) FROM inbox_message GROUP BY 1 ORDER BY 1", &[]);
            rows.iter().map(|row| (row.get(0), row.get::<_, i64>(1))).collect()
        },
    );
    eventually(DEADLINE, "the warning", || {
        consumer.log().contains("Kafka retains records for longer than ids are remembered")
    });
    consumer.stop();
}

#[test]
fn events_that_come_again_are_applied_once() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(400, 20);
    shop.produce(&events);
    shop.produce(&events[200..]);
    shop.produce(&events[100..300]);
    let consumer = shop.start(&["--batch", "50"]);
    shop.wait_for_applied(400);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
}

#[test]
fn a_consumer_that_was_stopped_in_the_middle_changes_nothing_when_it_wakes_up() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(1500, 40);
    shop.produce(&events);
    let mut first = shop.start(&[]);
    shop.wait_for_applied(500);
    first.pause();
    let second = shop.start(&[]);
    shop.wait_for_applied(1500);
    first.resume();
    shop.wait_until_committed();
    first.stop();
    second.stop();
    shop.check(&events);
}
