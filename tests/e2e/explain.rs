//! `outboxd explain`: where one event is.

use std::fs;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::changes;
use crate::commands::session::Session;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::registry::registry;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/commands.md");

const AVRO: &str = "io.confluent.connect.avro.AvroConverter";

pub(crate) fn event(n: u32) -> Event {
    Event::new("order", &n.to_string(), "OrderCreated", "{}")
}

/// Returns the exit code, and the output as JSON.
pub(crate) fn explain(file: &str, what: &str, more: &[&str]) -> (i32, Value) {
    let arguments = [&["explain", what, "-c", file, "--json"], more].concat();
    let mut process = Relay::command(&arguments);
    let exit = process.wait_for_exit(DEADLINE);
    let said = serde_json::from_str(&process.stdout());
    (exit, said.unwrap_or_else(|error| panic!("{error}: {}", process.stderr())))
}

/// Produces a record that only names its event.
pub(crate) fn produce(kafka: &Kafka, topic: &str, id: &str) {
    let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id.as_bytes()) });
    kafka.produce(BaseRecord::to(topic).key(&b"k"[..]).payload(&b"{}"[..]).headers(headers));
}

fn commit(kafka: &Kafka, group: &str, topic: &str, partition: i32, offset: i64) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.bootstrap()).set("group.id", group);
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

#[test]
fn the_way_of_an_event_is_reported_to_its_end() {
    let (kafka, db) = (kafka(), Outbox::create(postgres18()));
    let letters = format!("{}.dead", db.name());
    kafka.create_topic(&letters, 1, &[]);
    kafka.create_topic(&db.topic("order"), 1, &[]);
    let config = with(
        db.config(kafka),
        &[
            ("outboxd.identity.headers", "true"),
            ("errors.tolerance", "all"),
            ("errors.deadletterqueue.topic.name", &letters),
        ],
    );
    let folder = Watcher::new("outboxd-explain-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let events = [event(42), event(43)];
    let id = events[0].id.to_string();

    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&events);
    db.wait_until_confirmed();
    let dead = event(44).id.to_string();
    produce(kafka, &letters, &dead);
    let names = [
        ("9b6a1f60-0d0c-4c5e-9a43-6f6d1d3ad0b1", dead.clone()),
        ("outbox.json", file.clone()),
        ("3dd3e317-ff96-4b63-a58c-2d06bc6f07dc", id.clone()),
        ("orders", db.name().to_owned()),
    ];
    let steps = Session::of(PAGE, "Trace an event: outboxd explain").replay(&names);
    assert_eq!(steps, [0, 1]);

    let (_, seen) = explain(&file, &id, &[]);
    let record = &seen["records"][0];
    assert_eq!((&seen["standing"], &record["offset"]), (&"arrived".into(), &0.into()), "{seen}");
    assert_eq!((&seen["rows"][0]["key"], &record["event_id"]), (&"42".into(), &id.as_str().into()));
    // The same by its place in the WAL: both events of the transaction.
    let lsn = record["position"]["commit_lsn"].as_str().unwrap();
    let (exit, of_commit) = explain(&file, lsn, &[]);
    let events_of = of_commit["records"].as_array().unwrap();
    assert_eq!((exit, events_of.len(), &events_of[0]), (0, 2, record), "{of_commit}");
    // By its key, and in a group that has consumed it.
    commit(kafka, "explain-payments", &db.topic("order"), 0, 1);
    let (_, of_key) = explain(&file, "42", &["--key", "--group", "explain-payments"]);
    let group = &of_key["groups"][0];
    assert_eq!((&group["committed"], &group["passed"]), (&1.into(), &true.into()), "{of_key}");

    produce(kafka, &db.topic("order"), &id);
    let (exit, repeated) = explain(&file, &id, &[]);
    assert_eq!((exit, repeated["records"].as_array().unwrap().len()), (0, 2));
    let (exit, letter) = explain(&file, &dead, &[]);
    assert_eq!((exit, &letter["standing"]), (1, &"dead_letter".into()), "{letter}");
    assert_eq!(letter["dead_letters"][0]["topic"], letters);
    let mut as_it_says = Relay::command(&["dlq", "show", "0:0", "-c", &file]);
    assert_eq!(as_it_says.wait_for_exit(DEADLINE), 0, "{}", as_it_says.stderr());
    let (exit, unknown) = explain(&file, "nobody", &[]);
    assert_eq!((exit, &unknown["standing"]), (1, &"unknown".into()), "{unknown}");

    assert_eq!(relay.stop(), 0);
    let late = event(45);
    db.insert(std::slice::from_ref(&late));
    let (exit, waiting) = explain(&file, &late.id.to_string(), &[]);
    assert_eq!((exit, &waiting["standing"]), (1, &"nobody_reads".into()), "{waiting}");
    let (_, ahead) = explain(&file, "FFFFFFFF/0", &[]);
    assert_eq!(ahead["standing"], "nobody_reads", "{ahead}");
}

/// Sends two customers, one of whom is renamed, to Kafka. Returns the relay, and the file of its configuration in its
/// folder.
fn with_customers(db: &Outbox, config: &Config) -> (Relay, Watcher, String) {
    let folder = Watcher::new("outboxd-explain-");
    let file = folder.folder().join("changes.json").display().to_string();
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let relay = Relay::start(config);
    db.wait_until_streaming();
    db.execute("INSERT INTO customers VALUES (41, 'Ann'), (42, 'Bob'); UPDATE customers SET name = 'Bea' WHERE id = 42");
    db.wait_until_confirmed();
    (relay, folder, file)
}

#[test]
fn a_row_of_a_table_is_found_by_its_key() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE customers (id int PRIMARY KEY, name text)");
    let config = changes::config(&db, &[]);
    let (_relay, _folder, file) = with_customers(&db, &config);
    let (exit, seen) = explain(&file, "42", &[]);
    assert_eq!((exit, seen["records"].as_array().unwrap().len()), (0, 2), "{seen}");
    assert_eq!(seen["records"][0]["topic"], changes::topic(&db, "customers"), "{seen}");
    let row = &seen["rows"][0];
    assert_eq!((&row["table"], &row["key"]), (&"public.customers".into(), &"42".into()), "{seen}");
    let (exit, seen) = explain(&file, "43", &[]);
    assert_eq!((exit, &seen["standing"]), (1, &"unknown".into()), "{seen}");
}

/// By one of its columns, or whole, as `tail` shows it. A table whose rows have no key is not mentioned.
#[test]
fn a_row_is_found_by_a_key_of_several_columns() {
    let tables = "CREATE TABLE lines (order_id bigint, line int, sku text, PRIMARY KEY (order_id, line)); \
                  CREATE TABLE audit (what text)";
    let db = Outbox::create_bare(postgres18(), tables);
    let config = changes::config(&db, &[]);
    let folder = Watcher::new("outboxd-explain-");
    let file = folder.folder().join("changes.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let _relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(
        "INSERT INTO lines VALUES (7, 1, 'a'), (7, 2, 'b'), (8, 7, 'c'); INSERT INTO audit VALUES ('7')",
    );
    db.wait_until_confirmed();

    let counts = |what: &str| {
        let (_, seen) = explain(&file, what, &[]);
        assert_eq!(seen["unread"], json!([]));
        ["rows", "records"].map(|name| seen[name].as_array().unwrap().len())
    };
    assert_eq!(counts("7"), [3, 3]);
    assert_eq!(counts(r#"{"line": 2, "order_id": 7}"#), [1, 1]);
    assert_eq!(counts(r#"{"line": 2, "order_id": 8}"#), [0, 0]);
    let (_, seen) = explain(&file, r#"{"order_id":8,"line":7}"#, &[]);
    let row = &seen["rows"][0];
    assert_eq!(
        (&row["table"], &row["key"]),
        (&"public.lines".into(), &r#"{"order_id" : 8, "line" : 7}"#.into())
    );
    assert_eq!(seen["keyless"], json!(["public.audit"]));
}

/// Keys and values whose schemas a registry has: what `tail` shows, and where `explain` finds them.
#[test]
fn records_in_avro_are_shown_and_found() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE customers (id int PRIMARY KEY, name text)");
    let url = registry().url();
    kafka().create_topic(&changes::topic(&db, "customers"), 1, &[]);
    let config = changes::config(
        &db,
        &[
            ("key.converter", AVRO),
            ("key.converter.schema.registry.url", &url),
            ("value.converter", AVRO),
            ("value.converter.schema.registry.url", &url),
            ("transforms", "unwrap"),
            ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
            ("transforms.unwrap.add.fields", "op,lsn"),
        ],
    );
    let (_relay, _folder, file) = with_customers(&db, &config);

    let tail = |arguments: &[&str]| {
        let mut process =
            Relay::command(&[&["tail", "--since", "1h", "--json", "--value"], arguments].concat());
        assert_eq!(process.wait_for_exit(DEADLINE), 0, "{}", process.stderr());
        let lines = process.stdout();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.collect::<Vec<_>>()
    };
    let key = r#"{"id":42}"#;
    let seen = tail(&["-c", &file, "-n", "2", "--key", key]);
    let value = |record: &Value| serde_json::from_str::<Value>(record["value"].as_str().unwrap()).unwrap();
    let [created, updated] = [0, 1].map(|n| value(&seen[n]));
    assert_eq!(
        (&seen[0]["key"], &created["name"], &created["__op"]),
        (&key.into(), &"Bob".into(), &"c".into())
    );
    assert_eq!(updated["name"], "Bea", "{updated}");
    let (topic, servers) = (changes::topic(&db, "customers"), kafka().bootstrap());
    let named = ["--bootstrap-servers", &servers, "--topic", &topic, "-n", "3"];
    assert_eq!(value(&tail(&[&named[..], &["--schema-registry", &url]].concat())[1]), created);
    let undecoded = &tail(&named)[1];
    assert!(undecoded["value"]["base64"].is_string(), "{undecoded}");

    let lsn = created["__lsn"].as_u64().unwrap();
    let names = [
        ("changes.json", file.clone()),
        ("shop.public.customers", topic.clone()),
        ("shop", db.name().to_owned()),
        ("0/322C130", format!("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF)),
    ];
    assert_eq!(
        Session::of(PAGE, "Avro, JSON Schema and Protobuf records in commands").replay(&names),
        [0, 0, 0]
    );
    kafka().produce(BaseRecord::to(&topic).key(&b"k"[..]).payload(&b"\0\xFF\xFF\xFF\xFFx"[..]).partition(0));
    let strange = &tail(&["-c", &file, "-n", "1", "--key", "k"])[0];
    assert_eq!(strange["value_not_decoded"], "the schema registry has no schema 4294967295");
    // It may be the wanted record, since it cannot be decoded.
    let (exit, seen) = explain(&file, "0/1", &[]);
    assert_eq!((exit, &seen["not_read"]), (1, &1.into()), "{seen}");
    assert_eq!(seen["not_read_because"], strange["value_not_decoded"]);
}

#[test]
fn what_a_key_has_more_than_is_shown_is_reported() {
    let (kafka, db) = (kafka(), Outbox::create(postgres18()));
    kafka.create_topic(&db.topic("order"), 1, &[]);
    let folder = Watcher::new("outboxd-explain-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&db.config(kafka)).unwrap()).unwrap();
    (0..25).for_each(|n| produce(kafka, &db.topic("order"), &n.to_string()));
    let (exit, seen) = explain(&file, "k", &["--key"]);
    let records = seen["records"].as_array().unwrap();
    assert_eq!((exit, records.len(), &seen["more"]), (0, 25, &false.into()));
    assert_eq!(records[0]["offset"], 0, "from the front");
    let mut process = Relay::command(&["explain", "k", "--key", "-c", &file]);
    process.wait_for_exit(DEADLINE);
    assert!(process.stdout().contains("… and 5 more: --json has them all"), "{}", process.stdout());
}

#[test]
fn a_position_that_no_record_has_is_not_reported_as_missing() {
    let (kafka, db) = (kafka(), Outbox::create(postgres18()));
    let folder = Watcher::new("outboxd-explain-");
    let file = written(&db, &folder, &[]);
    let relay = Relay::start(&db.config(kafka));
    db.wait_until_streaming();
    db.insert(&[event(1), event(2)]);
    db.wait_until_confirmed();
    let rows = db.query(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1",
        &[&db.name()],
    );
    let lsn: String = rows[0].get(0);
    let (exit, seen) = explain(&file, &lsn, &[]);
    assert_eq!(
        (exit, &seen["standing"], &seen["without_position"]),
        (1, &"unplaced".into(), &2.into()),
        "{seen}"
    );
    assert_eq!(seen["not_told"][0]["needs"], "outboxd.identity.headers=true", "{seen}");
    let mut process = Relay::command(&["explain", &lsn, "-c", &file]);
    process.wait_for_exit(DEADLINE);
    let said = process.stdout();
    assert!(said.contains("one of the 2 records that have no LSN"), "{said}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn what_cannot_be_looked_at_is_named_with_the_fix() {
    let (db, folder) = (Outbox::create(postgres18()), Watcher::new("outboxd-explain-"));
    let file = written(&db, &folder, &[]);
    let to_file = ["-c", &file];
    let absent = ["--topic", "no.such.topic"];
    let no_table = ["-X", "table.include.list=public.nowhere"];
    let away = ["--topic", "a", "-X", "bootstrap.servers=127.0.0.1:1"];
    for (more, exit, told) in [
        (&[][..], 2, "no configuration is given"),
        (&[to_file, absent].concat(), 2, "there is no topic \"no.such.topic\""),
        (&[&to_file[..], &no_table].concat(), 3, "no table matches table.include.list"),
        (&[&to_file[..], &away].concat(), 5, "Kafka at 127.0.0.1:1 cannot be reached within 10 s"),
    ] {
        let mut process = Relay::command(&[&["explain", "1"], more].concat());
        assert_eq!(process.wait_for_exit(DEADLINE), exit, "{}", process.stderr());
        let said = process.stderr();
        assert!(said.contains(told) && said.contains("to fix: ") && !said.contains("acls"), "{told}: {said}");
    }
}

/// Writes a configuration to a file, and creates the topic of its events.
fn written(db: &Outbox, folder: &Watcher, topic: &[(&str, &str)]) -> String {
    kafka().create_topic(&db.topic("order"), 1, topic);
    let file = folder.folder().join("outbox.json").display().to_string();
    let config = with(db.config(kafka()), &[("outboxd.position.topic", "")]);
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    file
}

#[test]
fn an_event_that_is_not_sent_stands_somewhere() {
    // Others would write to the WAL.
    let server = postgres::start(18);
    let (db, folder) = (Outbox::create(&server), Watcher::new("outboxd-explain-"));
    let file = written(&db, &folder, &[]);
    let config = with(db.config(kafka()), &[("outboxd.position.topic", "")]);
    let standing = |event: &Event| {
        let (exit, seen) = explain(&file, &event.id.to_string(), &[]);
        assert_eq!((exit, seen["rows"].as_array().unwrap().len()), (1, 1), "{seen}");
        seen["standing"].as_str().unwrap().to_owned()
    };
    let early = event(1);
    db.insert(std::slice::from_ref(&early));
    assert_eq!(standing(&early), "no_slot");

    let mut relay = Relay::start(&with(config.clone(), &[("snapshot.mode", "no_data")]));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    // It holds the slot and does nothing.
    relay.pause();
    let waiting = event(2);
    db.insert(std::slice::from_ref(&waiting));
    assert_eq!(standing(&waiting), "on_the_way");
    relay.kill();

    eventually(DEADLINE, "nobody has the slot", || db.slot().is_some_and(|slot| !slot.active));
    let moved = "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())";
    // The server writes of itself at times.
    let mut said = String::new();
    eventually(DEADLINE, "the slot is past it", || {
        db.query(moved, &[&db.name()]);
        let mut process = Relay::command(&["explain", &waiting.id.to_string(), "-c", &file]);
        assert_eq!(process.wait_for_exit(DEADLINE), 1);
        said = process.stdout();
        said.contains("✗ not in Kafka, and the slot is past it")
    });
    assert!(said.contains("no record among 0 of"), "{said}");
}

#[test]
fn an_event_behind_a_lost_slot_is_not_sent_and_status_says_what_to_do() {
    let settings = [("min_wal_size", "32MB"), ("max_wal_size", "32MB"), ("max_slot_wal_keep_size", "16MB")];
    let server = postgres::start_with(18, &settings);
    let (db, folder) = (Outbox::create(&server), Watcher::new("outboxd-explain-"));
    let file = written(&db, &folder, &[]);
    let relay = Relay::start(&with(db.config(kafka()), &[("outboxd.position.topic", "")]));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let status = || {
        let mut process = Relay::command(&["status", "-c", &file]);
        (process.wait_for_exit(DEADLINE), process.stdout())
    };
    let (exit, said) = status();
    assert!(
        exit == 1 && said.contains("no client reads it") && said.contains("to fix: start outboxd run"),
        "{said}"
    );
    assert!(said.contains("of WAL (reserved), lost after ") && said.contains("runway    no end: "), "{said}");
    let unsent = event(1);
    db.insert(std::slice::from_ref(&unsent));
    db.execute("CREATE TABLE other (n int)");
    eventually(DEADLINE, "the slot is lost", || {
        db.execute("INSERT INTO other VALUES (1)");
        db.query("SELECT pg_switch_wal()", &[]);
        db.execute("CHECKPOINT");
        db.slot().unwrap().wal_status.as_deref() == Some("lost")
    });
    let (exit, seen) = explain(&file, &unsent.id.to_string(), &[]);
    assert_eq!((exit, &seen["standing"]), (1, &"slot_lost".into()), "{seen}");
    let (exit, said) = status();
    assert!(
        exit == 7 && said.contains("runway    over: ") && said.contains("slot.recovery=snapshot"),
        "{said}"
    );
    let mut cleanup = Relay::command(&["cleanup", "-c", &file]);
    let (exit, said) = (cleanup.wait_for_exit(DEADLINE), cleanup.stderr());
    assert!(
        exit == 7 && said.contains("wal_status = lost") && said.contains("slot.recovery=snapshot"),
        "{said}"
    );
    // A cut-over needs the name, and the plan reports it.
    let mut plan = Relay::command(&["move", "plan", "-c", &file]);
    let (exit, said) = (plan.wait_for_exit(DEADLINE), plan.stdout());
    assert!(
        exit == 1
            && said.contains("✗ there is a replication slot")
            && said.contains("it is lost: outboxd slot drop"),
        "{said}"
    );
}

#[test]
fn a_record_without_its_row_has_arrived_and_shows_when_if_the_topic_does() {
    let (db, folder) = (Outbox::create(postgres18()), Watcher::new("outboxd-explain-"));
    let file = written(&db, &folder, &[("message.timestamp.type", "LogAppendTime")]);
    let sent = event(1);
    let _relay = Relay::start(&with(db.config(kafka()), &[("outboxd.position.topic", "")]));
    db.wait_until_streaming();
    db.insert(std::slice::from_ref(&sent));
    db.wait_until_confirmed();
    db.execute("DELETE FROM outbox");
    let id = sent.id.to_string();
    let (exit, seen) = explain(&file, &id, &[]);
    let record = &seen["records"][0];
    assert_eq!(
        (exit, &seen["standing"], &seen["rows"]),
        (0, &"arrived".into(), &Value::Array(vec![])),
        "{seen}"
    );
    assert_eq!(record["is_time_of_arrival"], true, "{seen}");
    let mut process = Relay::command(&["explain", &id, "-c", &file]);
    assert_eq!(process.wait_for_exit(DEADLINE), 0);
    let said = process.stdout();
    assert!(said.contains("in none of the tables: deleted, or never written"), "{said}");
    assert!(said.contains("[0]@0  acknowledged 2"), "{said}");
    let commit = "unknown   the commit's place in the WAL: set outboxd.identity.headers=true";
    assert!(said.contains(commit) && !said.contains("LogAppendTime"), "{said}");
    let not_told = seen["not_told"].as_array().unwrap();
    assert_eq!(
        (not_told.len(), &not_told[0]["needs"]),
        (1, &"outboxd.identity.headers=true".into()),
        "{seen}"
    );
}
