//! `outboxd migrate`: off a poller and back, while the application writes and the poller runs.

mod connect;
mod ground;
mod poller;
mod printed;
mod shape;
mod shop;
mod taken;

use std::ops::Deref;
use std::time::Duration;

use outboxd::internals::throwaway::ThrowawayPostgres;
use serde_json::Value;

use crate::commands::session::Session;
use crate::support::kafka::kafka;
use crate::support::postgres::{postgres15, postgres18, start};
use crate::support::record::Record;
use crate::support::relay::Relay;
use crate::support::wait::{DEADLINE, eventually, let_pass};
use ground::Ground;
use poller::Poller;
use shape::{PROCESSED_AT, PUBLISHED_AT, SENT, STATUS, STATUS_AND_SENT_AT, Shape};
use shop::Shop;

/// Events that are committed between two steps.
const SOME: usize = 100;

/// A ground with a shop, whose events a poller sends until outboxd does.
struct Town {
    ground: Ground,
    shop: Shop,
}

impl Deref for Town {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl Town {
    fn build(server: &ThrowawayPostgres, shape: Shape) -> Self {
        let ground = Ground::build(server, shape);
        let shop = Shop::open(&ground.db, shape, writers());
        Self { ground, shop }
    }

    /// Returns exit code, standard output and standard error.
    fn migrate(&self, name: &str, more: &[&str]) -> (i32, String, String) {
        let mut process = self.command(name, more);
        (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
    }

    /// Goes a step; whether it is through. Each statement was shown.
    #[track_caller]
    fn step(&self, name: &str, more: &[&str]) -> bool {
        let (exit, stdout, stderr) = self.migrate(name, &[&["--json"], more].concat());
        assert_eq!(exit, 0, "migrate {name}: {stdout}{stderr}");
        let said: Value = serde_json::from_str(&stdout).unwrap();
        let is = (&said["command"], &said["from"]);
        assert_eq!(is, (&name.into(), &"poller".into()), "{said}");
        for step in said["steps"].as_array().unwrap() {
            let first = step["sql"].as_str().unwrap().lines().next().unwrap();
            assert!(stderr.contains(first), "{first} was not shown: {stderr}");
        }
        said["done"].as_bool().unwrap()
    }

    /// Starts the command and kills it, several times, each time a little later.
    fn kill_often(&self, name: &str, more: &[&str]) {
        for millis in [30, 80, 150, 300] {
            let mut process = self.command(name, more);
            let_pass(Duration::from_millis(millis));
            process.kill();
        }
    }

    fn status(&self) -> Value {
        let (_, stdout, stderr) = self.migrate("status", &["--json"]);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
    }

    /// Waits until the shop has sold more.
    fn sell(&self) {
        let wanted = self.shop.count() + SOME;
        eventually(DEADLINE, "events are written", || self.shop.count() >= wanted);
    }

    /// Closes the shop, and waits until every event has come.
    fn close(&mut self) -> Vec<Record> {
        let written = self.shop.close();
        kafka().read(&self.topic, written)
    }
}

/// Returns the number of writers, which is larger in measurements.
fn writers() -> usize {
    std::env::var("OUTBOXD_TEST_WRITERS").map_or(3, |writers| writers.parse().unwrap())
}

/// Migrates there and back; each command is killed several times.
fn there_and_back(server: &ThrowawayPostgres, shape: Shape) {
    let mut town = Town::build(server, shape);
    let poller = Poller::start(&town.db, shape, &town.topic);
    town.sell();
    let (exit, plan, stderr) = town.migrate("plan", &[]);
    assert!(exit == 0 && plan.contains("undo: DROP PUBLICATION"), "{plan}{stderr}");
    assert_eq!(town.status()["phase"], "not_begun");

    town.kill_often("start", &[]);
    assert!(town.step("start", &[]));
    town.sell();
    let relay = Relay::start(&town.config);
    town.db.wait_until_streaming();
    let status = town.status();
    let seen = (&status["phase"], &status["unsent"]["rows"], &status["attention"]);
    assert_eq!(seen, (&"drained".into(), &0.into(), &Value::Null), "{status}");
    town.sell();

    // The poller has run all the time, and continues. Another service of the database sends logical messages.
    let other = format!("{}_other", town.db.name());
    town.db.execute("CREATE PUBLICATION other");
    town.db.execute(&format!("SELECT pg_create_logical_replication_slot('{other}', 'pgoutput')"));
    town.kill_often("rollback", &["--hold", "30s"]);
    assert!(!town.step("rollback", &["--hold", "30s"]), "slot and publication are still there");
    let messages = format!(
        "SELECT FROM pg_logical_slot_peek_binary_changes('{other}', NULL, NULL, 'proto_version', '1',
            'publication_names', 'other', 'messages', 'true') WHERE get_byte(data, 0) = ascii('M')"
    );
    assert!(town.db.query(&messages, &[]).is_empty(), "it would send a message of the migration");
    town.db.execute(&format!("SELECT pg_drop_replication_slot('{other}')"));
    town.db.execute("DROP PUBLICATION other");
    town.sell();
    assert_eq!(town.status()["phase"], "returned");
    assert_eq!(relay.stop(), 0);
    assert!(town.step("rollback", &[]));
    assert_eq!(town.db.leftovers(), Vec::<String>::new());
    town.sell();
    let records = town.close();
    poller.stop();
    town.shop.check(&records).is_whole();
}

/// Migrates there, for good.
fn there(server: &ThrowawayPostgres, shape: Shape) {
    let mut town = Town::build(server, shape);
    let poller = Poller::start(&town.db, shape, &town.topic);
    town.sell();
    town.step("start", &[]);
    let relay = Relay::start(&town.config);
    town.db.wait_until_streaming();
    town.sell();
    let (exit, _, stderr) = town.migrate("finish", &["--yes"]);
    let seen = stderr.contains("a session looks for rows") || stderr.contains("a poller may still run");
    assert!(exit == 3 && seen, "{stderr}");
    poller.stop();
    let (exit, _, stderr) = town.migrate("finish", &["--yes", "--poller-is-stopped"]);
    assert!(exit == 3 && stderr.contains("is read by pid"), "{stderr}");
    assert_eq!(relay.stop(), 0);
    let (exit, stdout, stderr) = town.migrate("finish", &["--poller-is-stopped", "--json"]);
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (exit, &said["done"], &said["steps"]),
        (1, &false.into(), &Value::Array(Vec::new())),
        "{stderr}"
    );
    town.kill_often("finish", &["--yes", "--poller-is-stopped"]);
    town.step("finish", &["--yes", "--poller-is-stopped"]);
    assert_eq!(town.status()["phase"], "finished");
    let relay = Relay::start(&town.config);
    town.sell();
    let records = town.close();
    assert_eq!(relay.stop(), 0);
    town.shop.check(&records).is_whole();
    let marked = format!("SELECT count(*) FROM {} WHERE {}", shape.table, shape.unsent);
    assert!(town.db.query(&marked, &[])[0].get::<_, i64>(0) > 0, "rows have no mark any more");
}

#[test]
fn a_poller_of_published_at_hands_over_and_takes_back() {
    there_and_back(postgres18(), PUBLISHED_AT);
}

#[test]
fn a_poller_of_sent_hands_over_for_good() {
    there(postgres15(), SENT);
}

/// A row that is never marked: the poller is slow. Rows that the application writes after the change wait for it.
#[test]
fn outboxd_does_not_overtake_a_poller() {
    let ground = Ground::build(postgres15(), STATUS);
    ground.insert("42");
    let mut start = ground.command("start", &[]);
    start.wait_for_stderr("1 row of its own to send");
    ground.insert("42");
    let mut early = Relay::start(&ground.config);
    assert_eq!(early.wait_for_exit(DEADLINE), 3, "{}", early.stderr());
    assert!(early.stderr().contains("the poller still has rows to send"), "{}", early.stderr());
    let mut back = ground.command("rollback", &[]);
    assert_eq!(back.wait_for_exit(DEADLINE), 3, "{}", back.stderr());

    ground.mark();
    assert_eq!(start.wait_for_exit(DEADLINE), 0, "{}", start.stderr());
    let relay = Relay::start(&ground.config);
    assert_eq!(kafka().read(&ground.topic, 1).len(), 1, "the row of the poller is not outboxd's");
    assert_eq!(relay.stop(), 0);
    let mut back = ground.command("rollback", &[]);
    assert!(
        back.wait_for_exit(DEADLINE) == 3 && back.stderr().contains("no client reads"),
        "{}",
        back.stderr()
    );
}

/// The rows of the lost slot are outboxd's: the poller skips them, and another slot does not have them.
#[test]
fn a_start_does_not_continue_with_another_slot() {
    let ground = Ground::build(postgres15(), STATUS);
    let db = &ground.db;
    ground.insert("42");
    let mut first = ground.command("start", &[]);
    first.wait_for_stderr("1 row of its own to send");
    first.kill();
    ground.insert("42");
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
    ground.mark();
    let mut said = String::new();
    for name in ["plan", "start"] {
        let mut again = ground.command(name, &[]);
        assert_eq!(again.wait_for_exit(DEADLINE), 7, "{name}: {}{}", again.stdout(), again.stderr());
        said = again.stderr();
        assert!(said.contains("is gone or lost"), "{name}: {said}");
    }
    assert!(db.slot().is_none());

    // The commands of the message, in their order: the last one sends all rows of the table.
    let commands: Vec<Vec<&str>> = said
        .split("outboxd ")
        .skip(1)
        .map(|text| text.split([';', '\n']).next().unwrap().split_whitespace().collect())
        .collect();
    let [create, again, run] = &commands[..] else { panic!("{said}") };
    for command in [create, &[&again[..], ground.shape.arguments].concat()] {
        let mut process = Relay::command(command);
        assert_eq!(
            process.wait_for_exit(DEADLINE),
            0,
            "{command:?}: {}{}",
            process.stdout(),
            process.stderr()
        );
    }
    let relay = Relay::command(run);
    kafka().read(&ground.topic, 2);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_slot_whose_creation_was_given_up_is_created() {
    // Of its own: no other transaction is waited for.
    let server = start(15);
    let ground = Ground::build(&server, STATUS);
    let start = || ground.command("start", &[]);
    let other = crate::support::session::Session::new(ground.db.address().clone());
    other.execute("BEGIN");
    let pid: i32 = other.query("SELECT pg_backend_pid(), pg_current_xact_id()::text", &[])[0].get(0);
    let waiting = format!("waiting for the transaction of pid {pid}");
    let mut first = start();
    first.wait_for_stderr(&waiting);
    first.kill();
    let mut second = start();
    second.wait_for_stderr(&waiting);
    ground.db.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots");
    second.wait_for_stderr("SELECT pg_create_logical_replication_slot");
    other.execute("COMMIT");
    assert_eq!(second.wait_for_exit(DEADLINE), 0, "{}", second.stderr());
}

/// The time is set when a row was sent, but the poller reads by the status: with the wrong mark, both would send every event.
#[test]
fn a_poller_that_reads_by_another_column_stops_the_migration() {
    let mut town = Town::build(postgres18(), STATUS_AND_SENT_AT);
    let (exit, _, stderr) = town.migrate("plan", &[]);
    assert!(
        exit == 2 && stderr.contains("may be the mark of a row that the poller has sent: status, sent_at"),
        "{stderr}"
    );
    town.db.execute("CREATE INDEX ON outbox (created_at) WHERE status = 'NEW'");
    let (_, _, stderr) = town.migrate("plan", &[]);
    assert!(stderr.contains("--mark status=PUBLISHED, the column of a partial index"), "{stderr}");

    let poller = Poller::start(&town.db, STATUS_AND_SENT_AT, &town.topic);
    town.sell();
    let (exit, _, stderr) = town.migrate("start", &["--mark", "sent_at"]);
    assert!(exit == 3 && stderr.contains("reads by another column, such as status"), "{stderr}");
    assert!(stderr.contains("--poller-sends-all") && stderr.contains("--mark status=PUBLISHED"), "{stderr}");
    let mut early = Relay::start(&town.config);
    assert_eq!(early.wait_for_exit(DEADLINE), 3, "{}", early.stderr());

    // What the message prints.
    let (exit, _, stderr) = town.migrate("rollback", &["--poller-sends-all"]);
    assert_eq!((exit, town.db.leftovers()), (0, Vec::new()), "{stderr}");
    let counters = "SELECT count(*) FROM pg_class WHERE relname LIKE 'outboxd_migrate_%'";
    assert_eq!(town.db.query(counters, &[])[0].get::<_, i64>(0), 0);
    town.sell();
    assert!(town.step("start", &["--mark", "status=SENT"]));
    let relay = Relay::start(&town.config);
    town.db.wait_until_streaming();
    town.sell();
    assert_eq!(town.status()["attention"], Value::Null);
    let records = town.close();
    poller.stop();
    assert_eq!(relay.stop(), 0);
    town.shop.check(&records).is_whole();
}

/// A poller that is slow marks rows only when `start` is through.
#[test]
fn rows_that_are_marked_after_the_start_are_reported() {
    let ground = Ground::build(postgres15(), STATUS_AND_SENT_AT);
    let run = |name: &str, more: &[&str]| {
        let mut process = ground.command(name, more);
        (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
    };
    assert_eq!(run("start", &["--mark", "sent_at"]).0, 0);
    let (exit, _, stderr) = run("rollback", &["--poller-sends-all"]);
    assert!(exit == 3 && stderr.contains("the poller does not send them"), "{stderr}");
    ground.insert("42");
    ground.mark();
    let (exit, stdout, _) = run("status", &[]);
    assert!(exit == 1 && stdout.contains("✗ a program still marks rows of table public.outbox"), "{stdout}");
    for name in ["start", "finish"] {
        let (exit, _, stderr) = run(name, &[]);
        assert!(exit == 3 && stderr.contains("still marks rows"), "{name}: {stderr}");
    }
    assert_eq!(run("rollback", &["--poller-sends-all"]).0, 0);
    assert_eq!(ground.db.leftovers(), Vec::<String>::new());
}

#[test]
#[ignore = "the other shapes and servers: some minutes"]
fn every_poller_on_every_server() {
    for server in [postgres15(), postgres18()] {
        for shape in [PUBLISHED_AT, PROCESSED_AT, SENT, STATUS] {
            println!("{} there and back", shape.name);
            there_and_back(server, shape);
            println!("{} there", shape.name);
            there(server, shape);
        }
    }
}

const PAGE: &str = include_str!("../../docs/migrate/from-a-poller.md");

#[test]
fn the_sessions_are_what_is_seen() {
    // A server of its own: with transactions of other tests there, the commands report that they wait for them.
    let server = start(18);
    let ground = Ground::build(&server, PROCESSED_AT);
    let Ground { db, topic, config, .. } = &ground;
    let names = [("outbox.json", ground.file()), ("orders", db.name().to_owned())];
    let session = |heading: &str| Session::of(PAGE, heading).replay(&names);

    assert_eq!(session("Switch to outboxd"), [0, 0]);
    ground.insert("42");
    let relay = Relay::start(config);
    db.wait_until_streaming();
    kafka().read(topic, 1);
    db.wait_until_confirmed();
    assert_eq!(session("Progress"), [0]);
    assert_eq!(session("Switch back"), [0]);
    assert_eq!(relay.stop(), 0);
    assert_eq!(session("After switching back"), [0]);

    // There was a slot of this name: the command prints the setting that the start needs.
    let mut start = ground.command("start", &[]);
    assert_eq!(start.wait_for_exit(DEADLINE), 0, "{}", start.stderr());
    let said = start.stderr();
    let accept = said.split_whitespace().find(|word| word.starts_with("outboxd.position.accept=")).unwrap();
    ground.insert("43");
    let relay = Relay::start_with(config, &["-X", accept], &[]);
    kafka().read(topic, 2);
    assert_eq!(relay.stop(), 0);
    // No query of ours may be taken for a poller's.
    db.disconnect();
    assert_eq!(session("Finish the migration"), [0]);
    ground.insert("44");
    let relay = Relay::start(config);
    kafka().read(topic, 3);
    assert_eq!(relay.stop(), 0);
}
