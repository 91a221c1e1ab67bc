//! Rows that are written while a publication does not publish their table, and outboxd does not run or cannot reach Kafka.

use outboxd::internals::throwaway::unused_port;

use crate::positions::kept;
use crate::support::http::get_until;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::unseen_rows::{guard_has_looked, warns_of};

const WARNING: &str = "while outboxd did not run";

fn config(db: &Outbox, kafka: &Kafka) -> Config {
    let settings = [
        ("snapshot.mode", "no_data"),
        ("outboxd.shutdown.timeout.ms", "2000"),
        ("table.include.list", r"public\.outbox(_2)?"),
    ];
    with(db.config(kafka), &settings)
}

fn insert(db: &Outbox, n: u32) {
    db.insert(&[Event::new("order", "o-1", "Numbered", &n.to_string())]);
}

fn published(db: &Outbox) -> Vec<String> {
    kafka().records(&db.topic("order")).iter().map(|record| record.value().to_owned()).collect()
}

/// Runs the statements with the name of the publication and the slot for `$name`.
fn execute(db: &Outbox, sql: &str) {
    db.execute(&sql.replace("$name", db.name()));
}

/// Starts a relay, and waits until it has sent the first row and stored how the table is published.
fn streaming(db: &Outbox, kafka: &Kafka) -> Relay {
    let relay = Relay::start(&config(db, kafka));
    db.wait_until_streaming();
    insert(db, 1);
    db.wait_until_confirmed();
    guard_has_looked(db);
    eventually(DEADLINE, "it is stored how the table is published", || {
        kept(kafka, db).is_some_and(|position| position["tables"][0]["published"].is_object())
    });
    relay
}

/// Starts a relay behind the change, and returns it with the port of its status page.
fn start_again(db: &Outbox, settings: &[(&str, &str)]) -> (Relay, u16) {
    let http = unused_port().unwrap();
    let config = with(config(db, kafka()), settings);
    let relay = Relay::start_with(&config, &["--http", &http.to_string()], &[]);
    db.wait_until_streaming();
    guard_has_looked(db);
    (relay, http)
}

#[test]
fn rows_that_the_publication_lacked_while_no_relay_ran_are_suspected_until_the_operator_acts() {
    let there_and_back = [
        (
            "ALTER PUBLICATION $name DROP TABLE outbox, outbox_2",
            "ALTER PUBLICATION $name ADD TABLE outbox, outbox_2",
        ),
        (
            "ALTER PUBLICATION $name SET (publish = 'delete')",
            "ALTER PUBLICATION $name SET (publish = 'insert')",
        ),
        (
            "DROP PUBLICATION $name; CREATE PUBLICATION $name WITH (publish = 'insert')",
            "ALTER PUBLICATION $name ADD TABLE outbox, outbox_2",
        ),
    ];
    let databases = there_and_back.map(|changes| {
        let db = Outbox::create(postgres18());
        // One value settles both.
        db.execute("CREATE TABLE outbox_2 (LIKE outbox INCLUDING ALL)");
        let relay = streaming(&db, kafka());
        (db, relay, changes)
    });
    for (db, mut relay, (there, back)) in databases {
        relay.kill();
        execute(&db, there);
        insert(&db, 2);
        execute(&db, back);
        insert(&db, 3);
        let cleanup = [
            ("outboxd.cleanup.enable", "true"),
            ("outboxd.cleanup.interval.ms", "100"),
            ("outboxd.cleanup.before.slot", "delete"),
        ];
        let (relay, http) = start_again(&db, &cleanup);
        db.wait_until_confirmed();
        relay.wait_for_stderr("cleanup skips a table whose rows may be missing");
        get_until(http, "/readyz", "warns of the rows", |page| warns_of(page, WARNING));
        assert_eq!(published(&db), ["1", "3"], "{there}");
        assert_eq!(db.query("SELECT FROM outbox", &[]).len(), 3, "{there}");
        assert_eq!(relay.stop(), 0);

        let (relay, http) = start_again(&db, &[]);
        let page = get_until(http, "/readyz", "still warns", |page| warns_of(page, WARNING));
        let warnings = page.json()["warnings"].to_string();
        let value = warnings.split_once("outboxd.position.accept=").unwrap().1;
        let value = value.split(|c: char| !(c.is_ascii_hexdigit() || c == '/')).next().unwrap().to_owned();
        assert_eq!(relay.stop(), 0);
        for settings in [&[("outboxd.position.accept", value.as_str())][..], &[]] {
            let (relay, http) = start_again(&db, settings);
            get_until(http, "/readyz", "does not warn", |page| !warns_of(page, WARNING) && page.code == 200);
            let said = relay.stop_and_tell();
            assert!(!said.contains(WARNING), "{there}: {said}");
        }
    }
}

/// Nothing is missing, or all rows are sent.
#[test]
fn a_change_of_the_publication_that_loses_nothing_is_not_suspected() {
    let cases = [
        (
            "BEGIN; DROP PUBLICATION $name; CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'insert'); COMMIT",
            "no_data",
        ),
        ("CREATE TABLE other (n int); ALTER PUBLICATION $name ADD TABLE other", "no_data"),
        ("ALTER PUBLICATION $name DROP TABLE outbox; ALTER PUBLICATION $name ADD TABLE outbox", "always"),
    ];
    for (sql, mode) in cases {
        let db = Outbox::create(postgres18());
        assert_eq!(streaming(&db, kafka()).stop(), 0);
        execute(&db, sql);
        let (relay, _) = start_again(&db, &[("snapshot.mode", mode)]);
        let said = relay.stop_and_tell();
        assert!(!said.contains(WARNING), "{sql}: {said}");
    }
}

/// A stop that Kafka does not get: the process waits for it, and if it is killed, the catalog shows the next one what has changed.
#[test]
fn a_stop_that_comes_while_kafka_is_away_is_not_forgotten() {
    let mut kafka = Kafka::start();
    for is_killed in [false, true] {
        let db = Outbox::create(postgres18());
        let mut relay = streaming(&db, &kafka);
        kafka.pause();
        execute(&db, "ALTER PUBLICATION $name DROP TABLE outbox");
        insert(&db, 2);
        relay.wait_for_stderr("waiting for Kafka to store this");
        execute(&db, "ALTER PUBLICATION $name ADD TABLE outbox");
        if is_killed {
            relay.kill();
        }
        kafka.resume();
        if !is_killed {
            assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
        }
        let mut again = Relay::start(&config(&db, &kafka));
        if is_killed {
            again.wait_for_stderr(WARNING);
            assert_eq!(again.stop(), 0);
            continue;
        }
        assert_eq!(again.wait_for_exit(DEADLINE), 3, "{}", again.stderr());
        assert!(again.stderr().contains("the last run ended because"), "{}", again.stderr());
    }
}
