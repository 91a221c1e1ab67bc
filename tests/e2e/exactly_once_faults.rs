//! Exactly once, while something breaks between the relay and Kafka, or another takes over.

use std::time::Duration;

use outboxd::internals::throwaway::unused_port;
use pg_replication::wal::Lsn;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::exactly_once::{BACKLOG, check, confirmed, exactly_once, write_backlog};
use crate::support::backlog::Backlog;
use crate::support::broker_proxy::{BrokerProxy, Fault};
use crate::support::http::{Page, get_until};
use crate::support::kafka::{Kafka, MARKERS_WRITTEN, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::support::withheld::Withheld;

#[test]
fn a_relay_that_wakes_up_behind_its_successor_commits_nothing_more() {
    let server = postgres::start_with(18, &[("wal_sender_timeout", "2s")]);
    let db = Outbox::create(&server);
    let config = exactly_once(&db, kafka());
    write_backlog(&db, &config, 10_000, 100);
    let port = unused_port().unwrap();
    let link = Withheld::from(&config, &Backlog::payload(9_000));
    let mut first = Relay::start(link.config());
    db.wait_until_streaming();
    let _second = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    kafka().wait_for_count(&db.topic(Backlog::TYPE), 2_000);
    first.pause();
    get_until(port, "/readyz", "has taken over", |page| page.code == 200 && page.body.contains("\"active\""));
    first.resume();
    check(&db, kafka(), 10_000);
    BACKLOG.insert(&db, 10_000..11_000, 10);
    check(&db, kafka(), 11_000);
    let counted = r#"outboxd_kafka_transactions_total{result="committed"}"#;
    get_until(port, "/metrics", "counts commits", |page| {
        page.sample(counted).is_some_and(|count| count > 0.0)
    });
    assert!(first.is_running(), "{}", first.stderr());
}

/// Not in the middle of a commit, which Kafka may forget: see below.
#[test]
fn a_broker_that_dies_and_comes_back_repeats_nothing() {
    let mut kafka = Kafka::start();
    let db = Outbox::create(postgres18());
    let (config, topic) = (exactly_once(&db, &kafka), db.topic(Backlog::TYPE));
    write_backlog(&db, &config, 20_000, 100);
    let mut relay = Relay::start(&config);
    for round in 1..3 {
        kafka.wait_for_count(&topic, round * 2_000);
        relay.pause();
        let_pass(MARKERS_WRITTEN);
        kafka.kill();
        relay.resume();
        kafka.start_again();
    }
    check(&db, &kafka, 20_000);
    assert!(relay.is_running());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn nothing_is_confirmed_before_its_commit() {
    let Proxied { db, proxy, kafka, relay } = Proxied::start("60000");
    // Other tests write to the same server, and what lies before the row may be confirmed.
    let insert = "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', '1', 'OrderCreated', '{}')
                  RETURNING pg_current_wal_insert_lsn()::text";
    let row_lsn: Lsn = db.query(insert, &[])[0].get::<_, String>(0).parse().unwrap();
    proxy.wait_until_held();
    assert_eq!(kafka.record_count(&db.topic("order")), 0, "it is visible");
    assert!(kafka.undecided_count(db.name()) > 0, "it is not written");
    let now = db.query("SELECT clock_timestamp()::text", &[])[0].get::<_, String>(0);
    let heard = "SELECT FROM pg_stat_replication JOIN pg_replication_slots ON pid = active_pid
                 WHERE slot_name = $1 AND reply_time > $2::text::timestamptz";
    eventually(DEADLINE, "the relay tells how far it is", || {
        !db.query(heard, &[&db.name(), &now]).is_empty()
    });
    assert!(db.slot().unwrap().confirmed_flush_lsn.unwrap() <= row_lsn, "the row is confirmed");
    proxy.release();
    db.wait_until_confirmed();
    assert_eq!(kafka.records(&db.topic("order")).len(), 1);
    assert_eq!(relay.stop(), 0);
}

/// The commit's request is on its way for longer than anybody waits, and arrives after all.
#[test]
fn a_commit_of_which_nothing_is_known_is_found_out() {
    let Proxied { db, proxy, kafka, relay } = Proxied::start("3000");
    BACKLOG.insert(&db, 0..1_000, 10);
    proxy.wait_until_held();
    relay.wait_for_stderr("cannot be committed");
    kafka.wait_for_count(&db.topic(Backlog::TYPE), 100);
    proxy.release();
    check(&db, &kafka, 1_000);
    BACKLOG.insert(&db, 1_000..2_000, 10);
    check(&db, &kafka, 2_000);
    assert_eq!(relay.stop(), 0);
}

/// The commit's request was sent a second time, because its connection broke or it was not answered in time, and that one was
/// answered. The first one arrives later, and would commit whatever is open then.
#[test]
fn a_producer_whose_commit_may_arrive_again_is_replaced() {
    let timeout = [("rdkafka.socket.timeout.ms", "2000")];
    for (fault, more) in [(Fault::CommitDelayed, &[][..]), (Fault::CommitUnanswered, &timeout)] {
        let Proxied { db, proxy, kafka, relay } = Proxied::start_with(fault, "60000", more);
        BACKLOG.insert(&db, 0..100, 10);
        proxy.wait_until_held();
        relay.wait_for_stderr("may arrive once more");
        BACKLOG.insert(&db, 100..2_000, 100);
        kafka.wait_for_count(&db.topic(Backlog::TYPE), 500);
        proxy.release();
        check(&db, &kafka, 2_000);
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn one_that_takes_the_transactions_over_without_the_slot_is_reported() {
    let db = Outbox::create(postgres18());
    let id = format!("{}-id", db.name());
    let config = with(exactly_once(&db, kafka()), &[("producer.override.transactional.id", &id)]);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    let mut written = 0;
    eventually(DEADLINE, "the relay gives up", || {
        BACKLOG.insert(&db, written..written + 10, 10);
        written += 10;
        let other: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", kafka().bootstrap())
            .set("transactional.id", &id)
            .create()
            .unwrap();
        other.init_transactions(DEADLINE).unwrap();
        !relay.is_running()
    });
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    let said = relay.stderr();
    assert!(said.contains(&id) && said.contains("producer.override.transactional.id"), "{said}");
    let relay = Relay::start(&config);
    check(&db, kafka(), written);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn dead_letters_are_part_of_the_transaction() {
    let db = Outbox::create(postgres18());
    let (topic, dead) = (db.topic("order"), db.topic("dead"));
    kafka().create_topic(&topic, 1, &[("max.message.bytes", "20000")]);
    let settings = [("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", dead.as_str())];
    let config = with(exactly_once(&db, kafka()), &settings);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    let payload = |n: usize| match n % 100 {
        50 => format!(r#"{{"n": {n}, "x": "{}"}}"#, "x".repeat(30_000)),
        _ => format!(r#"{{"n": {n}}}"#),
    };
    let events: Vec<_> = (0..300).map(|n| Event::new("order", "o-1", "Numbered", &payload(n))).collect();
    events.chunks(5).for_each(|events| db.insert(events));
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    kafka().wait_until_decided(db.name());
    let ids = |topic: &str| -> Vec<String> {
        kafka().records(topic).iter().map(|record| record.header("id").to_owned()).collect()
    };
    let expected = |large: bool| -> Vec<String> {
        let events = events.iter().enumerate().filter(|(n, _)| (n % 100 == 50) == large);
        events.map(|(_, event)| event.id.to_string()).collect()
    };
    assert_eq!(ids(&topic), expected(false));
    assert_eq!(ids(&dead), expected(true));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn what_came_before_a_row_that_cannot_be_sent_is_committed() {
    let db = Outbox::create(postgres18());
    let config = exactly_once(&db, kafka());
    write_backlog(&db, &config, 1_000, 100);
    db.execute("ALTER TABLE outbox ALTER aggregatetype DROP NOT NULL");
    db.execute("INSERT INTO outbox SELECT gen_random_uuid(), NULL, 'k', 'Numbered', '{}'");
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    kafka().wait_until_decided(db.name());
    assert_eq!(BACKLOG.check(&kafka().records(&db.topic(Backlog::TYPE)), 0..1_000), 0, "repeats");
}

/// The records committed behind it cannot be read.
#[test]
fn a_transaction_that_another_client_has_left_open_in_the_states_topic_is_reported_and_waited_for() {
    let db = Outbox::create(postgres18());
    let config = exactly_once(&db, kafka());
    write_backlog(&db, &config, 100, 100);
    let other = Neighbour::open(&db, &format!("__outboxd-state.{}", db.name()), 0);
    let mut relay = Relay::start(&config);
    relay.wait_for_stderr("neither committed nor aborted");
    assert!(relay.is_running(), "{}", relay.stderr());
    assert!(kafka().records(&db.topic(Backlog::TYPE)).is_empty());
    other.end();
    check(&db, kafka(), 100);
    assert_eq!(relay.stop(), 0);
}

/// Kafka promises a commit before it sends the markers to the partitions, and may forget them. Records that consumers
/// do not see are not confirmed.
#[test]
fn nothing_is_confirmed_that_consumers_do_not_see() {
    let db = Outbox::create(postgres18());
    let (config, topic) = (exactly_once(&db, kafka()), db.topic(Backlog::TYPE));
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..100, 10);
    check(&db, kafka(), 100);
    let other = Neighbour::open(&db, &topic, 0);
    let hidden = BACKLOG.insert_at(&db, 100..200);
    let told = |page: &Page| page.code == 503 && page.body.contains("neither committed nor aborted");
    get_until(port, "/readyz", "tells what hides the rows", told);
    assert!(kafka().records(&topic).len() < 200, "all rows are visible");
    assert!(confirmed(&db) <= Some(hidden), "hidden rows are confirmed");
    other.end();
    check(&db, kafka(), 200);
    get_until(port, "/readyz", "is well again", |page| page.code == 200);
    assert_eq!(relay.stop(), 0);
}

/// It may be of a predecessor of ours, whose abort Kafka has forgotten: a commit of ours would commit it too.
#[test]
fn nothing_is_written_behind_what_was_left_open_in_a_topic() {
    let db = Outbox::create(postgres18());
    let (config, topic) = (exactly_once(&db, kafka()), db.topic(Backlog::TYPE));
    write_backlog(&db, &config, 100, 100);
    let other = Neighbour::open(&db, &topic, 0);
    let relay = Relay::start(&config);
    relay.wait_for_stderr("neither committed nor aborted");
    assert_eq!(kafka().undecided_count(db.name()), 1, "something was written");
    other.end();
    check(&db, kafka(), 100);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_snapshot_reports_what_it_waits_for() {
    let db = Outbox::create(postgres18());
    BACKLOG.insert(&db, 0..100, 100);
    let other = Neighbour::open(&db, &db.topic(Backlog::TYPE), 0);
    let relay = Relay::start(&exactly_once(&db, kafka()));
    relay.wait_for_stderr("neither committed nor aborted");
    other.end();
    check(&db, kafka(), 100);
    assert_eq!(relay.stop(), 0);
}

/// According to the state the rows are in Kafka, but consumers do not see them.
#[test]
fn rows_of_a_transaction_that_consumers_do_not_see_are_not_skipped() {
    let db = Outbox::create(postgres18());
    let (config, topic) = (exactly_once(&db, kafka()), db.topic(Backlog::TYPE));
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    BACKLOG.insert(&db, 0..10, 10);
    check(&db, kafka(), 10);
    let other = Neighbour::open(&db, &topic, 0);
    let hidden = BACKLOG.insert_at(&db, 10..20);
    eventually(DEADLINE, "the rows are committed", || {
        kafka().records(&format!("__outboxd-state.{}", db.name())).len() == 2
    });
    relay.kill();
    let relay = Relay::start(&config);
    relay.wait_for_stderr("neither committed nor aborted");
    assert!(confirmed(&db) <= Some(hidden), "hidden rows are confirmed");
    other.end();
    check(&db, kafka(), 20);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_commit_that_kafka_forgets_is_reported_and_its_rows_can_be_had_again() {
    let mut forgotten = Forgotten::new();
    if forgotten.is_told() {
        forgotten.proxied.relay.kill();
        forgotten.abort();
        let Proxied { db, kafka, relay, .. } = &mut forgotten.proxied;
        let anew = [("outboxd.exactly.once.state.topic", "__outboxd-state.anew")];
        *relay = Relay::start(&with(exactly_once(db, kafka), &anew));
    }
    forgotten.check();
}

#[test]
fn the_rows_of_a_commit_that_was_taken_back_come_again() {
    let forgotten = Forgotten::new();
    if forgotten.is_told() {
        forgotten.abort();
    }
    forgotten.check();
}

/// Kafka has promised a commit when its only broker dies. The broker starts again, and omits the markers of partitions
/// that have no leader yet: the transaction stays open for good. This does not always happen; otherwise there is
/// nothing to fix.
struct Forgotten {
    proxied: Proxied,
    written: Lsn,
}

impl Forgotten {
    fn new() -> Self {
        let mut proxied = Proxied::start_with(Fault::MarkersHeld, "60000", &[]);
        let Proxied { db, proxy, kafka, .. } = &mut proxied;
        BACKLOG.insert(db, 0..10, 10);
        let written = wal_end(db);
        proxy.wait_until_held();
        kafka.kill();
        proxy.release();
        kafka.start_again();
        let forgotten = Self { proxied, written };
        eventually(DEADLINE, "it is made up for or told", || forgotten.is_confirmed() || forgotten.is_told());
        assert!(!(forgotten.is_told() && forgotten.is_confirmed()), "hidden rows are confirmed");
        forgotten
    }

    fn is_told(&self) -> bool {
        self.proxied.relay.stderr().contains("neither committed nor aborted")
    }

    fn is_confirmed(&self) -> bool {
        confirmed(&self.proxied.db) >= Some(self.written)
    }

    fn abort(&self) {
        let Proxied { db, kafka, .. } = &self.proxied;
        assert!(kafka.abort_open("__outboxd-state") + kafka.abort_open(db.name()) > 0);
    }

    fn check(self) {
        let Proxied { db, kafka, relay, .. } = self.proxied;
        db.wait_until_confirmed();
        kafka.wait_until_decided(db.name());
        // Rows are repeated only where the markers of some partitions were not forgotten.
        BACKLOG.check(&kafka.records(&db.topic(Backlog::TYPE)), 0..10);
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_state_of_another_server_is_refused() {
    let db = Outbox::create(postgres18());
    let config = exactly_once(&db, kafka());
    write_backlog(&db, &config, 100, 100);
    let relay = Relay::start(&config);
    check(&db, kafka(), 100);
    assert_eq!(relay.stop(), 0);
    let topic = format!("__outboxd-state.{}", db.name());
    let states = kafka().records(&topic);
    let written = states.last().unwrap().value();
    let (system, number) =
        written.split_once("\"system_id\":\"").map(|(_, rest)| rest.split_once('"').unwrap()).unwrap();
    assert!(number.contains("commit_lsn"), "{written}");
    let other = written.replace(system, "1234");
    for (value, code, words) in
        [(other.as_str(), 7, "system identifier 1234"), ("{}", 3, "missing field `version`")]
    {
        let record = BaseRecord::to(&topic).key(db.name().as_bytes()).payload(value.as_bytes()).partition(0);
        kafka().produce(record);
        let mut relay = Relay::start(&config);
        assert_eq!(relay.wait_for_exit(Duration::from_secs(30)), code, "{}", relay.stderr());
        let said = relay.stderr();
        assert!(said.contains(words) && said.contains(&topic), "{said}");
    }
}

fn wal_end(db: &Outbox) -> Lsn {
    let end = &db.query("SELECT pg_current_wal_insert_lsn()::text", &[])[0];
    end.get::<_, String>(0).parse().unwrap()
}

/// Another producer, which has a transaction open in a partition.
struct Neighbour(BaseProducer);

impl Neighbour {
    fn open(db: &Outbox, topic: &str, partition: i32) -> Self {
        let other: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", kafka().bootstrap())
            .set("transactional.id", format!("{}-other", db.name()))
            .create()
            .unwrap();
        other.init_transactions(DEADLINE).unwrap();
        other.begin_transaction().unwrap();
        let record = BaseRecord::to(topic).key("other").payload("{}").partition(partition);
        other.send(record).map_err(|(error, _)| error).unwrap();
        other.flush(DEADLINE).unwrap();
        Self(other)
    }

    fn end(self) {
        self.0.abort_transaction(DEADLINE).unwrap();
    }
}

/// A relay whose broker is behind a proxy that holds up the first commit.
struct Proxied {
    db: Outbox,
    proxy: BrokerProxy,
    kafka: Kafka,
    relay: Relay,
}

impl Proxied {
    fn start(transaction_timeout_ms: &str) -> Self {
        Self::start_with(Fault::CommitHeld, transaction_timeout_ms, &[])
    }

    fn start_with(fault: Fault, transaction_timeout_ms: &str, more: &[(&str, &str)]) -> Self {
        let db = Outbox::create(postgres18());
        let broker_port = unused_port().unwrap();
        let proxy = BrokerProxy::start(broker_port, db.name(), fault);
        let kafka = Kafka::start_at(broker_port, proxy.port());
        let settings = [
            ("bootstrap.servers", proxy.bootstrap()),
            ("producer.override.transaction.timeout.ms", transaction_timeout_ms.to_owned()),
            ("status.update.interval.ms", "500".to_owned()),
        ];
        let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
        let relay = Relay::start(&with(with(exactly_once(&db, &kafka), &settings), more));
        db.wait_until_streaming();
        Self { db, proxy, kafka, relay }
    }
}
