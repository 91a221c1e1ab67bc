//! Printed lines for Kafka's own tools, executed on the brokers that refuse.

use change_events::source_offset::OffsetKey;
use rdkafka::producer::BaseRecord;

use crate::init::Place;
use crate::least_privilege::logged_in;
use crate::offsets;
use crate::printed_fixes::{fix_of, fix_of_refused};
use crate::signals::{TABLES, config as signals};
use crate::support::acl::Operation;
use crate::support::certificate::Authority;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::secure_kafka::SecureKafka;
use crate::support::wait::{DEADLINE, eventually};

fn event(payload: &str) -> Event {
    Event::new("order", "o-1", "Made", payload)
}

/// Returns the first line for a tool of Kafka in a text.
#[track_caller]
pub(crate) fn tool_line(text: &str) -> &str {
    let start = text.find("kafka-").unwrap_or_else(|| panic!("no line in {text}"));
    text.get(start..).unwrap().split([';', ',', '\n', '"']).next().unwrap().trim_end()
}

#[test]
fn topics_are_made_and_deleted_by_the_lines_that_init_prints() {
    let table = "CREATE TABLE goods (id int PRIMARY KEY)";
    let brokers = kafka().bootstrap();
    let asked = ["--kafka", &brokers, "--tables", "goods", "--yes"];
    // More replicas than there are brokers.
    let refused = Place::build(postgres18(), table);
    let (exit, _, stderr) = refused.init(&[&asked[..], &["--replication-factor", "3"]].concat());
    assert_eq!(exit, 3, "{stderr}");
    kafka().run_tool(tool_line(&stderr));
    let (exit, stdout, stderr) = refused.init(&[&asked[..], &["--replication-factor", "3"]].concat());
    assert_eq!(exit, 0, "{stdout}{stderr}");

    let made = Place::build(postgres18(), table);
    let topics = || kafka().topics(made.db.name());
    let (exit, stdout, stderr) = made.init(&asked);
    assert!(exit == 0 && topics().len() == 1, "{stdout}{stderr}");
    let said = stdout + &stderr;
    let (_, undo) = said.split_once("undo: kafka-").unwrap_or_else(|| panic!("{said}"));
    kafka().run_tool(tool_line(&format!("kafka-{undo}")));
    eventually(DEADLINE, "the topic is deleted", || topics().is_empty());
}

#[test]
fn a_topic_with_settings_that_the_brokers_refuse_is_made_by_the_line() {
    let db = Outbox::create(postgres18());
    let settings =
        [("topic.creation.default.partitions", "1"), ("topic.creation.default.replication.factor", "3")];
    let config = with(db.config(kafka()), &settings);
    db.insert(&[event("{}")]);
    kafka().run_tool(tool_line(&fix_of_refused(&config, 3)));
    let relay = Relay::start(&config);
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_batch_that_is_larger_than_a_segment_is_written_after_the_line() {
    let db = Outbox::create(postgres18());
    let limits = [("segment.bytes", "1048576"), ("max.message.bytes", "4000000")];
    kafka().create_topic(&db.topic("order"), 1, &limits);
    let config = with(db.config(kafka()), &[("producer.max.request.size", "4000000")]);
    db.insert(&[event(&format!("\"{}\"", "x".repeat(1_500_000)))]);
    let fix = fix_of_refused(&config, 6);
    kafka().run_tool(&tool_line(&fix).replace("BYTES", "16777216"));
    let relay = Relay::start(&config);
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// The topic of the Connect worker that is replaced.
#[test]
fn an_offset_topic_that_is_missing_is_made_by_the_line() {
    let db = Outbox::create(postgres18());
    offsets::debezium_was_here(&db);
    for n in 1..3 {
        db.insert(&[event(&format!("{{\"n\": {n}}}"))]);
    }
    let topic = format!("{}-made-offsets", db.name());
    let config = offsets::config(&db, &[("offset.storage.topic", &topic)]);
    kafka().run_tool(tool_line(&fix_of_refused(&config, 3)));
    offsets::store(&db, &topic, Some(&offsets::places(&db)[0].offset()));
    assert_eq!(offsets::relay_all(&db, &config), [2]);
}

/// A broker of its own, that makes no topic by itself and gives no right.
#[test]
fn a_strict_broker_lets_events_through_after_the_lines() {
    let authority = Authority::new("ours");
    let strict = SecureKafka::start_strict_with(&authority, "secret", "auto.create.topics.enable=false\n");
    let brokers = &strict.kafka;
    let soon = ("rdkafka.topic.metadata.propagation.max.ms", "500");
    let db = Outbox::create(postgres18());
    let config = with(db.config(brokers), &[soon]);
    db.insert(&[event("{}")]);
    brokers.run_tool(tool_line(&fix_of_refused(&config, 6)));
    let relay = Relay::start(&config);
    brokers.wait_for_count(&db.topic("order"), 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);

    // A user without a right to write anywhere: the producer's own right comes first.
    let db = Outbox::create(postgres18());
    brokers.create_topic(&db.topic("order"), 1, &[]);
    strict.allow(&db.topic(""), &[Operation::Describe]);
    let config = with(logged_in(&db, &strict), &[("outboxd.position.topic", "")]);
    db.insert(&[event("{}")]);
    let mut relay = Relay::start(&config);
    let said = relay.wait_for_stderr("component is down");
    assert!(said.contains("--operation IdempotentWrite"), "{said}");
    strict.run_printed(&said);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let fix = fix_of(&relay);
    assert!(fix.contains("--operation Write --topic"), "{fix}");
    strict.run_printed(&fix);
    let relay = Relay::start(&config);
    brokers.wait_for_count(&db.topic("order"), 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);

    // The offsets of a Connect worker.
    let db = Outbox::create(postgres18());
    offsets::debezium_was_here(&db);
    for n in 1..3 {
        db.insert(&[event(&format!("{{\"n\": {n}}}"))]);
    }
    let topic = format!("{}-offsets", db.name());
    brokers.create_topic(&topic, 1, &[]);
    brokers.create_topic(&db.topic("order"), 1, &[]);
    let (key, offset) = (OffsetKey::new(db.name(), db.name()), offsets::places(&db)[0].offset());
    brokers.produce(BaseRecord::to(&topic).key(key.as_bytes()).payload(offset.as_bytes()));
    strict.allow(db.name(), &[Operation::Describe]);
    strict.allow(&db.topic(""), &[Operation::Write]);
    let settings =
        [("name", db.name()), ("offset.storage.topic", topic.as_str()), ("outboxd.position.topic", "")];
    let config = with(logged_in(&db, &strict), &settings);
    let mut relay = Relay::start(&config);
    strict.run_printed(&relay.wait_for_stderr("--operation Read --operation Write --operation Describe"));
    relay.kill();
    let relay = Relay::start(&config);
    brokers.wait_for_count(&db.topic("order"), 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(brokers.record_count(&db.topic("order")), 1, "the first was sent by the worker");

    // Signals are read as a member of a group.
    let db = Outbox::create_bare(postgres18(), TABLES);
    let topic = format!("{}-signal", db.name());
    for topic in [&topic, &db.topic("notes"), &db.topic("public.a")] {
        brokers.create_topic(topic, 1, &[]);
    }
    strict.allow(db.name(), &[Operation::Write, Operation::Describe]);
    let login: Vec<_> = logged_in(&db, &strict)
        .into_iter()
        .filter(|(key, _)| key == "bootstrap.servers" || key.starts_with("producer."))
        .collect();
    let settings =
        [("signal.enabled.channels", "kafka"), ("read.only", "true"), ("outboxd.position.topic", "")];
    let mut config = signals(&db, &settings);
    config.extend(login);
    let relay = Relay::start(&config);
    strict.run_printed(&relay.wait_for_stderr("cannot read signals"));
    let log = r#"{"id": "k-1", "type": "log", "data": {"message": "hello there"}}"#;
    brokers.produce(BaseRecord::to(&topic).key(db.name().as_bytes()).payload(log.as_bytes()));
    relay.wait_for_stderr("hello there");
    assert_eq!(relay.stop(), 0);
}
