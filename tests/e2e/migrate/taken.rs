//! `outboxd migrate --from-slot`: off another program's slot and back. The other program is an outboxd that keeps no position.

use std::fs;

use crate::commands::session::Session;
use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../../docs/migrate/from-another-slot.md");

const BACKLOG: Backlog = Backlog { key_count: 20 };

#[test]
fn another_programs_slot_is_taken_over_and_given_back() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let topic = db.topic(Backlog::TYPE);
        let theirs = format!("{}_sequin", db.name());
        let other = with(
            db.config(kafka()),
            &[("slot.name", &theirs), ("outboxd.position.topic", ""), ("publication.name", "sequin_pub")],
        );
        let config = with(db.config(kafka()), &[("publication.name", "sequin_pub")]);
        let folder = Watcher::new("outboxd-migrate-");
        let file = folder.folder().join("outbox.json").display().to_string();
        fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
        let names = [
            ("outbox.json", file.clone()),
            ("sequin_slot", theirs.clone()),
            ("orders", db.name().to_owned()),
        ];
        let session = |heading: &str| Session::of(PAGE, heading).replay(&names);
        let refused = |command: &str, why: &str| {
            let arguments = ["migrate", command, "-c", &file, "--from-slot", &theirs];
            let mut process = Relay::command(&arguments);
            let exit = process.wait_for_exit(DEADLINE);
            assert!(exit == 3 && process.stderr().contains(why), "{command}: {}", process.stderr());
        };
        let is_read = |slot: &str| {
            let sql = "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active";
            !db.query(sql, &[&slot]).is_empty()
        };

        refused("start", "there is no replication slot");
        let relay = Relay::start(&other);
        eventually(DEADLINE, "the other program reads", || is_read(&theirs));
        BACKLOG.insert(&db, 0..500, 10);
        kafka().read(&topic, 500);
        refused("start", "is read by pid");
        assert_eq!(relay.stop(), 0);
        BACKLOG.insert(&db, 500..600, 10);

        assert_eq!(session("There"), [0, 0]);
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        BACKLOG.insert(&db, 600..700, 10);
        kafka().read(&topic, 700);
        assert_eq!(session("How far is it?"), [0]);
        refused("rollback", "is read by pid");
        assert_eq!(relay.stop(), 0);
        refused("start", "is past that");

        assert_eq!(session("Back"), [0]);
        let relay = Relay::start(&other);
        BACKLOG.insert(&db, 700..800, 10);
        kafka().read(&topic, 800);
        assert_eq!(relay.stop(), 0);

        // And for good. There was a slot of this name: the command says what the start must be told.
        let mut start = Relay::command(&["migrate", "start", "-c", &file, "--from-slot", &theirs]);
        assert_eq!(start.wait_for_exit(DEADLINE), 0, "{}", start.stderr());
        let said = start.stderr();
        let accept = said.split_whitespace().find(|word| word.starts_with("outboxd.position.accept="));
        let relay = Relay::start_with(&config, &["-X", accept.unwrap()], &[]);
        db.wait_until_streaming();
        BACKLOG.insert(&db, 800..900, 10);
        let records = kafka().read(&topic, 900);
        let mut nobody_agrees = Relay::command(&["migrate", "finish", "-c", &file, "--from-slot", &theirs]);
        assert_eq!(nobody_agrees.wait_for_exit(DEADLINE), 1, "{}", nobody_agrees.stderr());
        assert!(db.leftovers().contains(&format!("slot {theirs}")));
        assert_eq!(session("For good"), [0]);
        assert!(!db.leftovers().contains(&format!("slot {theirs}")));
        assert_eq!(relay.stop(), 0);
        assert_eq!(BACKLOG.check(&records, 0..900), 0, "repeats");
    }
}
