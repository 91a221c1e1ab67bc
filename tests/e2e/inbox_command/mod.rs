//! `outboxd inbox` on the tables of a service. Beside running consumers it is tested in inbox/tests/e2e/operator.rs.

mod mistakes;
mod numbers;
mod service;

use serde_json::{Value, json};

use crate::commands::session::Session;
use crate::dlq::letters::{Dlq, outboxd};
use crate::printed_fixes::statements;
use crate::support::kafka::kafka;
use crate::support::relay::Relay;
use crate::support::wait::{DEADLINE, eventually};
use service::{FAILED, Service};

const OK: i32 = 0;
const FAILED_EXIT: i32 = 1;
const USAGE: i32 = 2;
const PRECONDITION: i32 = 3;

const PAGE: &str = include_str!("../../../docs/commands.md");

#[test]
fn the_session_of_the_docs_is_what_is_seen() {
    let service = Service::new();
    let (partition, _) = service.take("payments");
    service.park(partition, 118, "42", "3dd3e317", FAILED);
    service.park(partition, 120, "42", "77a0f5c1", "attempts = 0");
    service.park(partition, 119, "7", "9b6a1f60", "is_dead = true");
    service.park(partition, 121, "7", "c2d41e08", "attempts = 0");
    service.park(partition, 130, "7", "9b6a1f60", "attempts = 0");
    let (partition, _) = service.take("ledger");
    service.park(partition, 40, "9", "5f1e0a77", "number = 6");
    service.db.execute(
        "UPDATE inbox_partition SET next_offset = 131; INSERT INTO inbox_sequence VALUES ('ledger', 'orders', '9', 5, 1); \
         INSERT INTO inbox_message (consumer, source, message_id) VALUES ('payments', 'orders', 'e4c1b9d2')",
    );
    let names = [("postgresql://shop@db/shop", service.url.clone())];
    let exits = Session::of(PAGE, "Parked events of consumers: outboxd inbox").replay(&names);
    assert_eq!(exits, [OK; 8]);
    assert_eq!(service.parked(), ["119 9b6a1f60", "120 77a0f5c1", "121 c2d41e08", "40 5f1e0a77"]);
}

#[test]
fn partitions_keys_and_numbers_are_listed_without_payload() {
    let service = Service::new();
    let (partition, epoch) = service.take("payments");
    service.park(partition, 7, "a", "e-7", FAILED);
    service.park(partition, 9, "a", "e-9", "attempts = 0");
    service.park(partition, 8, "b", "e-8", "is_dead = true");
    service.park(
        partition,
        10,
        "c",
        "e-10",
        "begun = 3, attempts = 1, not_before = now() + interval '1 minute'",
    );
    service.take("other");
    let listing = service.json("ls", &["--consumer", "payments"]);
    let [seen] = listing["partitions"].as_array().unwrap().as_slice() else { panic!("{listing}") };
    assert_eq!(
        (&seen["consumer"], &seen["group"], &seen["epoch"]),
        (&"payments".into(), &"payments".into(), &epoch.into())
    );
    let expected = json!({ "total": 4, "dead_letter": 1, "missing_number": 0, "crash": 1, "retry": 1 });
    assert_eq!((&seen["parked"], &seen["blocked_keys"]), (&expected, &3.into()));
    assert_eq!(seen["oldest"], json!(1_795_171_267_000_i64));
    let keys = listing["blocked_keys"].as_array().unwrap();
    let of = |key: &str| keys.iter().find(|found| found["key"] == key).unwrap();
    assert_eq!(
        (&of("a")["reason"], &of("a")["events"], &of("a")["at"]),
        (&"retry".into(), &2.into(), &"orders:0:7".into())
    );
    assert_eq!((&of("b")["reason"], &of("c")["reason"]), (&"dead_letter".into(), &"crash".into()));
    assert_eq!(service.json("ls", &[])["partitions"].as_array().unwrap().len(), 2);
    let (exit, text, _) = service.run("ls", &["--keys", "1"]);
    assert!(exit == OK && text.contains("and 2 more blocked keys"), "{text}");

    let [by_key, by_id, by_place] = [["--key", "a"], ["--id", "e-9"], ["--at", "orders:0:7"]];
    for (which, count) in [(by_key, 2), (by_id, 1), (by_place, 1)] {
        let arguments = [&["--consumer", "payments"][..], &which].concat();
        let page = service.json("show", &arguments);
        assert_eq!(page["events"].as_array().unwrap().len(), count, "{page}");
        assert_eq!(page["events"][0]["headers"], json!(["id", "trace"]));
        let (exit, text, _) = service.run("show", &arguments);
        assert!(exit == OK && text.contains("(--value shows them)"), "{text}");
        for shown in [&text, &page.to_string(), &listing.to_string()] {
            assert!(!shown.contains("secret"), "{shown}");
        }
        let page = service.json("show", &[&arguments[..], &["--value"]].concat());
        assert_eq!(page["events"][0]["headers"][1], json!(["trace", "secret"]));
        assert!(page["events"][0]["value"].as_str().unwrap().contains("secret"), "{page}");
    }
}

#[test]
fn what_waits_for_something_else_is_unchanged() {
    let service = Service::new();
    let (partition, epoch) = service.take("payments");
    service.park(partition, 7, "a", "e-7", "is_dead = true");
    service.park(partition, 8, "a", "e-8", "attempts = 0");
    service.park(partition, 9, "b", "e-9", "number = 4");
    let all = ["--consumer", "payments", "--all", "--yes", "--json"];
    let (exit, stdout, stderr) = service.run("retry", &all);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, &report["changed"]), (FAILED_EXIT, &json!([])), "{stderr}");
    let reasons = ["dead_letter", "missing_number", "behind"];
    let seen: Vec<_> =
        report["unchanged"].as_array().unwrap().iter().map(|unchanged| &unchanged["reason"]).collect();
    assert_eq!(seen, reasons);
    let (exit, text, _) = service.run("release", &["--consumer", "payments", "--key", "b"]);
    assert!(exit == FAILED_EXIT && text.contains("would release 0 events"), "{text}");
    let (exit, _, stderr) = service.run("skip", &["--consumer", "payments", "--key", "a"]);
    assert_eq!(exit, FAILED_EXIT, "{stderr}");
    assert_eq!(service.number("SELECT epoch FROM inbox_partition"), Some(epoch), "nothing has changed");
    replay_as_printed(&stderr);
    let (_, printed) = stderr.split_once("outboxd inbox release ").unwrap();
    let (printed, _) = printed.split_once(" lets its key continue").unwrap();
    let printed: Vec<&str> = printed.split(' ').collect();
    assert_eq!(service.run("release", &printed).0, OK, "as the message prints it");
}

#[test]
fn nothing_changes_without_yes_and_a_retry_takes_the_partition() {
    let service = Service::new();
    let (partition, epoch) = service.take("payments");
    service.park(partition, 7, "a", "e-7", FAILED);
    let due = "SELECT count(*) FROM inbox_parked WHERE not_before <= now()";
    let all = ["--consumer", "payments", "--all"];
    for command in ["retry", "skip"] {
        let which = if command == "skip" { &["--consumer", "payments", "--key", "a"][..] } else { &all };
        let (exit, text, _) = service.run(command, which);
        assert!(exit == OK && text.ends_with("nothing was changed: run again with --yes\n"), "{text}");
    }
    assert_eq!((service.number(due), service.parked().len()), (Some(0), 1));
    assert_eq!(service.run("retry", &[&all[..], &["--yes"]].concat()).0, OK);
    assert_eq!(service.number(due), Some(1));
    let is_held = &service.db.query("SELECT inbox_enter($1, $2)", &[&partition, &epoch])[0];
    assert!(!is_held.get::<_, bool>(0), "the consumer takes the partition again");
}

/// Invariant: a retry of an event that is due already does not undo the attempt that is in progress.
#[test]
fn a_second_retry_leaves_an_attempt_in_progress_alone() {
    let service = Service::new();
    let (partition, epoch) = service.take("payments");
    service.park(partition, 7, "a", "e-7", FAILED);
    let seen = || service.number("SELECT epoch FROM inbox_partition").unwrap();
    let all = ["--consumer", "payments", "--all", "--yes"];
    for raised in 1..=2 {
        assert_eq!(service.run("retry", &all).0, OK);
        assert_eq!(seen(), epoch + raised, "nothing is in progress: the consumer reads the table again");
    }
    let handler = crate::support::session::Session::new(service.db.address().clone());
    handler.execute(&format!("BEGIN; SELECT inbox_enter({partition}, {epoch})"));
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    std::thread::scope(|scope| {
        let retry = scope.spawn(|| service.run("retry", &all));
        eventually(DEADLINE, "the command waits", || service.number(waiting) == Some(1));
        handler.execute("ROLLBACK");
        assert_eq!(retry.join().unwrap().0, OK);
    });
    assert_eq!(seen(), epoch + 2);
}

#[test]
fn an_open_transaction_is_waited_for_and_named() {
    let service = Service::new();
    let (partition, epoch) = service.take("payments");
    service.park(partition, 7, "a", "e-7", FAILED);
    let handler = crate::support::session::Session::new(service.db.address().clone());
    handler.execute(&format!("BEGIN; SELECT inbox_enter({partition}, {epoch})"));
    let pid = handler.query("SELECT pg_backend_pid()", &[])[0].get::<_, i32>(0);
    let all = ["--consumer", "payments", "--all", "--yes"];
    let (exit, _, stderr) = service.run("retry", &all);
    assert_eq!(exit, FAILED_EXIT, "{stderr}");
    assert!(
        stderr.contains("orders:0 is in use") && stderr.contains(&format!("pg_terminate_backend({pid})")),
        "{stderr}"
    );
    let end = statements(&stderr);
    service.db.execute(end.iter().find(|statement| statement.contains("pg_terminate_backend")).unwrap());
    assert_eq!(service.run("retry", &all).0, OK);
}

/// Executes `outboxd dlq` of a text for a dead letter in Kafka, with the placeholders filled in.
fn replay_as_printed(text: &str) {
    let dlq = Dlq::new(kafka());
    dlq.write(&outboxd(&dlq, 7, "a", "v"));
    let (_, command) = text.split_once("outboxd dlq ").unwrap_or_else(|| panic!("no dlq in {text}"));
    let command = command.split(',').next().unwrap();
    let filled = command.replace("SERVERS", &kafka().bootstrap()).replace("TOPIC", &dlq.topic);
    let arguments: Vec<_> = filled.split_whitespace().collect();
    let mut replay = Relay::command(&[&["dlq"], &arguments[..], &["--state-topic", &dlq.states]].concat());
    assert_eq!(replay.wait_for_exit(DEADLINE), OK, "{filled}: {}", replay.stderr());
    assert_eq!(kafka().read(&dlq.origin, 1)[0].key(), "a");
}
