//! `outboxd cleanup`, and `outboxd.cleanup.*` inside `run`: no row goes that is not proven to be sent.
//! Each test has a server of its own: a transaction that is open anywhere on a server keeps younger rows from being proven.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::commands::session::Session;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::start;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session as Sql;
use crate::support::terminal::Terminal;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/commands.md");

fn events(from: u32, count: u32) -> Vec<Event> {
    (from..from + count).map(|n| Event::new("order", &n.to_string(), "Made", "{}")).collect()
}

/// Runs a command; its exit code, standard output, and standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Relay::command(arguments);
    (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
}

fn rows(db: &Outbox) -> i64 {
    db.query("SELECT count(*) FROM outbox", &[])[0].get(0)
}

fn ids(db: &Outbox) -> BTreeSet<String> {
    db.query("SELECT id::text FROM outbox", &[]).iter().map(|row| row.get(0)).collect()
}

fn sent(kafka: &Kafka, db: &Outbox) -> BTreeSet<String> {
    let records = kafka.records_of_prefix(&db.topic(""));
    records.iter().map(|record| record.header("id").to_owned()).collect()
}

/// Returns a configuration with frequent cleanups without pauses, so that a race is likely.
fn eager(db: &Outbox, kafka: &Kafka) -> Config {
    let settings = [
        ("outboxd.cleanup.enable", "true"),
        ("outboxd.cleanup.before.slot", "delete"),
        ("outboxd.cleanup.interval.ms", "100"),
        ("outboxd.cleanup.batch.pause.ms", "0"),
        ("outboxd.cleanup.batch.rows", "7"),
        ("status.update.interval.ms", "100"),
    ];
    with(db.config(kafka), &settings)
}

#[test]
fn cleanup_inside_run_waits_for_kafka_and_for_open_transactions() {
    let mut kafka = Kafka::start();
    let server = start(18);
    let db = Outbox::create(&server);
    let config = eager(&db, &kafka);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&events(0, 40));
    eventually_eq(DEADLINE, &0, || rows(&db));

    // Kafka takes nothing: what is written now must stay.
    kafka.pause();
    let held = events(100, 40);
    db.insert(&held);
    db.wait_for_status_updates(Duration::from_secs(3));
    assert_eq!(rows(&db), 40);
    kafka.resume();
    eventually_eq(DEADLINE, &0, || rows(&db));
    let known = sent(&kafka, &db);
    assert!(held.iter().all(|event| known.contains(&event.id.to_string())));

    // A transaction is open, and its savepoint's rows have a later id than rows that are sent and gone.
    let other = Sql::new(db.address().clone());
    let insert = |id: u32| {
        format!(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type) VALUES (gen_random_uuid(), 'order', '{id}', 'Made')"
        )
    };
    other.execute(&format!("BEGIN; {}; SAVEPOINT s; {}", insert(200), insert(201)));
    db.insert(&events(300, 10));
    db.wait_until_confirmed();
    drop(relay);
    other.execute("COMMIT");
    assert!(rows(&db) >= 2, "what the open transaction wrote is not sent: nobody may take it away");
    let relay = Relay::start(&config);
    eventually_eq(DEADLINE, &0, || rows(&db));
    assert_eq!(sent(&kafka, &db).len(), 92);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn cleanup_races_the_relay_and_its_restarts_and_takes_no_unsent_row() {
    let server = start(15);
    let (kafka, db) = (kafka(), Outbox::create(&server));
    let config = eager(&db, kafka);
    let mut all = BTreeSet::new();
    for round in 0..4 {
        let mut relay = Relay::start(&config);
        db.wait_until_streaming();
        for batch in 0..15 {
            let batch = events(round * 1_000 + batch * 20, 20);
            all.extend(batch.iter().map(|event| event.id.to_string()));
            db.insert(&batch);
        }
        let gone = |db: &Outbox| all.len() - ids(db).len();
        let before = gone(&db);
        eventually(DEADLINE, "some rows were taken away", || {
            let gone = gone(&db);
            gone > before || gone == all.len()
        });
        relay.kill();
        // Nothing is sent any more. Whatever is gone was sent.
        db.end_the_stream();
        let left = ids(&db);
        let known = sent(kafka, &db);
        let lost: Vec<_> = all.iter().filter(|id| !left.contains(*id) && !known.contains(*id)).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
    }
    let relay = Relay::start(&config);
    eventually_eq(DEADLINE, &0, || rows(&db));
    assert_eq!(sent(kafka, &db), all);
    assert_eq!(relay.stop(), 0);
}

/// *Invariant:* nothing is deleted from a table whose rows may be missing in the stream, neither by the process that has found that, nor
/// by the next one or the command, until the operator has settled it.
#[test]
fn rows_that_may_be_missing_in_the_stream_are_not_deleted() {
    let server = start(18);
    let (kafka, db) = (kafka(), Outbox::create(&server));
    let publish = format!("CREATE PUBLICATION {} FOR ALL TABLES", db.name());
    db.execute(&format!("CREATE TABLE other (LIKE outbox INCLUDING ALL); {publish}"));
    let config = with(eager(&db, kafka), &[("table.include.list", "public.outbox,public.other")]);
    let insert = |table: &str| {
        format!(
            "INSERT INTO {table} (id, aggregatetype, aggregateid, type) VALUES (gen_random_uuid(), 'order', '1', 'Made')"
        )
    };
    // Deletes the rows of the other table only.
    let pass = |kept| {
        db.execute(&insert("other"));
        eventually(DEADLINE, "a pass of cleanup", || db.query("SELECT FROM other", &[]).is_empty());
        assert_eq!(rows(&db), kept);
    };
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&events(0, 3));
    eventually_eq(DEADLINE, &0, || rows(&db));
    db.execute(&format!(
        "ALTER TABLE outbox SET UNLOGGED; {}; ALTER TABLE outbox SET LOGGED",
        insert("outbox")
    ));
    relay.wait_for_stderr("may have been unlogged");
    pass(1);
    let folder = Watcher::new("outboxd-cleanup-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let (exit, _, stderr) = run(&["cleanup", "-c", &file, "--execute", "--yes"]);
    assert!(exit == 3 && stderr.contains("public.outbox was rewritten"), "{stderr}");
    let (_, stdout, stderr) = run(&["check", "-c", &file, "--json"]);
    assert!(stdout.contains("public.outbox was rewritten"), "{stdout} {stderr}");
    relay.kill();

    let mut relay = Relay::start(&config);
    relay.wait_for_stderr("may have been unlogged");
    pass(1);
    let said = relay.stderr();
    let value = said.split_once("outboxd.position.accept=").unwrap().1;
    let value = value.split(|c: char| !(c.is_ascii_hexdigit() || c == '/')).next().unwrap();
    relay.kill();
    let relay = Relay::start(&with(config.clone(), &[("outboxd.position.accept", value)]));
    eventually_eq(DEADLINE, &0, || rows(&db));
    assert!(!relay.stderr().contains("may have been unlogged"), "{}", relay.stderr());

    // The other way out of the message sends the row that never came.
    db.execute(&format!(
        "ALTER TABLE outbox SET UNLOGGED; {}; ALTER TABLE outbox SET LOGGED",
        insert("outbox")
    ));
    let warning = relay.wait_for_stderr("may have been unlogged");
    assert!(warning.contains("start once with -X snapshot.mode=always"), "{warning}");
    pass(1);
    assert_eq!(relay.stop(), 0);
    let count = kafka.records(&db.topic("order")).len();
    let relay = Relay::start(&with(config, &[("snapshot.mode", "always")]));
    kafka.wait_for_count(&db.topic("order"), i64::try_from(count).unwrap() + 1);
    eventually_eq(DEADLINE, &0, || rows(&db));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn the_command_takes_only_what_is_proven() {
    let server = start(18);
    let db = Outbox::create(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let file = folder.folder().join("outbox.json").display().to_string();
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let cleanup = |more: &[&str]| run(&[&["cleanup", "-c", &file], more].concat());
    let (exit, _, stderr) = cleanup(&[]);
    assert!(exit == 3 && stderr.contains("does not publish its inserts"), "{stderr}");

    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&events(0, 30));
    let (exit, stdout, stderr) = cleanup(&["--json"]);
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (exit, &found["tables"][0]["sent"], &found["done"]),
        (0, &30.into(), &false.into()),
        "{stderr}"
    );
    let (exit, _, stderr) = cleanup(&["--execute"]);
    assert!(exit == 3 && stderr.contains("--also-before-slot"), "{stderr}");
    let (exit, _, stderr) = cleanup(&["--execute", "--also-before-slot"]);
    assert!(exit == 1 && stderr.contains("--yes deletes them"), "{stderr}");
    let (exit, _, stderr) = cleanup(&["--execute", "-X", "outboxd.cleanup.before.slot=delete"]);
    assert!(exit == 1 && stderr.contains("--yes deletes them"), "{stderr}");
    let (exit, _, stderr) = cleanup(&["--older-than", "1h"]);
    assert!(exit == 2 && stderr.contains("--time-column created_at"), "{stderr}");
    assert_eq!(rows(&db), 30);

    let execute = ["--execute", "--also-before-slot", "--yes"];
    // The missing right is printed as a statement that can be pasted.
    let sweeper = format!("{}_sweeper", db.name());
    db.execute(&format!("CREATE ROLE {sweeper} LOGIN"));
    let (exit, _, stderr) = cleanup(&["-X", &format!("database.user={sweeper}")]);
    let grant = format!("GRANT SELECT, UPDATE, DELETE ON \"public\".\"outbox\" TO \"{sweeper}\";");
    assert!(exit == 3 && stderr.contains(&grant), "{stderr}");
    let archive = folder.folder().join("none").display().to_string();
    let (exit, _, stderr) = cleanup(&[&execute[..], &["--archive-folder", &archive]].concat());
    assert!(exit == 3 && stderr.contains(&format!("mkdir -p {archive}")), "{stderr}");
    let (exit, _, stderr) = cleanup(&[&execute[..], &["--archive-table", "outbox_archive"]].concat());
    let create = "CREATE TABLE \"outbox_archive\" (LIKE \"public\".\"outbox\");";
    assert!(exit == 3 && stderr.contains(create), "{stderr}");
    db.execute(create);
    let (exit, stdout, stderr) = cleanup(&[&execute[..], &["--archive-table", "outbox_archive"]].concat());
    assert!(exit == 0 && stderr.contains("deleted 30 rows of public.outbox"), "{stdout}{stderr}");
    assert_eq!((rows(&db), db.query("SELECT FROM outbox_archive", &[]).len()), (0, 30));

    let (exit, _, stderr) = cleanup(&[&execute[..], &["--archive-table", "outbox"]].concat());
    assert!(exit == 3 && stderr.contains("each would be sent again"), "{stderr}");
    let elsewhere = with(config.clone(), &[("slot.stream.params", "origin=none")]);
    let other = folder.folder().join("other.json").display().to_string();
    fs::write(&other, serde_json::to_vec(&elsewhere).unwrap()).unwrap();
    let (exit, _, stderr) = run(&[&["cleanup", "-c", &other], &execute[..]].concat());
    assert!(exit == 3 && stderr.contains("take origin out of slot.stream.params"), "{stderr}");

    db.insert(&events(100, 5));
    assert!(Command::new("mkdir").args(["-p", &archive]).status().unwrap().success());
    let (exit, stdout, stderr) = cleanup(&[&execute[..], &["--archive-folder", &archive, "--json"]].concat());
    let done: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, &done["tables"][0]["deleted"]), (0, &5.into()), "{stderr}");
    let kept = fs::read_to_string(done["tables"][0]["file"].as_str().unwrap()).unwrap();
    let keys: BTreeSet<_> = kept
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["aggregateid"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys, (100..105).map(|n| n.to_string()).collect());

    // No relay sends, and another session moves the slot: the slot confirms more than was sent.
    assert_eq!(relay.stop(), 0);
    db.insert(&events(200, 3));
    let (exit, _, stderr) = cleanup(&[&execute[..], &["--wait", "1"]].concat());
    assert!(exit == 3 && stderr.contains("has confirmed"), "{stderr}");
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_insert_lsn())", &[&db.name()]);
    let (exit, _, stderr) = cleanup(&[&execute[..], &["--wait", "1"]].concat());
    assert_eq!((exit, rows(&db)), (3, 3), "{stderr}");
    db.execute(&format!("ALTER PUBLICATION {} SET TABLE outbox WHERE (type = 'Other')", db.name()));
    let (exit, _, stderr) = cleanup(&execute);
    assert!(exit == 3 && stderr.contains("the publication has a filter"), "{stderr}");
    db.execute(&format!("ALTER PUBLICATION {} SET TABLE outbox", db.name()));
    let (_, _, stderr) = cleanup(&execute);
    assert!(!stderr.contains("the publication has a filter"), "{stderr}");
}

#[test]
fn on_a_terminal_a_bar_says_how_many_are_deleted() {
    let server = start(18);
    let db = Outbox::create(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let file = folder.folder().join("outbox.json").display().to_string();
    let settings = [
        ("status.update.interval.ms", "100"),
        // So that it lasts.
        ("outboxd.cleanup.batch.rows", "1"),
        ("outboxd.cleanup.batch.pause.ms", "100"),
    ];
    let config = with(db.config(kafka()), &settings);
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let _relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&events(0, 20));
    db.wait_until_confirmed();
    let mut terminal = Terminal::start(&["cleanup", "-c", &file, "--execute", "--also-before-slot"]);
    terminal.wait_for(&format!("type {} if you mean it", db.name()));
    assert_eq!(rows(&db), 20);
    terminal.type_keys(&format!("{}\n", db.name()));
    let (exit, screen) = terminal.wait_for_exit();
    assert_eq!((exit, rows(&db)), (Some(0), 0), "{screen}");
    let is_drawn = |count: u32| screen.contains(&format!(" {count} of 20, "));
    assert!(screen.contains("deleting ") && (1..20).any(is_drawn), "{screen}");
    assert!(screen.contains("deleted 20 rows of public.outbox"), "{screen}");
}

#[test]
fn the_session_about_rows_that_are_sent_is_what_is_seen() {
    let server = start(18);
    let db = Outbox::create(&server);
    let folder = Watcher::new("outboxd-cleanup-");
    let file = folder.folder().join("outbox.json").display().to_string();
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&events(0, 30));
    let names = [("outbox.json", file), ("orders", db.name().to_owned())];
    assert_eq!(Session::of(PAGE, "Delete sent rows: outboxd cleanup").replay(&names), [0, 0]);
    assert_eq!(rows(&db), 0);
    assert_eq!(relay.stop(), 0);
}
