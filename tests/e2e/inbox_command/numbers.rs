//! Places, numbers and ids.

use super::service::{FAILED, Service};
use super::{FAILED_EXIT, OK, USAGE};

#[test]
fn a_released_dead_letter_gives_its_place_to_the_same_event() {
    let service = Service::new();
    let (partition, _) = service.take("payments");
    service.park(partition, 7, "a", "e-7", "is_dead = true");
    service.park(partition, 8, "a", "e-8", "attempts = 0");
    service.park(partition, 12, "a", "e-7", "attempts = 0");
    service.park(partition, 20, "b", "e-20", "is_dead = true");
    let report = service.json("release", &["--consumer", "payments", "--all", "--yes"]);
    assert_eq!(report["changed"][0]["replaced_by"], "orders:0:12", "{report}");
    assert_eq!(report["changed"].as_array().unwrap().len(), 2);
    assert_eq!(service.parked(), ["7 e-7", "8 e-8"]);
    assert_eq!(service.number("SELECT count(*) FROM inbox_parked WHERE is_dead"), Some(0));
}

#[test]
fn without_ids_the_same_event_is_known_by_its_value() {
    let service = Service::new();
    let (partition, _) = service.take("payments");
    for (offset, value, is_dead) in [(7, "x", true), (8, "y", false), (9, "x", false)] {
        service.park(
            partition,
            offset,
            "a",
            "none",
            &format!("header_names = '{{}}', header_values = '{{}}', value = '{value}', is_dead = {is_dead}"),
        );
    }
    assert_eq!(service.run("release", &["--consumer", "payments", "--key", "a", "--yes"]).0, OK);
    let left = service.db.query("SELECT \"offset\", value FROM inbox_parked ORDER BY 1", &[]);
    let left: Vec<(i64, Vec<u8>)> = left.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(left, [(7, b"x".to_vec()), (8, b"y".to_vec())]);
}

#[test]
fn a_skipped_number_is_passed_with_the_dead_letters_behind_it() {
    let service = Service::new();
    let (partition, _) = service.take("ledger");
    service.park(partition, 7, "a", "e-7", "number = 8");
    service.db.execute(
        "INSERT INTO inbox_sequence VALUES ('ledger', 'orders', 'a', 4, 1); INSERT INTO inbox_sequence_dead VALUES ('ledger', 'orders', 'a', 7)",
    );
    let key = ["--consumer", "ledger", "--key", "a"];
    let next = "SELECT next FROM inbox_sequence";
    for (number, through, told) in [("5", "5", "--number 4"), ("4", "8", "less than 8")] {
        let numbers = ["--number", number, "--through", through, "--yes"];
        let (exit, _, stderr) = service.run("skip", &[&key[..], &numbers].concat());
        assert!(exit == USAGE && stderr.contains(told), "{stderr}");
    }
    assert_eq!(service.run("skip", &[&key[..], &["--number", "4", "--yes"]].concat()).0, OK);
    assert_eq!(service.number(next), Some(5));
    let report = service.json("skip", &[&key[..], &["--number", "5", "--through", "6", "--yes"]].concat());
    assert_eq!(report["changed"].as_array().unwrap().len(), 2);
    // 7 is a dead letter already, and 8 waits no longer.
    assert_eq!((service.number(next), service.parked().len()), (Some(8), 1));
    assert_eq!(service.number("SELECT count(*) FROM inbox_sequence_dead"), Some(4));
    assert_eq!(service.json("ls", &[])["blocked_keys"][0]["reason"], "due");
}

#[test]
fn a_failed_event_with_a_number_is_skipped_with_it() {
    let service = Service::new();
    let (partition, _) = service.take("ledger");
    service.park(partition, 7, "a", "e-7", FAILED);
    service.park(partition, 8, "a", "e-8", "number = 5");
    service.db.execute("INSERT INTO inbox_sequence VALUES ('ledger', 'orders', 'a', 4, 1)");
    let event = ["--consumer", "ledger", "--at", "orders:0:7", "--yes"];
    let (exit, _, stderr) = service.run("skip", &event);
    assert!(exit == USAGE && stderr.contains("--number 4"), "{stderr}");
    assert_eq!(service.run("skip", &[&event[..], &["--number", "4"]].concat()).0, OK);
    assert_eq!(
        (service.number("SELECT next FROM inbox_sequence"), service.parked()),
        (Some(5), vec!["8 e-8".to_owned()])
    );
}

#[test]
fn an_id_is_forgotten_of_one_source_and_among_positions() {
    let service = Service::new();
    let (partition, _) = service.take("payments");
    service.db.execute(&format!(
        "INSERT INTO inbox_message (consumer, source, message_id) VALUES \
             ('payments', 'a', 'e-1'), ('payments', 'b', 'e-1'), ('payments', 'a', 'e-2'), ('other', 'a', 'e-2'); \
         INSERT INTO inbox_done (partition_id, source, first, last, message_ids) VALUES ({partition}, 'db', '1', '2', ARRAY['e-8', 'e-9'])"
    ));
    let forget = |more: &[&str]| service.run("forget", &[&["--consumer", "payments"], more].concat());
    let count = |consumer: &str| {
        service.number(&format!("SELECT count(*) FROM inbox_message WHERE consumer = '{consumer}'")).unwrap()
    };
    let (exit, _, stderr) = forget(&["--id", "e-1", "--yes"]);
    assert!(exit == USAGE && stderr.contains("--source a, or --source b"), "{stderr}");
    assert_eq!((forget(&["--id", "e-2"]).0, count("payments")), (OK, 3));
    assert_eq!(forget(&["--id", "e-1", "--source", "b", "--yes"]).0, OK);
    assert_eq!(forget(&["--id", "e-2", "--yes"]).0, OK);
    assert_eq!((count("payments"), count("other")), (1, 1));
    assert_eq!(forget(&["--id", "e-9", "--yes"]).0, OK);
    assert_eq!(service.number("SELECT count(*) FROM inbox_done WHERE message_ids = ARRAY['e-8']"), Some(1));
    let (exit, _, stderr) = forget(&["--id", "e-9", "--yes"]);
    assert!(exit == FAILED_EXIT && stderr.contains("does not remember id e-9"), "{stderr}");
}

#[test]
fn a_number_is_forgotten_once() {
    let service = Service::new();
    service.db.execute("INSERT INTO inbox_sequence VALUES ('ledger', 'orders', 'a', 4, 2)");
    let forget = |number: &str| {
        service.run("forget", &["--consumer", "ledger", "--key", "a", "--number", number, "--yes"]).0
    };
    // 1 is before the first number, and 4 has not come.
    assert_eq!(["1", "4", "3", "3"].map(forget), [FAILED_EXIT, FAILED_EXIT, OK, FAILED_EXIT]);
    assert_eq!(service.number("SELECT number FROM inbox_sequence_dead"), Some(3));
}
