//! `outboxd signal`: requests to a running relay, and the reasons why there is none.

use std::fs;

use serde_json::Value;

use crate::commands::session::Session;
use crate::signals::{TABLES, config, count_of, start, wait_until_told};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/commands.md");

/// A configuration in a file.
struct File {
    folder: Watcher,
}

impl File {
    fn of(config: &Config) -> Self {
        let file = Self { folder: Watcher::new("outboxd-signal-") };
        fs::write(file.path(), serde_json::to_vec(config).unwrap()).unwrap();
        file
    }

    fn path(&self) -> String {
        self.folder.folder().join("changes.json").display().to_string()
    }

    /// Returns exit code, standard output and standard error of `outboxd signal`.
    fn signal(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut process = Relay::command(&[&["signal"], arguments, &["-c", &self.path()]].concat());
        (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
    }
}

#[test]
fn a_snapshot_is_requested_and_the_relay_has_read_it() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, g, g from generate_series(1, 10) g");
    let file = File::of(&config(&db, &[]));
    let snapshot = ["snapshot", r"public\.[a-c]", "--filter", "id <= 4", "--id", "again-1", "--json"];

    let (exit, stdout, stderr) = file.signal(&[&snapshot[..], &["--dry-run"]].concat());
    assert!(exit == 0 && stdout.contains("execute-snapshot"), "{stdout}{stderr}");
    assert_eq!(db.query("select from signals", &[]).len(), 0);

    let relay = start(&db, &[]);
    let (exit, stdout, stderr) = file.signal(&snapshot);
    let sent: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, &sent["read"], &sent["id"]), (0, &true.into(), &"again-1".into()), "{sent} {stderr}");
    assert_eq!(sent["tables"], serde_json::json!(["public.a"]), "{sent}");
    wait_until_told(&db, "COMPLETED");
    assert_eq!(count_of(&db, "incremental"), 4);

    let (exit, _, stderr) = file.signal(&["snapshot", "public.b"]);
    assert!(
        exit == 2 && stderr.contains("\"public.b\"") && stderr.contains("name one of public.a"),
        "{stderr}"
    );
    assert_eq!(relay.stop(), 0);
    let (exit, stdout, _) = file.signal(&["pause", "--wait", "300ms"]);
    assert!(exit == 1 && stdout.contains("no relay reads replication slot"), "{stdout}");
    // The command of the message reads it.
    let (_, command) = stdout.split_once("to fix: outboxd ").unwrap();
    let relay = Relay::command(&command.split_whitespace().collect::<Vec<_>>());
    db.wait_until_streaming();
    db.wait_until_confirmed();
    let (exit, stdout, stderr) = file.signal(&["resume"]);
    assert_eq!(exit, 0, "{stdout}{stderr}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn each_signal_is_written_as_the_page_shows() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let (file, relay) = (File::of(&config(&db, &[])), start(&db, &[]));
    let names = [("changes.json", file.path()), ("public.orders", "public.a".to_owned())];
    let steps = Session::of(PAGE, "Signals to a running relay: outboxd signal").replay(&names);
    assert_eq!(steps, [0; 5]);
    relay.wait_for_stderr("reloaded");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_signal_reaches_a_relay_without_a_signalling_table() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let settings = [("signal.enabled.channels", "kafka"), ("read.only", "true")];
    kafka().create_topic(&format!("{}-signal", db.name()), 1, &[]);
    let relay = start(&db, &settings);
    let (exit, stdout, stderr) = File::of(&config(&db, &settings)).signal(&["log", "hello there"]);
    assert!(exit == 0 && stdout.contains("the relay has read it"), "{stdout}{stderr}");
    relay.wait_for_stderr("hello there");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_relay_that_reads_no_signals_is_reported_with_a_fix_that_works() {
    let db = Outbox::create_bare(postgres18(), &TABLES.replace("table signals", "table other_signals"));
    let mut without = config(&db, &[]);
    without.remove("signal.data.collection");
    let (exit, _, stderr) = File::of(&without).signal(&["pause"]);
    assert!(exit == 3 && stderr.contains("its configuration has no channel"), "{stderr}");
    let fix = stderr.split("to fix: ").nth(1).unwrap();
    let (statement, setting) = fix.split_once('\n').unwrap();
    db.execute(statement);
    let (key, value) =
        setting.trim().strip_prefix("set ").unwrap().split_once(',').unwrap().0.split_once('=').unwrap();
    let mended = with(without, &[(key, value)]);
    let (exit, stdout, stderr) = File::of(&mended).signal(&["pause", "--dry-run"]);
    assert!(exit == 0 && stdout.contains("would write pause-snapshot"), "{stdout}{stderr}");

    let outbox = Outbox::create(postgres18());
    let (exit, _, stderr) = File::of(&outbox.config(kafka())).signal(&["resume"]);
    assert!(exit == 3 && stderr.contains("an EventRouter makes its records"), "{stderr}");
}
