//! Rows and messages that make no event go to the dead-letter topic, and hold nothing else up.

use outboxd::internals::throwaway::unused_port;
use pg_replication::wal::Lsn;
use serde_json::{Value, json};

use crate::refused_rows::commit_lsn;
use crate::support::backlog::Backlog;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::registry::registry;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;
use crate::support::withheld::Withheld;

const BACKLOG: Backlog = Backlog { key_count: 3 };

#[test]
fn a_row_without_a_route_goes_there_and_the_others_are_sent() {
    for server in [postgres15(), postgres18()] {
        let db = outbox_that_takes_nulls(server);
        let port = unused_port().unwrap();
        let settings = [
            ("errors.deadletterqueue.context.headers.enable", "true"),
            ("name", "orders"),
            ("transforms.outbox.table.fields.additional.placement", "type:header"),
            ("column.mask.with.3.chars", "public.outbox.type"),
        ];
        let config = with(config(&db), &settings);
        let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
        db.wait_until_streaming();
        BACKLOG.insert(&db, 0..30, 10);
        db.execute(&format!("BEGIN; {} {} COMMIT", lost("o-1", 1), lost("o-1", 2)));
        BACKLOG.insert(&db, 30..60, 10);
        db.wait_until_confirmed();
        assert_eq!(BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..60), 0);

        let letters = kafka().records(&dead(&db));
        assert_eq!(numbers(&letters), [1, 2]);
        assert_eq!(letters[0].key(), "o-1");
        let value: Value = serde_json::from_str(letters[0].value()).unwrap();
        let id = letters[0].header("id");
        let payload = r#"{"n": 1, "secret": "hunter2"}"#;
        let expected = json!(
            {"id": id, "aggregateid": "o-1", "payload": payload, "aggregatetype": null, "type": "***"}
        );
        assert_eq!(value, expected);
        assert_eq!(letters[0].header("type"), "***");
        for (name, expected) in [
            ("__connect.errors.connector.name", "orders"),
            ("__connect.errors.stage", "TRANSFORMATION"),
            ("__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"),
            ("outboxd.errors.reason", "routing"),
            ("outboxd.errors.ordinal", "0"),
        ] {
            assert_eq!(letters[0].header(name), expected, "{name}");
        }
        assert!(letters[0].header("__connect.errors.exception.message").contains("aggregatetype"));
        let lsns: Vec<Lsn> =
            letters.iter().map(|letter| letter.header("outboxd.errors.lsn").parse().unwrap()).collect();
        assert!(lsns.is_sorted() && lsns[0] != lsns[1], "{lsns:?}");

        let counted = "outboxd_dead_letters_total{reason=\"routing\"}";
        get_until(port, "/metrics", "counts the letters", |page| page.sample(counted) == Some(2.0));
        let said = relay.stop_and_tell();
        assert_eq!(said.matches("sending an event to the dead-letter topic").count(), 2, "{said}");
        assert!(said.contains(id) && !said.contains("hunter2"), "{said}");
        discard_as_explained(&config, id);
    }
}

/// Discards the dead letter of a row with the command that `explain` prints. The row made no record, so it cannot be
/// sent again.
fn discard_as_explained(config: &Config, id: &str) {
    let folder = Watcher::new("outboxd-letters-");
    let file = folder.folder().join("outbox.json").display().to_string();
    std::fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let mut explain = Relay::command(&["explain", id, "-c", &file]);
    explain.wait_for_exit(DEADLINE);
    let said = explain.stdout();
    let (_, command) = said.split_once("insert the event again, then outboxd ").expect(&said);
    let command = command.lines().next().unwrap();
    assert!(command.contains(&file), "{command}");
    let mut discard = Relay::command(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(discard.wait_for_exit(DEADLINE), 0, "{command}: {}", discard.stderr());
}

#[test]
fn a_relay_killed_behind_a_dead_letter_repeats_it_and_loses_nothing() {
    let db = outbox_that_takes_nulls(postgres18());
    let config = with(config(&db), &[("errors.deadletterqueue.context.headers.enable", "true")]);
    let link = Withheld::from(&config, &Backlog::payload(2_000));
    let mut relay = Relay::start(link.config());
    db.wait_until_streaming();
    // One transaction: its first row's letter is acknowledged, and its last row does not arrive.
    db.execute(&format!(
        "BEGIN; {}
         INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
         SELECT gen_random_uuid(), 'backlog', 'k' || n % 3, 'Numbered', jsonb_build_object('n', n)
         FROM generate_series(0, 2999) AS n;
         COMMIT",
        lost("o-1", 1)
    ));
    kafka().wait_for_count(&dead(&db), 1);
    relay.kill();
    let commit_lsn: Lsn = kafka().records(&dead(&db))[0].header("outboxd.errors.commit.lsn").parse().unwrap();
    // Up to its commit: a keepalive before it contains the end of its last row, where the commit's record begins.
    let confirmed = db.slot().unwrap().confirmed_flush_lsn.unwrap();
    assert!(confirmed <= commit_lsn, "{confirmed} is behind the commit at {commit_lsn}");
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..3_000);
    let letters = kafka().records(&dead(&db));
    assert_eq!(numbers(&letters), [1, 1], "the letter of an unconfirmed transaction comes again");
    assert_eq!(letters[0].value, letters[1].value);
}

#[test]
fn messages_that_are_no_events_go_there_as_they_came() {
    let db = Outbox::create_bare(postgres18(), "SELECT 1");
    let decoder = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent";
    let settings = [
        ("transforms", "decode,outbox"),
        ("transforms.decode.type", decoder),
        ("transforms.outbox.table.field.event.key", "aggregateId"),
        ("transforms.outbox.route.by.field", "aggregateType"),
        ("message.prefix.include.list", "outbox"),
        ("snapshot.mode", "no_data"),
    ];
    let mut config = with(config(&db), &settings);
    config.remove("table.include.list");
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    let contents = [
        "hunter2 is no JSON",
        r#"{"id":"1","aggregateType":"order","aggregateId":"7","payload":{}}"#,
        r#"{"id":"2","aggregateType":"no topic","aggregateId":"7","payload":{}}"#,
    ];
    for (content, transactional) in contents.iter().flat_map(|content| [(content, true), (content, false)]) {
        db.execute(&format!(
            "SELECT pg_logical_emit_message({transactional}, 'outbox', '{content}'); SELECT txid_current()"
        ));
    }
    db.wait_until_confirmed();
    assert_eq!(kafka().records(&db.topic("order")).len(), 2);
    let mut letters: Vec<_> = kafka().records(&dead(&db));
    letters.sort_by_key(|letter| letter.key.clone());
    let found: Vec<_> = letters.iter().map(|letter| (letter.key.as_deref(), letter.value())).collect();
    let key = Some(b"7".as_slice());
    assert_eq!(found, [(None, contents[0]), (None, contents[0]), (key, contents[2]), (key, contents[2])]);
    assert!(!relay.stderr().contains("hunter2"), "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_row_whose_schema_the_registry_refuses_goes_there() {
    let db = Outbox::create(postgres18());
    let url = registry().url();
    let settings = [
        ("value.converter", "io.confluent.connect.avro.AvroConverter"),
        ("value.converter.schema.registry.url", url.as_str()),
        ("value.converter.auto.register.schemas", "false"),
        ("errors.deadletterqueue.context.headers.enable", "true"),
    ];
    let relay = Relay::start(&with(config(&db), &settings));
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "Unknown", r#"{"n": 1}"#)]);
    db.wait_until_confirmed();
    let letters = kafka().records(&dead(&db));
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].header("__connect.errors.stage"), "VALUE_CONVERTER");
    assert_eq!(letters[0].header("__connect.errors.topic"), db.topic("order"));
    assert_eq!(numbers(&letters), [1]);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn rows_of_a_snapshot_go_there_too() {
    let db = outbox_that_takes_nulls(postgres15());
    BACKLOG.insert(&db, 0..20, 10);
    db.execute(&lost("o-1", 1));
    BACKLOG.insert(&db, 20..40, 10);
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 40..60, 10);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..60), 0);
    assert_eq!(numbers(&kafka().records(&dead(&db))), [1]);
}

#[test]
fn later_events_of_the_key_follow_when_asked_for() {
    let db = outbox_that_takes_nulls(postgres18());
    let settings =
        [("outboxd.deadletterqueue.follow.key", "true"), ("outboxd.deadletterqueue.keys.max", "1")];
    let mut relay = Relay::start(&with(config(&db), &settings));
    db.wait_until_streaming();
    let event = |key: &str, n: u32| Event::new("order", key, "E", &format!("{{\"n\": {n}}}"));
    db.insert(&[event("o-1", 1), event("o-2", 2)]);
    db.execute(&lost("o-1", 3));
    db.insert(&[event("o-1", 4), event("o-2", 5)]);
    db.end_the_stream();
    db.insert(&[event("o-2", 6), event("o-1", 7)]);
    db.wait_until_confirmed();
    assert_eq!(in_order(&kafka().records(&db.topic("order"))), [1, 2, 5, 6]);
    let letters = kafka().records(&dead(&db));
    assert_eq!(in_order(&letters), [3, 4, 7]);

    // There is room for one key.
    db.execute(&lost("o-2", 8));
    db.insert(&[event("o-2", 9)]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let said = relay.stderr();
    assert_eq!(said.matches("sending an event to the dead-letter topic").count(), 1, "{said}");
    assert!(said.contains("outboxd.deadletterqueue.keys.max"), "{said}");
    let last = commit_lsn(said.lines().last().unwrap());
    assert!(db.slot().unwrap().confirmed_flush_lsn.unwrap() < last, "{said}");
    assert_eq!(kafka().records(&dead(&db)), letters);
}

/// Returns the dead-letter topic of this test.
pub(crate) fn dead(db: &Outbox) -> String {
    db.topic("dead")
}

/// Returns a configuration with a dead-letter topic.
pub(crate) fn config(db: &Outbox) -> Config {
    let topic = dead(db);
    with(
        db.config(kafka()),
        &[("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", topic.as_str())],
    )
}

fn outbox_that_takes_nulls(server: &outboxd::internals::throwaway::ThrowawayPostgres) -> Outbox {
    let db = Outbox::create(server);
    db.execute("ALTER TABLE outbox ALTER COLUMN aggregatetype DROP NOT NULL");
    db
}

/// Inserts a row that leads to no topic.
fn lost(key: &str, n: u32) -> String {
    format!(
        "INSERT INTO outbox VALUES (gen_random_uuid(), NULL, '{key}', 'Lost', '{{\"n\": {n}, \"secret\": \"hunter2\"}}');"
    )
}

/// Returns the numbers in the payloads: of records, and of rows that are shown as JSON.
fn numbers(records: &[Record]) -> Vec<u64> {
    let number = |record: &Record| {
        let value: Value = serde_json::from_str(record.value()).unwrap();
        let payload = value["payload"].as_str().map(|text| serde_json::from_str::<Value>(text).unwrap());
        payload.unwrap_or(value)["n"].as_u64().unwrap()
    };
    records.iter().map(number).collect()
}

/// Returns the numbers without repeats and over all partitions: they grow in the order of the commits.
fn in_order(records: &[Record]) -> Vec<u64> {
    let mut seen = numbers(records);
    seen.sort_unstable();
    seen.dedup();
    seen
}
