//! Repeats and gaps that are known by number.

use outboxd_inbox::event::SequenceSource;
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Dedupe, Delivery, Failure};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use tokio_postgres::NoTls;

use crate::running::Running;
use crate::shop::{Payment, Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};

const SEQUENCE: [&str; 4] = ["--dedupe", "sequence", "--retry", "none"];

fn parked_count(shop: &Shop<'_>) -> i64 {
    shop.query("SELECT count(*) FROM inbox_parked", &[])[0].get(0)
}

#[test]
fn events_that_come_too_early_wait_in_the_table_until_the_gap_is_closed() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(300, 10);
    let late = |payment: &Payment| [42, 43, 77].contains(&(payment.seq * 10 + payment.customer));
    let (missing, there): (Vec<Payment>, Vec<Payment>) = events.iter().cloned().partition(late);
    shop.produce(&there);
    shop.produce(&there[100..]);
    let first = shop.start(&SEQUENCE);
    shop.wait_until_committed();
    eventually(DEADLINE, "it is told", || first.log().contains("an event of this key is missing"));
    first.kill();
    // Of the customers 2 and 3 come 4 events before, of the customer 7 come 7. An event that came again waits twice.
    assert_eq!(
        (shop.applied_count(), shop.query("SELECT FROM inbox_message", &[]).len()),
        (210 + 4 + 4 + 7, 0)
    );
    let second = shop.start(&[&SEQUENCE[..], &["--batch", "20"]].concat());
    shop.produce(&missing);
    shop.wait_for_applied(300);
    eventually_eq(DEADLINE, &0, || parked_count(&shop));
    second.stop();
    shop.check(&events);
}

#[test]
fn a_dead_letter_is_not_waited_for_and_is_handled_when_it_comes_again() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(100, 5);
    events[22].fail = "always";
    shop.produce(&events);
    let consumer = shop.start(&SEQUENCE);
    shop.wait_for_dead_letters(1);
    shop.wait_for_applied(99);
    let mut repaired = events[22].clone();
    repaired.fail = "no";
    shop.produce(&[repaired.clone(), repaired.clone()]);
    shop.wait_for_applied(100);
    shop.wait_until_committed();
    consumer.stop();
    let of_customer = "SELECT event_id FROM applied WHERE customer_id = 2 ORDER BY n DESC LIMIT 1";
    assert_eq!(shop.query(of_customer, &[])[0].get::<_, String>(0), repaired.id);
    assert_eq!(shop.applied_count(), 100);
}

#[test]
fn an_event_that_comes_too_early_for_a_full_table_becomes_a_dead_letter_and_the_missing_one_is_applied() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(6, 1);
    // 1 is missing; 2 and 3 wait in the table, 4 and 5 find it full.
    shop.produce(&[&events[..1], &events[2..]].concat());
    let consumer = shop.start(&[&SEQUENCE[..], &["--park-max", "2"]].concat());
    let dead = shop.wait_for_dead_letters(2);
    let ids: Vec<&str> = dead.iter().map(|record| record.header("id")).collect();
    assert_eq!((ids, parked_count(&shop)), (vec!["event-4", "event-5"], 2));
    shop.produce(&events[1..2]);
    shop.wait_for_applied(4);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events[..4]);
    assert_eq!(parked_count(&shop), 0);
}

#[test]
fn an_event_before_the_first_one_that_came_is_a_dead_letter_and_no_repeat() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(4, 1);
    let late = [1, 0, 2, 3].map(|n: usize| events[n].clone());
    shop.produce(&late);
    let consumer = shop.start(&SEQUENCE);
    let dead = shop.wait_for_dead_letters(1);
    assert_eq!(dead[0].header("id"), "event-0");
    assert!(dead[0].header("outboxd.errors.message").contains("before the first one"), "{dead:?}");
    shop.wait_for_applied(3);
    // It is handled when it comes again.
    shop.produce(&events[..1]);
    shop.wait_for_applied(4);
    consumer.stop();
}

#[test]
fn the_first_number_is_waited_for_where_it_is_configured() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(40, 4);
    shop.produce(&events[8..]);
    let first = [&SEQUENCE[..], &["--first-number", "0"]].concat();
    let consumer = shop.start(&first);
    shop.wait_until_committed();
    eventually_eq(DEADLINE, &(0, 32), || (shop.applied_count(), parked_count(&shop)));
    consumer.kill();
    let consumer = shop.start(&[&first[..], &["--batch", "20"]].concat());
    shop.produce(&events[..8]);
    shop.wait_for_applied(40);
    eventually_eq(DEADLINE, &0, || parked_count(&shop));
    consumer.stop();
    shop.check(&events);
}

/// Produces events of one key with these numbers.
fn produce_numbers(topic: &str, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let (id, number) = (format!("{topic}/{number}"), number.to_string());
        let headers = OwnedHeaders::new()
            .insert(Header { key: "id", value: Some(&id) })
            .insert(Header { key: "sequence", value: Some(&number) });
        let mut record =
            BaseRecord::<[u8], [u8]>::to(topic).key(&b"k"[..]).payload(&b""[..]).headers(headers);
        record.partition = Some(0);
        kafka().produce(record);
    }
}

fn start_on(topics: &[String], shop: &Shop<'_>) -> Running {
    let dedupe = Dedupe::Sequence(SequenceSource::Header("sequence".to_owned()));
    let handler = |transaction: Transaction, event: Delivery| async move {
        transaction.execute("INSERT INTO applied (event_id) VALUES ($1)", &[&event.id()]).await?;
        Ok::<_, Failure>(())
    };
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    Running::start_on(topics, shop, connector, |inbox| inbox.dedupe(dedupe), handler)
}

/// Invariant: a key has numbers of its own in each topic, as an id is scoped by its topic.
#[test]
fn the_same_number_in_two_topics_is_not_a_repeat() {
    let shop = Shop::open(postgres18(), kafka());
    let topics = [shop.topic(), format!("{}.refunds", shop.name())];
    kafka().create_topic(&topics[1], 1, &[]);
    topics.iter().for_each(|topic| produce_numbers(topic, 0..3));
    let running = start_on(&topics, &shop);
    shop.wait_for_applied(6);
    produce_numbers(&topics[1], 0..5);
    shop.wait_for_applied(8);
    running.stop();
    assert_eq!(shop.applied_count(), 8);
}

/// Invariant: numbers that an older version stored are still repeats after its tables are brought to this version.
#[test]
fn numbers_of_version_4_stay_known() {
    let shop = Shop::open(postgres18(), kafka());
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    shop.block_on(connector.create_tables()).unwrap();
    shop.execute(&format!(
        "ALTER TABLE inbox_sequence DROP COLUMN topic, ADD PRIMARY KEY (consumer, key); \
         ALTER TABLE inbox_sequence_dead DROP COLUMN topic, ADD PRIMARY KEY (consumer, key, number); \
         UPDATE inbox_version SET version = 4; \
         INSERT INTO inbox_partition (consumer, topic, partition) SELECT '{0}', '{0}.orders', n FROM generate_series(0, 1) AS n; \
         INSERT INTO inbox_sequence (consumer, key, next, first) VALUES ('{0}', 'k', 3, 0); \
         INSERT INTO inbox_sequence_dead VALUES ('{0}', 'k', 1)",
        shop.name()
    ));
    produce_numbers(&shop.topic(), 0..5);
    let running = start_on(&[shop.topic()], &shop);
    shop.wait_for_applied(3);
    shop.wait_until_committed();
    running.stop();
    let applied = shop.query("SELECT split_part(event_id, '/', 2) FROM applied ORDER BY n", &[]);
    let applied: Vec<String> = applied.iter().map(|row| row.get(0)).collect();
    assert_eq!(applied, ["1", "3", "4"], "a dead letter that came again, and those behind the next number");
}
