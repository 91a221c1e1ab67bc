//! `read.only=true`: the relay streams from a standby, and rows are written on its primary.

use std::sync::atomic::AtomicBool;
use std::thread;

use outboxd::internals::throwaway::{StopMode, ThrowawayPostgres, unused_port};
use pg_replication::wal::Lsn;
use rdkafka::producer::BaseRecord;

use crate::printed_fixes::statements;
use crate::printed_fixes::{fix_of_refused, setting};
use crate::signals::{self, LONG, StopsAtTheEnd, count_of, last_states, rows, signal, write_meanwhile};
use crate::support::backlog::Backlog;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::standby::Pair;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::withheld::Withheld;

const BACKLOG: Backlog = Backlog { key_count: 50 };

/// A database on both servers, as the test writes to it and as the relay sees it.
struct Site {
    pair: Pair,
    primary: Outbox,
    standby: Outbox,
}

impl Site {
    fn start(major: u16) -> Self {
        Self::of(major, Outbox::create)
    }

    fn of(major: u16, create: impl FnOnce(&ThrowawayPostgres) -> Outbox) -> Self {
        let pair = Pair::start(major);
        let primary = create(&pair.primary);
        let standby = primary.at(&pair.standby);
        let site = Self { pair, primary, standby };
        site.wait_until_replayed();
        site
    }

    /// Starts a site with the publication, which a standby cannot create.
    fn start_published(major: u16) -> Self {
        let site = Self::start(major);
        let name = site.primary.name();
        site.primary
            .execute(&format!("CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'insert')"));
        site.wait_until_replayed();
        site
    }

    fn config(&self, settings: &[(&str, &str)]) -> Config {
        let common = [("read.only", "true"), ("publication.autocreate.mode", "disabled")];
        with(with(self.standby.config(kafka()), &common), settings)
    }

    /// Waits until the standby has all that was written.
    fn wait_until_replayed(&self) -> Lsn {
        let target = self.primary.current_wal_lsn();
        let ask = format!("SELECT WHERE pg_last_wal_replay_lsn() >= '{target}'");
        eventually(DEADLINE, "the standby has replayed it", || {
            self.standby.try_query(&ask).is_ok_and(|rows| !rows.is_empty())
        });
        target
    }

    /// Waits until the relay streams. A slot can be created once the primary has sent the list of running transactions
    /// to the standby.
    fn wait_until_streaming(&self) {
        wait_until_streaming(&self.primary, &self.standby);
    }

    /// Waits until all that was written is in Kafka.
    fn wait_until_confirmed(&self) {
        let target = self.wait_until_replayed();
        self.standby.wait_until_confirmed_to(target, DEADLINE);
    }
}

fn wait_until_streaming(primary: &Outbox, standby: &Outbox) {
    let sql = "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
               WHERE slot_name = $1 AND state IN ('catchup', 'streaming')";
    eventually(DEADLINE, "a relay streams from the standby", || {
        primary.query("SELECT pg_log_standby_snapshot()", &[]);
        !standby.query(sql, &[&standby.name()]).is_empty()
    });
}

/// There the server refuses `serializable`.
#[test]
fn a_standby_is_read_whatever_the_isolation_of_sessions() {
    let site = Site::start_published(18);
    let name = site.primary.name();
    site.primary
        .execute(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"));
    site.wait_until_replayed();
    let relay = Relay::start(&site.config(&[]));
    site.wait_until_streaming();
    site.primary.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    site.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(kafka().record_count(&site.primary.topic("order")), 1);
}

fn rows_arrive_through_everything(major: u16) {
    let mut site = Site::start_published(major);
    let topic = site.primary.topic(Backlog::TYPE);
    BACKLOG.insert(&site.primary, 0..500, 100);
    site.wait_until_replayed();

    let relay = Relay::start(&site.config(&[]));
    site.wait_until_streaming();
    BACKLOG.insert(&site.primary, 500..1_000, 10);
    site.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(BACKLOG.check(&kafka().records(&topic), 0..1_000), 0, "repeats");

    // Rows that are written while no relay reads, and a relay that dies in the middle of them.
    BACKLOG.insert(&site.primary, 1_000..11_000, 100);
    let link =
        Withheld::from(&site.config(&[("outboxd.inflight.records.max", "50")]), &Backlog::payload(10_000));
    let mut relay = Relay::start(link.config());
    kafka().wait_for_count(&topic, 2_000);
    relay.kill();
    let mut relay = Relay::start(&site.config(&[]));
    site.wait_until_confirmed();
    BACKLOG.check(&kafka().records(&topic), 0..11_000);

    // The standby dies, and has to replay what it had not written down.
    site.standby.disconnect();
    site.pair.standby.stop(StopMode::Immediate, DEADLINE).unwrap();
    BACKLOG.insert(&site.primary, 11_000..11_500, 10);
    site.pair.standby.start_again().unwrap();
    site.wait_until_confirmed();
    assert!(relay.is_running());
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&topic), 0..11_500);
}

#[test]
fn rows_of_the_primary_arrive_from_its_standby_through_everything() {
    rows_arrive_through_everything(18);
}

#[test]
fn so_do_those_of_the_first_version_that_can() {
    rows_arrive_through_everything(16);
}

/// The stream does not even break.
#[test]
fn a_standby_that_is_promoted_is_gone_on_with() {
    let mut site = Site::start_published(18);
    let topic = site.primary.topic(Backlog::TYPE);
    let beats =
        [("heartbeat.interval.ms", "200"), ("heartbeat.action.query", "INSERT INTO beats VALUES (1)")];
    site.primary.execute("CREATE TABLE beats (n int)");
    let relay = Relay::start(&site.config(&beats));
    site.wait_until_streaming();
    relay.wait_for_stderr("heartbeat.action.query is not run");
    BACKLOG.insert(&site.primary, 0..500, 10);
    site.wait_until_confirmed();
    site.primary.disconnect();
    site.pair.primary.kill().unwrap();
    site.pair.promote();
    eventually(DEADLINE, "the standby is a primary", || {
        !site.standby.query("SELECT WHERE NOT pg_is_in_recovery()", &[]).is_empty()
    });
    BACKLOG.insert(&site.standby, 500..1_000, 10);
    relay.wait_for_stderr("the standby was promoted");
    BACKLOG.insert(&site.standby, 1_000..1_500, 10);
    site.standby.wait_until_streaming();
    site.standby.wait_until_confirmed();
    eventually(DEADLINE, "the query is run", || !site.standby.query("SELECT FROM beats", &[]).is_empty());
    assert!(!relay.stderr().contains("heartbeat.action.query failed"), "{}", relay.stderr());
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&topic), 0..1_500);
    // A new process takes it for the same history.
    let relay = Relay::start(&site.config(&[]));
    BACKLOG.insert(&site.standby, 1_500..1_600, 10);
    site.standby.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    BACKLOG.check(&kafka().records(&topic), 0..1_600);
}

#[test]
fn what_a_standby_cannot_do_is_said_with_what_to_type() {
    let site = Site::start(18);
    let refused = |config: &Config, words: &[&str]| {
        let mut relay = Relay::start(config);
        assert_eq!(relay.wait_for_exit(DEADLINE), 3);
        let said = relay.stderr();
        for word in words {
            assert!(said.contains(word), "{word} is not in: {said}");
        }
    };
    refused(&site.config(&[]), &["on the primary, as the owner of the table: CREATE PUBLICATION"]);
    refused(
        &site.config(&[("publication.autocreate.mode", "filtered")]),
        &["a standby cannot make it", "on the primary, as the owner of the table: CREATE PUBLICATION"],
    );
    refused(&site.config(&[("read.only", "false")]), &["is a standby", "read.only=true"]);
    for asked in [("exactly.once.support", "required"), ("outboxd.delivery.guarantee", "exactly_once")] {
        let config = site.config(&[asked]);
        let fix = fix_of_refused(&config, 3);
        let then = ["outboxd.delivery.guarantee", "exactly.once.support"].map(|key| setting(&fix, key));
        // The next refusal is the one of the first case.
        refused(&with(config, &then), &["on the primary, as the owner of the table: CREATE PUBLICATION"]);
    }
    refused(&site.config(&[("outboxd.cleanup.enable", "true")]), &["outboxd.cleanup.enable", "primary"]);
    let name = site.primary.name();
    site.primary.execute(&format!("CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'insert')"));
    site.wait_until_replayed();
    refused(&site.config(&[("slot.failover", "true")]), &["cannot be a failover slot"]);
    assert_eq!(site.standby.slot(), None);
}

const TWO_TABLES: &[(&str, &str)] = &[
    ("read.only", "true"),
    ("publication.autocreate.mode", "disabled"),
    ("snapshot.mode", "initial"),
    ("snapshot.max.threads", "3"),
    ("incremental.snapshot.chunk.size", "25"),
    ("signal.enabled.channels", "source,kafka"),
];

/// Several connections read the first snapshot; a signal on the primary asks for another beside the stream.
#[test]
fn a_snapshot_beside_the_stream_of_a_standby_gives_the_table_whatever_is_written() {
    let site = Site::of(18, |server| Outbox::create_bare(server, signals::TABLES));
    let (primary, config) = (&site.primary, signals::config(&site.standby, TWO_TABLES));
    primary.execute(&format!("CREATE PUBLICATION {} FOR ALL TABLES", primary.name()));
    primary.execute("insert into a select g, nullif(g % 7, 0), g from generate_series(1, 1000) g");
    site.wait_until_replayed();
    signals::make_topics(primary);
    let channel = format!("{}-signal", primary.name());
    kafka().create_topic(&channel, 1, &[]);
    let mut relay = Relay::start(&config);
    site.wait_until_streaming();
    site.wait_until_confirmed();
    assert_eq!(last_states(primary), rows(primary));

    while_written(primary, || {
        signal(primary, "s-1", "execute-snapshot", r#"{"data-collections": ["public.a"]}"#);
        eventually(LONG, "rows of the snapshot", || count_of(primary, "incremental") > 100);
        relay.kill();
        relay = Relay::start(&config);
        wait_until_completed(primary, 1);
    });
    site.wait_until_confirmed();
    assert_eq!(last_states(primary), rows(primary));

    // Nothing is written that could close a window, or bring the signal again.
    let before = count_of(primary, "incremental");
    let ask = |kind: &str| {
        let data = format!(r#"{{"data-collections": ["public.a"], "type": "{kind}"}}"#);
        let signal = format!(r#"{{"id": "k-1", "type": "execute-snapshot", "data": {data}}}"#);
        let record = BaseRecord::to(&channel).key(primary.name().as_bytes()).payload(signal.as_bytes());
        kafka().produce(record);
    };
    ask("incremental");
    wait_until_completed(primary, 2);
    assert_eq!(count_of(primary, "incremental") - before, rows(primary).len());
    assert_eq!(last_states(primary), rows(primary));
    let before = count_of(primary, "true");
    ask("blocking");
    eventually(LONG, "all rows but the first and the last", || {
        count_of(primary, "true") - before == rows(primary).len() - 2
    });
    let before = count_of(primary, "incremental");
    ask("incremental");
    eventually(LONG, "rows of the snapshot", || count_of(primary, "incremental") > before + 100);
    relay.kill();
    let relay = Relay::start(&config);
    // The blocking one has reported its end too.
    wait_until_completed(primary, 4);
    assert_eq!(relay.stop(), 0);
    assert!(count_of(primary, "incremental") - before >= rows(primary).len());
}

/// Windows of replayed WAL end there, and watermarks begin. What the standby had not replayed is gone, and was never sent.
#[test]
fn a_snapshot_beside_the_stream_continues_when_its_standby_is_promoted() {
    let mut site = Site::of(18, |server| Outbox::create_bare(server, signals::TABLES));
    site.primary.execute(&format!("CREATE PUBLICATION {} FOR ALL TABLES", site.primary.name()));
    site.primary.execute("insert into a select g, nullif(g % 7, 0), g from generate_series(1, 3000) g");
    site.wait_until_replayed();
    signals::make_topics(&site.primary);
    let relay = Relay::start(&signals::config(&site.standby, TWO_TABLES));
    site.wait_until_streaming();
    site.wait_until_confirmed();

    while_written(&site.primary, || {
        signal(&site.primary, "s-1", "execute-snapshot", r#"{"data-collections": ["public.a"]}"#);
        eventually(LONG, "rows of the snapshot", || count_of(&site.primary, "incremental") > 100);
    });
    site.primary.disconnect();
    site.pair.primary.kill().unwrap();
    site.pair.promote();
    eventually(DEADLINE, "the standby is a primary", || {
        !site.standby.query("SELECT WHERE NOT pg_is_in_recovery()", &[]).is_empty()
    });
    assert_eq!(completed(&site.standby), 1, "the snapshot was complete before the promotion");
    while_written(&site.standby, || {
        relay.wait_for_stderr("the standby was promoted");
        wait_until_completed(&site.standby, 1);
    });
    site.standby.wait_until_confirmed();
    assert_eq!(last_states(&site.standby), rows(&site.standby));
    assert_eq!(relay.stop(), 0);
}

/// Does this while rows are written.
fn while_written(db: &Outbox, action: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..4 {
            let stop = &stop;
            scope.spawn(move || write_meanwhile(db, seed, stop));
        }
        let _stops = StopsAtTheEnd(&stop);
        action();
    });
}

fn wait_until_completed(db: &Outbox, times: usize) {
    // The first snapshot has reported its end too.
    eventually(LONG, "the snapshot is complete", || completed(db) > times);
}

fn completed(db: &Outbox) -> usize {
    signals::told(db).iter().filter(|(kind, _)| kind == "COMPLETED").count()
}

/// The primary takes rows of the catalog away that the standby has not asked it to keep.
#[test]
fn a_slot_that_a_conflict_has_ended_is_reported_with_the_setting_that_prevents_it() {
    let site = Site::start_published(18);
    let admin = Session::new(site.standby.address().clone());
    admin.execute("ALTER SYSTEM SET hot_standby_feedback = off");
    admin.query("SELECT pg_reload_conf()", &[]);
    let port = unused_port().unwrap();
    let mut relay = Relay::start_with(&site.config(&[]), &["--http", &port.to_string()], &[]);
    site.wait_until_streaming();
    let warning = relay.wait_for_stderr("hot_standby_feedback is off");
    site.primary.insert(&[Event::new("order", "o-1", "Numbered", "1")]);
    site.wait_until_confirmed();
    get_until(port, "/readyz", "is ready", |page| page.code == 200);
    eventually(DEADLINE, "the primary keeps nothing for the standby", || {
        !site
            .primary
            .query("SELECT FROM pg_replication_slots WHERE xmin IS NULL AND catalog_xmin IS NULL", &[])
            .is_empty()
    });
    site.primary.execute("CREATE TABLE passing (id int)");
    site.primary.execute("DROP TABLE passing");
    site.primary.execute("VACUUM FULL pg_class");
    site.primary.query("SELECT pg_log_standby_snapshot()", &[]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 7);
    let said = relay.stderr();
    assert!(said.contains("rows_removed") && said.contains("SET hot_standby_feedback = on"), "{said}");
    statements(&warning).iter().for_each(|statement| admin.execute(statement));
    eventually(DEADLINE, "the standby reports its rows", || {
        admin.query("SHOW hot_standby_feedback", &[])[0].get::<_, &str>(0) == "on"
    });
}
