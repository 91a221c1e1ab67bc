//! Signals and what they ask for: snapshots beside the stream, and such for which it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::{eventually, let_pass};

const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";
/// Between two statements of a writer: three that never rest leave a busy machine no time for the snapshot.
const WRITER_REST: Duration = Duration::from_millis(10);
/// Of thousands of rows in chunks of a few, on a machine that has other tests to run.
pub(crate) const LONG: Duration = Duration::from_secs(300);

pub(crate) const TABLES: &str = "create table signals (id varchar(64) primary key, type varchar(32) not null, data varchar(2048)); \
                      create table a (id int primary key, rank int, v int not null)";

pub(crate) fn config(db: &Outbox, settings: &[(&str, &str)]) -> Config {
    let mut config = db.config(kafka());
    config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
    let notes = notes(db);
    let common = [
        ("key.converter", JSON),
        ("key.converter.schemas.enable", "false"),
        ("value.converter", JSON),
        ("value.converter.schemas.enable", "false"),
        ("snapshot.mode", "no_data"),
        ("signal.data.collection", "public.signals"),
        ("incremental.snapshot.chunk.size", "37"),
        ("notification.enabled.channels", "sink,log"),
        ("notification.sink.topic.name", notes.as_str()),
    ];
    with(with(config, &common), settings)
}

/// Creates the topics with one partition each, so that their records are read in order.
pub(crate) fn make_topics(db: &Outbox) {
    kafka().create_topic(&topic(db), 1, &[]);
    kafka().create_topic(&notes(db), 1, &[]);
}

pub(crate) fn start(db: &Outbox, settings: &[(&str, &str)]) -> Relay {
    make_topics(db);
    let relay = Relay::start(&config(db, settings));
    db.wait_until_streaming();
    relay
}

fn notes(db: &Outbox) -> String {
    format!("{}.notes", db.name())
}

fn topic(db: &Outbox) -> String {
    format!("{}.public.a", db.name())
}

pub(crate) fn signal(db: &Outbox, id: &str, kind: &str, data: &str) {
    db.query("insert into signals values ($1, $2, $3)", &[&id, &kind, &data]);
}

/// Returns type and data of each notification.
pub(crate) fn told(db: &Outbox) -> Vec<(String, Value)> {
    let value = |record: &Record| -> Value { serde_json::from_str(record.value()).unwrap() };
    let told = |note: Value| (note["type"].as_str().unwrap().to_owned(), note["additional_data"].clone());
    kafka().records(&notes(db)).iter().map(value).map(told).collect()
}

pub(crate) fn wait_until_told(db: &Outbox, what: &str) {
    eventually(LONG, what, || told(db).iter().any(|(kind, _)| kind == what));
}

/// Returns the last state of each key according to the records.
pub(crate) fn last_states(db: &Outbox) -> BTreeMap<i64, (Option<i64>, i64)> {
    let mut states = BTreeMap::new();
    for record in kafka().records(&topic(db)) {
        let key: Value = serde_json::from_str(record.key()).unwrap();
        let key = key["id"].as_i64().unwrap();
        let value: Value =
            record.value.as_deref().map_or(Value::Null, |value| serde_json::from_slice(value).unwrap());
        let row = &value["after"];
        match row["v"].as_i64() {
            Some(v) => drop(states.insert(key, (row["rank"].as_i64(), v))),
            None => drop(states.remove(&key)),
        }
    }
    states
}

pub(crate) fn rows(db: &Outbox) -> BTreeMap<i64, (Option<i64>, i64)> {
    let rows = db.query("select id::bigint, rank::bigint, v::bigint from a", &[]);
    rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
}

pub(crate) fn count_of(db: &Outbox, word: &str) -> usize {
    let is_of = |record: &&Record| {
        record.value.is_some() && record.value().contains(&format!("\"snapshot\":\"{word}\""))
    };
    kafka().records(&topic(db)).iter().filter(is_of).count()
}

/// A test that fails must end its writers too: their scope waits for them.
pub(crate) struct StopsAtTheEnd<'s>(pub(crate) &'s AtomicBool);

impl Drop for StopsAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes at random until `stop` is set: new rows, changed ones, other keys, deletes.
pub(crate) fn write_meanwhile(db: &Outbox, seed: u64, stop: &AtomicBool) {
    let session = Session::new(db.address().clone());
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    while !stop.load(Ordering::Relaxed) {
        let (id, v) = (random(1_000), random(1_000_000));
        let statement = match random(6) {
            0 => format!("delete from a where id = {id}"),
            1 => format!("update a set id = {} where id = {id}", 1_000 + random(1_000)),
            2 | 3 => format!(
                "insert into a values ({id}, {}, {v}) on conflict (id) do update set v = excluded.v",
                v % 7
            ),
            _ => format!(
                "update a set v = {v}, rank = nullif({}, 0) where id between {id} and {}",
                v % 7,
                id + 3
            ),
        };
        // Deadlocks and keys that are taken.
        drop(session.try_execute(&statement));
        let_pass(WRITER_REST);
    }
}

fn the_result_is_the_table(settings: &[(&str, &str)], data: &str) {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, nullif(g % 7, 0), g from generate_series(1, 800) g");
    let relay = start(&db, settings);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..4 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || write_meanwhile(db, seed, stop));
        }
        let _stops = StopsAtTheEnd(&stop);
        signal(&db, "s-1", "execute-snapshot", data);
        wait_until_told(&db, "COMPLETED");
        stop.store(true, Ordering::Relaxed);
    });
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert!(count_of(&db, "incremental") > 0);
    assert_eq!(last_states(&db), rows(&db));
}

#[test]
fn a_snapshot_beside_the_stream_gives_the_table_whatever_is_written() {
    the_result_is_the_table(&[], r#"{"data-collections": ["public.a"]}"#);
}

#[test]
fn so_does_one_whose_watermarks_are_deleted() {
    // The name may have quotes around its parts.
    let settings = [
        ("incremental.snapshot.watermarking.strategy", "insert_delete"),
        ("signal.data.collection", "public.\"signals\""),
    ];
    the_result_is_the_table(&settings, r#"{"data-collections": ["public.a"]}"#);
}

#[test]
fn so_does_one_that_writes_no_table_and_goes_by_a_column_that_may_be_null() {
    the_result_is_the_table(
        &[("read.only", "true")],
        r#"{"data-collections": ["public.a"], "surrogate-key": "rank"}"#,
    );
}

#[test]
fn a_snapshot_continues_after_its_connections_were_lost() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, g % 7, g from generate_series(1, 2000) g");
    let relay = start(&db, &[("incremental.snapshot.chunk.size", "5")]);
    signal(&db, "s-1", "execute-snapshot", r#"{"data-collections": ["public.a"]}"#);
    eventually(LONG, "rows of the snapshot", || count_of(&db, "incremental") > 100);
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where application_name like 'outboxd%' and datname = current_database()",
    );
    wait_until_told(&db, "COMPLETED");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(last_states(&db), rows(&db));
    // It did not begin again.
    assert!(count_of(&db, "incremental") < 2_500);
}

/// Returns the number of times that the row of this key was sent as a part of the snapshot.
fn times_read(db: &Outbox, key: i64) -> usize {
    let is_of = |record: &&Record| {
        let value = record.value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned());
        value.is_some_and(|value| value.contains("\"snapshot\":\"incremental\""))
            && serde_json::from_str::<Value>(record.key()).unwrap()["id"] == key
    };
    kafka().records(&topic(db)).iter().filter(is_of).count()
}

/// Waits until a later place of the snapshot than this is kept with the position.
fn wait_until_kept_behind(db: &Outbox, key: i64) -> i64 {
    let last = || -> Option<i64> {
        let slot = Value::String(db.name().to_owned());
        let positions = kafka().records("__outboxd-positions");
        let mut all = positions.iter().filter_map(|record| serde_json::from_str(record.value()).ok());
        let last: Value = all.rfind(|position: &Value| position["slot"] == slot)?;
        last["snapshots"]["sent"][0].as_str()?.parse().ok()
    };
    eventually(LONG, "a place that is kept", || last().is_some_and(|last| last > key));
    last().unwrap_or(i64::MAX)
}

/// Interrupts each start in the middle of the snapshot, while other sessions write.
fn a_snapshot_goes_on_after(settings: &[(&str, &str)], mut end: impl FnMut(Relay)) {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a values (-1, 0, 0)");
    db.execute("insert into a select g, nullif(g % 7, 0), g from generate_series(1, 1500) g");
    let settings = [&[("incremental.snapshot.chunk.size", "5")], settings].concat();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..3 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || write_meanwhile(db, seed, stop));
        }
        let _stops = StopsAtTheEnd(&stop);
        let mut relay = start(&db, &settings);
        signal(&db, "s-1", "execute-snapshot", r#"{"data-collections": ["public.a"]}"#);
        let mut kept = 0;
        for _ in 0..2 {
            kept = wait_until_kept_behind(&db, kept);
            end(relay);
            relay = Relay::start(&config(&db, &settings));
        }
        wait_until_told(&db, "COMPLETED");
        stop.store(true, Ordering::Relaxed);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
    });
    assert_eq!(last_states(&db), rows(&db));
    // It did not begin again, nor was its signal heeded again.
    assert_eq!(times_read(&db, -1), 1);
    assert_eq!(told(&db).iter().filter(|(kind, _)| kind == "STARTED").count(), 1);
}

#[test]
fn a_snapshot_continues_after_the_process_was_killed() {
    a_snapshot_goes_on_after(&[], |mut relay| relay.kill());
}

#[test]
fn a_snapshot_continues_after_the_process_was_stopped() {
    a_snapshot_goes_on_after(&[("read.only", "true")], |relay| assert_eq!(relay.stop(), 0));
}

/// Each relay is killed in the middle of the snapshot: an unchanged row is in one committed transaction, whatever Kafka
/// transactions its chunk is split over.
#[test]
fn with_exactly_once_a_snapshot_continues_after_a_kill_and_repeats_no_row() {
    for (settings, kills) in [(&[][..], 3), (&[("read.only", "true")][..], 2)] {
        let db = Outbox::create_bare(postgres18(), TABLES);
        db.execute("insert into a select g, g, g from generate_series(1, 1200) g");
        let small = [
            ("exactly.once.support", "required"),
            ("incremental.snapshot.chunk.size", "50"),
            ("outboxd.inflight.records.max", "20"),
            ("transaction.boundary.interval.ms", "10"),
        ];
        let settings = [&small[..], settings].concat();
        let mut relay = start(&db, &settings);
        db.execute("insert into a values (-1, 0, 0)");
        signal(&db, "s-1", "execute-snapshot", r#"{"data-collections": ["public.a"]}"#);
        let mut seen = 0;
        for _ in 0..kills {
            eventually(LONG, "more rows", || count_of(&db, "incremental") > seen + 60);
            relay.kill();
            seen = count_of(&db, "incremental");
            relay = Relay::start(&config(&db, &settings));
        }
        wait_until_told(&db, "COMPLETED");
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        kafka().wait_until_decided(db.name());
        assert!(seen < 1_200, "the last kill came behind the end");
        assert_eq!(count_of(&db, "incremental"), 1_201);
        assert_eq!(last_states(&db), rows(&db));
    }
}

/// A row that a signal asked for has no place in the stream: it comes again elsewhere, or not at all.
#[test]
fn the_place_of_an_event_does_not_depend_on_the_rows_that_a_signal_asked_for() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, g, g from generate_series(1, 30) g");
    let relay = start(&db, &[("outboxd.identity.headers", "true")]);
    db.execute(
        "insert into signals values ('b-1', 'execute-snapshot', '{\"data-collections\": [\"public.a\"], \"type\": \"blocking\"}'); \
         update a set v = 0 where id = 30",
    );
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let records = kafka().records(&topic(&db));
    let (read, changed): (Vec<_>, Vec<_>) =
        records.iter().partition(|record| record.value().contains("\"op\":\"r\""));
    assert_eq!((read.len(), changed.len()), (30, 1));
    assert!(read.iter().all(|record| record.headers.iter().all(|(name, _)| name != "outboxd.position")));
    let value: Value = serde_json::from_str(changed[0].value()).unwrap();
    let place = format!("/L{:016X}/00000000", value["source"]["lsn"].as_u64().unwrap());
    assert!(changed[0].header("outboxd.position").ends_with(&place), "{place}: {:?}", changed[0]);
}

#[test]
fn a_paused_snapshot_sends_nothing_until_it_is_resumed_and_a_stopped_one_no_more() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, g, g from generate_series(1, 5000) g");
    let relay = start(&db, &[("incremental.snapshot.chunk.size", "2")]);
    signal(&db, "s-1", "execute-snapshot", r#"{"data-collections": ["public.*"]}"#);
    wait_until_told(&db, "IN_PROGRESS");
    signal(&db, "s-2", "pause-snapshot", "{}");
    wait_until_told(&db, "PAUSED");
    signal(&db, "s-3", "resume-snapshot", "{}");
    wait_until_told(&db, "RESUMED");
    signal(&db, "s-4", "stop-snapshot", "{}");
    wait_until_told(&db, "ABORTED");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert!(count_of(&db, "incremental") < 5_000);
}

#[test]
fn a_filter_that_is_more_than_a_filter_is_refused() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a values (1, 1, 1)");
    let relay = start(&db, &[]);
    for (id, kind, filter) in [
        ("s-1", "incremental", "true); drop table a; select (1"),
        ("s-2", "blocking", "select 1; rollback; drop table a"),
    ] {
        let data = format!(
            r#"{{"data-collections": ["public.a"], "type": "{kind}", "additional-conditions": [{{"data-collection": "public.a", "filter": "{filter}"}}]}}"#
        );
        signal(&db, id, "execute-snapshot", &data);
    }
    eventually(LONG, "both were tried", || {
        let failed = |(kind, data): &(String, Value)| {
            kind == "TABLE_SCAN_COMPLETED" && data["status"] == "SQL_EXCEPTION"
        };
        told(&db).iter().filter(|told| failed(told)).count() == 2
    });
    db.execute("insert into a values (2, 2, 2)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(rows(&db).len(), 2);
}

/// Debezium reads tables by queries here, and a `name` as the text that it is; while it streams it takes one for null.
#[test]
fn names_are_read_in_the_snapshots_of_signals() {
    for kind in ["incremental", "blocking"] {
        let db = Outbox::create_bare(postgres18(), TABLES);
        db.execute("alter table a add column n name; insert into a values (1, 1, 1, 'one')");
        let _relay = start(&db, &[]);
        let data = format!(r#"{{"data-collections": ["public.a"], "type": "{kind}"}}"#);
        signal(&db, "1", "execute-snapshot", &data);
        let read = &kafka().read(&topic(&db), 1)[0];
        let event: Value = serde_json::from_str(read.value()).unwrap();
        assert_eq!(event["after"]["n"], "one", "{kind}: {event}");
    }
}

/// An operation that the stream skips removes no row from the window: otherwise no record would have it.
#[test]
fn rows_whose_updates_are_excluded_are_in_the_snapshot() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, 0, 0 from generate_series(1, 3000) g");
    let settings = [("skipped.operations", "u,t"), ("incremental.snapshot.chunk.size", "100")];
    let relay = start(&db, &settings);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = Session::new(db.address().clone());
            for from in (1..3000).step_by(50).cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                session.execute(&format!("update a set v = v + 1 where id >= {from} and id < {from} + 50"));
            }
        });
        let _stops = StopsAtTheEnd(&stop);
        signal(&db, "s-1", "execute-snapshot", r#"{"data-collections": ["public.a"]}"#);
        wait_until_told(&db, "COMPLETED");
    });
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let keys: BTreeSet<Vec<u8>> =
        kafka().records(&topic(&db)).into_iter().filter_map(|record| record.key).collect();
    assert_eq!(keys.len(), 3000);
}

/// Values of one key's columns have no meaning for another key.
#[test]
fn a_table_that_gets_another_key_meanwhile_is_read_from_its_beginning() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, 1, 3001 - g from generate_series(1, 3000) g; alter table a alter v set not null");
    let relay = start(&db, &[("incremental.snapshot.chunk.size", "100")]);
    signal(&db, "s-1", "execute-snapshot", r#"{"data-collections": ["public.a"]}"#);
    eventually(LONG, "rows of the snapshot", || count_of(&db, "incremental") > 500);
    signal(&db, "s-2", "pause-snapshot", "{}");
    wait_until_told(&db, "PAUSED");
    assert!(count_of(&db, "incremental") < 3000, "the snapshot was over");
    db.execute("alter table a drop constraint a_pkey, add primary key (v)");
    signal(&db, "s-3", "resume-snapshot", "{}");
    wait_until_told(&db, "COMPLETED");
    db.wait_until_confirmed();
    let ids: BTreeSet<i64> = kafka().records(&topic(&db)).iter().filter_map(id_of).collect();
    assert_eq!(ids, (1..=3000).collect());
    let said = relay.stop_and_tell();
    assert!(said.contains("the key of the table has changed"), "{said}");
}

fn id_of(record: &Record) -> Option<i64> {
    let value: Value = serde_json::from_slice(record.value.as_deref()?).unwrap();
    value["after"]["id"].as_i64()
}
