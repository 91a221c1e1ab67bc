//! Unusual settings of the server, a database or a role that affect a relay in surprising ways.

use std::{fs, slice};

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

/// Sets these settings for the database of the test.
fn set(db: &Outbox, settings: &[&str]) {
    settings.iter().for_each(|setting| db.execute(&format!("ALTER DATABASE {} SET {setting}", db.name())));
}

fn no_snapshot(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data")])
}

/// Another scan of a large table takes one that begins along, from where it stands, and workers read it together.
#[test]
fn a_snapshot_reads_an_outbox_from_its_beginning_to_its_end() {
    const ROWS: usize = 6_000;
    for settings in [&[][..], &["parallel_setup_cost = 0", "parallel_tuple_cost = 0"]] {
        let db = Outbox::create(postgres18());
        set(&db, settings);
        // More than a quarter of shared_buffers, from where on scans are synchronized.
        db.execute(&format!(
            "ALTER TABLE outbox ADD filler text STORAGE PLAIN;
             INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, filler)
             SELECT gen_random_uuid(), 'order', n, 'OrderCreated', to_jsonb(n), repeat('x', 1900) FROM generate_series(1, {ROWS}) n;
             ANALYZE outbox"
        ));
        let other = Session::new(db.address().clone());
        if settings.is_empty() {
            let cursor = "DECLARE other CURSOR FOR SELECT FROM outbox";
            other.execute(&format!("BEGIN; {cursor}; MOVE {} FROM other", ROWS / 2));
        }
        let topic = db.topic("order");
        kafka().create_topic(&topic, 1, &[]);
        let relay = Relay::start(&with(db.config(kafka()), &[("snapshot.mode", "initial")]));
        let records = kafka().read(&topic, ROWS);
        assert_eq!(relay.stop(), 0);
        let sent: Vec<usize> = records.iter().map(|record| record.value().parse().unwrap()).collect();
        assert!(sent.is_sorted(), "{settings:?}: it begins with {}", sent[0]);
    }
}

#[test]
fn where_sessions_may_only_read_the_message_does_not_blame_a_standby() {
    let db = Outbox::create(postgres15());
    set(&db, &["default_transaction_read_only = on"]);
    let mut relay = Relay::start(&no_snapshot(&db));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
    let said = relay.stderr();
    for words in ["default_transaction_read_only", "as the owner of the table: CREATE PUBLICATION"] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    assert!(!said.contains("standby"), "{said}");

    // Nothing else writes.
    let publish =
        format!("SET default_transaction_read_only = off; CREATE PUBLICATION {} FOR TABLE outbox", db.name());
    db.execute(&publish);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    db.execute("SET default_transaction_read_only = off");
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// A command would report a row that it does not see as missing; a user's own statement is the user's responsibility.
#[test]
fn rows_that_policies_hide_are_not_skipped_by_a_command() {
    let db = Outbox::create(postgres15());
    let role = db.name();
    db.execute(&format!(
        "CREATE TABLE beats (at timestamptz DEFAULT now()); ALTER TABLE beats ENABLE ROW LEVEL SECURITY; ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
         CREATE POLICY first_of ON outbox USING (aggregateid = 'o-1'); CREATE POLICY all_of ON beats USING (true);
         CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON outbox TO {role}; GRANT INSERT ON beats TO {role};
         CREATE PUBLICATION {role} FOR TABLE outbox"
    ));
    let hidden = Event::new("order", "o-2", "OrderCreated", "{}");
    db.insert(slice::from_ref(&hidden));
    let settings = [
        ("database.user", role),
        ("publication.autocreate.mode", "disabled"),
        ("heartbeat.interval.ms", "100"),
        ("heartbeat.action.query", "INSERT INTO beats DEFAULT VALUES"),
    ];
    let config = with(no_snapshot(&db), &settings);
    let relay = Relay::start(&config);
    eventually(DEADLINE, "the heart beats", || !db.query("SELECT FROM beats", &[]).is_empty());
    assert_eq!(relay.stop(), 0);

    let folder = Watcher::new("outboxd-settings-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let mut explain = Relay::command(&["explain", &hidden.id.to_string(), "-c", &file]);
    assert_eq!(explain.wait_for_exit(DEADLINE), 1, "{}", explain.stderr());
    let said = explain.stdout();
    assert!(said.contains("row-level security policy") && !said.contains("never written"), "{said}");
    db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
