//! Every possible answer of a broker to a Produce request, from mock brokers.

use std::thread;
use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::mock_kafka::MockKafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const BACKLOG: Backlog = Backlog { key_count: 5 };

/// Returns a configuration for these brokers. They create no topics on request, and so no position is stored.
fn config(db: &Outbox, brokers: &MockKafka) -> Config {
    let bootstrap = brokers.bootstrap();
    let settings = [
        ("bootstrap.servers", bootstrap.as_str()),
        ("snapshot.mode", "no_data"),
        ("outboxd.position.topic", ""),
    ];
    with(db.config(kafka()), &settings)
}

/// Outcome of an error: the process continues, or exits with this code and reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    GoesOn,
    Exit(i32, &'static str),
}

use Outcome::{Exit, GoesOn};
use RDKafkaRespErr as Code;

const ANSWERS: [(Code, Outcome); 21] = [
    (Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Exit(6, "kafka-acls.sh")),
    (Code::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, Exit(6, "kafka-acls.sh")),
    (Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, Exit(6, "max.message.bytes")),
    (Code::RD_KAFKA_RESP_ERR_INVALID_RECORD, Exit(6, "compacted")),
    (Code::RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, Exit(6, "segment.bytes")),
    (Code::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, Exit(6, "message.timestamp.before.max.ms")),
    (Code::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, Exit(6, "topic name")),
    (Code::RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, Exit(6, "producer.compression.type")),
    (Code::RD_KAFKA_RESP_ERR_UNKNOWN, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_INVALID_MSG, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, GoesOn),
    (Code::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, GoesOn),
];

#[test]
fn whatever_a_broker_answers_nothing_is_lost_or_reordered() {
    thread::scope(|scope| {
        let running = ANSWERS.map(|(code, outcome)| (code, scope.spawn(move || answer(code, outcome))));
        let failed: Vec<Code> =
            running.into_iter().filter_map(|(code, case)| case.join().is_err().then_some(code)).collect();
        assert!(failed.is_empty(), "{failed:?}");
    });
}

fn answer(code: Code, outcome: Outcome) {
    let (db, brokers) = (Outbox::create(postgres18()), MockKafka::start(1));
    let topic = db.topic(Backlog::TYPE);
    brokers.create_topic(&topic, 2, 1);
    let mut relay = Relay::start(&config(&db, &brokers));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..50, 10);
    db.wait_until_confirmed();
    brokers.refuse_produce(code, 3);
    // Alone: these brokers do not look at sequence numbers, and would take what comes behind it.
    BACKLOG.insert(&db, 50..51, 1);
    if let Exit(exit, word) = outcome {
        assert_eq!(relay.wait_for_exit(DEADLINE), exit, "{code:?}: {}", relay.stderr());
        assert!(relay.stderr().contains(word), "{code:?}: {word}: {}", relay.stderr());
        brokers.recover();
        relay = Relay::start(&config(&db, &brokers));
    }
    db.wait_until_confirmed();
    BACKLOG.insert(&db, 51..100, 10);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0, "{code:?}");
    BACKLOG.check(&brokers.records(&topic), 0..100);
}

/// The other brokers' partitions go on; nothing behind what waits is confirmed.
#[test]
fn a_broker_that_is_away_holds_up_its_partitions_only() {
    // On a shared server others write what may be confirmed.
    let server = postgres::start(15);
    let (db, brokers) = (Outbox::create(&server), MockKafka::start(3));
    let topic = db.topic(Backlog::TYPE);
    brokers.create_topic(&topic, 3, 3);
    let relay = Relay::start(&config(&db, &brokers));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..100, 10);
    db.wait_until_confirmed();
    let (before, start) = (brokers.counts(&topic), db.current_wal_lsn());
    brokers.broker_down(1);
    BACKLOG.insert(&db, 100..200, 10);
    eventually(DEADLINE, "the others go on", || {
        let now = brokers.counts(&topic);
        (1..3).all(|partition| before[&partition] == 0 || now[&partition] > before[&partition])
    });
    assert!(before[&0] > 0, "the broker that is away has a share: {before:?}");
    assert!(
        db.slot().unwrap().confirmed_flush_lsn.unwrap() <= start,
        "a transaction is confirmed as a whole"
    );
    brokers.broker_up(1);
    let end = db.current_wal_lsn();
    // A request that was lost with its broker is answered for after socket.timeout.ms.
    db.wait_until_confirmed_to(end, Duration::from_secs(120));
    assert_eq!(relay.stop(), 0);
    assert_eq!(BACKLOG.check(&brokers.records(&topic), 0..200), 0, "repeats");
}

/// Also those whom it asks whether a commit is seen; and one of them dies. These brokers take nothing back, so none may be
/// aborted.
#[test]
fn with_exactly_once_leaders_and_the_coordinator_may_move() {
    let (db, brokers) = (Outbox::create(postgres18()), MockKafka::start(3));
    let (topic, state, id) = (db.topic(Backlog::TYPE), format!("{}-state", db.name()), db.name());
    brokers.create_topic(&topic, 3, 3);
    brokers.create_topic(&state, 1, 1);
    let settings = [
        ("exactly.once.support", "required"),
        ("outboxd.exactly.once.state.topic", &state),
        ("producer.override.transactional.id", id),
    ];
    let relay = Relay::start(&with(config(&db, &brokers), &settings));
    db.wait_until_streaming();
    // Who leads the partitions and the state, and who coordinates; who is down then.
    let rounds = [
        ([1, 2, 3], 1, 1, None),
        ([2, 3, 1], 3, 2, None),
        ([2, 1, 1], 2, 2, Some(3)),
        ([3, 3, 3], 3, 3, Some(2)),
    ];
    for (round, (leaders, of_state, coordinator, down)) in (0_u64..).zip(rounds) {
        BACKLOG.insert(&db, round * 100..round * 100 + 50, 5);
        for (partition, leader) in (0..).zip(leaders) {
            brokers.move_leader(&topic, partition, leader);
        }
        brokers.move_leader(&state, 0, of_state);
        brokers.move_coordinator(id, coordinator);
        down.iter().for_each(|broker| brokers.broker_down(*broker));
        BACKLOG.insert(&db, round * 100 + 50..round * 100 + 100, 5);
        // A request that was lost with its broker is answered for after socket.timeout.ms, which is a minute, and the one
        // that asks again may be lost too.
        db.wait_until_confirmed_to(db.current_wal_lsn(), Duration::from_secs(240));
        down.iter().for_each(|broker| brokers.broker_up(*broker));
    }
    assert_eq!(relay.stop(), 0);
    assert_eq!(BACKLOG.check(&brokers.records(&topic), 0..400), 0, "repeats");
}

/// Kafka 0.11 is the oldest with records that have headers and an idempotent producer.
#[test]
fn brokers_of_older_versions_are_spoken_to() {
    use RDKafkaApiKey::{InitProducerId, Metadata, Produce};
    for newest in [
        [(Produce, 3), (Metadata, 4), (InitProducerId, 0)],
        [(Produce, 7), (Metadata, 7), (InitProducerId, 1)],
    ] {
        let (db, brokers) = (Outbox::create(postgres15()), MockKafka::start(1));
        brokers.speak_at_most(&newest);
        let topic = db.topic(Backlog::TYPE);
        brokers.create_topic(&topic, 2, 1);
        let relay = Relay::start(&config(&db, &brokers));
        db.wait_until_streaming();
        BACKLOG.insert(&db, 0..100, 10);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        assert_eq!(BACKLOG.check(&brokers.records(&topic), 0..100), 0, "repeats");
    }
}
