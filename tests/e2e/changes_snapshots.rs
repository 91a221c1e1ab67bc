//! Rows that were in tables before the slot, when their changes are sent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::changes::{config, topic};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18, start};
use crate::support::relay::Relay;
use crate::support::wait::{DEADLINE, eventually};

/// In the order of their names, with the first one in several ranges of pages.
const TABLES: &str = "create table a (id int primary key, filler text not null); \
                      create table b (id int primary key); \
                      create table c (id int primary key)";

const ROWS: i64 = 20_000;

/// Slow snapshot: a bounded number of records each 50 ms, also on a fast machine.
const SLOW: [(&str, &str); 3] = [
    ("snapshot.mode", "initial"),
    ("outboxd.inflight.records.max", "100"),
    ("producer.override.linger.ms", "50"),
];

fn fill(db: &Outbox) {
    db.execute(&format!("insert into a select g, repeat('x', 100) from generate_series(1, {ROWS}) g"));
    db.execute("insert into c select g from generate_series(1, 10) g");
}

/// Returns id and mark of each record.
fn sent(db: &Outbox, table: &str) -> Vec<(i64, String)> {
    let told = |value: Value| {
        let mark = value["source"]["snapshot"].as_str().unwrap_or_default().to_owned();
        (value["after"]["id"].as_i64().unwrap(), mark)
    };
    let records = kafka().records(&topic(db, table));
    records.iter().map(|record| told(serde_json::from_str(record.value()).unwrap())).collect()
}

fn ids(sent: &[(i64, String)]) -> Vec<i64> {
    sent.iter().map(|(id, _)| *id).collect()
}

/// Returns the marks with more information than that the record is of a snapshot.
fn marks(sent: &[(i64, String)]) -> Vec<&str> {
    sent.iter().map(|(_, mark)| mark.as_str()).filter(|mark| *mark != "true").collect()
}

#[test]
fn several_connections_read_tables_and_ranges_of_one_table() {
    for (server, connections) in [(postgres15(), "3"), (postgres18(), "1")] {
        let db = Outbox::create_bare(server, TABLES);
        fill(&db);
        ["a", "b", "c"].iter().for_each(|table| kafka().create_topic(&topic(&db, table), 1, &[]));
        let settings = [("snapshot.mode", "initial"), ("snapshot.max.threads", connections)];
        let relay = Relay::start(&config(&db, &settings));
        db.wait_until_streaming();
        db.execute("insert into b values (1)");
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);

        let (a, b, c) = (sent(&db, "a"), sent(&db, "b"), sent(&db, "c"));
        let (in_order, mut sorted) = (ids(&a), ids(&a));
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=ROWS).collect::<Vec<_>>());
        assert_eq!((ids(&b), marks(&b)), (vec![1], vec!["false"]));
        assert_eq!(ids(&c), (1..=10).collect::<Vec<_>>());
        assert_eq!(in_order == sorted, connections == "1", "ranges are read at once");
        let all = [marks(&a), marks(&c)].concat();
        let count = |mark: &str| all.iter().filter(|found| **found == mark).count();
        let marked = ["first", "first_in_data_collection", "last_in_data_collection", "last"].map(count);
        assert_eq!(marked, [1, 1, 1, 1], "{all:?}");
        if connections == "1" {
            assert_eq!(marks(&a), ["first", "last_in_data_collection"]);
            assert_eq!(marks(&c), ["first_in_data_collection", "last"]);
        }
    }
}

/// Debezium counts no rows for one connection. What is written while the snapshot waits is no part of it, and comes behind it; the
/// stream waits too, and a stop does not.
#[test]
fn a_snapshot_and_the_stream_wait_and_tables_come_as_listed() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, '' from generate_series(1, 3) g; insert into c select g from generate_series(1, 10) g");
    db.execute("analyze a; analyze b; analyze c");
    ["a", "b", "c"].iter().for_each(|table| kafka().create_topic(&topic(&db, table), 1, &[]));
    let settings = [
        ("snapshot.mode", "initial"),
        ("table.include.list", "public.c,public.[ab]"),
        ("snapshot.tables.order.by.row.count", "ascending"),
        ("snapshot.delay.ms", "1500"),
        ("streaming.delay.ms", "3600000"),
    ];
    let relay = Relay::start(&config(&db, &settings));
    relay.wait_for_stderr("waiting for snapshot.delay.ms");
    db.execute("insert into a values (4, '')");
    relay.wait_for_stderr("waiting for streaming.delay.ms");
    assert_eq!(marks(&sent(&db, "c")), ["first", "last_in_data_collection"]);
    assert_eq!(marks(&sent(&db, "a")), ["first_in_data_collection", "last"]);
    assert_eq!(ids(&sent(&db, "a")), [1, 2, 3]);
    assert_eq!(relay.stop(), 0);

    let relay = Relay::start(&config(&db, &[("snapshot.mode", "initial")]));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(ids(&sent(&db, "a")), [1, 2, 3, 4], "the snapshot is not sent again");
    assert_eq!(marks(&sent(&db, "a")), ["first_in_data_collection", "last", "false"]);
}

#[test]
fn several_connections_begin_with_large_tables() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a values (1, ''); insert into b select g from generate_series(1, 10) g; analyze a; analyze b");
    let settings = [
        ("snapshot.mode", "initial"),
        ("snapshot.max.threads", "2"),
        ("snapshot.tables.order.by.row.count", "descending"),
        ("notification.enabled.channels", "log"),
    ];
    let relay = Relay::start(&config(&db, &settings));
    db.wait_until_streaming();
    relay.wait_for_stderr("current_collection_in_progress=public.c");
    let log = relay.stderr();
    let begun =
        ["b", "a", "c"].map(|table| log.find(&format!("current_collection_in_progress=public.{table}")));
    assert!(begun.iter().all(Option::is_some) && begun.is_sorted(), "{begun:?} {log}");
    assert_eq!(relay.stop(), 0);
}

/// Returns the progress of the snapshot that is stored with the position.
pub(crate) fn kept(db: &Outbox) -> Value {
    let positions = kafka().records("__outboxd-positions");
    let mut all = positions.iter().filter_map(|record| serde_json::from_str(record.value()).ok());
    let last = all.rfind(|position: &Value| position["slot"].as_str() == Some(db.name()));
    last.map_or(Value::Null, |position| position["unfinished"]["tables"].clone())
}

/// Returns whether a part of the snapshot need not be read again.
pub(crate) fn is_begun(kept: &Value) -> bool {
    kept.as_array().is_some_and(|tables| !tables.is_empty())
}

/// Returns whether a part of a table need not be read again.
fn has_ranges(kept: &Value) -> bool {
    kept.as_array().is_some_and(|tables| tables.iter().any(|table| !table["part"].is_null()))
}

/// Returns the last value of each key, and the number of times that each was read.
fn states(db: &Outbox, table: &str) -> (BTreeMap<i64, i64>, BTreeMap<i64, usize>) {
    let (mut last, mut reads) = (BTreeMap::new(), BTreeMap::new());
    for record in kafka().records(&topic(db, table)) {
        let Some(value) = record.value.as_deref() else { continue };
        let value: Value = serde_json::from_slice(value).unwrap();
        let row = if value["op"] == "d" { &value["before"] } else { &value["after"] };
        let id = row["id"].as_i64().unwrap();
        match value["op"].as_str().unwrap() {
            "d" => drop(last.remove(&id)),
            _ => drop(last.insert(id, row["v"].as_i64().unwrap())),
        }
        if value["op"] == "r" {
            *reads.entry(id).or_default() += 1;
        }
    }
    (last, reads)
}

#[test]
fn a_snapshot_that_was_killed_continues_where_it_was() {
    // A server of its own: rows count as written since the first snapshot if any transaction of the server was open then.
    let server = start(18);
    let db = Outbox::create_bare(
        &server,
        "create table a (id int primary key, v int not null, filler text not null);
         alter table a alter filler set storage external;
         create table b (id int primary key, v int not null)",
    );
    // Some rows have a value that is stored elsewhere: an update in the stream does not contain it.
    let (moved, rows) = (19_700..19_710, 20_000);
    db.execute(&format!(
        "insert into a select g, 0, repeat('x', case when g between 19700 and 19709 then 4000 else 100 end)
         from generate_series(1, {rows}) g;
         insert into b select g, g from generate_series(1, 10) g"
    ));
    ["a", "b"].iter().for_each(|table| kafka().create_topic(&topic(&db, table), 1, &[]));
    let mut first = Relay::start(&config(&db, &SLOW));
    eventually(Duration::from_secs(120), "a range that is remembered", || is_begun(&kept(&db)));
    first.kill();
    assert!(db.slot().is_none(), "the slot exists only once the snapshot is sent");
    let aside = format!("{}_snapshot", db.name());
    let is_kept = || {
        let slots = db.query("select from pg_replication_slots where slot_name = $1", &[&aside]);
        !slots.is_empty()
    };
    assert!(is_kept());

    // Rows move from pages that were not read to pages that were. Nothing is freed as long as a session of the killed relay is
    // there, or another test is making a slot with a snapshot.
    db.execute("delete from a where id <= 500");
    eventually(DEADLINE, "room in pages that were read", || {
        db.execute("vacuum a");
        let dead = db.query("select n_dead_tup from pg_stat_user_tables where relname = 'a'", &[]);
        dead.iter().all(|row| row.get::<_, i64>(0) == 0)
    });
    db.execute("update a set v = -1 where id between 19700 and 19709");
    let pages = db.query("select ((ctid::text::point)[0])::int from a where v = -1", &[]);
    let pages: Vec<i32> = pages.iter().map(|row| row.get(0)).collect();
    assert!(pages.iter().all(|page| *page < 60), "{pages:?}");
    db.execute(
        "update a set v = id where id % 7 = 0; insert into a values (-1, 5, ''); delete from b where id = 3",
    );

    let settings = [("snapshot.mode", "initial"), ("snapshot.max.threads", "2")];
    let second = Relay::start(&config(&db, &settings));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert!(second.stop_and_tell().contains("resuming the interrupted snapshot"));
    assert!(!is_kept(), "nothing holds WAL back any more");
    for table in ["a", "b"] {
        let query = format!("select id::bigint, v::bigint from {table}");
        let expected: BTreeMap<i64, i64> =
            db.query(&query, &[]).iter().map(|row| (row.get(0), row.get(1))).collect();
        let (last, reads) = states(&db, table);
        assert!(last == expected, "the last values of {table} are those of the table");
        if table == "a" {
            assert_eq!(reads[&600], 1, "what was sent is not sent again");
            assert!(moved.clone().all(|id| reads.contains_key(&id)), "rows that moved are read");
        }
    }
}

#[test]
fn a_snapshot_that_was_killed_twice_continues_where_it_was_each_time() {
    kill_twice(&[]);
}

#[test]
fn a_snapshot_that_was_killed_continues_with_exactly_once_too() {
    kill_twice(&[("exactly.once.support", "required")]);
}

/// Kills a snapshot twice. A table with a statement of its own is read as one piece, and is not read again once it is
/// sent.
fn kill_twice(guarantee: &[(&str, &str)]) {
    let tables = "create table a (id int primary key, v int not null, filler text not null);
                  create table _own (id int primary key, v int not null)";
    let own = [
        ("snapshot.select.statement.overrides", "public._own"),
        (
            "snapshot.select.statement.overrides.public._own",
            "select * from public._own where v > 0 order by id desc",
        ),
    ];
    let common = [&own[..], guarantee].concat();
    // An old transaction of another test would make rows count as written since.
    let server = start(18);
    let db = Outbox::create_bare(&server, tables);
    let rows = 60_000;
    db.execute(&format!(
        "insert into a select g, 0, repeat('x', 100) from generate_series(1, {rows}) g;
         insert into _own select g, g % 2 from generate_series(1, 100) g"
    ));
    ["a", "_own"].iter().for_each(|table| kafka().create_topic(&topic(&db, table), 1, &[]));
    let mut before = Value::Null;
    let mut sent = Vec::new();
    for time in 1..=2 {
        let mut relay = Relay::start(&config(&db, &[&SLOW[..], &common].concat()));
        eventually(Duration::from_secs(120), "a further range that is remembered", || {
            let now = kept(&db);
            has_ranges(&now) && now != before
        });
        relay.kill();
        assert!(db.slot().is_none(), "the slot exists only once the snapshot is sent");
        before = kept(&db);
        sent.push(states(&db, "a").1.len());
        db.execute(&format!(
            "update a set v = {time} where id % 7 = {time}; delete from a where id % 1000 = {time};
             insert into a values (-{time}, {time}, '')"
        ));
    }
    assert!(sent[0] < sent[1] && sent[1] < rows, "{sent:?}");

    let settings = [("snapshot.mode", "initial"), ("snapshot.max.threads", "2")];
    let last = Relay::start(&config(&db, &[&settings[..], &common].concat()));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert!(last.stop_and_tell().contains("resuming the interrupted snapshot"));
    let aside = format!("{}_snapshot", db.name());
    let left = db.query("select from pg_replication_slots where slot_name = $1", &[&aside]);
    assert!(left.is_empty(), "nothing holds WAL back any more");
    let expected = db.query("select id::bigint, v::bigint from a", &[]);
    let expected: BTreeMap<i64, i64> = expected.iter().map(|row| (row.get(0), row.get(1))).collect();
    let (last, reads) = states(&db, "a");
    assert!(last == expected, "the last values are those of the table");
    // A row of the first range that was never changed.
    assert_eq!(reads[&600], 1, "what was sent is not sent again");
    let (_, reads) = states(&db, "_own");
    assert_eq!(
        (reads.len(), reads.values().max()),
        (50, Some(&1)),
        "the rows that its statement selects, once"
    );
}
