//! `outboxd.cleanup.partitions`, and `outboxd cleanup --partitions`: no partition goes with a row that is not sent.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use outboxd::internals::throwaway::ThrowawayPostgres;
use serde_json::Value;

use crate::commands::session::Session;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::Outbox;
use crate::support::postgres::start;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session as Sql;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/commands.md");
const COLUMNS: &str = "id uuid NOT NULL, aggregatetype text, aggregateid text, type text, payload jsonb";

/// Creates an outbox with three partitions by a number, in hundreds.
pub(crate) fn by_number(server: &ThrowawayPostgres) -> Outbox {
    let schema = format!(
        "CREATE TABLE outbox ({COLUMNS}, n bigint NOT NULL) PARTITION BY RANGE (n);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (100);
         CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM (100) TO (200);
         CREATE TABLE outbox_3 PARTITION OF outbox FOR VALUES FROM (200) TO (300)"
    );
    Outbox::create_bare(server, &schema)
}

pub(crate) fn insert(from: u32, count: u32) -> String {
    format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, n)
         SELECT gen_random_uuid(), 'order', n::text, 'Made', n FROM generate_series({from}, {}) n",
        from + count - 1
    )
}

fn eager(db: &Outbox, kafka: &Kafka, more: &[(&str, &str)]) -> Config {
    let settings = [
        ("outboxd.cleanup.enable", "true"),
        ("outboxd.cleanup.before.slot", "delete"),
        ("outboxd.cleanup.interval.ms", "100"),
        ("outboxd.cleanup.partitions", "drop"),
        ("status.update.interval.ms", "100"),
    ];
    with(with(db.config(kafka), &settings), more)
}

pub(crate) fn partitions(db: &Outbox) -> Vec<String> {
    let query =
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'outbox'::regclass ORDER BY 1";
    db.query(query, &[]).iter().map(|row| row.get(0)).collect()
}

/// Returns the numbers of the rows that are in Kafka.
fn sent(kafka: &Kafka, db: &Outbox) -> BTreeSet<u32> {
    let records = kafka.records_of_prefix(&db.topic(""));
    records.iter().map(|record| record.key().trim_matches('"').parse().unwrap()).collect()
}

fn left(db: &Outbox) -> BTreeSet<u32> {
    let rows = db.query("SELECT n::int4 FROM outbox", &[]);
    rows.iter().map(|row| u32::try_from(row.get::<_, i32>(0)).unwrap()).collect()
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Relay::command(arguments);
    (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
}

fn file(folder: &Path, config: &Config) -> String {
    let file = folder.join("outbox.json");
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    file.display().to_string()
}

#[test]
fn a_partition_goes_when_every_row_of_it_is_sent_and_the_next_ones_come() {
    let mut kafka = Kafka::start();
    let server = start(15);
    let db = by_number(&server);
    let config = eager(&db, &kafka, &[("outboxd.cleanup.partitions.ahead", "2")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(&insert(0, 3));
    eventually_eq(DEADLINE, &["outbox_1", "outbox_2", "outbox_3"].map(str::to_owned).to_vec(), || {
        partitions(&db)
    });

    // Kafka takes nothing: the first is over, and stays. The next ones come all the same.
    kafka.pause();
    db.execute(&insert(50, 10));
    db.execute(&insert(100, 10));
    eventually(DEADLINE, "the fourth is made", || partitions(&db).len() >= 4);
    db.wait_for_status_updates(Duration::from_secs(1));
    assert_eq!(left(&db).len(), 23);
    kafka.resume();
    eventually(DEADLINE, "the first is gone", || !partitions(&db).contains(&"outbox_1".to_owned()));
    assert!((50..60).all(|n| sent(&kafka, &db).contains(&n)));

    // A transaction writes to a partition that is over, and commits late.
    let other = Sql::new(db.address().clone());
    other.execute(&format!("BEGIN; {}", insert(150, 5)));
    db.execute(&insert(200, 5));
    db.execute(&insert(300, 5));
    db.wait_until_confirmed();
    db.wait_for_status_updates(Duration::from_secs(1));
    assert!(partitions(&db).contains(&"outbox_2".to_owned()));
    other.execute("COMMIT");
    eventually_eq(DEADLINE, &["outbox_4", "outbox_5", "outbox_6"].map(str::to_owned).to_vec(), || {
        partitions(&db)
    });
    db.execute(&insert(500, 5));
    eventually(DEADLINE, "what is written to a new partition is sent", || sent(&kafka, &db).contains(&504));
    assert_eq!(sent(&kafka, &db).len(), 3 + 20 + 5 + 5 + 5 + 5);
    assert_eq!(relay.stop(), 0);
}

/// The outbox of `sql/outbox-partitioned.sql`: by days, with a default partition.
#[test]
fn days_go_and_come_beside_a_default_partition() {
    let server = start(15);
    let db = Outbox::create_bare(&server, include_str!("../../sql/outbox-partitioned.sql"));
    db.execute(
        "DO $$ BEGIN FOR ago IN 1..2 LOOP EXECUTE format(
            'CREATE TABLE outbox_%s PARTITION OF outbox FOR VALUES FROM (%L) TO (%L)',
            to_char(now() AT TIME ZONE 'UTC' - ago * interval '1 day', 'YYYYMMDD'),
            (date_trunc('day', now() AT TIME ZONE 'UTC') - ago * interval '1 day') AT TIME ZONE 'UTC',
            (date_trunc('day', now() AT TIME ZONE 'UTC') - (ago - 1) * interval '1 day') AT TIME ZONE 'UTC');
         END LOOP; END $$",
    );
    let day = |ahead: u32| {
        let day = format!(
            "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '{ahead} days', '\"outbox_\"YYYYMMDD')"
        );
        db.query(&day, &[])[0].get::<_, String>(0)
    };
    db.execute(&format!(
        "ALTER TABLE {0} SET (fillfactor = 70, toast.autovacuum_enabled = false); GRANT SELECT, INSERT ON {0} TO pg_monitor;
         ALTER TABLE {0} REPLICA IDENTITY USING INDEX {0}_pkey",
        day(7)
    ));
    let folder = Watcher::new("outboxd-cleanup-");
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let file = file(folder.folder(), &config);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    for ago in ["0 days", "1 day", "9 days"] {
        db.execute(&format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, created_at)
             VALUES ('order', '1', 'Made', now() - interval '{ago}')"
        ));
    }
    let execute = ["cleanup", "-c", &file, "--execute", "--also-before-slot", "--yes", "--json"];
    let (exit, stdout, stderr) =
        run(&[&execute[..], &["--partitions", "drop", "--partitions-ahead", "9"]].concat());
    let done: Value = serde_json::from_str(&stdout).unwrap();
    let actions: Vec<_> =
        done["partitions"].as_array().unwrap().iter().map(|step| step["action"].as_str().unwrap()).collect();
    assert_eq!((exit, actions), (0, vec!["made", "made", "dropped", "dropped"]), "{stdout}{stderr}");
    let rows = db.query("SELECT count(*) FROM outbox", &[]);
    assert_eq!(rows[0].get::<_, i64>(0), 1, "that of today; the one of the default partition went by itself");
    let last = day(9);
    assert!(partitions(&db).contains(&last), "{:?}", partitions(&db));
    let like = format!(
        "SELECT concat_ws(' ', c.reloptions, t.reloptions, c.relreplident, x.indexrelid::regclass,
                          (SELECT string_agg(privilege_type, ',' ORDER BY 1) FROM aclexplode(c.relacl)
                           WHERE grantee = 'pg_monitor'::regrole))
         FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
              JOIN pg_index x ON x.indrelid = c.oid AND x.indisreplident WHERE c.oid = '{last}'::regclass"
    );
    let like: String = db.query(&like, &[])[0].get(0);
    assert_eq!(like, format!("{{fillfactor=70}} {{autovacuum_enabled=false}} i {last}_pkey INSERT,SELECT"));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn partitions_race_the_relay_its_restarts_and_late_writers_and_no_unsent_row_is_lost() {
    let server = start(18);
    let (kafka, db) = (kafka(), by_number(&server));
    let config = eager(&db, kafka, &[("outboxd.cleanup.partitions.ahead", "8")]);
    let mut all = BTreeSet::new();
    let mut next = 0;
    let other = Sql::new(db.address().clone());
    for round in 0..3 {
        let mut relay = Relay::start(&config);
        db.wait_until_streaming();
        let until = next + 400;
        eventually(DEADLINE, "there are partitions ahead", || {
            db.query(&format!("SELECT FROM pg_class WHERE relname = 'outbox_{}'", until / 100 + 1), &[]).len()
                == 1
        });
        // One that writes where the others have been, and ends after they have gone on.
        other.execute(&format!("BEGIN; {}", insert(next, 1)));
        all.insert(next);
        for from in (next + 1..until).step_by(19) {
            let count = 19.min(until - from);
            db.execute(&insert(from, count));
            all.extend(from..from + count);
        }
        db.wait_until_confirmed();
        assert!(left(&db).len() >= 99, "the partition of an open transaction stays");
        other.execute("COMMIT");
        if round > 0 {
            let first = format!("outbox_{}", next / 100 + 1);
            eventually(DEADLINE, "a partition has gone", || !partitions(&db).contains(&first));
        }
        relay.kill();
        db.end_the_stream();
        let (left, known) = (left(&db), sent(kafka, &db));
        let lost: Vec<_> = all.iter().filter(|n| !left.contains(n) && !known.contains(n)).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        next = until;
    }
    let relay = Relay::start(&config);
    // It may be sent already, and the process not so far that it knows a signal.
    db.wait_until_streaming();
    eventually(DEADLINE, "everything is sent", || sent(kafka, &db) == all);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn the_command_keeps_the_rows_and_leaves_what_it_may_not_touch() {
    let server = start(18);
    let db = by_number(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let file = file(folder.folder(), &config);
    let cleanup = |more: &[&str]| run(&[&["cleanup", "-c", &file], more].concat());
    let execute = |more: &[&str]| cleanup(&[&["--execute", "--also-before-slot", "--yes"], more].concat());
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(&insert(0, 5));
    db.execute(&insert(100, 5));
    db.execute(&insert(200, 5));

    // Another user's view depends on the first partition.
    db.execute("CREATE VIEW mine AS SELECT * FROM outbox_1");
    let into = folder.folder().display().to_string();
    let drop = ["--partitions", "drop", "--archive-folder", &into, "--json"];
    let (exit, stdout, stderr) = execute(&drop);
    let done: Value = serde_json::from_str(&stdout).unwrap();
    let steps = done["partitions"].as_array().unwrap();
    assert_eq!((exit, steps.len()), (0, 2), "{stdout}{stderr}");
    assert!(steps[0]["reason"].as_str().unwrap().contains("mine"), "{stdout}");
    assert_eq!((&steps[1]["action"], &steps[1]["rows"]), (&"dropped".into(), &5.into()), "{stdout}");
    let kept = fs::read_to_string(steps[1]["file"].as_str().unwrap()).unwrap();
    let numbers =
        kept.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].as_u64().unwrap());
    assert_eq!(numbers.collect::<Vec<_>>(), Vec::from_iter(100..105));
    assert_eq!(left(&db), (0..5).chain(200..205).collect());

    // A detached partition would be captured; the dry run reports this too.
    db.execute("DROP VIEW mine");
    let detach = ["--partitions", "detach", "-X", "table.include.list=public.outbox.*"];
    for (exit, _, stderr) in [cleanup(&detach), execute(&detach)] {
        assert!(exit == 0 && stderr.contains("left public.outbox_1: detached, it would be"), "{stderr}");
    }

    // What is detached stays as it is.
    let (exit, stdout, stderr) = execute(&["--partitions", "detach"]);
    assert!(exit == 0 && stderr.contains("detached public.outbox_1 with 5 rows"), "{stdout}{stderr}");
    assert_eq!(db.query("SELECT FROM outbox_1", &[]).len(), 5);
    assert_eq!(left(&db), (200..205).collect());

    // Two partitions and a gap: no pattern.
    db.execute("CREATE TABLE outbox_5 PARTITION OF outbox FOR VALUES FROM (400) TO (500)");
    let (exit, _, stderr) = cleanup(&["--partitions-ahead", "3"]);
    assert!(exit == 0 && stderr.contains("between outbox_3 and outbox_5 is a gap"), "{stderr}");

    // pg_partman's table of settings, as it is; the extension is not there.
    db.execute(
        "CREATE SCHEMA partman;
         CREATE TABLE partman.part_config (parent_table text PRIMARY KEY, control text NOT NULL, retention text,
                                           retention_keep_table boolean NOT NULL DEFAULT true);
         INSERT INTO partman.part_config VALUES ('public.outbox', 'n', '1000', false)",
    );
    let (exit, _, stderr) = execute(&["--partitions", "drop"]);
    assert!(exit == 3 && stderr.contains("pg_partman creates and drops its partitions"), "{stderr}");
    let (_, stdout, _) = run(&["check", "-c", &file]);
    assert!(stdout.contains("retention_keep_table = true WHERE parent_table = 'public.outbox'"), "{stdout}");
    assert_eq!(left(&db), (200..205).collect());
    assert_eq!(relay.stop(), 0);
}

/// A publication that has some partitions only: the others' rows are in no stream.
#[test]
fn rows_that_the_publication_does_not_have_are_left() {
    let server = start(15);
    let db = by_number(&server);
    db.execute(&format!(
        "CREATE PUBLICATION {} FOR TABLE outbox_1, outbox_2 WITH (publish = 'insert')",
        db.name()
    ));
    let folder = Watcher::new("outboxd-cleanup-");
    let more = [("status.update.interval.ms", "100"), ("publication.autocreate.mode", "disabled")];
    let config = with(db.config(kafka()), &more);
    let file = file(folder.folder(), &config);
    let slot = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')";
    db.query(slot, &[&db.name()]);
    db.execute(&insert(0, 5));
    db.execute(&insert(200, 5));
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_insert_lsn())", &[&db.name()]);
    let without_positions = ["-X", "outboxd.position.topic="];
    let execute = ["cleanup", "-c", &file, "--execute", "--also-before-slot", "--yes", "--wait", "5"];
    let (exit, stdout, stderr) = run(&[&execute[..], &without_positions].concat());
    assert!(exit == 3 && stderr.contains("does not publish the rows of public.outbox_3"), "{stdout}{stderr}");
    assert_eq!(left(&db).len(), 10);
    db.execute("CREATE UNLOGGED TABLE outbox_4 PARTITION OF outbox FOR VALUES FROM (300) TO (400)");
    db.execute(&format!("ALTER PUBLICATION {} SET TABLE outbox", db.name()));
    let (exit, stdout, stderr) = run(&[&execute[..], &without_positions].concat());
    assert!(exit == 3 && stderr.contains("public.outbox_4 are not in the WAL"), "{stdout}{stderr}");
    assert_eq!(left(&db).len(), 10);

    // The rows of a captured partition come by the name of the outbox, which is not captured.
    db.execute("DROP TABLE outbox_4");
    let one = ["-X", "table.include.list=public.outbox_1"];
    let by_the_root = ["TABLE outbox", "ALL TABLES", "TABLES IN SCHEMA public", "TABLE outbox, outbox_1"];
    for (tables, via_root) in
        by_the_root.map(|tables| (tables, true)).into_iter().chain([("TABLE outbox", false)])
    {
        db.execute(&format!(
            "DROP PUBLICATION {0}; CREATE PUBLICATION {0} FOR {tables}
             WITH (publish = 'insert', publish_via_partition_root = {via_root})",
            db.name()
        ));
        let (exit, stdout, stderr) = run(&[&execute[..], &without_positions, &one].concat());
        let refused = exit == 3 && stderr.contains("by the name of the table above");
        assert_eq!(refused, via_root, "{tables}: {stdout}{stderr}");
    }
}

#[test]
fn the_session_about_partitions_is_what_is_seen() {
    let server = start(18);
    let db = by_number(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let file = file(folder.folder(), &config);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(&insert(0, 100));
    db.execute(&insert(100, 20));
    let names = [("outbox.json", file), ("orders", db.name().to_owned())];
    assert_eq!(Session::of(PAGE, "Remove sent partitions: outboxd cleanup").replay(&names), [0, 0]);
    assert_eq!(left(&db).len(), 20);
    assert_eq!(relay.stop(), 0);
}

/// We wait for the outbox with a lock on the partition, a late writer for the partition with a lock on the outbox.
#[test]
fn a_late_writer_is_never_ended_because_a_partition_is_to_go() {
    let server = start(15);
    let db = by_number(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let into = folder.folder().display().to_string();
    let relay = Relay::start(&eager(&db, kafka(), &[("outboxd.cleanup.archive.folder", &into)]));
    db.wait_until_streaming();
    // A session reads, so that the partition cannot be removed at any moment.
    let reader = Sql::new(db.address().clone());
    reader.execute("BEGIN; LOCK TABLE ONLY outbox IN ACCESS SHARE MODE");
    db.execute(&insert(0, 3));
    db.execute(&insert(100, 1));
    let proven = "SELECT FROM pg_locks WHERE granted AND mode = 'ShareRowExclusiveLock' AND relation = 'outbox_1'::regclass";
    for late in 3..11 {
        eventually(DEADLINE, "the partition is proven", || !db.query(proven, &[]).is_empty());
        db.execute(&insert(late, 1));
    }
    let files = || fs::read_dir(&into).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(files().len(), 0, "nothing is archived as long as it cannot go");
    reader.execute("COMMIT");
    eventually(DEADLINE, "it is gone at last", || !partitions(&db).contains(&"outbox_1".to_owned()));
    let kept: Vec<_> = files().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert_eq!(kept.iter().map(|text| text.lines().count()).collect::<Vec<_>>(), [11]);
    assert_eq!(sent(kafka(), &db).len(), 12);
    assert_eq!(relay.stop(), 0);
}

/// The comparison of the column with a row's age takes long, or fails, if the row requests it.
#[test]
fn a_partition_that_cannot_be_looked_at_does_not_keep_the_others() {
    let server = start(18);
    let db = by_number(&server);
    db.execute(
        "CREATE TYPE age AS ENUM ('old', 'slow', 'wrong');
         CREATE FUNCTION is_before(age, timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
             IF $1 = 'slow' THEN PERFORM pg_sleep(60); END IF;
             IF $1 = 'wrong' THEN RAISE 'nobody knows'; END IF;
             RETURN true;
         END $$;
         CREATE OPERATOR pg_catalog.< (LEFTARG = age, RIGHTARG = timestamptz, FUNCTION = is_before);
         ALTER TABLE outbox ADD COLUMN age age NOT NULL DEFAULT 'old';
         CREATE TABLE outbox_4 PARTITION OF outbox FOR VALUES FROM (300) TO (400)",
    );
    let more = [
        ("outboxd.cleanup.time.column", "age"),
        ("outboxd.cleanup.keep.ms", "1"),
        ("outboxd.cleanup.statement.timeout.ms", "1500"),
    ];
    let relay = Relay::start(&eager(&db, kafka(), &more));
    db.wait_until_streaming();
    for (from, age) in [(0, "slow"), (100, "wrong"), (200, "old"), (300, "old")] {
        db.execute(&format!("ALTER TABLE outbox ALTER COLUMN age SET DEFAULT '{age}'; {}", insert(from, 3)));
    }
    eventually_eq(DEADLINE, &["outbox_1", "outbox_2", "outbox_4"].map(str::to_owned).to_vec(), || {
        partitions(&db)
    });
    let told = relay.stop_and_tell();
    assert!(told.contains("a greater value gives it more time") && told.contains("nobody knows"), "{told}");
}

#[test]
fn partitions_that_show_the_pattern_stay_as_long_as_none_can_be_made() {
    let server = start(15);
    let db = by_number(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let file = file(folder.folder(), &config);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    for from in [0, 100, 200] {
        db.execute(&insert(from, 5));
    }
    let cleanup = |more: &[&str]| {
        let both = ["cleanup", "-c", &file, "--partitions", "drop", "--partitions-ahead", "1"];
        let (exit, _, stderr) = run(&[&both[..], more].concat());
        assert_eq!(exit, 0, "{stderr}");
        stderr
    };
    let execute = ["--execute", "--also-before-slot", "--yes"];
    // Another table has the next partition's name.
    db.execute("CREATE TABLE outbox_4 ()");
    let stderr = cleanup(&execute);
    assert!(
        stderr.contains("did not make public.outbox_4") && stderr.contains("dropped public.outbox_1"),
        "{stderr}"
    );
    assert_eq!(partitions(&db), ["outbox_2", "outbox_3"]);
    db.execute("DROP TABLE outbox_4");
    assert!(cleanup(&[]).contains("would drop public.outbox_2"));
    cleanup(&execute);
    assert_eq!(partitions(&db), ["outbox_3", "outbox_4"]);
    assert_eq!(relay.stop(), 0);
}
