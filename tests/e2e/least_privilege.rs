//! The rights that the documentation asks for are enough, and what they do not cover is refused.

use std::fs;
use std::time::Duration;

use outboxd::internals::throwaway::{Options, ThrowawayPostgres, unused_port};
use pg_replication::wal::Lsn;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::support::acl::{Operation, Resource};
use crate::support::certificate::Authority;
use crate::support::http::{get_until, try_get};
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
        // Twice: a second run changes nothing.
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
        relay.wait_for_stderr("creating the slot again");
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
        let fix = "as the owner of the table: CREATE PUBLICATION";
        assert!(relay.stderr().contains(fix), "{}", relay.stderr());
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
    let warnings = |said: &str| said.matches("does not store its position").count();
    let warning = relay.wait_for_stderr("does not store its position");
    assert!(warning.contains("--operation Write --topic __outboxd-positions"), "{warning}");
    assert_eq!(warnings(&relay.stop_and_tell()), 1);
    assert_eq!(kafka.kafka.records(&db.topic("order")).len(), 1);

    // Each of them is needed.
    for operation in [Operation::Describe, Operation::Read, Operation::Create, Operation::Write] {
        let relay = Relay::start(&config);
        relay.wait_for_stderr("does not store its position");
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
        kafka.allow("__outboxd-positions", &[operation]);
    }
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[event("order")]);
    db.wait_until_confirmed();
    let said = relay.stop_and_tell();
    assert_eq!(warnings(&said), 0, "{said}");
    assert!(!kafka.kafka.records("__outboxd-positions").is_empty());

    db.insert(&[event("somebody-elses")]);
    let replaced = ("transforms.outbox.route.topic.replacement", "${routedByValue}");
    let mut relay = Relay::start(&with(config.clone(), &[replaced]));
    assert_eq!(relay.wait_for_exit(Duration::from_secs(30)), 6, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(
        said.contains("kafka-acls.sh ") && said.contains(" --add ") && said.contains("somebody-elses"),
        "{said}"
    );
    assert!(kafka.kafka.records("somebody-elses").is_empty());
    kafka.run_printed(&said);
    let relay = Relay::start(&with(config, &[replaced]));
    kafka.kafka.wait_for_count("somebody-elses", 1);
    assert_eq!(relay.stop(), 0);

    a_replay_needs_the_rights_that_are_told(&kafka, &authority);
}

/// Checks a replay with TLS and a login, on the same broker.
fn a_replay_needs_the_rights_that_are_told(kafka: &SecureKafka, authority: &Authority) {
    for topic in ["strict-dlq", "strict-origin"] {
        kafka.kafka.create_topic(topic, 1, &[]);
    }
    let headers = [("topic", "strict-origin"), ("partition", "0"), ("offset", "7")]
        .map(|(name, value)| (format!("outboxd.errors.{name}"), value));
    let headers = headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
        all.insert(Header { key, value: Some(value.as_bytes()) })
    });
    kafka.kafka.produce(BaseRecord::to("strict-dlq").key(&b"k"[..]).payload(&b"v"[..]).headers(headers));
    let keys = Watcher::new("outboxd-keys-");
    let trusted = keys.folder().join("ours.pem");
    fs::write(&trusted, authority.pem()).unwrap();
    let servers = kafka.bootstrap(Door::SaslTls, "127.0.0.1");
    let settings = [
        "producer.security.protocol=SASL_SSL".to_owned(),
        format!("producer.sasl.jaas.config={}", jaas()),
        "producer.ssl.truststore.type=PEM".to_owned(),
        format!("producer.ssl.truststore.location={}", trusted.display()),
    ];
    let replay = || {
        let place = ["--from", "strict-dlq", "--bootstrap-servers", &servers, "--execute"];
        let settings = settings.iter().flat_map(|setting| ["-X", setting]);
        let arguments = ["dlq", "replay"].into_iter().chain(place).chain(settings);
        let mut process = Relay::command(&arguments.collect::<Vec<_>>());
        (process.wait_for_exit(DEADLINE), process.stderr())
    };
    let states = "__outboxd-dead-letters";
    let all = [Operation::Create, Operation::Describe, Operation::Read, Operation::Write];
    let rights: [(Resource, &str, &[Operation]); 4] = [
        (Resource::Topic, "strict-dlq", &[Operation::Read, Operation::Describe]),
        (Resource::Topic, states, &all),
        (Resource::TransactionalId, "outboxd-dlq-strict-dlq", &[Operation::Write, Operation::Describe]),
        (Resource::Topic, "strict-origin", &[Operation::Write]),
    ];
    for (resource, name, operations) in rights {
        let (exit, said) = replay();
        assert_ne!(exit, 0, "without {operations:?} on {name}: {said}");
        assert!(!said.contains("\"secret\""), "{said}");
        kafka.allow_on((resource, name), operations);
    }
    let (exit, said) = replay();
    assert_eq!(exit, 0, "{said}");
    kafka.kafka.wait_until_decided("strict-origin");
    let sent = kafka.kafka.records("strict-origin");
    assert_eq!((sent.len(), sent[0].value()), (1, "v"));
}

#[test]
fn exactly_once_says_which_right_it_lacks_and_needs_no_more() {
    let authority = Authority::new("ours");
    let kafka = SecureKafka::start_strict(&authority, "secret");
    let db = Outbox::create(postgres18());
    kafka.allow(&db.topic(""), &[Operation::Write, Operation::Describe]);
    kafka.kafka.create_topic(&db.topic("order"), 3, &[]);
    let config = with(logged_in(&db, &kafka), &[("exactly.once.support", "required")]);
    let refused = |fix: &str| {
        let mut relay = Relay::start(&config);
        assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
        assert!(relay.stderr().contains(fix), "{}", relay.stderr());
        kafka.run_printed(&relay.stderr());
    };
    // The state first: a slot is made only when it names no position.
    let state = format!("__outboxd-state.{}", db.name());
    refused(&format!("--topic {state}"));
    refused("--operation Write --operation Describe --transactional-id outboxd-");
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

/// The slot does not advance without the position: the next start would conclude that another client had moved the
/// slot.
#[test]
fn a_right_that_is_taken_away_holds_the_slot_and_no_later_start_is_refused() {
    const POSITIONS: &str = "__outboxd-positions";
    let authority = Authority::new("ours");
    let kafka = SecureKafka::start_strict(&authority, "secret");
    let db = Outbox::create(postgres18());
    kafka.allow(&db.topic(""), &[Operation::Write, Operation::Describe]);
    kafka.allow(POSITIONS, &[Operation::Create, Operation::Describe, Operation::Read, Operation::Write]);
    kafka.kafka.create_topic(&db.topic("order"), 3, &[]);
    let config = with(logged_in(&db, &kafka), &[("outboxd.shutdown.timeout.ms", "2000")]);
    let insert = |count| {
        db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
        kafka.kafka.wait_for_count(&db.topic("order"), count);
    };
    let kept = || {
        let records = kafka.kafka.records(POSITIONS);
        let position: serde_json::Value = serde_json::from_str(records.last().unwrap().value()).unwrap();
        position["lsn"].as_str().unwrap().parse::<Lsn>().unwrap()
    };
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    insert(1);
    db.wait_until_confirmed();

    kafka.revoke(POSITIONS, Operation::Write);
    insert(2);
    let warning = relay.wait_for_stderr("Nothing more is confirmed to PostgreSQL until then");
    assert!(warning.contains("--operation Write --topic __outboxd-positions"), "{warning}");
    get_until(port, "/readyz", "warns", |page| page.body.contains("could not store its position"));
    let age = try_get(port, "/metrics").unwrap().sample("outboxd_position_age_seconds").unwrap();
    assert!(age > 1.0, "{age}");
    assert_eq!(relay.stop(), 0);
    assert!(db.slot().unwrap().confirmed_flush_lsn.unwrap() <= kept());

    let relay = Relay::start(&config);
    relay.wait_for_stderr("Nothing more is confirmed to PostgreSQL until then");
    // The second comes again.
    insert(4);
    assert!(db.slot().unwrap().confirmed_flush_lsn.unwrap() <= kept());
    kafka.allow(POSITIONS, &[Operation::Write]);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);

    let relay = Relay::start(&config);
    db.wait_until_streaming();
    insert(5);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// Returns the login with the rights of a user.
fn jaas() -> String {
    format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{USER}\" password=\"secret\";"
    )
}

pub(crate) fn logged_in(db: &Outbox, kafka: &SecureKafka) -> Config {
    with(
        db.config(&kafka.kafka),
        &[
            ("bootstrap.servers", &kafka.bootstrap(Door::Sasl, "127.0.0.1")),
            ("producer.security.protocol", "SASL_PLAINTEXT"),
            ("producer.sasl.jaas.config", &jaas()),
        ],
    )
}
