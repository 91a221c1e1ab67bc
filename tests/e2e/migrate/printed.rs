//! Fixes that `outboxd migrate` prints, executed in the state that prints them.

use serde_json::Value;

use super::ground::Ground;
use super::shape::STATUS;
use crate::printed_fixes::statements;
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;
use crate::support::wait::DEADLINE;

/// Runs a command, and returns its exit code and everything that it prints.
fn run(ground: &Ground, name: &str, more: &[&str]) -> (i32, String) {
    let mut process = ground.command(name, more);
    (process.wait_for_exit(DEADLINE), process.stdout() + &process.stderr())
}

/// Runs the command of outboxd in a text as it is printed, with further arguments.
#[track_caller]
fn run_printed(text: &str, more: &[&str]) {
    let arguments = [&printed_arguments(text)[..], more].concat();
    let mut process = Relay::command(&arguments);
    assert_eq!(process.wait_for_exit(DEADLINE), 0, "{arguments:?}: {}{}", process.stdout(), process.stderr());
}

/// Returns the arguments of the last command of outboxd in a text.
#[track_caller]
fn printed_arguments(text: &str) -> Vec<&str> {
    let (_, command) = text.rsplit_once("outboxd ").unwrap_or_else(|| panic!("no command in {text}"));
    command.split([';', '\n', '"']).next().unwrap().split_whitespace().collect()
}

#[test]
fn a_publication_and_a_slot_of_another_program_are_dropped_as_printed() {
    let ground = Ground::build(postgres18(), STATUS);
    let (db, name) = (&ground.db, ground.db.name());
    let make_slot = format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')");
    db.execute(&format!("CREATE PUBLICATION {name} FOR ALL TABLES"));
    db.execute(&make_slot);
    let (exit, said) = run(&ground, "start", &[]);
    assert_eq!(exit, 3, "{said}");
    let dropped = statements(&said);
    assert_eq!(dropped.len(), 1, "{said}");
    db.execute(&dropped[0]);
    run_printed(said.split_once("to fix:").unwrap().1, &["--yes"]);
    assert_eq!(db.leftovers(), Vec::<String>::new());

    // A slot alone.
    db.execute(&make_slot);
    let (exit, said) = run(&ground, "start", &[]);
    assert_eq!(exit, 3, "{said}");
    run_printed(said.split_once("to fix:").unwrap().1, &["--yes"]);
    let (exit, said) = run(&ground, "start", &[]);
    assert_eq!(exit, 0, "{said}");
}

#[test]
fn a_trigger_that_another_program_has_changed_is_restored_as_printed() {
    let ground = Ground::build(postgres18(), STATUS);
    let db = &ground.db;
    let (exit, said) = run(&ground, "start", &[]);
    assert_eq!(exit, 0, "{said}");
    let attention = || -> Value {
        let mut status = ground.command("status", &["--json"]);
        status.wait_for_exit(DEADLINE);
        serde_json::from_str::<Value>(&status.stdout()).unwrap()["attention"].take()
    };
    // No program sends yet: the command of the message changes that.
    let fix = attention();
    let relay = Relay::command(&printed_arguments(fix.as_str().unwrap()));
    db.wait_until_streaming();
    assert_eq!(attention(), Value::Null);
    db.execute("ALTER TABLE outbox DISABLE TRIGGER ALL");
    let fix = attention();
    let enable = statements(fix.as_str().unwrap());
    assert_eq!(enable.len(), 1, "{fix}");
    db.execute(&enable[0]);
    assert_eq!(attention(), Value::Null);

    db.execute("DROP TRIGGER zz_outboxd_migrate ON outbox");
    let fix = attention();
    run_printed(fix.as_str().unwrap(), &[]);
    assert_eq!(attention(), Value::Null);
    assert_eq!(relay.stop(), 0);
}
