//! Cancellation by another session, and short outages: the relay retries.

use std::fs;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18, start};
use crate::support::relay::{Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually};

fn event(number: u32) -> Event {
    Event::new("order", "o-1", "OrderCreated", &number.to_string())
}

/// Cancels the backends of this database for which the condition holds, until one was there.
fn cancel(db: &Outbox, condition: &str) {
    let cancel = format!(
        "SELECT count(pg_cancel_backend(pid)) > 0 FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
    );
    eventually(DEADLINE, condition, || db.query(&cancel, &[])[0].get(0));
}

/// *Invariant:* exit 3 only where the same statement would be refused again after a minute.
#[test]
fn what_another_session_cancels_is_tried_again() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        db.insert(&[event(1)]);
        // The slot waits for the transaction of this session, and the snapshot for the lock of the other one.
        let [writer, locker] = [(); 2].map(|()| Session::new(db.address().clone()));
        writer.execute("BEGIN");
        writer.query("SELECT pg_current_xact_id()::text", &[]);
        locker.execute("SELECT pg_advisory_lock(7)");
        let settings = [
            ("snapshot.mode", "initial"),
            ("outboxd.startup.timeout.ms", "100"),
            ("snapshot.select.statement.overrides", "public.outbox"),
            (
                "snapshot.select.statement.overrides.public.outbox",
                "SELECT o.* FROM pg_advisory_xact_lock_shared(7), outbox o",
            ),
        ];
        let mut relay = Relay::start(&with(db.config(kafka()), &settings));
        cancel(&db, "query LIKE 'CREATE_REPLICATION_SLOT%'");
        writer.execute("COMMIT");
        cancel(&db, "wait_event_type = 'Lock' AND query LIKE 'SELECT o.*%'");
        locker.execute("SELECT pg_advisory_unlock(7)");
        db.wait_until_streaming();
        assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
        cancel(&db, "backend_type = 'walsender'");
        db.insert(&[event(2)]);
        assert_eq!(kafka().read(&db.topic("order"), 2).len(), 2);
        assert!(relay.is_running(), "{}", relay.stderr());
        assert_eq!(relay.stop(), 0);
    }
}

/// As on a network file system: SQLSTATE 58P01.
#[test]
fn a_file_of_the_decoder_may_be_away_for_a_while() {
    let server = start(18);
    let db = Outbox::create(&server);
    let mut relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    let folder = server.folder().join("data/pg_logical/snapshots");
    let aside = folder.with_extension("away");
    fs::rename(&folder, &aside).unwrap();
    for number in 0..4 {
        db.query("SELECT pg_log_standby_snapshot()::text", &[]);
        db.insert(&[event(number)]);
    }
    relay.wait_for_stderr("58P01");
    assert!(relay.is_running(), "{}", relay.stderr());
    fs::rename(&aside, &folder).unwrap();
    db.insert(&[event(4)]);
    assert_eq!(kafka().read(&db.topic("order"), 5).len(), 5);
    assert_eq!(relay.stop(), 0);
}
