//! PostgreSQL 19 turns logical decoding on with the first slot: `wal_level=replica` suffices, and `effective_wal_level`
//! shows the level in force. Where the tests run with it (`OUTBOXD_TEST_POSTGRES=19`), that is seen on the server
//! itself. Elsewhere a PostgreSQL 18 answers as 19 does: in its database, functions of our own have the name
//! `current_setting`.

use std::fs;

use outboxd::internals::throwaway::unused_port;

use crate::support::http::{get_until, try_get};
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{newest, postgres18, start, start_with};
use crate::support::relay::{Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

/// Creates a database whose server answers with these levels.
fn answering(wal_level: &str, effective: &str) -> Outbox {
    let db = Outbox::create(postgres18());
    let answer = format!(
        "CASE $1 WHEN 'server_version_num' THEN '190000' WHEN 'wal_level' THEN '{wal_level}'
         WHEN 'effective_wal_level' THEN {effective} ELSE pg_catalog.setting_of_18($1, true) END"
    );
    db.execute(&format!(
        "ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO setting_of_18;
         ALTER FUNCTION pg_catalog.current_setting(text, bool) RENAME TO setting_of_18;
         CREATE FUNCTION pg_catalog.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT {answer} $$;
         CREATE FUNCTION pg_catalog.current_setting(text, bool) RETURNS text LANGUAGE sql AS $$ SELECT {answer} $$;"
    ));
    db
}

/// Returns the output of `check` about the server.
fn check(db: &Outbox) -> String {
    let watcher = Watcher::new("outboxd-check-");
    let file = watcher.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(&db.config(kafka())).unwrap()).unwrap();
    let mut check = Relay::command(&["check", "-c", file.to_str().unwrap()]);
    check.wait_for_exit(DEADLINE);
    check.stdout()
}

#[test]
fn wal_level_replica_is_enough() {
    let nineteen = (newest() >= 19).then(|| start_with(newest(), &[("wal_level", "replica")]));
    let db = nineteen.as_ref().map_or_else(|| answering("replica", "'replica'"), Outbox::create);
    let said = check(&db);
    assert!(said.contains("PostgreSQL turns logical decoding on with the first slot"), "{said}");
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn wal_level_minimal_is_not() {
    for (wal_level, effective) in [("minimal", "'minimal'"), ("replica", "NULL")] {
        let db = answering(wal_level, effective);
        let mut relay = Relay::start(&db.config(kafka()));
        assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
        assert!(relay.stderr().contains("ALTER SYSTEM SET wal_level"), "{}", relay.stderr());
        let said = check(&db);
        assert!(said.contains("logical decoding needs"), "{said}");
    }
}

/// The server waits with the first slot until all processes know that there is more to write. Here it waits for an old
/// transaction instead, for longer than a start may try to reach the server, and longer than a loop may stand still.
#[test]
fn a_first_slot_that_takes_its_time_is_waited_for() {
    let server = start(18);
    let db = Outbox::create(&server);
    db.execute("CREATE TABLE other (n int)");
    let writer = Session::new(db.address().clone());
    writer.execute("BEGIN; INSERT INTO other VALUES (1)");
    let waited = "SELECT FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock'
                  AND now() - query_start > interval '32 seconds'";
    let patience = [("outboxd.startup.timeout.ms", "3000"), ("database.query.timeout.ms", "1000")];
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&with(db.config(kafka()), &patience), &["--http", &port.to_string()], &[]);
    get_until(port, "/livez", "is alive", |page| page.code == 200);
    eventually(DEADLINE, "the slot has waited", || {
        assert_eq!(try_get(port, "/livez").unwrap().code, 200);
        !db.query(waited, &[]).is_empty()
    });
    writer.execute("COMMIT");
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}
