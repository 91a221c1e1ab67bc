//! The cases of `tests/cases`, each folder against a broker of its own: many name the same topics, so that they run one
//! after another and each begins with an empty broker.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;

use crate::support::kafka::Kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay};
use crate::support::wait::{DEADLINE, eventually};
use case::{Base, Case, Expected};

mod case;
mod volatile;

/// What cases of tables share instead.
const OF_TABLES: [(&str, &str); 4] = [
    ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("key.converter.schemas.enable", "false"),
    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter.schemas.enable", "false"),
];

/// How far the clocks of a test and of a record may be apart for the record's time to be "now".
const NOW_TOLERANCE_MS: i64 = 60_000;

/// What a case with a file of its own cannot know.
const ADDRESSES: [&str; 7] = [
    "bootstrap.servers",
    "database.hostname",
    "database.port",
    "database.user",
    "database.dbname",
    "slot.name",
    "publication.name",
];

#[test]
fn records_are_those_of_debezium() {
    run_all("relay");
}

#[test]
fn what_debeziums_own_tests_write_is_written_alike() {
    run_all("inventory");
}

#[test]
fn records_of_random_tables_are_those_of_debezium() {
    run_all("generated");
}

#[test]
fn change_events_are_those_of_debezium() {
    run_all("tables");
}

fn run_all(folder: &str) {
    let kafka = Kafka::start();
    let mut failures = Vec::new();
    for path in paths(folder) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = Case::read(&path);
        if let Err(difference) = run(&case, &kafka) {
            failures.push(format!("{name} ({})\n{difference}", case.source));
        }
    }
    assert!(failures.is_empty(), "{} cases failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

fn paths(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    if let Ok(wanted) = env::var("CASES") {
        paths.retain(|path| wanted.split(',').any(|name| path.file_stem().is_some_and(|stem| stem == name)));
    }
    paths.sort_unstable();
    assert!(!paths.is_empty());
    paths
}

fn run(case: &Case, kafka: &Kafka) -> Result<(), String> {
    kafka.delete_topics();
    let db = Outbox::create_bare(postgres18(), &case.schema);
    db.execute(case.before.as_deref().unwrap_or_default());
    for topic in &case.topics {
        kafka.create_topic(topic, case.partitions, &[]);
    }
    let started_ms = now_ms();
    let mut relay = start(case, &db, kafka);
    eventually(DEADLINE, "the relay streams or has left", || !relay.is_running() || is_streaming(&db));
    if relay.is_running() {
        // On a quiet server the first row might be written where the snapshot was taken.
        db.query("SELECT pg_create_restore_point('the snapshot lies before')::text", &[]);
        for sql in &case.tx {
            db.execute(sql);
            if case.waits {
                wait_until_confirmed(&db, &mut relay);
            }
        }
    }
    let exit = match case.fails {
        Some(_) => relay.wait_for_exit(DEADLINE),
        None => {
            wait_until_confirmed(&db, &mut relay);
            relay.terminate();
            relay.wait_for_exit(DEADLINE)
        }
    };
    let records = kafka.all_records();
    let earliest_ms = started_ms - NOW_TOLERANCE_MS;
    let mut records: Vec<_> = records.iter().map(|record| Expected::of(record, earliest_ms)).collect();
    if case.base == Base::Tables {
        case::mask(&mut records, earliest_ms..=now_ms() + NOW_TOLERANCE_MS);
    }
    compare(case, exit, &records).map_err(|difference| format!("{difference}\n{}", relay.stderr()))
}

fn start(case: &Case, db: &Outbox, kafka: &Kafka) -> Relay {
    let Some(properties) = &case.properties else { return Relay::start(&config(case, db, kafka)) };
    let ours = db.config(kafka);
    let ours = ADDRESSES.map(|key| format!("{key}={}", ours[key].as_str().unwrap()));
    let arguments: Vec<&str> = ours.iter().flat_map(|setting| ["-X", setting]).collect();
    Relay::start_from(&[("application.properties", properties)], &arguments, &[])
}

/// The configuration with which the records were recorded, and the case's own.
fn config(case: &Case, db: &Outbox, kafka: &Kafka) -> Config {
    let mut config = db.config(kafka);
    config.remove("transforms.outbox.route.topic.replacement");
    if case.base == Base::Tables {
        config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
    }
    let recorded = [
        ("topic.prefix", "srv"),
        ("publication.autocreate.mode", "filtered"),
        ("snapshot.mode", "no_data"),
        ("tombstones.on.delete", "false"),
        ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("value.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("poll.interval.ms", "50"),
    ];
    config.extend(recorded.map(|(key, value)| (key.to_owned(), json!(value))));
    if case.base == Base::Tables {
        config.extend(OF_TABLES.map(|(key, value)| (key.to_owned(), json!(value))));
    }
    for (key, value) in &case.config {
        match value {
            Some(value) => drop(config.insert(key.clone(), json!(value))),
            None => drop(config.remove(key)),
        }
    }
    config
}

fn compare(case: &Case, exit: i32, records: &[Expected]) -> Result<(), String> {
    let expected_exit = case.fails.unwrap_or(0);
    if exit != expected_exit {
        return Err(format!("exit code {exit}, expected {expected_exit}"));
    }
    if let Some((expected, actual)) = case.records.iter().zip(records).find(|(a, b)| a != b) {
        let others = records.iter().filter(|record| !case.records.contains(record));
        let missing = case.records.iter().filter(|record| !records.contains(record));
        return Err(format!(
            "expected {expected:?}\ngot      {actual:?}\n{} expected, {} came, {} of them others, {} missing",
            case.records.len(),
            records.len(),
            others.count(),
            missing.count()
        ));
    }
    match case.records.len() == records.len() {
        true => Ok(()),
        false => Err(format!("{} records expected, {} came", case.records.len(), records.len())),
    }
}

/// As [`Outbox::wait_until_streaming`] says; but the slot's name may be the default one, so it is found by its database. A
/// temporary one is that of a snapshot, and a TRUNCATE would take away what the snapshot has not read yet: PostgreSQL's
/// does not heed snapshots.
fn is_streaming(db: &Outbox) -> bool {
    let sql = "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
               WHERE database = current_database() AND NOT temporary AND state IN ('catchup', 'streaming')";
    !db.query(sql, &[]).is_empty()
}

fn wait_until_confirmed(db: &Outbox, relay: &mut Relay) {
    let target = db.current_wal_lsn().to_string();
    let sql = "SELECT FROM pg_replication_slots
               WHERE database = current_database() AND confirmed_flush_lsn >= $1::text::pg_lsn";
    eventually(DEADLINE, "everything is confirmed", || {
        !relay.is_running() || !db.query(sql, &[&target]).is_empty()
    });
}

fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(elapsed.as_millis()).unwrap()
}
