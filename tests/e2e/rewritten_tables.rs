//! Tables that a statement rewrites: an alarm only where rows may be missing.

use outboxd::internals::throwaway::unused_port;

use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::unseen_rows::warns_of;

/// No column has a TOAST table, and `n` alone has a sequence.
const SCHEMA: &str = "
    CREATE TABLE n (id serial PRIMARY KEY, v int);
    CREATE TABLE p (id int PRIMARY KEY);
    CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p);
    INSERT INTO n (v) VALUES (1); INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1)";

/// Statements in transactions of their own, unless they begin one themselves.
const HARMLESS: [&str; 7] = [
    "TRUNCATE n RESTART IDENTITY",
    "TRUNCATE p CASCADE",
    "BEGIN; TRUNCATE n RESTART IDENTITY; INSERT INTO n (v) SELECT 1 FROM generate_series(1, 200); COMMIT",
    "VACUUM FULL n",
    "CLUSTER n USING n_pkey",
    "BEGIN; TRUNCATE p CASCADE; INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1); COMMIT",
    "VACUUM FULL c",
];

/// *Invariant:* no statement that loses no row raises an alarm, also where neither a TOAST table nor a sequence
/// identifies the statement.
#[test]
fn only_alter_table_raises_the_suspicion_that_rows_are_missing() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create_bare(server, SCHEMA);
        db.execute(&format!("CREATE PUBLICATION {} FOR ALL TABLES", db.name()));
        let mut config = db.config(kafka());
        config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
        let http = unused_port().unwrap();
        let config = with(config, &[("snapshot.mode", "no_data")]);
        let relay = Relay::start_with(&config, &["--http", &http.to_string()], &[]);
        db.wait_until_streaming();
        let noted = || relay.stderr().matches("no event is missing").count();
        // The first check of the catalog is the one that others are compared with.
        eventually(DEADLINE, "the catalog is watched", || {
            db.execute("TRUNCATE p CASCADE");
            noted() > 0
        });
        for sql in HARMLESS {
            let before = noted();
            db.execute(sql);
            eventually(DEADLINE, sql, || noted() > before);
        }
        assert!(!relay.stderr().contains("may have been unlogged"), "{}", relay.stderr());
        get_until(http, "/readyz", "has no warning", |page| {
            page.code == 200 && page.json()["warnings"].is_null()
        });
        db.execute("INSERT INTO p VALUES (2)");
        db.execute("ALTER TABLE c SET UNLOGGED; INSERT INTO c VALUES (2, 2); ALTER TABLE c SET LOGGED");
        relay.wait_for_stderr("may have been unlogged");
        get_until(http, "/readyz", "warns of it", |page| warns_of(page, "may have been unlogged"));
        assert_eq!(relay.stop(), 0);
    }
}
