//! The slot and the publication: made, adopted, retried, dropped.

use std::fs;
use std::time::{Duration, Instant};

use outboxd::internals::throwaway::unused_port;

use crate::support::foreign::ForeignConsumer;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18, start};
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

fn event(number: u32) -> Event {
    Event::new("order", "o-1", "OrderCreated", &format!("{{\"n\": {number}}}"))
}

fn flag(db: &Outbox, column: &str) -> bool {
    let query = format!("SELECT {column} FROM pg_replication_slots WHERE slot_name = $1");
    db.query(&query, &[&db.name()])[0].get(0)
}

#[test]
fn the_majors_between_the_oldest_and_the_newest_stream() {
    for major in [14, 16, 17] {
        let server = start(major);
        let db = Outbox::create(&server);
        db.insert(&[event(1)]);
        let relay = Relay::start(&db.config(kafka()));
        db.wait_until_streaming();
        db.insert(&[event(2), event(3)]);
        let values: Vec<_> =
            kafka().read(&db.topic("order"), 3).iter().map(|record| record.value().to_owned()).collect();
        assert_eq!(values, [r#"{"n": 1}"#, r#"{"n": 2}"#, r#"{"n": 3}"#], "PostgreSQL {major}");
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_slot_is_dropped_on_stop_when_that_is_wanted() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let relay = Relay::start(&with(db.config(kafka()), &[("slot.drop.on.stop", "true")]));
        db.wait_until_streaming();
        db.insert(&[event(1)]);
        kafka().read(&db.topic("order"), 1);
        assert_eq!(relay.stop(), 0);
        assert!(db.slot().is_none());
    }
}

#[test]
fn a_failover_slot_is_made_where_the_server_knows_them() {
    let db = Outbox::create(postgres18());
    for mode in ["no_data", "initial"] {
        let config = with(
            db.config(kafka()),
            &[("slot.failover", "true"), ("snapshot.mode", mode), ("slot.drop.on.stop", "true")],
        );
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        assert!(flag(&db, "failover"), "{mode}");
        assert!(!flag(&db, "temporary"), "{mode}");
        assert_eq!(relay.stop(), 0);
    }
    let old = Outbox::create(postgres15());
    let mut relay = Relay::start(&with(old.config(kafka()), &[("slot.failover", "true")]));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    assert!(relay.stderr().contains("needs PostgreSQL 17"), "{}", relay.stderr());
    assert!(old.slot().is_none());
    let folder = Watcher::new("outboxd-slots-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&old.config(kafka())).unwrap()).unwrap();
    old.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox", old.name()));
    let mut create = Relay::command(&["slot", "create", "-c", &file, "-X", "slot.failover=true"]);
    assert_eq!(create.wait_for_exit(DEADLINE), 3, "{}", create.stderr());
    assert!(create.stderr().contains("to fix: remove slot.failover"), "{}", create.stderr());
}

#[test]
fn a_foreign_holder_is_awaited_as_often_as_slot_max_retries_says() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    assert_eq!(
        {
            let relay = Relay::start(&config);
            db.wait_until_streaming();
            relay.stop()
        },
        0
    );
    let foreign = ForeignConsumer::occupy(&db, "pg_recvlogical");
    let few = with(config.clone(), &[("slot.max.retries", "3"), ("slot.retry.delay.ms", "200")]);
    let started = Instant::now();
    assert_eq!(Relay::start(&few).wait_for_exit(DEADLINE), 3);
    assert!(started.elapsed() >= Duration::from_millis(600));

    let many = with(config, &[("slot.max.retries", "1000"), ("slot.retry.delay.ms", "100")]);
    let relay = Relay::start(&many);
    relay.wait_for_stderr("is held by process");
    drop(foreign);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_slot_that_vanishes_under_a_relay_is_not_made_again() {
    let db = Outbox::create(postgres18());
    let mut relay = Relay::start(&db.config(kafka()));
    // A start that fails drops the slot that it has created, and begins again: this one must be over.
    db.wait_until_streaming();
    db.insert(&[event(1)]);
    db.wait_until_confirmed();
    db.drop_slot_in_use();
    assert_eq!(relay.wait_for_exit(Duration::from_secs(20)), 7);
    assert!(relay.stderr().contains("is lost"), "{}", relay.stderr());
    assert!(db.slot().is_none());
}

/// PostgreSQL 18 reads the catalog as it was when a row was written: a publication that is there again now does not help
/// against the notice.
#[test]
fn rows_that_no_publication_had_are_left_behind_by_moving_the_slot() {
    let db = Outbox::create(postgres18());
    let (config, publication) = (db.config(kafka()), db.name());
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[event(1)]);
    kafka().read(&db.topic("order"), 1);
    db.execute(&format!("DROP PUBLICATION {publication}"));
    db.insert(&[event(2)]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    db.execute(&format!("CREATE PUBLICATION {publication} FOR TABLE outbox WITH (publish = 'insert')"));
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(
        said.contains("pg_replication_slot_advance") && said.contains("outboxd.position.accept"),
        "{said}"
    );
    db.query("SELECT pg_replication_slot_advance($1::text::name, pg_current_wal_lsn())::text", &[&db.name()]);
    let moved_to = db.slot().unwrap().confirmed_flush_lsn.unwrap().to_string();
    let relay = Relay::start(&with(config, &[("outboxd.position.accept", &moved_to)]));
    db.wait_until_streaming();
    db.insert(&[event(3)]);
    let records = kafka().read(&db.topic("order"), 2);
    assert_eq!(records.last().unwrap().value(), r#"{"n": 3}"#);
    assert_eq!(relay.stop(), 0);
}

/// A prepared transaction would come before it is committed, in messages of another protocol version.
#[test]
fn a_slot_with_two_phase_is_refused_and_its_copy_serves() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let (config, name) = (with(db.config(kafka()), &[("snapshot.mode", "no_data")]), db.name());
        db.execute(&format!("CREATE PUBLICATION {name} FOR TABLE outbox"));
        db.execute(&format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', false, true)"));
        db.insert(&[event(1)]);
        let mut relay = Relay::start(&config);
        assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
        let said = relay.stderr();
        let line = said.lines().find(|line| line.contains("two_phase") && line.contains("pg_copy")).unwrap();
        let (_, statements) = line.split_once("SELECT pg_copy").unwrap();
        let statements = format!("SELECT pg_copy{statements}");
        for statement in statements.split_inclusive(';').filter(|statement| statement.contains("SELECT")) {
            db.execute(statement);
        }
        let relay = Relay::start(&config);
        assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_slot_without_the_failover_that_is_asked_for_is_warned_of() {
    let db = Outbox::create(postgres18());
    let name = db.name();
    db.execute(&format!("CREATE PUBLICATION {name} FOR TABLE outbox"));
    db.execute(&format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')"));
    let http = unused_port().unwrap();
    let config = with(db.config(kafka()), &[("slot.failover", "true")]);
    let relay = Relay::start_with(&config, &["--http", &http.to_string()], &[]);
    let warning = relay.wait_for_stderr("was made without failover");
    assert!(warning.contains("ALTER_REPLICATION_SLOT") && warning.contains("FAILOVER true"), "{warning}");
    get_until(http, "/readyz", "warns of it", |page| {
        page.code == 200 && page.json()["warnings"].to_string().contains("without failover")
    });
    assert_eq!(relay.stop(), 0);
}
