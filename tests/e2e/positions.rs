//! The relay stores its position in Kafka: the changes that a start finds, and how to restart on purpose.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pg_replication::wal::Lsn;
use rdkafka::producer::BaseRecord;
use serde_json::{Value, json};

use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const TOPIC: &str = "__outboxd-positions";
const PATIENCE: Duration = Duration::from_secs(30);

fn insert(db: &Outbox, numbers: impl IntoIterator<Item = u32>) {
    for n in numbers {
        db.insert(&[Event::new("order", &format!("o-{n}"), "OrderCreated", &format!("{{\"n\": {n}}}"))]);
    }
}

/// Returns the number of received records, and each row once.
fn arrived(db: &Outbox) -> (usize, BTreeSet<u32>) {
    let records = kafka().records(&db.topic("order"));
    let number = |value: &str| value.trim_start_matches("{\"n\": ").trim_end_matches('}').parse().unwrap();
    (records.len(), records.iter().map(|record| number(record.value())).collect())
}

fn without_snapshot(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data")])
}

fn advance(db: &Outbox) {
    db.query("SELECT pg_replication_slot_advance($1::text::name, pg_current_wal_lsn())::text", &[&db.name()]);
}

fn drop_slot(db: &Outbox) {
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
}

fn make_slot(db: &Outbox) {
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
}

/// Streams these rows, and stops.
fn relay_some(db: &Outbox, config: &Config, numbers: impl IntoIterator<Item = u32>) {
    let relay = Relay::start(config);
    db.wait_until_streaming();
    if config["snapshot.mode"] == "always" {
        relay.wait_for_snapshot();
    }
    insert(db, numbers);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// Returns the message of a start that must be refused.
#[track_caller]
fn refused(config: &Config) -> String {
    let mut relay = Relay::start(config);
    assert_eq!(relay.wait_for_exit(PATIENCE), 7, "{}", relay.stderr());
    relay.stderr()
}

#[test]
fn a_slot_that_was_moved_ahead_while_no_client_ran_is_noticed() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        relay_some(&db, &without_snapshot(&db), 0..2);
        insert(&db, 2..4);
        advance(&db);
        let slot_at = db.slot().unwrap().confirmed_flush_lsn.unwrap();
        let said = refused(&without_snapshot(&db));
        for words in [&format!("outboxd.position.accept={slot_at}"), "bytes", "slot.recovery=snapshot"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(arrived(&db), (2, (0..2).collect()));
    }
}

#[test]
fn a_slot_that_was_made_again_while_no_client_ran_is_noticed() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        relay_some(&db, &without_snapshot(&db), 0..2);
        drop_slot(&db);
        insert(&db, 2..4);
        make_slot(&db);
        refused(&without_snapshot(&db));
        assert_eq!(arrived(&db), (2, (0..2).collect()));
    }
}

#[test]
fn a_slot_that_was_dropped_while_no_client_ran_is_noticed() {
    for settings in [&[][..], &[("exactly.once.support", "required")]] {
        let db = Outbox::create(postgres18());
        let config = with(without_snapshot(&db), settings);
        relay_some(&db, &config, 0..2);
        drop_slot(&db);
        insert(&db, 2..4);
        let said = refused(&config);
        assert!(
            said.contains("outboxd.position.accept=") && said.contains("slot.recovery=snapshot"),
            "{said}"
        );
        assert!(db.slot().is_none(), "it must not be made anew");
    }
}

/// It takes its slots along, and the LSNs of the server go on.
#[test]
fn a_database_that_is_created_again_under_its_name_is_begun_with_like_any_other() {
    for settings in [&[][..], &[("exactly.once.support", "required")]] {
        for slot_is_there in [false, true] {
            let db = Outbox::create(postgres18());
            let config = with(without_snapshot(&db), settings);
            relay_some(&db, &config, 0..2);
            db.make_anew(postgres18());
            insert(&db, 2..4);
            if slot_is_there {
                make_slot(&db);
            }
            let relay = Relay::start(&config);
            db.wait_until_streaming();
            insert(&db, 4..6);
            db.wait_until_confirmed();
            relay.wait_for_stderr("snapshot.mode decides about rows that are there already");
            assert_eq!(arrived(&db), (4, [0, 1, 4, 5].into()), "slot {slot_is_there}, {settings:?}");
            assert_eq!(relay.stop(), 0);
            // From here on it is known.
            drop_slot(&db);
            refused(&config);
        }
    }
}

#[test]
fn a_standby_that_finds_no_slot_does_not_make_one() {
    let db = Outbox::create(postgres18());
    let mut first = Relay::start(&without_snapshot(&db));
    db.wait_until_streaming();
    insert(&db, 0..2);
    db.wait_until_confirmed();
    let mut second = Relay::start(&without_snapshot(&db));
    second.wait_for_stderr("standing by");
    db.drop_slot_in_use();
    insert(&db, 2..4);
    assert_eq!(first.wait_for_exit(DEADLINE), 7, "{}", first.stderr());
    assert_eq!(second.wait_for_exit(DEADLINE), 7, "{}", second.stderr());
    assert!(db.slot().is_none(), "it must not be made anew");
}

fn key(db: &Outbox) -> String {
    json!([db.name(), { "server": db.name(), "database": db.name(), "slot": db.name() }]).to_string()
}

/// Writes a position behind the others.
fn keep(kafka: &Kafka, db: &Outbox, position: &Value) {
    let (key, value) = (key(db), position.to_string());
    kafka.produce(BaseRecord::to(TOPIC).partition(0).key(key.as_bytes()).payload(value.as_bytes()));
}

/// Returns the last position of this relay in the topic.
pub(crate) fn kept(kafka: &Kafka, db: &Outbox) -> Option<Value> {
    let key = key(db);
    let records = kafka.records(TOPIC);
    let ours = records.iter().rfind(|record| record.key() == key)?;
    serde_json::from_str(ours.value()).ok()
}

fn lsn_of(position: &Value) -> Lsn {
    position["lsn"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_position_is_in_kafka_before_it_is_confirmed_and_a_restart_continues() {
    for settings in [&[][..], &[("exactly.once.support", "required")]] {
        let db = Outbox::create(postgres18());
        let config = with(without_snapshot(&db), settings);
        relay_some(&db, &config, 0..3);
        let position = kept(kafka(), &db).unwrap();
        assert_eq!(Some(lsn_of(&position)), db.slot().unwrap().confirmed_flush_lsn, "{position}");
        assert_eq!((&position["phase"], &position["slot"]), (&json!("streaming"), &json!(db.name())));
        assert!(position["committed_at_us"].is_i64() && position["system_id"].is_string(), "{position}");

        insert(&db, 3..5);
        let mut relay = Relay::start(&config);
        db.wait_until_streaming();
        insert(&db, 5..7);
        kafka().wait_until_decided(db.name());
        kafka().wait_for_count(&db.topic("order"), 7);
        relay.kill();
        let confirmed = db.slot().unwrap().confirmed_flush_lsn.unwrap();
        assert!(confirmed <= lsn_of(&kept(kafka(), &db).unwrap()), "{confirmed}");
        relay_some(&db, &config, 7..9);
        kafka().wait_until_decided(db.name());
        assert_eq!(arrived(&db).1, (0..9).collect());
    }
}

/// The outbox is idle, and the database is not.
#[test]
fn the_position_of_an_idle_slot_moves_and_is_not_written_when_nothing_does() {
    let db = Outbox::create(postgres18());
    let relay = Relay::start(&without_snapshot(&db));
    db.wait_until_streaming();
    db.execute("CREATE TABLE other AS SELECT generate_series(1, 1000)");
    let confirmed = db.wait_until_confirmed();
    assert!(confirmed <= lsn_of(&kept(kafka(), &db).unwrap()));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_slot_can_be_accepted_where_it_stands_and_nowhere_else() {
    let db = Outbox::create(postgres18());
    relay_some(&db, &without_snapshot(&db), 0..2);
    insert(&db, 2..4);
    advance(&db);
    let slot_at = db.slot().unwrap().confirmed_flush_lsn.unwrap();
    let accepts = |lsn: Lsn| with(without_snapshot(&db), &[("outboxd.position.accept", &lsn.to_string())]);
    refused(&accepts(Lsn::new(slot_at.get() + 1)));
    let relay = Relay::start(&accepts(slot_at));
    relay.wait_for_stderr("outboxd.position.accept");
    db.wait_until_streaming();
    insert(&db, 4..6);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(arrived(&db), (4, [0, 1, 4, 5].into()));

    // The value is that of one slot.
    insert(&db, 6..7);
    advance(&db);
    refused(&accepts(slot_at));

    drop_slot(&db);
    let left_at = lsn_of(&kept(kafka(), &db).unwrap());
    refused(&accepts(slot_at));
    relay_some(&db, &accepts(left_at), 7..8);
    assert_eq!(arrived(&db), (5, [0, 1, 4, 5, 7].into()));
}

/// Left in the configuration, it must not give up the slot that it was meant for.
#[test]
fn a_value_is_accepted_once() {
    let db = Outbox::create(postgres18());
    let accepts = |lsn: Lsn| with(without_snapshot(&db), &[("outboxd.position.accept", &lsn.to_string())]);
    relay_some(&db, &without_snapshot(&db), 0..2);
    insert(&db, 2..4);
    advance(&db);
    let slot_at = db.slot().unwrap().confirmed_flush_lsn.unwrap();
    relay_some(&db, &accepts(slot_at), 4..5);
    // Without it the next start still knows that it was accepted.
    relay_some(&db, &without_snapshot(&db), 5..6);
    drop_slot(&db);
    insert(&db, 6..7);
    // The position has not moved since the start that accepted it.
    let mut position = kept(kafka(), &db).unwrap();
    position["lsn"] = json!(slot_at.to_string());
    position["epoch"] = json!(position["epoch"].as_u64().unwrap() + 1);
    keep(kafka(), &db, &position);
    let said = refused(&accepts(slot_at));
    assert!(said.contains("pg_create_logical_replication_slot"), "{said}");
    assert!(db.slot().is_none(), "it must not be made anew");
    make_slot(&db);
    let slot_at = db.slot().unwrap().confirmed_flush_lsn.unwrap();
    assert!(refused(&accepts(lsn_of(&position))).contains(&format!("outboxd.position.accept={slot_at}")));
    relay_some(&db, &accepts(slot_at), 7..8);

    // One that was not needed.
    let left_at = lsn_of(&kept(kafka(), &db).unwrap());
    let relay = Relay::start(&accepts(left_at));
    relay.wait_for_stderr("nothing has to be accepted");
    db.wait_until_streaming();
    // The first position of a session is written at once, and the end of one does not wait for Kafka for ever.
    eventually(DEADLINE, "the value is remembered", || {
        let accepted = &kept(kafka(), &db).unwrap()["accepted"];
        accepted.as_array().unwrap().contains(&json!(left_at.to_string()))
    });
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_slot_that_was_dropped_or_moved_is_created_again_with_every_row_when_that_is_wanted() {
    for act in [drop_slot, advance] {
        let db = Outbox::create(postgres18());
        relay_some(&db, &without_snapshot(&db), 0..2);
        insert(&db, 2..4);
        act(&db);
        let recovering = with(without_snapshot(&db), &[("slot.recovery", "snapshot")]);
        let relay = Relay::start(&recovering);
        relay.wait_for_stderr("creating the slot again");
        db.wait_until_streaming();
        insert(&db, 4..5);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        assert_eq!(arrived(&db), (2 + 4 + 1, (0..5).collect()));
    }
}

#[test]
fn always_sends_the_rows_behind_a_slot_that_was_moved() {
    let db = Outbox::create(postgres18());
    relay_some(&db, &without_snapshot(&db), 0..2);
    insert(&db, 2..4);
    advance(&db);
    relay_some(&db, &with(without_snapshot(&db), &[("snapshot.mode", "always")]), 4..5);
    assert_eq!(arrived(&db), (2 + 4 + 1, (0..5).collect()));
}

#[test]
fn a_slot_that_is_dropped_on_stop_is_made_again_by_a_start_and_by_a_standby() {
    let db = Outbox::create(postgres18());
    let config = with(without_snapshot(&db), &[("slot.drop.on.stop", "true")]);
    relay_some(&db, &config, 0..1);
    assert_eq!(kept(kafka(), &db).unwrap()["phase"], "dropped");
    assert!(db.slot().is_none());
    let first = Relay::start(&config);
    db.wait_until_streaming();
    let second = Relay::start(&config);
    second.wait_for_stderr("standing by");
    insert(&db, 1..2);
    db.wait_until_confirmed();
    assert_eq!(first.stop(), 0);
    db.wait_until_streaming();
    insert(&db, 2..3);
    db.wait_until_confirmed();
    assert_eq!(second.stop(), 0);
    assert_eq!(arrived(&db), (3, (0..3).collect()));
}

#[test]
fn another_cluster_is_noticed_by_a_start() {
    let (ours, theirs) = (Outbox::create(postgres18()), Outbox::create(postgres15()));
    relay_some(&ours, &without_snapshot(&ours), 0..1);
    // What names the relay is the same, but for the server.
    theirs.execute(&format!("CREATE DATABASE {} TEMPLATE {}", ours.name(), theirs.name()));
    let config = with(
        without_snapshot(&ours),
        &[("database.port", &theirs.address().port.to_string()), ("outboxd.startup.timeout.ms", "20000")],
    );
    let said = refused(&config);
    assert!(said.contains("its system identifier is") && said.contains("outboxd.position.accept="), "{said}");
}

/// Nothing is confirmed that Kafka does not have; a stop does not wait for ever.
#[test]
fn while_kafka_is_away_nothing_is_confirmed_and_a_stop_ends_in_time() {
    let mut kafka = Kafka::start();
    let db = Outbox::create(postgres18());
    let config = with(db.config(&kafka), &[("snapshot.mode", "no_data")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    insert(&db, 0..1);
    db.wait_until_confirmed();
    let left_at = lsn_of(&kept(&kafka, &db).unwrap());
    kafka.kill();
    // No event of ours: only the position would have to be written.
    db.execute("CREATE TABLE other AS SELECT generate_series(1, 1000)");
    relay.wait_for_stderr("\"component\":\"kafka\"");
    let began = Instant::now();
    assert_eq!(relay.stop(), 0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let confirmed = db.slot().unwrap().confirmed_flush_lsn.unwrap();
    assert!(confirmed <= left_at, "confirmed {confirmed}, Kafka has {left_at}");
    kafka.start_again();
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    insert(&db, 1..2);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// What it reads there about other relays can wait.
#[test]
fn a_relay_is_back_on_its_slot_before_kafka_is() {
    let mut kafka = Kafka::start();
    let db = Outbox::create(postgres18());
    let settings = [("snapshot.mode", "no_data"), ("status.update.interval.ms", "500")];
    let relay = Relay::start(&with(db.config(&kafka), &settings));
    db.wait_until_streaming();
    insert(&db, 0..1);
    db.wait_until_confirmed();
    kafka.pause();
    let (before, _) = db.last_reply().unwrap();
    db.end_the_stream();
    eventually(DEADLINE, "another walsender hears from the relay", || {
        db.last_reply().is_some_and(|(walsender, _)| walsender != before)
    });
    // Longer than Kafka is asked for an answer.
    db.wait_for_status_updates(Duration::from_secs(11));
    let left_at = db.slot().unwrap().confirmed_flush_lsn.unwrap();
    insert(&db, 1..2);
    kafka.resume();
    db.wait_until_confirmed();
    assert!(left_at <= lsn_of(&kept(&kafka, &db).unwrap()));
    assert_eq!(kafka.records(&db.topic("order")).len(), 2);
    assert_eq!(relay.stop(), 0);
}

/// PostgreSQL takes 63 bytes for a slot's name, and as many for the name of a session.
#[test]
fn two_first_starts_with_a_long_slot_name_take_one_snapshot() {
    const ROWS: usize = 20_000;
    let db = Outbox::create(postgres18());
    db.execute(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
         SELECT gen_random_uuid(), 'order', 'o-' || n % 50, 'OrderCreated', jsonb_build_object('n', n)
         FROM generate_series(1, {ROWS}) n"
    ));
    let slot = format!("{:x<63}", db.name());
    let settings = [("slot.name", slot.as_str()), ("outboxd.inflight.records.max", "100")];
    let config = with(db.config(kafka()), &settings);
    let first = Relay::start(&config);
    kafka().wait_for_count(&db.topic("order"), 100);
    let second = Relay::start(&config);
    second.wait_for_stderr("standing by");
    let streams = "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active";
    eventually(DEADLINE, "the first streams", || !db.query(streams, &[&slot]).is_empty());
    assert_eq!(second.stop(), 0);
    assert_eq!(first.stop(), 0);
    assert_eq!(kafka().records(&db.topic("order")).len(), ROWS);
    drop(db.query("SELECT pg_drop_replication_slot($1)", &[&slot]));
}
