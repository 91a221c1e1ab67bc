//! Records that Kafka refuses for good go to the dead-letter topic: nothing else is lost, and no key's events overtake.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::dead_letters::{config, dead};
use crate::printed_fixes::{fix_of, setting};
use crate::printed_lines::tool_line;
use crate::refused_rows::commit_lsn;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, let_pass};
use crate::support::watcher::Watcher;

#[test]
fn a_record_that_is_too_large_goes_there_as_it_is() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let topic = db.topic("order");
        kafka().create_topic(&topic, 1, &[("max.message.bytes", "20000")]);
        prepare_slot(&db);
        // Batches with much else in them: which record of its batch is the large one has to be found out.
        let events: Vec<_> = (0..300).map(|n| order("o-1", &payload(n, n % 100 == 50))).collect();
        events.chunks(5).for_each(|events| db.insert(events));
        let relay = Relay::start(&config(&db));
        db.wait_until_confirmed();
        let ids = ids_of(&events);
        let (large, small): (Vec<_>, Vec<_>) = ids.iter().enumerate().partition(|(n, _)| n % 100 == 50);
        let sent = kafka().records(&topic);
        assert_eq!(first_occurrences(&sent), values(&small), "no gap, none overtaken");
        let letters = kafka().records(&dead(&db));
        assert_eq!(first_occurrences(&letters), values(&large));
        let letter = &letters[0];
        assert_eq!((letter.key(), letter.value()), ("o-1", payload(50, true).as_str()));
        let names = |record: &Record| record.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(letter), names(&sent[0]), "no headers but the event's own");

        db.insert(&[order("o-1", "{}")]);
        db.wait_until_confirmed();
        let said = relay.stop_and_tell();
        assert_eq!(said.matches("sending an event to the dead-letter topic").count(), 3, "{said}");
        assert!(!said.contains("xxxx"), "a payload is shown: {said}");
        assert_eq!(kafka().records(&topic).len(), sent.len() + 1, "what was confirmed does not come again");
    }
}

/// While the cause of a refusal is waited for, PostgreSQL goes away: what is in flight is given up all the same, so that the next
/// session can begin.
#[test]
fn a_refusal_ends_also_when_postgres_goes_away_meanwhile() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 2, &[("max.message.bytes", "16384")]);
    prepare_slot(&db);
    let is_large = |n: usize| n % 200 == 100;
    let event = |n| order(&format!("o-{}", n % 40), &payload(u32::try_from(n).unwrap(), is_large(n)));
    let events: Vec<_> = (0..1800).map(event).collect();
    events.chunks(600).for_each(|events| db.insert(events));
    let settings = [("producer.batch.size", "8000"), ("outboxd.delivery.guarantee", "tail_dedupe")];
    let relay = Relay::start(&with(config(&db), &settings));
    let end = format!(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{}'",
        db.name()
    );
    for _ in 0..20 {
        let_pass(Duration::from_millis(100));
        drop(db.try_query(&end));
    }
    db.wait_until_confirmed();
    let (large, small): (Vec<_>, Vec<_>) = (0..events.len()).partition(|n| is_large(*n));
    let sent: BTreeSet<String> =
        kafka().records(&topic).iter().map(|record| record.value().to_owned()).collect();
    let letters: BTreeSet<String> =
        kafka().records(&dead(&db)).iter().map(|record| record.value().to_owned()).collect();
    let payloads = |numbers: &[usize], large| {
        numbers.iter().map(|n| payload(u32::try_from(*n).unwrap(), large)).collect::<BTreeSet<_>>()
    };
    assert_eq!((sent, letters), (payloads(&small, false), payloads(&large, true)));
    assert_eq!(relay.stop(), 0);
}

/// The row would be deleted once its letter is written, and the payload would be nowhere.
#[test]
fn what_is_too_large_there_too_stops_a_relay_that_deletes_rows() {
    let db = Outbox::create(postgres18());
    for topic in [&db.topic("order"), &dead(&db)] {
        kafka().create_topic(topic, 1, &[("max.message.bytes", "20000")]);
    }
    let settings = [("outboxd.cleanup.enable", "true"), ("outboxd.cleanup.interval.ms", "100")];
    let config = with(config(&db), &settings);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[order("o-1", &payload(1, true)), order("o-2", "{}")]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let fix = fix_of(&relay);
    assert_eq!(db.query("SELECT FROM outbox WHERE aggregateid = 'o-1'", &[]).len(), 1);
    // Each of the two ways of the message: a letter without its value, whose row stays, and a larger limit.
    let relay = Relay::start(&with(config.clone(), &[setting(&fix, "outboxd.cleanup.enable")]));
    relay.wait_for_stderr("\"to\":\"streaming\"");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(db.query("SELECT FROM outbox WHERE aggregateid = 'o-1'", &[]).len(), 1);
    assert_eq!(kafka().records(&dead(&db)).last().unwrap().value, None);
    kafka().run_tool(tool_line(&fix));
    db.insert(&[order("o-1", &payload(1, true))]);
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    let letters = kafka().records(&dead(&db));
    assert_eq!(letters.last().unwrap().value(), payload(1, true));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn what_is_too_large_there_too_leaves_its_value_behind() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    for topic in [&topic, &dead(&db)] {
        kafka().create_topic(topic, 1, &[("max.message.bytes", "20000")]);
    }
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    let events = [order("o-1", "{}"), order("o-1", &payload(1, true)), order("o-2", "{}")];
    db.insert(&events);
    db.wait_until_confirmed();
    let ids = ids_of(&events);
    let mut sent = first_occurrences(&kafka().records(&topic));
    assert_eq!(sent.len(), 2);
    sent.push(ids[1].clone());
    let letters = kafka().records(&dead(&db));
    assert_eq!((letters.len(), letters[0].key(), letters[0].header("id")), (1, "o-1", ids[1].as_str()));
    let bytes = payload(1, true).len().to_string();
    assert_eq!(
        (&letters[0].value, letters[0].header("outboxd.errors.value.left.out.bytes")),
        (&None, bytes.as_str())
    );
    // The value is in the table alone: cleanup leaves it there, unless an archive keeps it.
    let folder = Watcher::new("outboxd-letters-");
    let file = folder.folder().join("outbox.json");
    fs::write(&file, serde_json::to_vec(&config(&db)).unwrap()).unwrap();
    let clean = |more: &[&str]| clean(&file, more);
    let (exit, said) = clean(&[]);
    assert!(
        exit == 3 && said.contains("1 rows of table") && said.contains("--archive-folder"),
        "{exit} {said}"
    );
    assert_eq!(db.query("SELECT FROM outbox", &[]).len(), 3);
    // The relay does the same if it is configured to delete rows later.
    assert_eq!(relay.stop(), 0);
    let cleanup = [
        ("outboxd.cleanup.enable", "true"),
        ("outboxd.cleanup.interval.ms", "100"),
        ("outboxd.cleanup.before.slot", "delete"),
    ];
    let relay = Relay::start(&with(config(&db), &cleanup));
    relay.wait_for_stderr("cleanup deletes no rows of public.outbox: 1 rows of table");
    assert_eq!(db.query("SELECT FROM outbox", &[]).len(), 3);
    assert_eq!(relay.stop(), 0);
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    let (exit, said) = clean(&["--archive-folder", folder.folder().to_str().unwrap()]);
    assert_eq!((exit, db.query("SELECT FROM outbox", &[]).len()), (0, 0), "{said}");
    assert_eq!(relay.stop(), 0);
}

/// A letter without an id is about a row without one, or about a table that only its topic can name.
#[test]
fn cleanup_deletes_nothing_of_a_table_that_a_dead_letter_without_a_value_may_refer_to() {
    let schema =
        "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb);
                  CREATE TABLE second (LIKE outbox)";
    let db = Outbox::create_bare(postgres18(), schema);
    kafka().create_topic(&dead(&db), 1, &[]);
    let config = with(config(&db), &[("table.include.list", "public.outbox,public.second")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    let row = "VALUES (gen_random_uuid(), 'order', 'k', 't', '{}'), (NULL, 'order', 'k', 't', '{}')";
    let rows = |table: &str| db.query(&format!("SELECT FROM {table}"), &[]).len();
    db.execute(&format!("INSERT INTO outbox {row}; INSERT INTO second {row}"));
    db.execute("DELETE FROM second WHERE id IS NULL");
    db.wait_until_confirmed();
    let topic = dead(&db);
    let letter = |more: &[(&str, Option<&str>)]| {
        let size = ("outboxd.errors.value.left.out.bytes", Some("30000"));
        let headers = more
            .iter()
            .chain([&size])
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: *value }));
        kafka().produce(BaseRecord::to(&topic).key("k".as_bytes()).headers(headers));
    };
    let folder = Watcher::new("outboxd-letters-");
    let file = folder.folder().join("outbox.json");
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    // About another table, and about a row without an id.
    letter(&[("__connect.errors.topic", Some("inventory.public.customers"))]);
    letter(&[("id", None::<&str>)]);
    let (exit, said) = clean(&file, &[]);
    assert!(exit == 3 && said.contains("1 rows of table public.outbox"), "{exit} {said}");
    assert_eq!((rows("outbox"), rows("second")), (2, 0), "{said}");
    db.execute(&format!(
        "DELETE FROM outbox WHERE id IS NULL; INSERT INTO second {row}; DELETE FROM second WHERE id IS NULL"
    ));
    db.wait_until_confirmed();
    letter(&[("__connect.errors.topic", Some("any.public.second"))]);
    let (exit, said) = clean(&file, &[]);
    assert!(exit == 3 && said.contains("may be any of table public.second"), "{exit} {said}");
    assert_eq!((rows("outbox"), rows("second")), (0, 1), "{said}");
    db.execute("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k', 't', '{}')");
    db.wait_until_confirmed();
    // Nothing in the dead letter identifies its event.
    letter(&[]);
    let (exit, said) = clean(&file, &[]);
    assert!(exit == 3 && said.contains("may be any of table"), "{exit} {said}");
    assert_eq!((rows("outbox"), rows("second")), (1, 1), "{said}");
    let (exit, said) = clean(&file, &["--archive-folder", folder.folder().to_str().unwrap()]);
    assert_eq!((exit, rows("outbox"), rows("second")), (0, 0, 0), "{said}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn what_a_topic_does_not_take_goes_there() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD part int; ALTER TABLE outbox ALTER aggregateid DROP NOT NULL");
    let [plain, compact, missing] = ["plain", "compact", "missing"].map(|kind| db.topic(kind));
    kafka().create_topic(&plain, 1, &[]);
    kafka().create_topic(&compact, 1, &[("cleanup.policy", "compact")]);
    kafka().create_topic(&dead(&db), 1, &[]);
    let settings = [
        ("transforms.outbox.table.fields.additional.placement", "part:partition"),
        ("errors.deadletterqueue.context.headers.enable", "true"),
        ("rdkafka.allow.auto.create.topics", "false"),
        ("rdkafka.topic.metadata.propagation.max.ms", "1000"),
    ];
    let relay = Relay::start(&with(config(&db), &settings));
    db.wait_until_streaming();
    let row = |kind: &str, key: &str, part: &str, n: u32| {
        format!("INSERT INTO outbox VALUES (gen_random_uuid(), '{kind}', {key}, 'E', '{n}', {part});")
    };
    let rows = [
        row("plain", "'a'", "0", 0),
        row("plain", "'a'", "7", 1),
        row("compact", "NULL", "NULL", 2),
        row("compact", "'a'", "NULL", 3),
        row("missing", "'a'", "NULL", 4),
        row("missing", "'a'", "NULL", 5),
        row("plain", "'a'", "0", 6),
    ];
    // The third and the fourth are in one batch, and only the third is to blame.
    db.execute(&rows[..4].concat());
    rows[4..].iter().for_each(|row| db.execute(row));
    db.wait_until_confirmed();
    let numbers = |topic: &str| {
        let mut values: Vec<_> =
            kafka().records(topic).iter().map(|record| record.value().to_owned()).collect();
        values.dedup();
        values
    };
    assert_eq!(numbers(&plain), ["0", "6"]);
    assert_eq!(numbers(&compact), ["3"]);
    assert_eq!(kafka().topics(&missing), [""; 0]);
    let letters = kafka().records(&dead(&db));
    let reason = |letter: &Record| {
        [letter.value(), letter.header("outboxd.errors.reason"), letter.header("__connect.errors.topic")]
            .map(str::to_owned)
    };
    // What was not confirmed when a later record was refused is written again.
    let mut reasons: Vec<[String; 3]> = Vec::new();
    for reason in letters.iter().map(reason) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let expected = [
        ["1", "invalid", &plain],
        ["2", "invalid", &compact],
        ["4", "no_topic", &missing],
        ["5", "no_topic", &missing],
    ];
    assert_eq!(reasons, expected);
    assert_eq!(letters[0].header("__connect.errors.partition"), "7");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_refused_record_holds_back_its_key_when_asked_for() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "20000")]);
    prepare_slot(&db);
    let event = |n: u32| order(&format!("o-{}", n % 4), &payload(n, n == 21));
    let events: Vec<_> = (0..100).map(event).collect();
    events.chunks(10).for_each(|events| db.insert(events));
    let relay = Relay::start(&with(config(&db), &[("outboxd.deadletterqueue.follow.key", "true")]));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let ids = ids_of(&events);
    let follows = |n: usize| n >= 21 && n % 4 == 1;
    let (letters, sent): (Vec<_>, Vec<_>) = ids.iter().enumerate().partition(|(n, _)| follows(*n));
    assert_eq!(first_occurrences(&kafka().records(&topic)), values(&sent));
    assert_eq!(first_occurrences(&kafka().records(&dead(&db))), values(&letters));
}

#[test]
fn a_row_of_a_snapshot_that_is_too_large_goes_there() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "20000")]);
    let events: Vec<_> = (0..30).map(|n| order("o-1", &payload(n, n == 20))).collect();
    db.insert(&events);
    let relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let mut ids = ids_of(&events);
    assert_eq!(first_occurrences(&kafka().records(&dead(&db))), [ids.remove(20)]);
    assert_eq!(first_occurrences(&kafka().records(&topic)), ids);
}

#[test]
fn a_snapshot_continues_behind_rows_that_are_too_large() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "200000")]);
    let is_large = |n: u32| n % 200 == 150;
    let event = |n: u32| {
        order(&format!("o-{}", n % 2), &format!("\"{}\"", "x".repeat(if is_large(n) { 300_000 } else { 10 })))
    };
    let events: Vec<_> = (0..600).map(event).collect();
    events.chunks(100).for_each(|events| db.insert(events));
    let settings = [("outboxd.inflight.records.max", "100"), ("outboxd.deadletterqueue.follow.key", "true")];
    let relay = Relay::start(&with(config(&db), &settings));
    db.wait_until_streaming();
    let said = relay.stop_and_tell();
    assert_eq!(said.matches("snapshot begins").count(), 1, "{said}");
    assert_eq!(
        said.matches("sending an event to the dead-letter topic").count(),
        1,
        "each behind it follows: {said}"
    );
    let ids = ids_of(&events);
    let follows = |n: usize| n >= 150 && n.is_multiple_of(2);
    let (letters, others): (Vec<_>, Vec<_>) = ids.iter().enumerate().partition(|(n, _)| follows(*n));
    let sent = kafka().records(&topic);
    assert_eq!(first_occurrences(&sent), values(&others));
    assert_eq!(first_occurrences(&kafka().records(&dead(&db))), values(&letters));
    let repeats = sent.len() - others.len();
    // What was on its way and the rest of its parcel, twice: the batch is refused, and then the one record of it.
    assert!(repeats <= 2 * (100 + 50), "{repeats} repeats: {said}");
}

#[test]
fn a_dead_letter_topic_that_is_not_there_stops_the_relay() {
    let db = Outbox::create(postgres15());
    kafka().create_topic(&db.topic("order"), 1, &[("max.message.bytes", "20000")]);
    let settings = [
        ("rdkafka.allow.auto.create.topics", "false"),
        ("rdkafka.topic.metadata.propagation.max.ms", "1000"),
    ];
    let config = with(config(&db), &settings);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[order("o-1", &payload(0, true))]);
    let small = [order("o-1", "{}")];
    db.insert(&small);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(said.contains(&dead(&db)) && said.contains("--create"), "{said}");
    let last = commit_lsn(said.lines().last().unwrap());
    assert!(db.slot().unwrap().confirmed_flush_lsn.unwrap() < last, "{said}");

    kafka().create_topic(&dead(&db), 1, &[]);
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(kafka().records(&dead(&db)).len(), 1);
    assert_eq!(first_occurrences(&kafka().records(&db.topic("order"))), ids_of(&small));
}

/// Makes the slot, so that what is inserted from now on is streamed by the next relay.
fn prepare_slot(db: &Outbox) {
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}

fn order(key: &str, payload: &str) -> Event {
    Event::new("order", key, "E", payload)
}

fn payload(n: u32, large: bool) -> String {
    format!("{{\"n\": \"{n}{}\"}}", "x".repeat(if large { 100_000 } else { 10 }))
}

fn ids_of(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.id.to_string()).collect()
}

fn values(numbered: &[(usize, &String)]) -> Vec<String> {
    numbered.iter().map(|(_, id)| (*id).clone()).collect()
}

/// Returns the ids in the order of their first occurrences.
fn first_occurrences(records: &[Record]) -> Vec<String> {
    let mut ids = Vec::<String>::new();
    for id in records.iter().map(|record| record.header("id")) {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
}

/// Returns the exit code and the output of a cleanup.
fn clean(file: &Path, more: &[&str]) -> (i32, String) {
    let cleanup = [
        "cleanup",
        "-c",
        file.to_str().unwrap(),
        "--execute",
        "--yes",
        "--also-before-slot",
        "--wait",
        "240",
    ];
    let mut command = Relay::command(&[&cleanup, more].concat());
    (command.wait_for_exit(5 * DEADLINE), command.stderr())
}
