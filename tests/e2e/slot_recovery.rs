//! The slot is gone, lost, moved, or another server's: what is noticed, and `slot.recovery=snapshot`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outboxd::internals::throwaway::{StopMode, ThrowawayPostgres};

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const PATIENCE: Duration = Duration::from_secs(30);

fn insert(db: &Outbox, numbers: impl IntoIterator<Item = u32>) {
    for n in numbers {
        db.insert(&[Event::new("order", &format!("o-{n}"), "OrderCreated", &format!("{{\"n\": {n}}}"))]);
    }
}

/// Returns the number of received records, and each row once.
fn arrived(db: &Outbox) -> (usize, BTreeSet<String>) {
    let records = kafka().records(&db.topic("order"));
    (records.len(), records.iter().map(|record| record.value().to_owned()).collect())
}

fn numbers(numbers: impl IntoIterator<Item = u32>) -> BTreeSet<String> {
    numbers.into_iter().map(|n| format!("{{\"n\": {n}}}")).collect()
}

/// Returns a configuration in which rows are only sent by a snapshot if the recovery asks for it.
fn recovering(db: &Outbox, recovery: &str) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data"), ("slot.recovery", recovery)])
}

/// Ends the relay's stream while the relay itself stands still, and does something to the slot.
fn behind_its_back(db: &Outbox, relay: &mut Relay, act: impl FnOnce()) {
    relay.pause();
    db.end_the_stream();
    eventually(DEADLINE, "the slot is free", || !db.slot().unwrap().active);
    act();
    relay.resume();
}

fn drop_slot(db: &Outbox) {
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
}

#[test]
fn a_slot_that_is_dropped_is_created_again_and_every_row_in_the_table_is_sent() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let mut relay = Relay::start(&recovering(&db, "snapshot"));
        db.wait_until_streaming();
        insert(&db, 0..3);
        kafka().read(&db.topic("order"), 3);
        db.wait_until_confirmed();
        behind_its_back(&db, &mut relay, || {
            drop_slot(&db);
            insert(&db, 3..6);
        });
        let line = relay.wait_for_stderr("the slot is lost: all rows of the table are sent");
        assert!(
            line.contains("\"sent_up_to\":\"") && line.contains("dropped while outboxd used it"),
            "{line}"
        );
        relay.wait_for_stderr("creating the slot again");
        db.wait_until_streaming();
        insert(&db, 6..9);
        // Those that had been sent come twice, the others once.
        kafka().read(&db.topic("order"), 3 + 6 + 3);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        assert_eq!(arrived(&db), (12, numbers(0..9)));
    }
}

#[test]
fn a_slot_that_is_moved_ahead_is_noticed() {
    for server in [postgres15(), postgres18()] {
        for recovery in ["fail", "snapshot"] {
            let db = Outbox::create(server);
            let mut relay = Relay::start(&recovering(&db, recovery));
            db.wait_until_streaming();
            insert(&db, 0..2);
            kafka().read(&db.topic("order"), 2);
            db.wait_until_confirmed();
            behind_its_back(&db, &mut relay, || {
                insert(&db, 2..5);
                let advance = "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())";
                db.query(advance, &[&db.name()]);
            });
            if recovery == "fail" {
                assert_eq!(relay.wait_for_exit(PATIENCE), 7);
                let said = relay.stderr();
                assert!(said.contains("moved it ahead") && said.contains("slot.recovery=snapshot"), "{said}");
                assert_eq!(arrived(&db), (2, numbers(0..2)));
                continue;
            }
            relay.wait_for_stderr("creating the slot again");
            db.wait_until_streaming();
            insert(&db, 5..6);
            db.wait_until_confirmed();
            assert_eq!(relay.stop(), 0);
            assert_eq!(arrived(&db), (2 + 5 + 1, numbers(0..6)));
        }
    }
}

/// Under its name the slot is another one, which begins behind a gap.
#[test]
fn a_slot_that_is_dropped_and_made_again_is_noticed() {
    let db = Outbox::create(postgres18());
    let mut relay = Relay::start(&recovering(&db, "fail"));
    db.wait_until_streaming();
    insert(&db, 0..2);
    db.wait_until_confirmed();
    behind_its_back(&db, &mut relay, || {
        drop_slot(&db);
        insert(&db, 2..4);
        db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
    });
    assert_eq!(relay.wait_for_exit(PATIENCE), 7);
    assert!(relay.stderr().contains("is lost"), "{}", relay.stderr());
    assert_eq!(arrived(&db), (2, numbers(0..2)));
}

/// A second instance may have moved the slot on: that is no reason to stop.
#[test]
fn a_standby_that_takes_over_and_hands_back_is_not_taken_for_a_stranger() {
    let db = Outbox::create(postgres18());
    let mut first = Relay::start(&recovering(&db, "fail"));
    db.wait_until_streaming();
    insert(&db, 0..1);
    db.wait_until_confirmed();
    let mut second = None;
    behind_its_back(&db, &mut first, || {
        second = Some(Relay::start(&recovering(&db, "fail")));
        db.wait_until_streaming();
        insert(&db, 1..3);
        db.wait_until_confirmed();
    });
    first.wait_for_stderr("standing by");
    assert_eq!(second.unwrap().stop(), 0);
    db.wait_until_streaming();
    insert(&db, 3..4);
    db.wait_until_confirmed();
    assert_eq!(first.stop(), 0);
    assert_eq!(arrived(&db), (4, numbers(0..4)));
}

#[test]
fn a_slot_that_was_invalidated_meanwhile_is_created_again_when_that_is_wanted() {
    for major in [15, 16, 18] {
        let server = postgres::start_with(
            major,
            &[("min_wal_size", "32MB"), ("max_wal_size", "32MB"), ("max_slot_wal_keep_size", "16MB")],
        );
        let db = Outbox::create(&server);
        db.execute("CREATE TABLE other (n int)");
        let relay = Relay::start(&recovering(&db, "fail"));
        db.wait_until_streaming();
        insert(&db, 0..2);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        insert(&db, 2..5);
        eventually(DEADLINE, "the slot is lost", || {
            db.execute("INSERT INTO other VALUES (1)");
            db.query("SELECT pg_switch_wal()", &[]);
            db.execute("CHECKPOINT");
            db.slot().unwrap().wal_status.as_deref() == Some("lost")
        });
        let mut refused = Relay::start(&recovering(&db, "fail"));
        assert_eq!(refused.wait_for_exit(PATIENCE), 7);
        let said = refused.stderr();
        assert!(said.contains("wal_status = lost") && said.contains("slot.recovery=snapshot"), "{said}");
        assert_eq!(db.slot().unwrap().wal_status.as_deref(), Some("lost"), "it is left as it was");

        let relay = Relay::start(&recovering(&db, "snapshot"));
        relay.wait_for_stderr("creating the slot again");
        db.wait_until_streaming();
        insert(&db, 5..6);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        assert_eq!(arrived(&db), (2 + 5 + 1, numbers(0..6)), "PostgreSQL {major}");
    }
}

/// The stored offset is how a new process knows that there was a slot.
#[test]
fn a_slot_that_was_dropped_while_no_client_ran_is_known_from_the_stored_offset() {
    let db = Outbox::create(postgres18());
    let topic = format!("{}.offsets", db.name());
    kafka().create_topic(&topic, 1, &[("cleanup.policy", "compact")]);
    // Without a position of our own, the offset is all there is.
    let settings =
        [("offset.storage.topic", topic.as_str()), ("name", db.name()), ("outboxd.position.topic", "")];
    let config = |recovery| with(recovering(&db, recovery), &settings);
    for numbers in [0..1, 1..2] {
        let relay = Relay::start(&config("fail"));
        db.wait_until_streaming();
        insert(&db, numbers);
        db.wait_until_confirmed();
        assert!(!relay.stderr().contains("ahead of the stored offset"), "{}", relay.stderr());
        assert_eq!(relay.stop(), 0);
    }
    db.execute("CREATE TABLE other (n int)");
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    let relay = Relay::start(&config("fail"));
    relay.wait_for_stderr("the slot is ahead of the stored offset");
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    drop_slot(&db);
    insert(&db, 2..4);
    let mut refused = Relay::start(&config("fail"));
    assert_eq!(refused.wait_for_exit(PATIENCE), 7);
    assert!(refused.stderr().contains("slot.recovery=snapshot"), "{}", refused.stderr());
    let relay = Relay::start(&config("snapshot"));
    db.wait_until_streaming();
    insert(&db, 4..5);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(arrived(&db), (2 + 4 + 1, numbers(0..5)));
}

#[test]
fn a_copy_from_before_is_noticed_under_the_relay() {
    let mut server = postgres::start(18);
    let db = Outbox::create(&server);
    let mut relay = Relay::start(&recovering(&db, "snapshot"));
    db.wait_until_streaming();
    let data = server.folder().join("data");
    let [copy, aside] = ["copy", "aside"].map(|name| server.folder().join(name));
    stop(&db, &mut server);
    copy_folder(&data, &copy);
    server.start_again().unwrap();
    db.wait_until_streaming();
    // Far more WAL than a restart writes.
    db.execute("CREATE TABLE other AS SELECT n, repeat('x', 500) AS filler FROM generate_series(1, 20000) n");
    insert(&db, 0..2);
    db.wait_until_confirmed();
    stop(&db, &mut server);
    std::fs::rename(&data, aside).unwrap();
    std::fs::rename(copy, &data).unwrap();
    server.start_again().unwrap();
    // Its slot looks well; only the WAL is shorter than what was read.
    assert_eq!(relay.wait_for_exit(DEADLINE), 7);
    let said = relay.stderr();
    assert!(said.contains("not the server that outboxd has streamed from: its WAL ends at"), "{said}");
}

#[test]
fn another_cluster_at_the_same_address_is_noticed() {
    let (mut server, mut other) = (postgres::start(18), postgres::start(18));
    let db = Outbox::create(&server);
    let mut relay = Relay::start(&recovering(&db, "snapshot"));
    db.wait_until_streaming();
    let there = Outbox::create(&other);
    there.execute(&format!("CREATE DATABASE {}", db.name()));
    there.disconnect();
    stop(&db, &mut server);
    other.stop(StopMode::Fast, DEADLINE).unwrap();
    let [ours, theirs, aside] =
        [server.folder().join("data"), other.folder().join("data"), server.folder().join("aside")];
    std::fs::rename(&ours, aside).unwrap();
    copy_folder(&theirs, &ours);
    // The settings name the port and the socket's folder.
    for file in ["postgresql.conf", "pg_hba.conf"] {
        std::fs::copy(server.folder().join("aside").join(file), ours.join(file)).unwrap();
    }
    server.start_again().unwrap();
    assert_eq!(relay.wait_for_exit(DEADLINE), 7);
    let said = relay.stderr();
    assert!(said.contains("its system identifier is") && said.contains("database.hostname"), "{said}");
    assert!(db.leftovers().is_empty(), "it was left as it was");
}

pub(crate) fn stop(db: &Outbox, server: &mut ThrowawayPostgres) {
    db.disconnect();
    server.stop(StopMode::Fast, DEADLINE).unwrap();
}

/// Copies a folder with owners and modes, which PostgreSQL checks.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cannot copy {}", from.display());
}
