//! The slot retains WAL while Kafka is away: the reports, and the end.

use std::time::Duration;

use outboxd::internals::throwaway::{ThrowawayPostgres, unused_port};

use crate::support::http::{Page, get_until};
use crate::support::kafka::Kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres;
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};

/// Six segments are beyond `max_wal_size`, twelve are too many; a checkpoint comes of itself only after three.
const SMALL: [(&str, &str); 4] = [
    ("min_wal_size", "32MB"),
    ("max_wal_size", "96MB"),
    ("max_slot_wal_keep_size", "192MB"),
    ("checkpoint_timeout", "1h"),
];

/// A relay with one event that Kafka does not take.
struct Stuck {
    kafka: Kafka,
    db: Outbox,
    relay: Relay,
    http: u16,
    _server: ThrowawayPostgres,
}

impl Stuck {
    fn new(major: u16, settings: &[(&str, &str)]) -> Self {
        let (server, mut kafka) = (postgres::start_with(major, &SMALL), Kafka::start());
        let (db, http) = (Outbox::create(&server), unused_port().unwrap());
        db.execute("CREATE TABLE other (n int)");
        let relay =
            Relay::start_with(&with(db.config(&kafka), settings), &["--http", &http.to_string()], &[]);
        db.wait_until_streaming();
        db.insert(&[event()]);
        kafka.read(&db.topic("order"), 1);
        db.wait_until_confirmed();
        kafka.pause();
        db.insert(&[event()]);
        Self { kafka, db, relay, http, _server: server }
    }

    /// Fills the WAL, a segment at a time, until the server calls the slot so.
    fn fill_until(&self, wal_status: &str) {
        eventually(DEADLINE, &format!("the slot is {wal_status}"), || {
            let status = self.db.slot().unwrap().wal_status.unwrap();
            if status == wal_status {
                return true;
            }
            self.db.execute("CHECKPOINT");
            self.db.execute("INSERT INTO other VALUES (1)");
            self.db.query("SELECT pg_switch_wal()", &[]);
            false
        });
    }

    fn ready_until(&self, what: &str, wanted: impl Fn(&Page) -> bool) {
        get_until(self.http, "/readyz", what, wanted);
    }
}

fn event() -> Event {
    Event::new("order", "o-1", "OrderCreated", "{}")
}

fn danger(page: &Page) -> String {
    page.json()["checks"][2]["data"]["danger"].to_string()
}

#[test]
fn a_slot_that_holds_back_much_is_warned_of_once_and_cleared() {
    let mut stuck = Stuck::new(15, &[("outboxd.unacknowledged.age.max.ms", "2000")]);
    stuck.fill_until("extended");
    let line = stuck.relay.wait_for_stderr("the slot retains");
    assert!(
        line.contains("Kafka is slow or unavailable") && line.contains("max_slot_wal_keep_size"),
        "{line}"
    );
    let (_, statements) = line.split_once("to gain time: ").unwrap();
    for statement in statements.split(';').take(2) {
        stuck.db.execute(&statement.replace('…', "1GB"));
    }
    eventually(DEADLINE, "there is time", || {
        let sql = "SELECT FROM pg_replication_slots WHERE safe_wal_size > 512 * 1024 * 1024";
        !stuck.db.query(sql, &[]).is_empty()
    });
    stuck.relay.wait_for_stderr("an event waits too long for its acknowledgement");
    stuck.ready_until("tells of the danger", |page| ["\"watch\"", "\"alarm\""].contains(&&*danger(page)));
    let metrics = get_until(stuck.http, "/metrics", "shows the danger", |page| {
        page.sample("outboxd_slot_danger").is_some_and(|rank| (1.0..=2.0).contains(&rank))
    });
    assert!(metrics.sample("outboxd_oldest_unacknowledged_seconds").unwrap() > 0.0);
    stuck.kafka.resume();
    stuck.relay.wait_for_stderr("events are acknowledged in time again");
    // The position that a restart needs moves on with the next snapshot of running transactions.
    eventually(DEADLINE, "the slot is reserved", || {
        stuck.db.execute("CHECKPOINT; INSERT INTO other VALUES (1)");
        stuck.db.slot().unwrap().wal_status.as_deref() == Some("reserved")
    });
    stuck.relay.wait_for_stderr("WAL retained by the slot is below the limit again");
    stuck.ready_until("is ready, without danger", |page| page.code == 200 && danger(page) == "\"none\"");
    let warnings =
        stuck.relay.stderr().lines().filter(|line| line.contains("the slot retains much WAL")).count();
    assert!(warnings <= 1, "{}", stuck.relay.stderr());
    assert_eq!(stuck.relay.stop(), 0);
}

#[test]
fn a_slot_about_to_be_lost_is_an_error_and_a_lost_one_ends_the_relay() {
    // A Kafka transaction that cannot end keeps the stream from being read: the poll of the slot ends the relay.
    for (major, settings) in [(15, &[][..]), (18, &[("exactly.once.support", "required")])] {
        let mut stuck = Stuck::new(major, settings);
        stuck.fill_until("unreserved");
        let line = stuck.relay.wait_for_stderr("may be lost at the next checkpoint");
        assert!(line.contains("Kafka is slow or unavailable"), "{line}");
        stuck.ready_until("is not ready", |page| {
            page.code == 503 && page.body.contains("is unreserved") && danger(page) == "\"unreserved\""
        });
        stuck.db.execute("CHECKPOINT");
        // Kafka is still away: the end does not wait for it. The slot is queried every 5 s.
        assert_eq!(stuck.relay.wait_for_exit(Duration::from_secs(12)), 7, "{major}");
        let said = stuck.relay.stderr();
        assert!(said.contains("is lost") && said.contains("pg_drop_replication_slot"), "{said}");
        let plan = format!("outboxd move plan -c {}", stuck.relay.file().display());
        assert!(said.contains(&plan), "{said}");
        stuck.kafka.resume();
        // It was stopped for longer than its own session may last.
        stuck.kafka.wait_until_ready();
        let mut again = Relay::start(&stuck.db.config(&stuck.kafka));
        assert_eq!(again.wait_for_exit(Duration::from_secs(30)), 7, "{major}");
    }
}

#[test]
fn a_slot_that_is_lost_under_the_relay_is_created_again_when_that_is_wanted() {
    let mut stuck = Stuck::new(18, &[("slot.recovery", "snapshot"), ("snapshot.mode", "no_data")]);
    stuck.fill_until("unreserved");
    stuck.db.execute("CHECKPOINT");
    stuck.relay.wait_for_stderr("the slot is lost");
    stuck.ready_until("is not ready", |page| page.code == 503 && danger(page) == "\"lost\"");
    assert!(stuck.relay.is_running(), "{}", stuck.relay.stderr());
    // What is on its way comes back first: it must not overtake the snapshot, nor be overtaken.
    stuck.kafka.resume();
    stuck.relay.wait_for_stderr("creating the slot again");
    stuck.db.wait_until_streaming();
    stuck.db.insert(&[event()]);
    // Two that were sent, the two again, and the new one.
    stuck.kafka.read(&stuck.db.topic("order"), 5);
    stuck.db.wait_until_confirmed();
    stuck.ready_until("is ready again", |page| page.code == 200 && danger(page) == "\"none\"");
    let recoveries = get_until(stuck.http, "/metrics", "answers", |page| page.code == 200);
    assert_eq!(recoveries.sample("outboxd_slot_recoveries_total"), Some(1.0));
    assert_eq!(stuck.relay.stop(), 0);
    assert_eq!(stuck.kafka.records(&stuck.db.topic("order")).len(), 5);
}
