//! `outboxd migrate --from-slot`: off another program's slot and back. The other program is an outboxd that keeps no position.

use std::fs;

use outboxd::internals::throwaway::ThrowawayPostgres;

use crate::commands::session::Session;
use crate::printed_fixes::statements;
use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18, start};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../../docs/migrate/from-another-slot.md");

const BACKLOG: Backlog = Backlog { key_count: 20 };

/// An outbox that another program reads, and a configuration for outboxd.
struct Shared {
    db: Outbox,
    topic: String,
    /// The other program's slot, and its configuration.
    theirs: String,
    other: Config,
    config: Config,
    folder: Watcher,
}

impl Shared {
    fn build(server: &ThrowawayPostgres) -> Self {
        let db = Outbox::create(server);
        let topic = db.topic(Backlog::TYPE);
        let theirs = format!("{}_sequin", db.name());
        let other = with(
            db.config(kafka()),
            &[("slot.name", &theirs), ("outboxd.position.topic", ""), ("publication.name", "sequin_pub")],
        );
        // As `start` prints it: the rows that are there are the other program's.
        let config =
            with(db.config(kafka()), &[("publication.name", "sequin_pub"), ("snapshot.mode", "no_data")]);
        let folder = Watcher::new("outboxd-migrate-");
        let shared = Self { db, topic, theirs, other, config, folder };
        fs::write(shared.file(), serde_json::to_vec(&shared.config).unwrap()).unwrap();
        shared
    }

    fn file(&self) -> String {
        self.folder.folder().join("outbox.json").display().to_string()
    }

    fn migrate(&self, command: &str) -> Relay {
        Relay::command(&["migrate", command, "-c", &self.file(), "--from-slot", &self.theirs])
    }

    /// Runs a command that must be refused, and returns its message.
    #[track_caller]
    fn refused(&self, command: &str, why: &str) -> String {
        let mut process = self.migrate(command);
        let exit = process.wait_for_exit(DEADLINE);
        let stderr = process.stderr();
        assert!(exit == 3 && stderr.contains(why), "{command}: {stderr}");
        stderr
    }

    /// Runs a command that must succeed, and returns its message.
    #[track_caller]
    fn done(&self, command: &str) -> String {
        let mut process = self.migrate(command);
        assert_eq!(process.wait_for_exit(DEADLINE), 0, "{command}: {}", process.stderr());
        process.stderr()
    }

    fn session(&self, heading: &str) -> Vec<i32> {
        let names = [
            ("outbox.json", self.file()),
            ("sequin_slot", self.theirs.clone()),
            ("orders", self.db.name().to_owned()),
        ];
        Session::of(PAGE, heading).replay(&names)
    }

    /// Starts the other program.
    fn start_other(&self) -> Relay {
        let relay = Relay::start(&self.other);
        let sql = "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active";
        eventually(DEADLINE, "the other program reads", || !self.db.query(sql, &[&self.theirs]).is_empty());
        relay
    }

    fn start(&self) -> Relay {
        let relay = Relay::start(&self.config);
        // A stop before that leaves the end of the run before as it was.
        relay.wait_for_stderr("\"to\":\"streaming\"");
        relay
    }

    fn kill(&self, mut relay: Relay) {
        relay.kill();
        eventually(DEADLINE, "nobody has the slot", || self.db.slot().is_some_and(|slot| !slot.active));
    }
}

#[test]
fn another_programs_slot_is_taken_over_and_given_back() {
    for server in [postgres15(), postgres18()] {
        let shared = Shared::build(server);
        let Shared { db, topic, theirs, config, .. } = &shared;
        shared.refused("start", "there is no replication slot");
        let relay = shared.start_other();
        BACKLOG.insert(db, 0..500, 10);
        kafka().read(topic, 500);
        shared.refused("start", "is read by pid");
        assert_eq!(relay.stop(), 0);
        BACKLOG.insert(db, 500..600, 10);

        assert_eq!(shared.session("Switch to outboxd"), [0, 0]);
        let relay = shared.start();
        BACKLOG.insert(db, 600..700, 10);
        kafka().read(topic, 700);
        assert_eq!(shared.session("Progress"), [0]);
        shared.refused("rollback", "is read by pid");
        assert_eq!(relay.stop(), 0);
        shared.refused("start", "is past that");
        // A slip of the pen is not the end of a migration.
        let file = shared.file();
        let arguments = ["migrate", "plan", "-c", &file, "--from-slot", "sequim_slot"];
        let mut slip = Relay::command(&arguments);
        let (exit, said) = (slip.wait_for_exit(DEADLINE), slip.stderr());
        assert!(
            exit == 3 && said.contains("no replication slot \"sequim_slot\"") && said.contains(theirs),
            "{said}"
        );

        assert_eq!(shared.session("Switch back"), [0]);
        let relay = shared.start_other();
        BACKLOG.insert(db, 700..800, 10);
        kafka().read(topic, 800);
        assert_eq!(relay.stop(), 0);

        // And for good. There was a slot of this name: the command prints the setting that the start needs.
        let said = shared.done("start");
        let accept = said.split_whitespace().find(|word| word.starts_with("outboxd.position.accept="));
        let relay = Relay::start_with(config, &["-X", accept.unwrap()], &[]);
        db.wait_until_streaming();
        BACKLOG.insert(db, 800..900, 10);
        let records = kafka().read(topic, 900);
        let mut nobody_agrees = shared.migrate("finish");
        assert_eq!(nobody_agrees.wait_for_exit(DEADLINE), 1, "{}", nobody_agrees.stderr());
        assert!(db.leftovers().contains(&format!("slot {theirs}")));
        assert_eq!(shared.session("Finish the migration"), [0]);
        assert!(!db.leftovers().contains(&format!("slot {theirs}")));
        assert_eq!(relay.stop(), 0);
        assert_eq!(BACKLOG.check(&records, 0..900), 0, "repeats");
    }
}

/// Its rows are read by the plugin of the copy.
#[test]
fn a_slot_of_another_plugin_is_copied_as_printed() {
    let mut shared = Shared::build(postgres18());
    shared.db.execute("CREATE PUBLICATION sequin_pub FOR TABLE outbox WITH (publish = 'insert')");
    let make = format!("SELECT pg_create_logical_replication_slot('{}', 'test_decoding')", shared.theirs);
    shared.db.execute(&make);
    BACKLOG.insert(&shared.db, 0..100, 10);
    let fix = shared.refused("start", "to fix:");
    let copy = statements(&fix);
    assert_eq!(copy.len(), 1, "{fix}");
    shared.db.execute(&copy[0]);
    shared.theirs = fix.rsplit_once("--from-slot ").unwrap().1.trim().to_owned();
    shared.done("start");
    let relay = shared.start();
    assert_eq!(BACKLOG.check(&kafka().read(&shared.topic, 100), 0..100), 0, "repeats");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_slot_is_not_given_back_behind_a_crash() {
    // No other client writes to its WAL: a run may find nothing to do.
    let server = start(18);
    let shared = Shared::build(&server);
    let Shared { db, topic, theirs, .. } = &shared;
    let other = shared.start_other();
    BACKLOG.insert(db, 0..100, 10);
    kafka().read(topic, 100);
    assert_eq!(other.stop(), 0);
    shared.done("start");
    let relay = shared.start();
    BACKLOG.insert(db, 100..150, 10);
    db.wait_until_confirmed();
    BACKLOG.insert(db, 150..200, 10);
    kafka().read(topic, 200);
    shared.kill(relay);
    let said = shared.refused("rollback", "outboxd has not ended cleanly");
    // What is typed by whom repeats do not matter to.
    for statement in ["SELECT pg_replication_slot_advance('", "SELECT pg_drop_replication_slot('"] {
        assert!(said.contains(statement), "{said}");
    }
    assert!(db.slot().is_some() && db.leftovers().contains(&format!("slot {theirs}")));

    // The way that the message describes. This relay may repeat records; the other program may not.
    let caught_up = || {
        let relay = shared.start();
        db.wait_until_confirmed();
        relay
    };
    assert_eq!(caught_up().stop(), 0);
    shared.kill(caught_up());
    shared.refused("rollback", "outboxd has not ended cleanly");
    assert_eq!(caught_up().stop(), 0);
    let count = || kafka().records_of_prefix(topic).len();
    let before = count();
    let said = shared.done("rollback");
    assert!(!said.contains("is not known"), "{said}");
    let other = shared.start_other();
    BACKLOG.insert(db, 200..300, 10);
    kafka().read(topic, before + 100);
    assert_eq!(other.stop(), 0);
    let records = kafka().records_of_prefix(topic);
    assert_eq!(records.len(), before + 100, "the other program has sent what outboxd had");
    BACKLOG.check(&records, 0..300);
}

#[test]
fn without_a_stored_position_a_warning_precedes_giving_back_a_slot() {
    let server = start(18);
    let mut shared = Shared::build(&server);
    shared.config = with(shared.config, &[("outboxd.position.topic", "")]);
    fs::write(shared.file(), serde_json::to_vec(&shared.config).unwrap()).unwrap();
    assert_eq!(shared.start_other().stop(), 0);
    shared.done("start");
    assert_eq!(shared.start().stop(), 0);
    let said = shared.done("rollback");
    let (told, done) = (said.find("the exit code of outboxd is unknown"), said.find("is dropped"));
    assert!(told.is_some() && told < done, "{said}");
}
