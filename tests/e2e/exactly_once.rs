//! Exactly once, for consumers that read committed records only.

use std::time::Duration;

use outboxd::internals::kafka::{Options, StateTopic, Stored};
use pg_replication::wal::Lsn;
use tokio_util::sync::CancellationToken;

use crate::printed_fixes::{fix_of, setting};
use crate::support::backlog::Backlog;
use crate::support::kafka::{DECIDED_WITHIN, Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::support::withheld::Withheld;

pub(crate) const BACKLOG: Backlog = Backlog { key_count: 200 };
const ROWS: u64 = 20_000;

/// Returns a configuration with Kafka transactions of 100 records and fewer.
pub(crate) fn exactly_once(db: &Outbox, kafka: &Kafka) -> Config {
    let settings = [("exactly.once.support", "required"), ("outboxd.inflight.records.max", "100")];
    with(db.config(kafka), &settings)
}

/// Creates a slot with `rows` rows to send.
pub(crate) fn write_backlog(db: &Outbox, config: &Config, rows: u64, per_transaction: u64) {
    let relay = Relay::start(config);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    BACKLOG.insert(db, 0..rows, per_transaction);
}

/// Checks that each row is there once, and that no record is undecided.
#[track_caller]
pub(crate) fn check(db: &Outbox, kafka: &Kafka, rows: u64) {
    db.wait_until_confirmed();
    kafka.wait_until_decided(db.name());
    let records = kafka.records(&db.topic(Backlog::TYPE));
    assert_eq!(BACKLOG.check(&records, 0..rows), 0, "repeats");
}

/// The producer takes nothing more as soon as the record has failed, maybe before the report of that is there.
#[test]
fn a_record_that_is_too_large_is_named_also_when_others_follow_it() {
    let db = Outbox::create(postgres18());
    kafka().create_topic(&db.topic(Backlog::TYPE), 1, &[("max.message.bytes", "16384")]);
    let config = with(
        exactly_once(&db, kafka()),
        &[("producer.batch.size", "8000"), ("outboxd.inflight.records.max", "2000")],
    );
    write_backlog(&db, &config, 200, 1);
    let large = format!(r#"{{"x": "{}"}}"#, "x".repeat(28_000));
    db.insert(&[Event::new(Backlog::TYPE, "large", "Numbered", &large)]);
    BACKLOG.insert(&db, 200..20_000, 100);
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    assert!(relay.stderr().contains("max.message.bytes"), "{}", relay.stderr());
}

#[test]
fn what_is_confirmed_is_committed() {
    let db = Outbox::create(postgres18());
    let relay = Relay::start(&exactly_once(&db, kafka()));
    db.wait_until_streaming();
    for n in 0..5 {
        let event = Event::new("order", &n.to_string(), "OrderCreated", "{}");
        db.insert(std::slice::from_ref(&event));
        db.wait_until_confirmed();
        kafka().wait_until_decided(db.name());
        let records = kafka().records(&db.topic("order"));
        assert_eq!(records.len(), n + 1);
        assert!(records.iter().any(|record| record.header("id") == event.id.to_string()), "{records:?}");
    }
    assert_eq!(relay.stop(), 0);
}

#[test]
fn an_outage_that_is_longer_than_a_transaction_may_last_repeats_nothing() {
    let mut kafka = Kafka::start();
    let db = Outbox::create(postgres18());
    let timeout = [("producer.override.transaction.timeout.ms", "3000")];
    let config = with(exactly_once(&db, &kafka), &timeout);
    write_backlog(&db, &config, 20_000, 100);
    let mut relay = Relay::start(&config);
    kafka.wait_for_count(&db.topic(Backlog::TYPE), 2_000);
    kafka.pause();
    let_pass(Duration::from_secs(7));
    kafka.resume();
    check(&db, &kafka, 20_000);
    assert!(relay.is_running());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_relay_that_is_killed_again_and_again_repeats_nothing() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let config = exactly_once(&db, kafka());
        write_backlog(&db, &config, ROWS, 100);
        kill_again_and_again(&db, &config, || ());
        let relay = Relay::start(&config);
        check(&db, kafka(), ROWS);
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_transaction_that_is_larger_than_kafkas_is_split_and_continues_where_it_was() {
    let db = Outbox::create(postgres18());
    let config = exactly_once(&db, kafka());
    write_backlog(&db, &config, ROWS, ROWS);
    let before = confirmed(&db);
    kill_again_and_again(&db, &config, || ());
    assert_eq!(confirmed(&db), before, "a part of a transaction is confirmed");
    let relay = Relay::start(&config);
    relay.wait_for_stderr("resuming after the last committed Kafka transaction");
    check(&db, kafka(), ROWS);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn source_transactions_that_fit_are_not_torn() {
    let db = Outbox::create(postgres18());
    let config = exactly_once(&db, kafka());
    write_backlog(&db, &config, ROWS, 40);
    let topic = db.topic(Backlog::TYPE);
    kill_again_and_again(&db, &config, || {
        eventually(DECIDED_WITHIN, "what is committed is whole transactions of 40 rows", || {
            kafka().records(&topic).len().is_multiple_of(40)
        });
    });
    let _relay = Relay::start(&config);
    check(&db, kafka(), ROWS);
}

#[test]
fn stops_under_load_leave_nothing_open() {
    let db = Outbox::create(postgres18());
    let (config, topic) = (exactly_once(&db, kafka()), db.topic(Backlog::TYPE));
    write_backlog(&db, &config, 20_000, 100);
    for round in 1..4 {
        let relay = Relay::start(&config);
        kafka().wait_for_count(&topic, round * 3000);
        assert_eq!(relay.stop(), 0);
        kafka().wait_until_decided(db.name());
    }
    let _relay = Relay::start(&config);
    check(&db, kafka(), 20_000);
}

#[test]
fn a_connection_that_breaks_in_the_middle_repeats_nothing() {
    let db = Outbox::create(postgres15());
    let (config, topic) = (exactly_once(&db, kafka()), db.topic(Backlog::TYPE));
    write_backlog(&db, &config, 20_000, 500);
    let mut relay = Relay::start(&config);
    for round in 1..4 {
        kafka().wait_for_count(&topic, round * 3000);
        db.end_the_stream();
    }
    check(&db, kafka(), 20_000);
    assert!(relay.is_running());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn the_rows_of_a_snapshot_come_before_the_stream() {
    let db = Outbox::create(postgres18());
    BACKLOG.insert(&db, 0..3_000, 100);
    let config = with(exactly_once(&db, kafka()), &[("snapshot.mode", "initial")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert_eq!(kafka().records(&db.topic(Backlog::TYPE)).len(), 3_000);
    BACKLOG.insert(&db, 3_000..4_000, 10);
    check(&db, kafka(), 4_000);
    assert_eq!(relay.stop(), 0);
}

/// An idle slot advances beyond the position of the last Kafka transaction.
#[test]
fn a_slot_that_has_moved_on_is_no_matter() {
    let db = Outbox::create(postgres18());
    let config = exactly_once(&db, kafka());
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..200, 10);
    db.wait_until_confirmed();
    db.execute("CREATE TABLE noise AS SELECT generate_series(1, 20000)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let relay = Relay::start(&config);
    relay.wait_for_stderr("resuming after the last committed Kafka transaction");
    BACKLOG.insert(&db, 200..400, 10);
    check(&db, kafka(), 400);
    assert_eq!(relay.stop(), 0);
}

/// The state belongs to an older slot: a new one would begin behind a gap.
#[test]
fn a_slot_that_was_dropped_while_no_client_ran_is_not_created_again_in_silence() {
    let db = Outbox::create(postgres18());
    let settings = [("snapshot.mode", "no_data"), ("outboxd.position.topic", "")];
    let config = with(exactly_once(&db, kafka()), &settings);
    write_backlog(&db, &config, 100, 10);
    let relay = Relay::start(&config);
    check(&db, kafka(), 100);
    assert_eq!(relay.stop(), 0);
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
    BACKLOG.insert(&db, 100..200, 10);
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(DEADLINE), 7, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(said.contains("Kafka has events up to") && said.contains("slot.recovery=snapshot"), "{said}");
    assert!(db.slot().is_none(), "a slot was made");
    // Either way out: with new rows only, behind another state, or with all rows.
    let state = format!("{}-state", db.name());
    let fix = fix_of(&relay);
    let anew = [("outboxd.exactly.once.state.topic", state.as_str()), setting(&fix, "snapshot.mode")];
    let relay = Relay::start(&with(config.clone(), &anew));
    db.wait_until_streaming();
    check(&db, kafka(), 100);
    assert_eq!(relay.stop(), 0);
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
    let relay = Relay::start(&with(config, &[("slot.recovery", "snapshot")]));
    kafka().wait_for_count(&db.topic(Backlog::TYPE), 300);
    db.wait_until_streaming();
    BACKLOG.insert(&db, 200..300, 10);
    db.wait_until_confirmed();
    BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..300);
    assert_eq!(relay.stop(), 0);
}

/// Kills the relay in the middle of its rows, each time a little later, until it has sent half of them: what it sends
/// before the kill reaches it cannot be foreseen. What must be so after each kill is looked at.
fn kill_again_and_again(db: &Outbox, config: &Config, look: impl Fn()) {
    let topic = db.topic(Backlog::TYPE);
    let link = Withheld::from(config, &Backlog::payload(ROWS * 9 / 10));
    let (mut seen, rows) = (0, usize::try_from(ROWS).unwrap());
    while seen < rows / 2 {
        let mut relay = Relay::start(link.config());
        kafka().wait_for_count(&topic, i64::try_from(seen).unwrap() + 2_500);
        relay.kill();
        look();
        seen = kafka().records(&topic).len();
    }
}

pub(crate) fn confirmed(db: &Outbox) -> Option<Lsn> {
    db.slot().unwrap().confirmed_flush_lsn
}

/// An operator removes the state, for example after revoking what it describes.
#[test]
fn a_state_that_is_removed_is_gone() {
    let db = Outbox::create(postgres18());
    let relay = Relay::start(&exactly_once(&db, kafka()));
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..10, 10);
    check(&db, kafka(), 10);
    assert_eq!(relay.stop(), 0);
    let bootstrap_servers = kafka().bootstrap();
    let options = Options {
        bootstrap_servers,
        properties: Vec::new(),
        connect_timeout: DEADLINE,
        tokens: None,
        topic_creation: None,
        trust_store: None,
        key_store: None,
        login: None,
    };
    let topic = StateTopic::new(&options, &format!("__outboxd-state.{}", db.name()));
    let (key, stop) = (db.name().as_bytes(), CancellationToken::new());
    let read = || topic.read(key, DEADLINE, &stop).unwrap();
    assert!(matches!(read(), Stored::Value(_)));
    topic.forget(key, DEADLINE, &stop).unwrap();
    assert_eq!(read(), Stored::Nothing);
}
