//! Operations after the writers have ended: dead letters are sent again, and the service continues with another slot.

use std::fs;
use std::path::Path;

use crate::course::load;
use crate::course::trial::Trial;
use crate::plan::feature::Feature;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

/// Changes that are written while there is no slot.
const CHANGES: u32 = 40;

impl Trial<'_> {
    pub(super) fn endings(&mut self) {
        if self.site.draw.has(Feature::Replayed) || self.site.draw.has(Feature::Moved) {
            // Each record that is too large costs a session, and there may be many to come.
            let enough = ("max.message.bytes", "1048576");
            self.site.small.iter().for_each(|topic| self.world.kafka.alter_topic(topic, enough));
        }
        if self.site.draw.has(Feature::Replayed) && self.services[0].given_up.is_none() {
            self.replay();
        }
        if self.site.draw.has(Feature::Moved) && self.services[0].given_up.is_none() {
            self.move_on();
        }
    }

    /// Sends the dead letters of the outbox again, twice: the second command has nothing left to do.
    fn replay(&mut self) {
        self.recover("the writers' end");
        self.wait_until_confirmed();
        let topic = self.site.db.topic("ev");
        for _ in 0..2 {
            let (code, said) = self.command(&["dlq", "replay", "--execute", "--json", "--topic", &topic]);
            self.note(&format!("dlq replay: exit {code}"));
            // 1: some are held back, such as rows that made no event.
            if code > 1 {
                self.complaints.push(format!("replay: exit {code}: {said}"));
            }
        }
    }

    /// Ends the relay somewhere in its backlog, drops its slot, and continues as `outboxd move` instructs.
    fn move_on(&mut self) {
        self.recover("the writers' end");
        // A row that its own transaction has deleted is in no table.
        self.wait_until_confirmed();
        let transaction = |seed| load::transaction(CHANGES, 0.0, 0.0, seed);
        self.site.db.execute(&transaction(0.75));
        self.services[0].relay().kill();
        self.wait_until_free();
        self.site.db.execute(&format!("SELECT pg_drop_replication_slot('{}')", self.services[0].name));
        self.site.db.execute(&transaction(0.125));
        let folder = Watcher::new("outboxd-campaign-");
        let into = folder.folder().join("move.properties");
        let (code, said) = self.command(&["move", "cut-over", "--into", into.to_str().unwrap()]);
        self.note(&format!("move cut-over: exit {code}"));
        if code != 0 {
            self.services[0].start_again();
            return self.complaints.push(format!("move: cut-over, exit {code}: {said}"));
        }
        self.services[0].start_once(&settings(&into));
        self.recover("the move");
        let (code, said) = self.command(&["move", "verify", "--json", "--wait", "20"]);
        self.note(&format!("move verify: exit {code}"));
        if code > 1 {
            self.complaints.push(format!("move: verify, exit {code}: {said}"));
        }
        self.moved = Some(code == 0);
    }

    pub(super) fn wait_until_free(&self) {
        self.wait_until_free_of(0);
    }

    pub(super) fn wait_until_free_of(&self, number: usize) {
        let slot = &self.services[number].name;
        let sql = format!("SELECT FROM pg_replication_slots WHERE slot_name = '{slot}' AND NOT active");
        eventually(DEADLINE, "the slot is free", || {
            self.site.db.try_query(&sql).is_ok_and(|rows| !rows.is_empty())
        });
    }

    /// Runs a command with the configuration of the last process. Returns its exit code and its output.
    fn command(&self, arguments: &[&str]) -> (i32, String) {
        let folder = Watcher::new("outboxd-campaign-");
        let file = folder.folder().join("config.json");
        fs::write(&file, serde_json::to_vec(&self.config()).unwrap()).unwrap();
        let mut command = Relay::command(&[arguments, &["-c", file.to_str().unwrap()]].concat());
        let code = command.wait_for_exit(DEADLINE);
        (code, format!("{} {}", command.stdout(), command.stderr()))
    }
}

/// Reads the settings of a file that `outboxd move` has written.
fn settings(file: &Path) -> Config {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let settings: Vec<(&str, String)> = lines
        .map(|line| line.split_once('=').unwrap())
        .map(|(key, value)| (key, value.replace("\\\\", "\\")))
        .collect();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    with(Config::new(), &settings)
}
