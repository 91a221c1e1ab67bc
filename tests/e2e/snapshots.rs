//! Rows that were in the table before the slot.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};

/// Number of rows with which a kill happens in the middle.
const ROWS: u32 = 30_000;

fn event(number: u32) -> Event {
    Event::new("order", &format!("o-{}", number % 50), "OrderCreated", &format!("{{\"n\": {number}}}"))
}

fn fill(db: &Outbox, rows: u32) {
    db.execute(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
         SELECT gen_random_uuid(), 'order', 'o-' || n % 50, 'OrderCreated', jsonb_build_object('n', n)
         FROM generate_series(0, {rows} - 1) n"
    ));
}

fn mode(db: &Outbox, mode: &str) -> Config {
    // So that it lasts.
    let slow = [("outboxd.inflight.records.max", "100"), ("producer.override.linger.ms", "20")];
    with(with(db.config(kafka()), &[("snapshot.mode", mode)]), &slow)
}

fn values(db: &Outbox) -> Vec<String> {
    kafka().records(&db.topic("order")).iter().map(|record| record.value().to_owned()).collect()
}

#[test]
fn a_snapshot_and_the_stream_meet_without_gap_or_overlap() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        fill(&db, 1_000);
        let relay = Relay::start(&mode(&db, "initial"));
        // While the snapshot is read, more is written: each row belongs to exactly one of the two.
        for number in 1_000..1_200 {
            db.insert(&[event(number)]);
        }
        kafka().read(&db.topic("order"), 1_200);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        let sent = values(&db);
        let distinct: BTreeSet<_> = sent.iter().cloned().collect();
        assert_eq!((sent.len(), distinct.len()), (1_200, 1_200));

        // Once the slot is there, a restart sends nothing again.
        let again = Relay::start(&mode(&db, "initial"));
        db.wait_until_streaming();
        db.insert(&[event(1_200)]);
        kafka().read(&db.topic("order"), 1_201);
        assert_eq!(again.stop(), 0);
        assert_eq!(values(&db).len(), 1_201);
    }
}

#[test]
fn a_snapshot_that_was_killed_is_taken_again_and_loses_nothing() {
    let db = Outbox::create(postgres18());
    fill(&db, ROWS);
    let mut first = Relay::start(&mode(&db, "initial"));
    kafka().wait_for_count(&db.topic("order"), 1_000);
    first.kill();
    assert!(kafka().record_count(&db.topic("order")) < i64::from(ROWS));
    assert!(db.slot().is_none(), "the slot exists only once the snapshot is sent");
    db.insert(&[event(ROWS)]);
    let second = Relay::start(&with(mode(&db, "initial"), &[("outboxd.inflight.records.max", "20000")]));
    db.wait_until_streaming();
    db.insert(&[event(ROWS + 1)]);
    db.wait_until_confirmed();
    assert_eq!(second.stop(), 0);
    let distinct: BTreeSet<_> = values(&db).into_iter().collect();
    assert_eq!(distinct.len(), ROWS as usize + 2);
}

#[test]
fn a_snapshot_whose_session_is_ended_is_taken_again_and_loses_nothing() {
    let db = Outbox::create(postgres18());
    fill(&db, ROWS);
    let settings = [("outboxd.startup.timeout.ms", "-1")];
    let relay = Relay::start(&with(mode(&db, "initial"), &settings));
    kafka().wait_for_count(&db.topic("order"), 1_000);
    // With the reader gone, records are still on their way: the next attempt must not take their reports for its own.
    db.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name LIKE 'outboxd/' || $1 || '#%' AND query LIKE 'SELECT \"id\"%'",
        &[&db.name()],
    );
    db.wait_until_streaming();
    db.insert(&[event(ROWS)]);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let distinct: BTreeSet<_> = values(&db).into_iter().collect();
    assert_eq!(distinct.len(), ROWS as usize + 1);
}

#[test]
fn a_second_relay_waits_while_the_first_sends_the_snapshot() {
    let db = Outbox::create(postgres18());
    fill(&db, ROWS);
    let mut first = Relay::start(&mode(&db, "initial"));
    kafka().wait_for_count(&db.topic("order"), 100);
    let second = Relay::start(&mode(&db, "initial"));
    second.wait_for_stderr("standing by");
    assert!(db.slot().is_none(), "the first is not done yet");
    first.kill();
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(second.stop(), 0);
    let distinct: BTreeSet<_> = values(&db).into_iter().collect();
    assert_eq!(distinct.len(), ROWS as usize);
}

#[test]
fn initial_only_sends_what_is_there_and_leaves_nothing() {
    let db = Outbox::create(postgres18());
    fill(&db, 10);
    let mut relay = Relay::start(&mode(&db, "initial_only"));
    assert_eq!(relay.wait_for_exit(Duration::from_secs(20)), 0);
    assert_eq!(values(&db).len(), 10);
    assert!(db.slot().is_none());
    assert!(db.query("SELECT 1 FROM pg_publication", &[]).is_empty());
}

#[test]
fn always_sends_what_is_there_at_every_start() {
    let db = Outbox::create(postgres18());
    fill(&db, 10);
    for start in 1..=2 {
        let relay = Relay::start(&mode(&db, "always"));
        db.wait_until_streaming();
        kafka().read(&db.topic("order"), 10 * start);
        assert_eq!(relay.stop(), 0);
    }
    assert_eq!(values(&db).len(), 20);
}

#[test]
fn an_override_chooses_the_rows() {
    let db = Outbox::create(postgres18());
    fill(&db, 10);
    let relay = Relay::start(&with(
        mode(&db, "initial"),
        &[
            ("snapshot.select.statement.overrides", "public.outbox"),
            (
                "snapshot.select.statement.overrides.public.outbox",
                "SELECT * FROM outbox WHERE (payload->>'n')::int >= 7 ORDER BY (payload->>'n')::int",
            ),
        ],
    ));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    let sent: BTreeSet<_> = values(&db).into_iter().collect();
    assert_eq!(Vec::from_iter(sent), [r#"{"n": 7}"#, r#"{"n": 8}"#, r#"{"n": 9}"#]);
}
