//! What another session cancels, and what is away for a moment: it is tried again.

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
        // The lock below would hold up making it.
        db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox", db.name()));
        // The slot waits for this transaction, and the snapshot for this lock.
        let holder = Session::new(db.address().clone());
        holder.execute("BEGIN");
        holder.query("SELECT pg_current_xact_id()::text", &[]);
        let config =
            with(db.config(kafka()), &[("snapshot.mode", "initial"), ("outboxd.startup.timeout.ms", "100")]);
        let mut relay = Relay::start(&config);
        cancel(&db, "query LIKE 'CREATE_REPLICATION_SLOT%'");
        holder.execute("COMMIT");
        holder.execute("BEGIN; LOCK TABLE outbox");
        cancel(&db, "wait_event_type = 'Lock' AND query LIKE 'SELECT%outbox%'");
        holder.execute("COMMIT");
        db.wait_until_streaming();
        db.insert(&[event(1)]);
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
