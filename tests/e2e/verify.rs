//! `outboxd verify`: its findings on real servers, its output, and its exit codes.

mod answer;
mod excuses;
mod latest;
mod session;
mod ways;

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::registry::registry;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;
use answer::{Answer, produce_again, verify};

const YES: i32 = 0;
const NO: i32 = 1;
const USAGE: i32 = 2;
const PRECONDITION: i32 = 3;

fn event(key: &str, payload: &str) -> Event {
    Event::new("order", key, "OrderCreated", payload)
}

/// Runs a relay until everything that is in the table is sent.
fn relay(db: &Outbox, config: &Config) {
    let relay = Relay::start(config);
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// Moves the slot over everything that is written: nothing of it will be sent.
fn advance(db: &Outbox) {
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
}

#[test]
fn everything_that_is_sent_is_found_while_the_relay_runs() {
    for (server, guarantee) in [(postgres15(), "at_least_once"), (postgres18(), "exactly_once")] {
        let db = Outbox::create(server);
        let config = with(db.config(kafka()), &[("outboxd.delivery.guarantee", guarantee)]);
        let _relay = Relay::start(&config);
        db.wait_until_streaming();
        let deleted = event("1", "{\"n\": 0}");
        let mut events: Vec<_> =
            (0..50).map(|n| event(&(n % 5).to_string(), &format!("{{\"n\": {n}}}"))).collect();
        events[7].payload = None;
        db.insert(&events);
        db.insert(std::slice::from_ref(&deleted));
        db.execute(&format!("DELETE FROM outbox WHERE id = '{}'", deleted.id));
        let answer = Answer::of(&config, &[]);
        answer.assert(YES, &[]);
        assert_eq!(["rows", "sent", "records", "without_row"].map(|of| answer.count(of)), [50, 50, 51, 1]);
        assert_eq!((&answer.json["answer"], &answer.json["slot"]["passed"]), (&json!("yes"), &json!(true)));
    }
}

#[test]
fn spans_are_no_difference_and_a_column_s_traceparent_is() {
    let parent = |span: &str| format!("00-0af7651916cd43dd8448eb211c80319c-{span}-01");
    let placement = "tracingspancontext:header:traceparent";
    let placed = ("transforms.outbox.table.fields.additional.placement", placement);
    let [traced, untraced] = ["true", "false"].map(|enable| {
        let db = Outbox::create(postgres18());
        let text = parent("b7ad6b7169203331");
        db.execute(&format!("ALTER TABLE outbox ADD tracingspancontext text DEFAULT '{text}'"));
        let settings = [("outboxd.tracing.enable", enable), placed];
        let config = with(db.config(kafka()), &settings);
        let event = event("1", "{}");
        db.insert(std::slice::from_ref(&event));
        relay(&db, &config);
        Answer::of(&config, &[]).assert(YES, &[]);
        db.execute(&format!("UPDATE outbox SET tracingspancontext = '{}'", parent("00f067aa0ba902b7")));
        (Answer::of(&config, &[]), event)
    });
    traced.0.assert(YES, &[]);
    untraced.0.assert(NO, &[("changed", &untraced.1)]);
}

#[test]
fn a_row_that_was_skipped_is_named() {
    let db = Outbox::create(postgres18());
    // A relay that keeps its position does not start on a slot that was moved.
    let config = with(db.config(kafka()), &[("outboxd.position.topic", "")]);
    let [sent, lost, unsent] = ["1", "2", "3"].map(|key| event(key, "{}"));
    db.insert(std::slice::from_ref(&sent));
    relay(&db, &config);
    db.insert(std::slice::from_ref(&lost));
    advance(&db);
    // A relay confirms a position beyond the row.
    relay(&db, &config);
    let running = Relay::start(&config);
    db.wait_until_streaming();
    let answer = Answer::of(&config, &[]);
    answer.assert(NO, &[("missing", &lost)]);
    let finding = &answer.json["findings"][0];
    assert_eq!((&finding["table"], &finding["topic"]), (&json!("public.outbox"), &json!(db.topic("order"))));
    let row = db.query("SELECT ctid::text FROM outbox WHERE id::text = $1", &[&lost.id.to_string()]);
    assert_eq!(finding["ctid"], row[0].get::<_, &str>(0));
    assert_eq!(running.stop(), 0);
    // No relay reads the slot: rows behind its position may still be sent.
    db.insert(std::slice::from_ref(&unsent));
    let answer = Answer::of(&config, &[]);
    answer.assert(NO, &[("missing_or_unsent", &lost), ("missing_or_unsent", &unsent)]);
    assert_eq!(answer.json["slot"]["passed"], false);
    let (exit, stdout, _) = verify(&config, &[]);
    let line = format!("missing_or_unsent: id {}, table public.outbox, ctid ", lost.id);
    assert!(exit == NO && stdout.contains(&line) && stdout.contains("Start the relay"), "{stdout}");
    assert!(!stdout.contains("yes:") && stdout.ends_with("as it should be\n"), "{stdout}");
}

#[test]
fn what_is_repeated_changed_or_elsewhere_is_named() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    let events = ["1", "2", "3", "4", "5"].map(|key| event(key, "{\"a\": 1}"));
    db.insert(&events);
    relay(&db, &config);
    let records = kafka().read(&db.topic("order"), events.len());
    let of =
        |event: &Event| records.iter().find(|record| record.header("id") == event.id.to_string()).unwrap();
    let [untouched, repeated, changed, updated, moved] = &events;
    produce_again(of(repeated), None);
    produce_again(of(changed), Some("{\"a\": 2}"));
    db.execute(&format!("UPDATE outbox SET payload = '{{\"a\": 3}}' WHERE id = '{}'", updated.id));
    db.execute(&format!("UPDATE outbox SET aggregatetype = 'other' WHERE id = '{}'", moved.id));
    let answer = Answer::of(&config, &[]);
    answer.assert(
        NO,
        &[("repeated", repeated), ("changed", changed), ("changed", updated), ("in_another_topic", moved)],
    );
    assert!(answer.findings().iter().all(|(_, id)| *id != untouched.id.to_string()));
    let finding = |event: &Event| {
        let findings = answer.json["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["id"] == event.id.to_string()).unwrap().clone()
    };
    assert_eq!(finding(repeated)["records"].as_array().unwrap().len(), 2);
    assert_eq!(finding(changed)["detail"], "different: value");
    assert_eq!(finding(updated)["records"][0]["offset"], of(updated).offset);
}

#[test]
fn the_order_is_known_by_the_position_or_by_a_column() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY");
    let config = with(db.config(kafka()), &[("outboxd.identity.headers", "true")]);
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[]);
    // The rows of a snapshot have no position.
    relay(&db, &config);
    let [first, second, third] = ["1", "2", "3"].map(|n| event("k", &format!("{{\"n\": {n}}}")));
    for event in [&first, &second, &third] {
        db.insert(std::slice::from_ref(event));
    }
    relay(&db, &config);
    let records = kafka().read(&topic, 3);
    let answer = Answer::of(&config, &["--order-by", "seq"]);
    answer.assert(YES, &[]);
    assert!(answer.json["order"]["by"].as_str().unwrap().contains("outboxd.position of 3 of 3 records"));

    kafka().delete_records(&topic, 0, 3);
    for index in [0, 2, 1] {
        produce_again(&records[index], None);
    }
    // A replay of what was in order is none of it out of order.
    produce_again(&records[2], None);
    let found = |arguments: &[&str]| Answer::of(&config, arguments).findings();
    let expected = [("out_of_order", &second), ("repeated", &third)];
    let expected = expected.map(|(problem, event)| (problem.to_owned(), event.id.to_string()));
    assert_eq!(found(&[]), expected);
    let without = |record: &Record| {
        let headers = record.headers.iter().filter(|(name, _)| name != "outboxd.position").cloned().collect();
        Record { headers, ..record.clone() }
    };
    kafka().delete_records(&topic, 0, 7);
    for index in [0, 2, 1] {
        produce_again(&without(&records[index]), None);
    }
    let answer = Answer::of(&config, &[]);
    assert_eq!((answer.exit, &answer.json["order"]["checked"]), (YES, &json!(false)), "{:#}", answer.json);
    assert!(answer.json["counts"]["out_of_order"].is_null());
    Answer::of(&config, &["--order-by", "seq"]).assert(NO, &[("out_of_order", &second)]);
}

#[test]
fn a_part_of_the_rows_is_looked_at() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD COLUMN at timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')");
    let config = with(db.config(kafka()), &[("transforms.outbox.table.field.event.timestamp", "at")]);
    let old = event("old", "{}");
    db.insert(std::slice::from_ref(&old));
    db.execute("UPDATE outbox SET at = '2020-01-01 12:00'");
    let events: Vec<_> = (0..400).map(|n| event(&n.to_string(), "{}")).collect();
    db.insert(&events);
    relay(&db, &config);
    Answer::of(&config, &[]).assert(YES, &[]);
    let rows = |arguments: &[&str]| {
        let answer = Answer::of(&config, arguments);
        answer.assert(YES, &[]);
        assert!(answer.json["counts"]["without_row"].is_null());
        answer.count("rows")
    };
    assert_eq!(rows(&["--since", "1 hour"]), 400);
    assert_eq!(rows(&["--since", "2020-01-01 12:00+00", "--until", "2020-01-01 12:00:01+00"]), 1);
    assert_eq!(rows(&["--until", "2020-01-01 12:00+00"]), 0);
    assert!((20..200).contains(&rows(&["--sample", "25%"])));
    assert!((20..200).contains(&rows(&["--sample", "100"])));
    db.execute("UPDATE outbox SET payload = '{\"other\": 1}'");
    let answer = Answer::of(&config, &["--sample", "25%"]);
    assert_eq!((answer.exit, answer.count("changed")), (NO, answer.count("rows")));
}

#[test]
fn rows_that_make_no_record_are_named_unless_they_are_dead_letters() {
    let db = Outbox::create(postgres18());
    let dead = db.topic("dead");
    let [good, bad] = [event("1", "{}"), Event::new("no topic!", "2", "E", "{\"secret\": 1}")];
    db.insert(&[good, bad.clone()]);
    let tolerant = with(db.config(kafka()), &[("errors.tolerance", "all")]);
    relay(&db, &tolerant);
    let answer = Answer::of(&tolerant, &[]);
    assert_eq!(answer.findings(), [("cannot_be_sent".to_owned(), bad.id.to_string())]);
    assert!(answer.json["findings"][0]["detail"].as_str().unwrap().contains("route.by.field"));
    let name = format!("{}_letters", db.name());
    let letters = with(tolerant, &[("slot.name", &name), ("errors.deadletterqueue.topic.name", &dead)]);
    let relay = Relay::start(&letters);
    kafka().read(&dead, 1);
    assert_eq!(relay.stop(), 0);
    let answer = Answer::of(&letters, &[]);
    assert_eq!((answer.count("dead_letters"), answer.count("cannot_be_sent")), (1, 0), "{:#}", answer.json);
}

#[test]
fn avro_is_compared_with_the_ids_of_the_registry() {
    let db = Outbox::create(postgres18());
    let registry = registry().url();
    let avro = "io.confluent.connect.avro.AvroConverter";
    let config = with(
        db.config(kafka()),
        &[
            ("key.converter", avro),
            ("key.converter.schema.registry.url", &registry),
            ("value.converter", avro),
            ("value.converter.schema.registry.url", &registry),
        ],
    );
    let events = ["1", "2"].map(|key| event(key, "{}"));
    db.insert(&events);
    relay(&db, &config);
    let answer = Answer::of(&config, &[]);
    answer.assert(YES, &[]);
    assert_eq!(answer.count("sent"), 2);
}

/// A partition that never reaches the WAL: the server sends nothing of it.
#[test]
fn a_row_in_an_unlogged_partition_is_named() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb)
             PARTITION BY LIST (type);
         CREATE TABLE outbox_a PARTITION OF outbox FOR VALUES IN ('A');
         CREATE TABLE outbox_b (LIKE outbox);
         ALTER TABLE outbox_b SET UNLOGGED",
    );
    let config = db.config(kafka());
    let [sent, lost] = ["A", "B"].map(|kind| Event::new("order", "1", kind, "{}"));
    db.insert(std::slice::from_ref(&sent));
    relay(&db, &config);
    db.execute("ALTER TABLE outbox ATTACH PARTITION outbox_b FOR VALUES IN ('B')");
    db.insert(std::slice::from_ref(&lost));
    advance(&db);
    let answer = Answer::of(&config, &[]);
    assert_eq!(answer.exit, NO);
    assert_eq!(answer.findings().into_iter().map(|(_, id)| id).collect::<Vec<_>>(), [lost.id.to_string()]);
    assert_eq!(answer.json["findings"][0]["stored_in"], "public.outbox_b");
}

#[test]
fn a_table_under_another_name_is_pointed_out() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    relay(&db, &config);
    db.execute("ALTER TABLE outbox RENAME TO outbox_2; CREATE TABLE outbox (LIKE outbox_2 INCLUDING ALL)");
    let lost = event("1", "{}");
    db.query(
        "INSERT INTO outbox_2 (id, aggregatetype, aggregateid, type, payload) VALUES ($1::text::uuid, 'order', '1', 'E', '{}')",
        &[&lost.id.to_string()],
    );
    advance(&db);
    let answer = Answer::of(&config, &[]);
    let notes = answer.json["notes"].to_string();
    assert!(
        notes.contains("table public.outbox_2 has every column") && notes.contains("table.include.list"),
        "{notes}"
    );
    let other = with(config, &[("table.include.list", "public.outbox_2")]);
    let answer = Answer::of(&other, &[]);
    assert_eq!((answer.exit, &answer.findings()[0].1), (NO, &lost.id.to_string()));
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_reason() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    let messages = with(
        config.clone(),
        &[
            ("table.include.list", "public.none"),
            ("transforms", "decode,outbox"),
            ("transforms.outbox.table.field.event.key", "aggregateId"),
            ("transforms.outbox.route.by.field", "aggregateType"),
            (
                "transforms.decode.type",
                "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent",
            ),
        ],
    );
    let inserts = with(config.clone(), &[("skipped.operations", "c")]);
    let cases: &[(&Config, &[&str], i32, &str)] = &[
        (&config, &["--since", "yesterday evening"], USAGE, "--since: \"yesterday evening\" is not a time"),
        (&config, &["--since", "1 hour"], USAGE, "--time-column COLUMN"),
        (&config, &["--time-column", "ad"], USAGE, "public.outbox has no column \"ad\""),
        (&config, &["--time-column", "type"], USAGE, "is not a time"),
        (&config, &["--order-by", "type"], USAGE, "is neither a number"),
        (&config, &["--sample", "half"], USAGE, "neither a share"),
        (&config, &["--scratch", "/nowhere"], PRECONDITION, "--scratch DIR"),
        (&messages, &[], USAGE, "only logical messages"),
        (&inserts, &[], USAGE, "skipped.operations=c"),
        (&with(config.clone(), &[("slot.nam", "x")]), &[], USAGE, "slot.nam"),
        (&with(config.clone(), &[("table.include.list", "public.none")]), &[], PRECONDITION, "no table"),
        (&with(config.clone(), &[("database.port", "1")]), &[], 4, "database.hostname"),
        (&with(config.clone(), &[("bootstrap.servers", "127.0.0.1:1")]), &[], 5, "bootstrap.servers"),
    ];
    for (config, arguments, expected, text) in cases {
        let (exit, stdout, stderr) = verify(config, arguments);
        assert_eq!((exit, stdout.as_str()), (*expected, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(text), "{text:?} is not in {stderr}");
    }
}

#[test]
fn a_table_that_does_not_fit_any_more_is_refused() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    relay(&db, &config);
    db.execute("ALTER TABLE outbox RENAME COLUMN payload TO body");
    let (exit, _, stderr) = verify(&config, &[]);
    assert!(
        exit == PRECONDITION && stderr.contains("payload") && stderr.contains("to fix"),
        "{exit} {stderr}"
    );
}

#[test]
fn an_interrupted_run_leaves_no_files_behind() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    let mut running = Relay::start(&config);
    db.wait_until_streaming();
    // The slot does not pass while its reader is stopped.
    running.pause();
    db.insert(&[event("1", "{}")]);
    let watcher = Watcher::new("outboxd-verify-");
    let (file, scratch) = (watcher.folder().join("config.json"), watcher.folder().join("scratch"));
    fs::create_dir(&scratch).unwrap();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let arguments = ["verify", "-c", file.to_str().unwrap(), "--scratch", scratch.to_str().unwrap()];
    let mut command = Relay::command(&arguments);
    let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
    eventually(DEADLINE, "it has begun", || count(&scratch) == 1);
    command.interrupt();
    assert_eq!((command.wait_for_exit(DEADLINE), command.stdout()), (130, String::new()));
    assert_eq!(count(&scratch), 0);
    running.resume();
    assert_eq!(running.stop(), 0);
}
