//! Records that a crash would repeat are found at the end of their topic, and skipped.

use std::collections::BTreeMap;
use std::fs;

use outboxd::internals::throwaway::{StopMode, unused_port};

use crate::support::acl::Operation;
use crate::support::backlog::Backlog;
use crate::support::broker_proxy::{BrokerProxy, Fault};
use crate::support::certificate::Authority;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};
use crate::support::secure_kafka::{Door, SecureKafka, USER};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::withheld::Withheld;

const BACKLOG: Backlog = Backlog { key_count: 200 };
/// Of the transaction that [`kill_in_a_transaction`] interrupts.
const ROWS: u64 = 6_000;
/// From this row on a relay that is going to be killed gets nothing.
const WITHHELD: u64 = 5_500;
/// Maximum number of records in flight: a backlog takes a while.
const WINDOW: usize = 100;
const HEADER: &str = "outboxd.position";

#[test]
fn relays_killed_in_the_middle_of_a_backlog_send_each_row_once() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let topic = db.topic(Backlog::TYPE);
        kafka().create_topic(&topic, 3, &[]);
        prepare_slot(&db);
        // One transaction is as good as lost without it: it would come again from its first row on.
        BACKLOG.insert(&db, 0..5_000, 5_000);
        BACKLOG.insert(&db, 5_000..20_000, 100);
        let link = Withheld::from(&deduping(&db, kafka()), &Backlog::payload(19_000));
        for count in [1_000, 4_000, 8_000, 12_000] {
            let mut relay = Relay::start(link.config());
            kafka().wait_for_count(&topic, count);
            relay.kill();
        }
        let relay = Relay::start(&deduping(&db, kafka()));
        db.wait_until_confirmed();
        assert_eq!(BACKLOG.check(&kafka().records(&topic), 0..20_000), 0, "repeats");
        relay.wait_for_stderr("are already in Kafka and were skipped");
        assert_eq!(relay.stop(), 0);
    }
}

/// Without deduplication the repeats are in the topic, and their positions identify them.
#[test]
fn a_repeat_has_the_position_of_its_first_occurrence() {
    let db = Outbox::create(postgres18());
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 2, &[]);
    prepare_slot(&db);
    BACKLOG.insert(&db, 0..ROWS, ROWS);
    let config = with(small(&db, kafka()), &[("outboxd.identity.headers", "true")]);
    let link = Withheld::from(&config, &Backlog::payload(WITHHELD));
    let mut relay = Relay::start(link.config());
    kafka().wait_for_count(&topic, 2_000);
    relay.kill();
    let _relay = Relay::start(&config);
    db.wait_until_confirmed();
    let (records, count) = (kafka().records(&topic), usize::try_from(ROWS).unwrap());
    assert!(BACKLOG.check(&records, 0..ROWS) > 0, "no repeats");
    let mut positions: BTreeMap<&str, &str> = BTreeMap::new();
    for record in &records {
        let (name, _) = record.headers.last().unwrap();
        assert_eq!(name, HEADER, "it is the last header");
        let position = record.header(HEADER);
        assert_eq!(*positions.entry(record.header("id")).or_insert(position), position);
    }
    assert_eq!(positions.len(), count);
    let mut by_position: Vec<_> =
        records.iter().map(|record| (record.header(HEADER), number(record))).collect();
    by_position.sort_unstable();
    by_position.dedup();
    assert_eq!(by_position.len(), count, "no two rows share a position");
    assert!(by_position.is_sorted_by_key(|(_, number)| *number), "positions are in the order of the rows");
    let system = &db.query("SELECT system_identifier::text FROM pg_control_system()", &[])[0];
    let (first, _) = by_position[0];
    assert!(
        first.starts_with(&format!("{}/", system.get::<_, String>(0))) && first.ends_with("/00000000"),
        "{first}"
    );
}

#[test]
fn rows_are_found_although_their_topic_has_more_partitions_now() {
    let db = Outbox::create(postgres18());
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 3, &[]);
    prepare_slot(&db);
    kill_in_a_transaction(&db);
    kafka().add_partitions(&topic, 4);
    let relay = Relay::start(&deduping(&db, kafka()));
    db.wait_until_confirmed();
    let records = kafka().records(&topic);
    // The keys of one partition are in several now. Behind what one of these misses, what the others had comes again: of
    // what was on its way.
    let mut numbers: Vec<_> = records.iter().map(number).collect();
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.iter().copied().eq(0..ROWS), "each at least once");
    let repeats = all - numbers.len();
    assert!(repeats <= WINDOW, "{repeats} repeats");
    assert!(records.iter().any(|record| record.partition == 3), "the new partition is used");
    assert_eq!(relay.stop(), 0);
}

/// Both count the rows of one transaction from 0, and write to one topic.
#[test]
fn two_slots_do_not_take_each_others_rows_for_their_own() {
    let db = Outbox::create(postgres18());
    db.execute("CREATE TABLE other (LIKE outbox INCLUDING ALL)");
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[]);
    let configs = ["outbox", "other"].map(|table| {
        let name = format!("{}_{table}", db.name());
        let (captured, settings) = (format!("public.{table}"), deduping(&db, kafka()));
        let settings = with(settings, &[("slot.name", &name), ("publication.name", &name)]);
        with(settings, &[("table.include.list", &captured), ("snapshot.mode", "no_data")])
    });
    for config in &configs {
        let relay = Relay::start(config);
        relay.wait_for_stderr("replication slot created");
        assert_eq!(relay.stop(), 0);
    }
    let insert = |table: &str| {
        format!(
            "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload)
             SELECT gen_random_uuid(), 'order', 'k', '{table}', '{{}}' FROM generate_series(1, 500);"
        )
    };
    db.execute(&[insert("outbox"), insert("other")].concat());
    for (config, count) in configs.iter().zip([500, 1_000]) {
        let relay = Relay::start(config);
        kafka().wait_for_count(&topic, count);
        assert_eq!(relay.stop(), 0);
    }
    let ids: std::collections::BTreeSet<_> =
        kafka().records(&topic).iter().map(|record| record.header("id").to_owned()).collect();
    assert_eq!((ids.len(), kafka().record_count(&topic)), (1_000, 1_000));
}

/// The server forgets what was confirmed, and the process that knew it is gone.
#[test]
fn what_postgres_forgets_in_a_crash_is_not_sent_twice() {
    let mut server = postgres::start_with(18, &[("checkpoint_timeout", "1h")]);
    let db = Outbox::create(&server);
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 3, &[]);
    let mut relay = Relay::start(&deduping(&db, kafka()));
    db.wait_until_streaming();
    let mut regressed = false;
    for round in 0..3 {
        BACKLOG.insert(&db, round * 3_000..(round + 1) * 3_000, 50);
        let confirmed = db.wait_until_confirmed();
        relay.kill();
        db.disconnect();
        server.stop(StopMode::Immediate, DEADLINE).unwrap();
        server.start_again().unwrap();
        regressed |= db.slot().unwrap().confirmed_flush_lsn < Some(confirmed);
        relay = Relay::start(&deduping(&db, kafka()));
        db.wait_until_streaming();
    }
    assert!(regressed, "the server has forgotten nothing");
    BACKLOG.insert(&db, 9_000..9_500, 50);
    db.wait_until_confirmed();
    assert_eq!(BACKLOG.check(&kafka().records(&topic), 0..9_500), 0, "repeats");
    assert_eq!(relay.stop(), 0);
}

/// What a relay that is gone had on its way is written when another one is looking already.
#[test]
fn a_record_that_is_written_after_its_relay_has_died_is_found() {
    let db = Outbox::create(postgres18());
    let (topic, broker_port) = (db.topic("order"), unused_port().unwrap());
    let proxy = BrokerProxy::start(broker_port, &topic, Fault::FirstHeld);
    let kafka = Kafka::start_at(broker_port, proxy.port());
    kafka.create_topic(&topic, 1, &[]);
    let config = with(deduping(&db, &kafka), &[("bootstrap.servers", &proxy.bootstrap())]);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    let events = ["1", "2", "3"].map(|key| Event::new("order", key, "OrderCreated", "{}"));
    db.insert(&events);
    proxy.wait_until_held();
    relay.kill();
    proxy.release();
    kafka.wait_for_count(&topic, 1);
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    let ids: Vec<_> = kafka.records(&topic).iter().map(|record| record.header("id").to_owned()).collect();
    assert_eq!(ids, events.map(|event| event.id.to_string()), "each once, in order");
    assert_eq!(relay.stop(), 0);
}

/// Kafka is away when the relay dies, and writes what it had received afterwards.
#[test]
fn what_kafka_wrote_without_answering_is_not_sent_twice() {
    let (db, mut kafka) = (Outbox::create(postgres18()), Kafka::start());
    let topic = db.topic(Backlog::TYPE);
    kafka.create_topic(&topic, 1, &[]);
    // One producer for all: one that the load chooses later has not met the broker, and cannot while it is paused.
    let config = with(deduping(&db, &kafka), &[("producer.linger.ms", "0")]);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..1, 1);
    db.wait_until_confirmed();
    kafka.pause();
    BACKLOG.insert(&db, 1..20, 20);
    let port = kafka.bootstrap().rsplit(':').next().unwrap().parse().unwrap();
    eventually(DEADLINE, "records wait for the broker", || unread_bytes(port) > PRODUCE_BYTES);
    relay.kill();
    kafka.resume();
    kafka.wait_for_count(&topic, 2);
    let relay = Relay::start(&deduping(&db, &kafka));
    db.wait_until_confirmed();
    assert_eq!(BACKLOG.check(&kafka.records(&topic), 0..20), 0, "repeats");
    relay.wait_for_stderr("are already in Kafka and were skipped");
    assert_eq!(relay.stop(), 0);
}

/// More than a request has that is not one to produce.
const PRODUCE_BYTES: u64 = 1_000;

/// Returns the number of bytes that the system has received for the server at this port, and the server has not read.
fn unread_bytes(port: u16) -> u64 {
    let sockets =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = sockets.iter().flat_map(|table| table.lines());
    let unread = lines.filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_servers = fields.get(1)?.ends_with(&format!(":{port:04X}"));
        let (_, received) = fields.get(4)?.split_once(':')?;
        is_servers.then(|| u64::from_str_radix(received, 16).ok())?
    });
    unread.max().unwrap_or_default()
}

#[test]
fn a_topic_that_may_not_be_read_is_reported_and_sent_again() {
    let authority = Authority::new("ours");
    let secure = SecureKafka::start_strict(&authority, "secret");
    let (db, kafka) = (Outbox::create(postgres18()), &secure.kafka);
    let topic = db.topic(Backlog::TYPE);
    kafka.create_topic(&topic, 1, &[]);
    secure.allow(&db.topic(""), &[Operation::Write, Operation::Describe]);
    let jaas = format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{USER}\" password=\"secret\";"
    );
    let settings = [
        ("bootstrap.servers", secure.bootstrap(Door::Sasl, "127.0.0.1")),
        ("producer.security.protocol", "SASL_PLAINTEXT".to_owned()),
        ("producer.sasl.jaas.config", jaas),
    ];
    let config = with(deduping(&db, kafka), &settings.each_ref().map(|(key, value)| (*key, value.as_str())));
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    relay.kill();
    BACKLOG.insert(&db, 0..ROWS, ROWS);
    let link = Withheld::from(&config, &Backlog::payload(WITHHELD));
    let mut relay = Relay::start(link.config());
    let said = relay.wait_for_stderr("rows that are not found are sent again");
    assert!(said.contains(&topic) && said.contains("authoriz"), "{said}");
    kafka.wait_for_count(&topic, 1_000);
    relay.kill();
    secure.run_printed(&said);
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    assert_eq!(BACKLOG.check(&kafka.records(&topic), 0..ROWS), 0, "a right to read is all that is needed");
    assert_eq!(relay.stop(), 0);
}

/// Records that follow a refused one are in Kafka, its letter is not: that must not make it look sent.
#[test]
fn a_refused_record_is_not_lost_behind_those_that_follow_it() {
    let db = Outbox::create(postgres18());
    let (topic, dead) = (db.topic("order"), db.topic("dead"));
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "200000")]);
    kafka().create_topic(&dead, 1, &[]);
    prepare_slot(&db);
    let payload = |n: usize| {
        let filler = if n % 2_000 == 500 { "x".repeat(300_000) } else { String::new() };
        format!("{{\"n\": {n}, \"filler\": \"{filler}\"}}")
    };
    let events: Vec<_> = (0..4_000).map(|n| Event::new("order", "o-1", "E", &payload(n))).collect();
    db.insert(&events);
    let letters = [("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", dead.as_str())];
    let config = with(deduping(&db, kafka()), &letters);
    for count in [510, 1_300, 2_700] {
        let mut relay = Relay::start(&config);
        kafka().wait_for_count(&topic, count);
        relay.kill();
    }
    let _relay = Relay::start(&config);
    db.wait_until_confirmed();
    let ids = |topic: &str| -> Vec<String> {
        kafka().records(topic).iter().map(|record| record.header("id").to_owned()).collect()
    };
    let expected = |is_dead: bool| -> Vec<String> {
        let chosen = events.iter().enumerate().filter(|(n, _)| (n % 2_000 == 500) == is_dead);
        chosen.map(|(_, event)| event.id.to_string()).collect()
    };
    assert_eq!(ids(&topic), expected(false), "each once, in order");
    assert_eq!(ids(&dead), expected(true), "each letter once");
}

#[test]
fn what_a_topic_has_no_longer_is_sent_again() {
    let db = Outbox::create(postgres18());
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 1, &[]);
    prepare_slot(&db);
    kill_in_a_transaction(&db);
    kafka().delete_records(&topic, 0, 1_500);
    let _relay = Relay::start(&deduping(&db, kafka()));
    db.wait_until_confirmed();
    let numbers: Vec<_> = kafka().records(&topic).iter().map(number).collect();
    let again = numbers.iter().rposition(|number| *number == 0).unwrap();
    assert!(
        numbers[again..].iter().copied().eq(0..ROWS),
        "what was deleted, and all that is behind it, in its order"
    );
}

/// Kills a relay in the middle of a transaction.
fn kill_in_a_transaction(db: &Outbox) {
    let topic = db.topic(Backlog::TYPE);
    BACKLOG.insert(db, 0..ROWS, ROWS);
    let link = Withheld::from(&deduping(db, kafka()), &Backlog::payload(WITHHELD));
    let mut relay = Relay::start(link.config());
    kafka().wait_for_count(&topic, 2_000);
    relay.kill();
}

fn deduping(db: &Outbox, kafka: &Kafka) -> Config {
    with(small(db, kafka), &[("outboxd.delivery.guarantee", "tail_dedupe")])
}

fn small(db: &Outbox, kafka: &Kafka) -> Config {
    with(db.config(kafka), &[("outboxd.inflight.records.max", &WINDOW.to_string())])
}

fn prepare_slot(db: &Outbox) {
    let relay = Relay::start(&small(db, kafka()));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}

fn number(record: &Record) -> u64 {
    let value: serde_json::Value = serde_json::from_str(record.value()).unwrap();
    value["n"].as_u64().unwrap()
}
