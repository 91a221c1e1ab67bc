//! An outbox whose partitions the real pg_partman makes and drops.

use std::fs;

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres15;
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

/// With a partition for each day, from days ago on.
const SCHEMA: &str = "
    CREATE TABLE outbox (id uuid NOT NULL, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL,
                         payload jsonb, created_at timestamptz NOT NULL DEFAULT now()) PARTITION BY RANGE (created_at);
    CREATE SCHEMA partman;
    CREATE EXTENSION pg_partman SCHEMA partman;
    SELECT partman.create_parent('public.outbox', 'created_at', 'native', 'daily');
    UPDATE partman.part_config SET retention = '1 day', retention_keep_table = false, infinite_time_partitions = true";

fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Relay::command(arguments);
    (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
}

/// Returns the partitions by name, except the default one.
fn partitions(db: &Outbox) -> Vec<String> {
    let query = "SELECT inhrelid::regclass::text FROM pg_inherits
                 WHERE inhparent = 'outbox'::regclass AND inhrelid::regclass::text NOT LIKE '%default' ORDER BY 1";
    db.query(query, &[]).iter().map(|row| row.get(0)).collect()
}

#[test]
#[ignore = "needs pg_partman for PostgreSQL 15, which tests/run installs"]
fn what_pg_partman_manages_is_found_and_left_to_it() {
    let db = Outbox::create_bare(postgres15(), SCHEMA);
    let folder = Watcher::new("outboxd-partman-");
    let path = |name: &str| folder.folder().join(name).display().to_string();
    let (file, made) = (path("outbox.json"), path("made.json"));
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();

    // Its template has the columns of the outbox, and is none.
    let address = db.address();
    let url = format!("postgresql://{}@{}:{}/{}", address.user, address.host, address.port, address.database);
    let (exit, stdout, stderr) = run(&["init", "--postgres", &url, "--into", &made, "--print-sql"]);
    assert!(exit == 0 && stdout.contains(r#"TABLE "public"."outbox""#), "{stdout}{stderr}");

    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(
        "INSERT INTO outbox SELECT gen_random_uuid(), 'order', n::text, 'Made', '{}',
                                   now() - CASE WHEN n < 10 THEN interval '3 days' ELSE interval '0' END
         FROM generate_series(0, 19) n",
    );
    let records = kafka().read(&db.topic("order"), 20);
    assert_eq!(records.len(), 20);
    db.wait_until_confirmed();

    // Both at once would be one too many.
    let before = partitions(&db);
    for more in [["--partitions", "drop"], ["--partitions-ahead", "9"]] {
        let execute =
            [&["cleanup", "-c", &file, "--execute", "--also-before-slot", "--yes"], &more[..]].concat();
        let (exit, _, stderr) = run(&execute);
        assert!(exit == 3 && stderr.contains("pg_partman creates and drops its partitions"), "{stderr}");
    }
    assert_eq!(partitions(&db), before);

    // pg_partman follows its clock: check reports this, and with the printed fix nothing is dropped.
    let (_, stdout, _) = run(&["check", "-c", &file]);
    let fix = stdout.lines().find_map(|line| line.split_once("to have them detached instead: ")).unwrap().1;
    assert!(stdout.contains("after 1 day, whether their rows are sent or not"), "{stdout}");
    db.execute(fix);
    let (_, stdout, _) = run(&["check", "-c", &file]);
    assert!(stdout.contains("pg_partman makes the partitions of public.outbox, and drops none"), "{stdout}");
    db.execute("SELECT partman.run_maintenance()");
    let gone: Vec<_> = before.iter().filter(|name| !partitions(&db).contains(name)).collect();
    assert!(!gone.is_empty(), "{before:?}");
    let rows = |table: &str| db.query(&format!("SELECT FROM {table}"), &[]).len();
    assert_eq!(gone.iter().map(|table| rows(table)).sum::<usize>(), 10, "detached with their rows");

    // Rows that are sent go, and partitions stay.
    let (exit, _, stderr) = run(&["cleanup", "-c", &file, "--execute", "--also-before-slot", "--yes"]);
    assert_eq!((exit, rows("outbox")), (0, 0), "{stderr}");
    assert!(partitions(&db).len() < before.len() + 2);
    assert_eq!(relay.stop(), 0);
}
