//! Errors with their fixes.

use serde_json::Value;

use super::service::Service;
use super::{FAILED_EXIT, OK, PRECONDITION, USAGE};

#[test]
fn tables_that_are_missing_or_of_another_version_are_named_with_the_fix() {
    let missing = Service::bare("SELECT");
    let (exit, _, stderr) = missing.run("ls", &[]);
    assert!(exit == PRECONDITION && stderr.contains("sql/inbox.sql"), "{exit} {stderr}");

    let script = include_str!("../../../sql/inbox.sql");
    let elsewhere = Service::bare(&format!(
        "CREATE SCHEMA \"Shop\"; SET search_path = \"Shop\"; {script}; RESET search_path"
    ));
    let (exit, _, stderr) = elsewhere.run("ls", &["--json"]);
    let error: Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!((exit, &error["fix"], &error["code"]), (PRECONDITION, &"--schema Shop".into(), &3.into()));
    assert_eq!(elsewhere.json("ls", &["--schema", "Shop"])["schema"], "Shop");
    assert_eq!(elsewhere.run("ls", &["--schema", "other"]).0, PRECONDITION);
    // Older tables, whose schema needs quotes.
    elsewhere.db.execute("UPDATE \"Shop\".inbox_version SET version = 2");
    let (exit, _, stderr) = elsewhere.run("ls", &["--schema", "Shop"]);
    assert_eq!(exit, PRECONDITION, "{stderr}");
    elsewhere.execute_psql(&stderr);
    assert_eq!(elsewhere.run("ls", &["--schema", "Shop"]).0, OK, "{stderr}");

    let service = Service::new();
    for (change, told) in [
        ("INSERT INTO inbox_version VALUES (99)", "have version 99"),
        ("DELETE FROM inbox_version; INSERT INTO inbox_version VALUES (2)", "have version 2"),
        ("DROP TABLE inbox_version", "have version unknown"),
    ] {
        service.db.execute(change);
        let (exit, _, stderr) = service.run("ls", &[]);
        assert!(
            exit == PRECONDITION && stderr.contains(told) && stderr.contains("to fix: "),
            "{exit} {stderr}"
        );
    }
}

#[test]
fn what_is_not_there_is_named_and_no_password_is_printed() {
    let service = Service::new();
    let unknown = ["--consumer", "paiments", "--key", "a"];
    assert!(service.run("show", &unknown).2.contains("no consumer has begun"));
    service.take("payments");
    let (exit, _, stderr) = service.run("show", &unknown);
    assert!(exit == FAILED_EXIT && stderr.contains("to fix: --consumer payments"), "{stderr}");
    let (exit, _, stderr) = service.run("skip", &["--consumer", "payments", "--id", "x", "--yes"]);
    assert!(exit == FAILED_EXIT && stderr.contains("no parked event with id x"), "{stderr}");
    for arguments in [
        &["retry", "--consumer", "payments"][..],
        &["show", "--consumer", "payments", "--all"],
        &["retry", "--consumer", "payments", "--all", "--key", "a"],
        &["forget", "--consumer", "payments"],
        &["skip", "--consumer", "payments", "--at", "orders"],
    ] {
        assert_eq!(service.run(arguments[0], &arguments[1..]).0, USAGE, "{arguments:?}");
    }
    let other = Service { url: service.url.replace("@", ":hunter2@") + "_gone", ..service };
    let (exit, stdout, stderr) = other.run("ls", &[]);
    assert!(exit != OK && !stderr.contains("hunter2") && !stdout.contains("hunter2"), "{stderr}");
}
