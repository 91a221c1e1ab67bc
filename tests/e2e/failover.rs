//! The primary dies and its standby is promoted; the relay's slot is a failover slot and is there too.

use std::time::{Duration, Instant};

use outboxd::internals::throwaway::{StopMode, unused_port};
use serde_json::Value;

use crate::support::backlog::Backlog;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres;
use crate::support::proxy::{Protocol, Proxy};
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::{Address, Session};
use crate::support::standby::Pair;
use crate::support::wait::{DEADLINE, eventually};

const BACKLOG: Backlog = Backlog { key_count: 50 };

#[test]
fn a_relay_follows_a_failover_and_loses_nothing() {
    let repeats = repeats_after_failover(&[]);
    println!("{repeats} records came again");
}

#[test]
fn with_exactly_once_a_failover_repeats_nothing() {
    assert_eq!(repeats_after_failover(&[("exactly.once.support", "required")]), 0);
}

fn repeats_after_failover(settings: &[(&str, &str)]) -> usize {
    let mut pair = Pair::start(18);
    let (db, link) = (Outbox::create(&pair.primary), Proxy::start(Protocol::Postgres, pair.primary.port()));
    let topic = db.topic(Backlog::TYPE);
    let port = unused_port().unwrap();
    let config = with(config(&db, &link), settings);
    let mut relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    pair.wait_until_synchronised(db.name());
    relay.pause();
    BACKLOG.insert(&db, 0..20_000, 100);
    relay.resume();
    kafka().wait_for_count(&topic, 500);
    pair.primary.kill().unwrap();

    // Between the primary's death and the promotion the address leads to a standby: that is no reason to leave.
    link.redirect(pair.standby.port());
    get_until(port, "/readyz", "waits for the promotion", |page| page.body.contains("is a standby"));
    assert!(relay.is_running());
    pair.promote();
    let after = Session::new(Address::of(&pair.standby, db.name()));
    wait_until_streaming(&after, &db);
    let kept = kept(&after);
    assert!(kept >= 500, "the standby has {kept} rows");
    insert_one(&after, kept);
    wait_until_confirmed(&after, &db);
    kafka().wait_until_decided(db.name());
    println!("{kept} of 20000 rows were on the standby");
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&topic), 0..kept + 1)
}

/// The relay that was active does not know of the failover: it was paused, and its successor follows instead of it.
#[test]
fn a_standing_by_relay_takes_over_on_the_new_primary_and_the_old_one_stands_by() {
    let mut pair = Pair::start(17);
    let (db, link) = (Outbox::create(&pair.primary), Proxy::start(Protocol::Postgres, pair.primary.port()));
    let topic = db.topic(Backlog::TYPE);
    let mut first = Relay::start(&config(&db, &link));
    db.wait_until_streaming();
    pair.wait_until_synchronised(db.name());
    let mut second = Relay::start(&config(&db, &link));
    second.wait_for_stderr("standing by");
    first.pause();
    BACKLOG.insert(&db, 0..20_000, 100);
    first.resume();
    kafka().wait_for_count(&topic, 500);
    first.pause();
    pair.primary.kill().unwrap();
    link.redirect(pair.standby.port());
    pair.promote();
    let after = Session::new(Address::of(&pair.standby, db.name()));
    wait_until_streaming(&after, &db);
    let said_before = first.stderr().len();
    first.resume();
    eventually(DEADLINE, "the first relay stands by", || {
        first.stderr().get(said_before..).is_some_and(|said| said.contains("standing by"))
    });
    let streams =
        after.query("SELECT FROM pg_stat_replication WHERE state IN ('catchup', 'streaming')", &[]).len();
    assert_eq!(streams, 1, "relays that stream");
    let kept = kept(&after);
    insert_one(&after, kept);
    wait_until_confirmed(&after, &db);
    check_firsts(&kafka().records(&topic), kept + 1);
    assert!(first.is_running() && second.is_running());
}

/// Its start is over once it stands by, however long PostgreSQL is away then.
#[test]
fn a_relay_that_stands_by_outlasts_a_restart_of_postgres() {
    const PATIENCE_AT_START: Duration = Duration::from_secs(2);
    let mut server = postgres::start(18);
    let db = Outbox::create(&server);
    let mut first = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    let patience = PATIENCE_AT_START.as_millis().to_string();
    let began = Instant::now();
    let mut second = Relay::start(&with(db.config(kafka()), &[("outboxd.startup.timeout.ms", &patience)]));
    second.wait_for_stderr("standing by");
    db.disconnect();
    server.stop(StopMode::Immediate, DEADLINE).unwrap();
    second.wait_for_stderr("component is down");
    eventually(DEADLINE, "its patience at the start is over twice", || {
        began.elapsed() > PATIENCE_AT_START * 2
    });
    assert!(second.is_running(), "it has left");
    server.start_again().unwrap();
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..100, 10);
    db.wait_until_confirmed();
    assert!(first.is_running() && second.is_running());
}

#[test]
fn a_first_start_at_a_standby_is_refused() {
    let pair = Pair::start(18);
    let db = Outbox::create(&pair.primary);
    let standby = Session::new(Address::of(&pair.standby, db.name()));
    eventually(DEADLINE, "the standby has the database", || standby.try_execute("").is_ok());
    let link = Proxy::start(Protocol::Postgres, pair.standby.port());
    let mut relay = Relay::start(&config(&db, &link));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    assert!(relay.stderr().contains("point database.hostname at the primary"), "{}", relay.stderr());
}

fn config(db: &Outbox, link: &Proxy) -> Config {
    let port = link.port().to_string();
    let settings = [
        ("database.port", port.as_str()),
        ("database.sslmode", "disable"),
        ("slot.failover", "true"),
        ("outboxd.inflight.records.max", "50"),
    ];
    with(db.config(kafka()), &settings)
}

fn wait_until_streaming(session: &Session, db: &Outbox) {
    let sql =
        "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid WHERE slot_name = $1";
    eventually(DEADLINE, "a relay streams from the new primary", || {
        !session.query(sql, &[&db.name()]).is_empty()
    });
}

fn wait_until_confirmed(session: &Session, db: &Outbox) {
    let target: String = session.query("SELECT pg_current_wal_lsn()::text", &[])[0].get(0);
    let sql = format!(
        "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND confirmed_flush_lsn >= '{target}'::pg_lsn"
    );
    eventually(DEADLINE, "the new primary is confirmed", || !session.query(&sql, &[&db.name()]).is_empty());
}

/// Returns the number of rows that the standby has received. They were written in order, so it has the first ones.
fn kept(session: &Session) -> u64 {
    let count: i64 = session.query("SELECT count(*) FROM outbox", &[])[0].get(0);
    u64::try_from(count).unwrap()
}

/// Checks that each event is first seen behind those before it. Records that the paused relay had in flight are between
/// the records of its successor, so a replay is not in one piece.
#[track_caller]
fn check_firsts(records: &[Record], count: u64) {
    let mut next: Vec<u64> = (0..BACKLOG.key_count).collect();
    for record in records {
        let value: Value = serde_json::from_str(record.value()).unwrap();
        let n = value["n"].as_u64().unwrap();
        let next = &mut next[usize::try_from(n % BACKLOG.key_count).unwrap()];
        assert!(n <= *next, "{n} has overtaken {next}");
        *next = (*next).max(n + BACKLOG.key_count);
    }
    assert!(
        next.iter().all(|next| (count..count + BACKLOG.key_count).contains(next)),
        "of {count}: {next:?}"
    );
}

fn insert_one(session: &Session, number: u64) {
    session.execute(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
         VALUES (gen_random_uuid(), '{}', 'k{}', 'Numbered', jsonb_build_object('n', {number}))",
        Backlog::TYPE,
        number % BACKLOG.key_count
    ));
}
