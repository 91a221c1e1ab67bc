//! `snapshot.mode=always` of change events with an existing slot: the rows of the tables come behind what the slot has.

use std::time::Duration;

use serde_json::{Value, json};

use crate::changes::{self, topic};
use crate::positions::kept;
use crate::printed_fixes::{fix_of, setting};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const TABLE: &str = "create table t (id int primary key, n int not null)";

/// Returns a configuration whose publication can be changed.
fn config(db: &Outbox, guarantee: &str) -> Config {
    let settings = [
        ("outboxd.delivery.guarantee", guarantee),
        ("publication.autocreate.mode", "filtered"),
        ("table.include.list", r"public\.t"),
    ];
    changes::config(db, &settings)
}

/// Runs the statements with the name of the publication for `$name`.
fn execute(db: &Outbox, sql: &str) {
    db.execute(&sql.replace("$name", db.name()));
}

/// Creates a slot that has sent one row, with two changes in it of which the publication has had the first only.
fn with_gap(db: &Outbox, config: &Config) {
    kafka().create_topic(&topic(db, "t"), 1, &[]);
    let relay = Relay::start(config);
    db.wait_until_streaming();
    execute(db, "insert into t values (1, 1), (2, 1)");
    db.wait_until_confirmed();
    eventually(DEADLINE, "it is stored how the table is published", || {
        kept(kafka(), db).is_some_and(|position| position["tables"][0]["published"].is_object())
    });
    assert_eq!(relay.stop(), 0);
    execute(db, "update t set n = 2; delete from t where id = 2");
    execute(db, "alter publication $name drop table t");
    execute(db, "update t set n = 3");
    execute(db, "alter publication $name add table t");
}

/// Runs a relay until it ends because its publication has a row filter, behind one row.
fn stop_for_filter(db: &Outbox, config: &Config) {
    kafka().create_topic(&topic(db, "t"), 1, &[]);
    let mut relay = Relay::start(config);
    db.wait_until_streaming();
    execute(db, "insert into t values (1, 1)");
    db.wait_until_confirmed();
    execute(db, "alter publication $name set table t where (id < 0)");
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
}

/// Returns key, operation and value of each record; null is a tombstone.
fn sent(db: &Outbox) -> Vec<Value> {
    let told = |key: &str, value: Option<&[u8]>| {
        let key: Value = serde_json::from_str(key).unwrap();
        let value: Value = value.map_or(Value::Null, |value| serde_json::from_slice(value).unwrap());
        json!([key["id"], value["op"], value["after"]["n"]])
    };
    let records = kafka().records(&topic(db, "t"));
    records.iter().map(|record| told(record.key(), record.value.as_deref())).collect()
}

/// *Invariant:* behind a snapshot comes no change that is older than it.
#[test]
fn the_last_record_of_a_row_is_its_last_state_also_behind_a_gap() {
    for (server, guarantee) in
        [(postgres15(), "at_least_once"), (postgres18(), "tail_dedupe"), (postgres18(), "exactly_once")]
    {
        let db = Outbox::create_bare(server, TABLE);
        let config = config(&db, guarantee);
        with_gap(&db, &config);
        let relay = Relay::start(&with(config, &[("snapshot.mode", "always")]));
        relay.wait_for_snapshot();
        db.wait_until_streaming();
        db.execute("update t set n = 4");
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        let expected = [
            json!([1, "c", 1]),
            json!([2, "c", 1]),
            json!([1, "u", 2]),
            json!([2, "u", 2]),
            json!([2, "d", null]),
            json!([2, null, null]),
            json!([1, "r", 3]),
            json!([1, "u", 4]),
        ];
        assert_eq!(sent(&db), expected, "{guarantee}");
    }
}

/// The stop holds until the rows are sent, and not only until something is sent.
#[test]
fn a_stop_holds_until_the_snapshot_is_sent() {
    let db = Outbox::create_bare(postgres18(), TABLE);
    let config = config(&db, "at_least_once");
    stop_for_filter(&db, &config);
    execute(&db, "update t set n = 2");
    execute(&db, "alter publication $name set table t");
    execute(&db, "insert into t values (2, 1)");
    let always = with(config.clone(), &[("snapshot.mode", "always")]);
    let delayed = with(always.clone(), &[("snapshot.delay.ms", "3600000")]);
    let mut relay = Relay::start(&delayed);
    relay.wait_for_stderr("snapshot.delay.ms");
    relay.kill();
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(Duration::from_secs(60)), 3, "{}", relay.stderr());
    assert!(relay.stderr().contains("the last run ended because"), "{}", relay.stderr());
    let relay = Relay::start(&always);
    relay.wait_for_snapshot();
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0, "it is settled");
    assert_eq!(sent(&db)[2..], [json!([1, "r", 2]), json!([2, "r", 1])]);
}

/// Of two features that leave rows out of snapshots: neither settles what may be missing of such a table.
#[test]
fn a_snapshot_that_leaves_rows_out_settles_nothing_of_them() {
    let partial = [
        ("snapshot.include.collection.list", "public[.]other", ""),
        (
            "snapshot.select.statement.overrides",
            "public.t",
            "snapshot.select.statement.overrides.public.t=SELECT * FROM t WHERE id > 1",
        ),
    ];
    for (key, value, more) in partial {
        let db = Outbox::create_bare(postgres18(), TABLE);
        let config = config(&db, "at_least_once");
        with_gap(&db, &config);
        let always = with(config.clone(), &[("snapshot.mode", "always")]);
        let more: Vec<_> = more.split_once('=').into_iter().chain([(key, value)]).collect();
        let relay = Relay::start(&with(always.clone(), &more));
        relay.wait_for_stderr("are not all in the snapshot");
        db.wait_until_streaming();
        let fix = fix_of(&relay);
        assert_eq!(relay.stop(), 0);
        // Nothing has settled it, until the fix leaves nothing out.
        let relay = Relay::start(&config);
        relay.wait_for_stderr("while outboxd did not run");
        assert_eq!(relay.stop(), 0);
        let whole: Vec<_> = ["snapshot.include.collection.list", "snapshot.select.statement.overrides"]
            .map(|key| setting(&fix, key))
            .into();
        let relay = Relay::start(&with(with(always, &more), &whole));
        relay.wait_for_stderr("snapshot.mode=always is not needed any more");
        assert_eq!(relay.stop(), 0);
        assert_eq!(sent(&db).last(), Some(&json!([1, "r", 3])), "{key}");
    }
}

/// Of two features, a lost slot that is made again and a snapshot that excludes tables: what only the slot had is not forgotten.
#[test]
fn a_snapshot_behind_a_lost_slot_reports_the_tables_that_it_does_not_have() {
    for recovers in [("slot.recovery", "snapshot"), ("snapshot.mode", "always")] {
        partial_snapshot_behind_a_lost_slot(recovers);
    }
}

fn partial_snapshot_behind_a_lost_slot(recovers: (&str, &str)) {
    let db = Outbox::create_bare(postgres18(), TABLE);
    let settings = [("snapshot.include.collection.list", "public[.]other"), recovers];
    let config = with(config(&db, "at_least_once"), &settings);
    kafka().create_topic(&topic(&db, "t"), 1, &[]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    execute(&db, "insert into t values (1, 1)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
    execute(&db, "insert into t values (2, 1)");
    // Until it is settled, each start repeats it.
    let said = [(), ()].map(|()| {
        let relay = Relay::start(&config);
        let said = relay.wait_for_stderr("not wholly in the snapshot that followed a lost slot");
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
        said
    });
    let whole = ["snapshot.mode", "snapshot.include.collection.list", "snapshot.select.statement.overrides"]
        .map(|key| setting(&said[1], key));
    let relay = Relay::start(&with(config.clone(), &whole));
    relay.wait_for_stderr("snapshot.mode=always is not needed any more");
    assert_eq!(relay.stop(), 0);
    assert_eq!(sent(&db), [json!([1, "c", 1]), json!([1, "r", 1]), json!([2, "r", 1])]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert!(!relay.stop_and_tell().contains("not wholly"), "it is settled");
}

/// The same of a stop: such a start is refused as one without a snapshot is.
#[test]
fn a_snapshot_that_leaves_rows_out_settles_no_stop() {
    let db = Outbox::create_bare(postgres18(), TABLE);
    let config =
        with(config(&db, "at_least_once"), &[("snapshot.include.collection.list", "public[.]other")]);
    stop_for_filter(&db, &config);
    execute(&db, "alter publication $name set table t");
    let always = with(config, &[("snapshot.mode", "always")]);
    let mut relay = Relay::start(&always);
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
    let fix = fix_of(&relay);
    assert!(fix.contains("the snapshot leaves rows out"), "{fix}");
    let whole = [setting(&fix, "snapshot.include.collection.list")];
    let relay = Relay::start(&with(always, &whole));
    relay.wait_for_stderr("snapshot.mode=always is not needed any more");
    assert_eq!(relay.stop(), 0);
}
