//! `lsn.flush.mode=manual`: outboxd never confirms the slot, and still sends nothing twice because of that.

use std::time::Duration;

use outboxd::internals::throwaway::unused_port;
use outboxd::internals::wal::Lsn;
use serde_json::Value;

use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const PATIENCE: Duration = Duration::from_secs(30);

fn manual(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data"), ("lsn.flush.mode", "manual")])
}

fn insert(db: &Outbox, n: u32) {
    db.insert(&[Event::new("order", "o-1", "Numbered", &n.to_string())]);
}

fn published(db: &Outbox) -> Vec<String> {
    kafka().records(&db.topic("order")).iter().map(|record| record.value().to_owned()).collect()
}

fn slot_at(db: &Outbox) -> Lsn {
    db.slot().unwrap().confirmed_flush_lsn.unwrap()
}

/// The last position that is in Kafka.
fn kept(db: &Outbox) -> Option<Lsn> {
    let positions = kafka().records("__outboxd-positions");
    let mut all = positions.iter().filter_map(|record| serde_json::from_str(record.value()).ok());
    let last: Value = all.rfind(|position: &Value| position["slot"] == db.name())?;
    last["lsn"].as_str()?.parse().ok()
}

/// Everything that is committed by now is sent, and Kafka has the position that says so.
fn wait_until_kept(db: &Outbox) -> Lsn {
    let target = db.current_wal_lsn();
    // The end of the WAL is told by keepalives, at most as often as a busy server likes.
    eventually(DEADLINE, "the position is kept", || kept(db).is_some_and(|kept| kept >= target));
    target
}

#[test]
fn the_slot_stays_and_a_start_goes_on_behind_what_was_sent() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let relay = Relay::start(&manual(&db));
        db.wait_until_streaming();
        relay.wait_for_stderr("the slot is never confirmed");
        let began_at = slot_at(&db);
        insert(&db, 1);
        wait_until_kept(&db);
        assert_eq!(relay.stop(), 0);
        assert_eq!(slot_at(&db), began_at, "after a stop");

        // Nothing new, and then a crash.
        insert(&db, 2);
        let mut relay = Relay::start(&manual(&db));
        kafka().read(&db.topic("order"), 2);
        wait_until_kept(&db);
        relay.kill();
        insert(&db, 3);
        let relay = Relay::start(&manual(&db));
        kafka().read(&db.topic("order"), 3);
        // A connection that breaks is no reason to begin at the slot again.
        db.end_the_stream();
        db.wait_until_streaming();
        insert(&db, 4);
        kafka().read(&db.topic("order"), 4);
        wait_until_kept(&db);
        assert_eq!(relay.stop(), 0);
        assert_eq!(slot_at(&db), began_at, "after all of it");
        assert_eq!(published(&db), ["1", "2", "3", "4"]);
    }
}

#[test]
fn a_slot_that_is_moved_meanwhile_is_gone_on_from_but_not_beyond_what_was_sent() {
    let db = Outbox::create(postgres18());
    let relay = Relay::start(&manual(&db));
    db.wait_until_streaming();
    insert(&db, 1);
    let sent = wait_until_kept(&db);
    assert_eq!(relay.stop(), 0);
    let advance = |to: Lsn| {
        let to = to.to_string();
        let sql = "SELECT pg_replication_slot_advance($1::text::name, $2::text::pg_lsn)::text";
        db.query(sql, &[&db.name(), &to]);
    };
    advance(sent);
    let relay = Relay::start(&manual(&db));
    db.wait_until_streaming();
    insert(&db, 2);
    wait_until_kept(&db);
    assert_eq!(relay.stop(), 0);
    assert_eq!(published(&db), ["1", "2"]);

    insert(&db, 3);
    advance(db.current_wal_lsn());
    let mut relay = Relay::start(&manual(&db));
    assert_eq!(relay.wait_for_exit(PATIENCE), 7, "{}", relay.stderr());
}

#[test]
fn what_is_told_is_what_is_so() {
    let (db, port) = (Outbox::create(postgres18()), unused_port().unwrap());
    let relay = Relay::start_with(&manual(&db), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    let began_at = slot_at(&db);
    for n in 1..50 {
        insert(&db, n);
    }
    wait_until_kept(&db);
    // It is no lag that the slot stays.
    let page = get_until(port, "/metrics", "shows no lag", |page| {
        page.sample("relay_lag_bytes").is_some_and(|lag| lag == 0.0)
    });
    let confirmed = page.sample("relay_lsn{kind=\"confirmed\"}").unwrap();
    assert_eq!(format!("{confirmed:.0}"), began_at.get().to_string());
    assert!(
        get_until(port, "/readyz", "is ready", |page| page.code == 200).body.contains(&began_at.to_string())
    );
    // A server that shuts down does not wait for confirmations that never come.
    let said = relay.stop_and_tell();
    assert!(said.contains("The slot stays where it stood"), "{said}");
}
