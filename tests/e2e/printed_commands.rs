//! Commands of outboxd that its messages print, executed in the state that prints them.

use std::fs;

use crate::printed_fixes::statements;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

/// A configuration in a file, and the commands that read it.
pub(crate) struct Desk {
    folder: Watcher,
}

impl Desk {
    pub(crate) fn of(config: &Config) -> Self {
        let desk = Self { folder: Watcher::new("outboxd-printed-") };
        fs::write(desk.file(), serde_json::to_vec(config).unwrap()).unwrap();
        desk
    }

    pub(crate) fn file(&self) -> String {
        self.folder.folder().join("outbox.json").display().to_string()
    }

    /// Returns the exit code and the whole output of a command.
    pub(crate) fn run(&self, command: &str) -> (i32, String) {
        let file = self.file();
        let arguments: Vec<_> = command.split(' ').chain(["-c", &file]).collect();
        let mut process = Relay::command(&arguments);
        (process.wait_for_exit(DEADLINE), process.stdout() + &process.stderr())
    }

    /// Runs a command that fails, and returns the fix that it prints.
    #[track_caller]
    pub(crate) fn fix(&self, command: &str) -> String {
        let (exit, said) = self.run(command);
        let (_, fix) = said.split_once("to fix: ").unwrap_or_else(|| panic!("no fix in {said}"));
        assert_ne!(exit, 0, "{said}");
        fix.to_owned()
    }

    /// Starts the command that begins with `outboxd` in this text, as it is printed.
    #[track_caller]
    pub(crate) fn start_printed(&self, text: &str) -> Relay {
        let (_, command) = text.split_once("outboxd ").unwrap();
        let file = self.file();
        let words = command.lines().next().unwrap().split_whitespace();
        let arguments: Vec<_> = words.collect();
        assert!(arguments.contains(&file.as_str()), "{text}");
        Relay::command(&arguments)
    }
}

#[test]
fn a_slot_is_made_as_the_messages_print_it() {
    let db = Outbox::create(postgres18());
    let desk = Desk::of(&db.config(kafka()));
    let fix = desk.fix("slot create");
    let publication = statements(&fix)[0].replace('…', "outbox");
    db.execute(&publication);
    assert_eq!(desk.run("slot create").0, 0);
    let fix = desk.fix("slot create");
    assert!(fix.contains(&format!("outboxd slot drop -c {}", desk.file())), "{fix}");
    assert_eq!(desk.run("slot drop --yes").0, 0);
    assert_eq!(desk.run("slot create").0, 0);
    assert!(db.slot().is_some());

    // Under another name there is none, and the list shows ours.
    let fix = desk.fix("slot drop --yes --slot other");
    let mut list = desk.start_printed(fix.split(" shows ").next().unwrap());
    assert_eq!(list.wait_for_exit(DEADLINE), 0, "{}", list.stderr());
    assert!(list.stdout().contains(db.name()), "{}", list.stdout());
}

#[test]
fn an_argument_without_a_value_is_corrected_as_printed() {
    let db = Outbox::create(postgres18());
    let desk = Desk::of(&db.config(kafka()));
    let fix = desk.fix("config show -X slot.name");
    let (exit, said) = desk.run(&format!("config show {}", fix.trim()));
    assert!(exit == 0 && said.contains("slot.name=outbox"), "{said}");
}

#[test]
fn rows_that_a_start_excludes_are_sent_by_the_command_that_is_printed() {
    let db = Outbox::create(postgres18());
    let desk = Desk::of(&with(db.config(kafka()), &[("snapshot.mode", "no_data")]));
    db.insert(&[Event::new("order", "o-1", "Made", "{}")]);
    let fix = desk.fix("status");
    assert!(fix.contains("-X snapshot.mode=initial"), "{fix}");
    let relay = desk.start_printed(&fix);
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);

    // An outbox takes no signals: its rows come again by another command.
    let fix = desk.fix("signal resume");
    assert!(fix.contains("-X snapshot.mode=always"), "{fix}");
    let relay = desk.start_printed(&fix);
    assert_eq!(kafka().read(&db.topic("order"), 2).len(), 2);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}
