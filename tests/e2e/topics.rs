//! Changes of topics: more partitions, deleted and created again, shared, with small limits; and brokers that cannot be
//! reached at their advertised address.

use outboxd::internals::kafka::partition_of;
use outboxd::internals::throwaway::unused_port;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use crate::changes;
use crate::support::backlog::Backlog;
use crate::support::http::get_until;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const BACKLOG: Backlog = Backlog { key_count: 20 };

fn no_snapshot(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data")])
}

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", kafka().bootstrap()).create().unwrap()
}

fn ask<T>(question: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(question)
}

#[test]
fn more_partitions_lose_nothing() {
    let db = Outbox::create(postgres18());
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 1, &[]);
    let mut written = 0;
    for _ in 0..2 {
        let relay = Relay::start(&no_snapshot(&db));
        db.wait_until_streaming();
        BACKLOG.insert(&db, written..written + 100, 10);
        db.wait_until_confirmed();
        if written == 0 {
            let more = NewPartitions::new(&topic, 4);
            let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
            let results = ask(admin().create_partitions([&more], &options)).unwrap();
            assert_eq!(results, [Ok(topic.clone())]);
        }
        // Under a relay that knows of one partition; a new one spreads them.
        BACKLOG.insert(&db, written + 100..written + 200, 10);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        written += 200;
    }
    let records = kafka().records(&topic);
    assert_eq!(u64::try_from(records.len()).unwrap(), written, "nothing lost, nothing repeated");
    assert!(records.iter().any(|record| record.partition > 0), "the new ones are used");
}

/// Offsets that restart at zero prove nothing about a record: it is sent again, with another producer.
#[test]
fn a_topic_that_is_deleted_and_created_again_gets_what_comes_then() {
    let db = Outbox::create(postgres15());
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 1, &[]);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..100, 10);
    db.wait_until_confirmed();
    make_anew(&topic, 1);
    BACKLOG.insert(&db, 100..200, 10);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&topic), 100..200);
}

/// All rows have one key, whose partition is one of those that are gone.
#[test]
fn a_topic_that_is_created_again_with_fewer_partitions_gets_what_comes_then_with_exactly_once() {
    gets_what_comes_when_it_is_made_anew_with_fewer_partitions("exactly_once");
}

#[test]
fn a_topic_that_is_created_again_with_fewer_partitions_gets_what_comes_then() {
    gets_what_comes_when_it_is_made_anew_with_fewer_partitions("at_least_once");
}

fn gets_what_comes_when_it_is_made_anew_with_fewer_partitions(guarantee: &str) {
    let key = (0..).map(|n| format!("o-{n}")).find(|key| partition_of(key.as_bytes(), 4) == Some(3)).unwrap();
    let event = |n: u32| Event::new("order", &key, "Numbered", &n.to_string());
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 4, &[]);
    let relay = Relay::start(&with(
        no_snapshot(&db),
        &[("outboxd.delivery.guarantee", guarantee), ("producer.override.transaction.timeout.ms", "10000")],
    ));
    db.wait_until_streaming();
    db.insert(&[event(1)]);
    db.wait_until_confirmed();
    make_anew(&topic, 1);
    db.insert(&[event(2)]);
    db.insert(&[event(3)]);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let values: Vec<_> = kafka().records(&topic).iter().map(|record| record.value().to_owned()).collect();
    assert!(values.ends_with(&["2".to_owned(), "3".to_owned()]), "{values:?}");
}

#[test]
fn a_row_that_names_a_partition_which_is_gone_is_refused_with_its_fix() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    db.execute("ALTER TABLE outbox ADD COLUMN part int DEFAULT 3");
    kafka().create_topic(&topic, 4, &[]);
    let placement = [("transforms.outbox.table.fields.additional.placement", "part:partition")];
    let mut relay = Relay::start(&with(no_snapshot(&db), &placement));
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    db.wait_until_confirmed();
    make_anew(&topic, 1);
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let (said, fix) = (relay.stderr(), format!("names a partition that topic {topic} does not have"));
    assert!(said.contains(&fix), "{said}");
}

/// One group, and what is in none.
const CREATION: [(&str, &str); 6] = [
    ("topic.creation.default.partitions", "2"),
    ("topic.creation.default.replication.factor", "1"),
    ("topic.creation.groups", "wide"),
    ("topic.creation.wide.include", r".*\.wide.*"),
    ("topic.creation.wide.partitions", "3"),
    ("topic.creation.wide.cleanup.policy", "compact"),
];

/// Returns the number of replicas of each partition, and the `cleanup.policy`.
fn made(topic: &str) -> (Vec<usize>, String) {
    let admin = admin();
    let facts = admin.inner().fetch_metadata(Some(topic), DEADLINE).unwrap();
    let replicas =
        facts.topics()[0].partitions().iter().map(|partition| partition.replicas().len()).collect();
    let (topics, options) = ([ResourceSpecifier::Topic(topic)], AdminOptions::new());
    let settings = ask(admin.describe_configs(&topics, &options)).unwrap().remove(0).unwrap();
    (replicas, settings.get("cleanup.policy").unwrap().value.clone().unwrap())
}

fn as_their_groups_say(narrow: &str, wide: &str) {
    assert_eq!(made(narrow), (vec![1; 2], "delete".to_owned()));
    assert_eq!(made(wide), (vec![1; 3], "compact".to_owned()));
}

#[test]
fn topics_of_events_are_made_as_their_groups_say() {
    let db = Outbox::create(postgres18());
    let relay = Relay::start(&with(no_snapshot(&db), &CREATION));
    db.wait_until_streaming();
    db.insert(&["narrow", "wide"].map(|kind| Event::new(kind, "1", "Created", "{}")));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    as_their_groups_say(&db.topic("narrow"), &db.topic("wide"));
}

#[test]
fn topics_of_tables_are_made_as_their_groups_say() {
    let tables = "create table narrow (id int primary key); create table wide (id int primary key)";
    let db = Outbox::create_bare(postgres18(), tables);
    let relay = Relay::start(&changes::config(&db, &CREATION));
    db.wait_until_streaming();
    db.execute("insert into narrow values (1); insert into wide values (1)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    as_their_groups_say(&changes::topic(&db, "narrow"), &changes::topic(&db, "wide"));
}

fn make_anew(topic: &str, partitions: i32) {
    let options = AdminOptions::new().operation_timeout(Some(DEADLINE));
    ask(admin().delete_topics(&[topic], &options))
        .unwrap()
        .into_iter()
        .for_each(|result| drop(result.unwrap()));
    eventually(DEADLINE, "the topic is gone", || kafka().topics(topic).is_empty());
    kafka().create_topic(topic, partitions, &[]);
}

/// The batch is too large for the topic, none of its records is.
#[test]
fn small_records_do_not_pay_for_a_large_batch() {
    let db = Outbox::create(postgres18());
    let (topic, dead) = (db.topic("order"), db.topic("dead"));
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "20000")]);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    let payload = format!("\"{}\"", "x".repeat(900));
    let events: Vec<_> = (0..100).map(|_| Event::new("order", "o-1", "Small", &payload)).collect();
    events.chunks(50).for_each(|events| db.insert(events));
    let letters = [("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", dead.as_str())];
    let relay = Relay::start(&with(no_snapshot(&db), &letters));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let mut ids: Vec<_> =
        kafka().records(&topic).iter().map(|record| record.header("id").to_owned()).collect();
    let mut seen = std::collections::BTreeSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    assert_eq!(ids, events.iter().map(|event| event.id.to_string()).collect::<Vec<_>>());
    assert!(kafka().records(&dead).is_empty(), "none of them is a dead letter");
}

#[test]
fn two_databases_may_share_a_topic() {
    let outboxes = [postgres15(), postgres18()].map(Outbox::create);
    let shared = format!("{}.shared", outboxes[0].name());
    let route = [("transforms.outbox.route.topic.replacement", shared.as_str())];
    let relays = outboxes.each_ref().map(|db| Relay::start(&with(no_snapshot(db), &route)));
    for (db, n) in outboxes.iter().zip(0..) {
        db.wait_until_streaming();
        BACKLOG.insert(db, n * 100..n * 100 + 100, 10);
    }
    for db in &outboxes {
        db.wait_until_confirmed();
    }
    assert_eq!(relays.map(Relay::stop), [0, 0]);
    let mut numbers: Vec<u64> = kafka()
        .records(&shared)
        .iter()
        .map(|record| {
            serde_json::from_str::<serde_json::Value>(record.value()).unwrap()["n"].as_u64().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, Vec::from_iter(0..200));
}

#[test]
fn a_broker_that_is_not_where_it_says_is_named() {
    let [port, elsewhere, http] = [(); 3].map(|()| unused_port().unwrap());
    let broker = Kafka::start_at(port, elsewhere);
    let address = format!("127.0.0.1:{elsewhere}");
    let db = Outbox::create(postgres18());
    let config = with(no_snapshot(&db), &[("bootstrap.servers", &broker.bootstrap())]);
    // Its position is the first thing that a relay has to write.
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(DEADLINE), 5, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(said.contains(&address) && said.contains("advertised.listeners"), "{said}");
    // Without one it is an event.
    let config = with(config, &[("outboxd.position.topic", "")]);
    let relay = Relay::start_with(&config, &["--http", &http.to_string()], &[]);
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    get_until(http, "/readyz", "names the address", |page| page.code == 503 && page.body.contains(&address));
    relay.wait_for_stderr(&address);
}
