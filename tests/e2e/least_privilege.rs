//! The rights that the documentation asks for are enough, and what they do not cover is refused.

use std::fs;
use std::time::Duration;

use outboxd::internals::throwaway::{Options, ThrowawayPostgres};

use crate::support::acl::{Operation, Resource};
use crate::support::certificate::Authority;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::secure_kafka::{Door, SecureKafka, USER};
use crate::support::session::{Address, Session};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

const FILES: [&str; 3] = [
    include_str!("../../sql/outbox.sql"),
    include_str!("../../sql/publication.sql"),
    include_str!("../../sql/role.sql"),
];

const INSERT: &str = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
                      VALUES ('order', 'o-1', 'OrderCreated', '{}')";

#[test]
fn the_files_in_sql_are_enough_and_give_no_more() {
    for major in [15, 18] {
        let hba = vec!["host all outboxd all scram-sha-256".to_owned()];
        let server = ThrowawayPostgres::start(&Options { hba, ..postgres::options(major, &[]) }).unwrap();
        let db = Outbox::create_bare(&server, "CREATE TABLE other (n int)");
        // Twice: whoever runs them again changes nothing.
        FILES.iter().chain(&FILES).for_each(|file| db.execute(file));
        db.execute("ALTER ROLE outboxd PASSWORD 'secret'");
        db.execute(INSERT);
        let config = with(
            db.config(kafka()),
            &[
                ("database.user", "outboxd"),
                ("database.password", "secret"),
                ("publication.name", "dbz_publication"),
                ("publication.autocreate.mode", "disabled"),
                ("slot.recovery", "snapshot"),
            ],
        );
        check(&config);
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        db.execute(INSERT);
        assert_eq!(kafka().read(&db.topic("order"), 2).len(), 2);
        db.drop_slot_in_use();
        relay.wait_for_stderr("the slot is made anew");
        kafka().read(&db.topic("order"), 4);
        assert_eq!(relay.stop(), 0);

        let role = Session::new(Address {
            user: "outboxd".to_owned(),
            password: Some("secret".to_owned()),
            ..db.address().clone()
        });
        for forbidden in [
            INSERT,
            "DELETE FROM outbox",
            "SELECT FROM other",
            "CREATE TABLE mine (n int)",
            "CREATE PUBLICATION mine FOR TABLE outbox",
            "ALTER PUBLICATION dbz_publication ADD TABLE other",
            "CREATE ROLE mine",
        ] {
            let error = role.try_execute(forbidden).expect_err(forbidden);
            assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{forbidden}: {error:?}");
        }
        let wants_more =
            with(config, &[("publication.name", "mine"), ("publication.autocreate.mode", "filtered")]);
        let mut relay = Relay::start(&wants_more);
        assert_eq!(relay.wait_for_exit(DEADLINE), 3);
        let cure = "as the owner of the table: CREATE PUBLICATION";
        assert!(relay.stderr().contains(cure), "{}", relay.stderr());
    }
}

#[track_caller]
fn check(config: &Config) {
    let watcher = Watcher::new("outboxd-check-");
    let file = watcher.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let mut command = Relay::command(&["check", "-c", file.to_str().unwrap()]);
    assert_ne!(command.wait_for_exit(DEADLINE), 2, "{}", command.stdout());
}

#[test]
fn the_rights_on_topics_are_enough_and_others_are_refused() {
    let authority = Authority::new("ours");
    let kafka = SecureKafka::start_strict(&authority, "secret");
    let db = Outbox::create(postgres18());
    kafka.allow(&db.topic(""), &[Operation::Write, Operation::Describe]);
    for kind in ["order", "other"] {
        kafka.kafka.create_topic(&db.topic(kind), 3, &[]);
    }
    kafka.kafka.create_topic("somebody-elses", 1, &[]);
    let config = logged_in(&db, &kafka);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    let event = |kind: &str| Event::new(kind, "o-1", "OrderCreated", "{}");
    db.insert(&[event("order"), event("other")]);
    db.wait_until_confirmed();
    let warnings = |relay: &Relay| relay.stderr().matches("does not keep its position").count();
    let warning = relay.wait_for_stderr("does not keep its position");
    assert!(warning.contains("--operation Write --topic __outboxd-positions"), "{warning}");
    assert_eq!(warnings(&relay), 1);
    assert_eq!(relay.stop(), 0);
    assert_eq!(kafka.kafka.records(&db.topic("order")).len(), 1);

    // Each of them is needed.
    for operation in [Operation::Describe, Operation::Read, Operation::Create, Operation::Write] {
        let relay = Relay::start(&config);
        relay.wait_for_stderr("does not keep its position");
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
        kafka.allow("__outboxd-positions", &[operation]);
    }
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[event("order")]);
    db.wait_until_confirmed();
    assert_eq!(warnings(&relay), 0, "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
    assert!(!kafka.kafka.records("__outboxd-positions").is_empty());

    db.insert(&[event("somebody-elses")]);
    let replaced = ("transforms.outbox.route.topic.replacement", "${routedByValue}");
    let mut relay = Relay::start(&with(config, &[replaced]));
    assert_eq!(relay.wait_for_exit(Duration::from_secs(30)), 6, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(said.contains("kafka-acls.sh --add") && said.contains("somebody-elses"), "{said}");
    assert!(kafka.kafka.records("somebody-elses").is_empty());
}

#[test]
fn exactly_once_says_which_right_it_lacks_and_needs_no_more() {
    let authority = Authority::new("ours");
    let kafka = SecureKafka::start_strict(&authority, "secret");
    let db = Outbox::create(postgres18());
    kafka.allow(&db.topic(""), &[Operation::Write, Operation::Describe]);
    kafka.kafka.create_topic(&db.topic("order"), 3, &[]);
    let config = with(logged_in(&db, &kafka), &[("exactly.once.support", "required")]);
    let refused = |cure: &str| {
        let mut relay = Relay::start(&config);
        assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
        assert!(relay.stderr().contains(cure), "{}", relay.stderr());
    };
    // The state first: a slot is made only when it names no position.
    let state = format!("__outboxd-state.{}", db.name());
    refused(&format!("--topic {state}"));
    let all = [Operation::Create, Operation::Describe, Operation::Read, Operation::Write];
    kafka.allow_on((Resource::Topic, &state), &all);
    refused("--operation Write --operation Describe --transactional-id outboxd-");
    kafka.allow_on((Resource::TransactionalId, "outboxd-"), &[Operation::Write, Operation::Describe]);
    for count in 1..3 {
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        kafka.kafka.wait_until_decided(db.name());
        assert_eq!(kafka.kafka.records(&db.topic("order")).len(), count);
    }
}

/// With the rights of a user.
fn logged_in(db: &Outbox, kafka: &SecureKafka) -> Config {
    let jaas = format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{USER}\" password=\"secret\";"
    );
    with(
        db.config(&kafka.kafka),
        &[
            ("bootstrap.servers", &kafka.bootstrap(Door::Sasl, "127.0.0.1")),
            ("producer.security.protocol", "SASL_PLAINTEXT"),
            ("producer.sasl.jaas.config", &jaas),
        ],
    )
}
