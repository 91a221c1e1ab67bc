//! Problems of the publication and the table: at the start, and while the relay streams. The server reports almost none
//! of them, and rows are not in the stream.

use outboxd::internals::throwaway::ThrowawayPostgres;

use crate::printed_fixes::{fix_of, setting, statements};
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const COLUMNS: &str = "id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text";

/// Statements before the start, settings, and which of two rows are sent.
type Shape = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

fn no_snapshot(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data")])
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

/// Starts a relay and waits until it has sent the first row.
fn streaming(server: &ThrowawayPostgres) -> (Outbox, Relay) {
    let db = Outbox::create(server);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    insert(&db, 1);
    db.wait_until_confirmed();
    (db, relay)
}

#[track_caller]
fn refused(relay: &mut Relay, what: &str, words: &[&str]) {
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{what}: {}", relay.stderr());
    let said = relay.stderr();
    words.iter().for_each(|word| assert!(said.contains(word), "{what}: {word} is not in {said}"));
}

#[test]
fn what_leaves_the_publication_under_the_relay_is_noticed() {
    let anew =
        "ALTER TABLE outbox RENAME TO old; CREATE TABLE outbox (LIKE old INCLUDING ALL); DROP TABLE old";
    let cases = [
        ("made anew", anew, "ADD TABLE "),
        ("taken out", "ALTER PUBLICATION $name DROP TABLE outbox", "ADD TABLE "),
        ("no inserts", "ALTER PUBLICATION $name SET (publish = 'update')", "SET (publish = 'insert')"),
    ];
    let all = cases.map(|case| [(postgres15(), case), (postgres18(), case)]);
    let mut started = Vec::new();
    // All at once: each takes as long as it is until the next look.
    for (server, (what, sql, fix)) in all.into_iter().flatten() {
        let (db, relay) = streaming(server);
        execute(&db, sql);
        insert(&db, 2);
        started.push((db, relay, what, fix));
    }
    for (db, relay, what, fix) in &mut started {
        refused(relay, what, &[fix, "are not in the stream", "snapshot.mode=always"]);
        assert_eq!(published(db), ["1"], "{what}");
    }
    // A table that is not in the publication is added by the next start, which logs the consequence.
    let (db, ..) = &started[0];
    let relay = Relay::start(&with(no_snapshot(db), &[("snapshot.mode", "always")]));
    relay.wait_for_stderr("the slot is older: rows that were written");
    relay.wait_for_snapshot();
    insert(db, 3);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(published(db), ["1", "2", "3"], "nothing else was in the table");
    // Inserts are published again by the statement of the message.
    let (db, relay, ..) = &started[5];
    statements(&fix_of(relay)).iter().for_each(|statement| db.execute(statement));
    let relay = Relay::start(&with(no_snapshot(db), &[("snapshot.mode", "always")]));
    db.wait_until_streaming();
    insert(db, 3);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert!(published(db).contains(&"3".to_owned()));
}

/// Rows that came while a partition was unlogged stay out of the stream when it is a logged one again.
#[test]
fn a_stop_for_an_unlogged_partition_is_remembered() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb) PARTITION BY LIST (aggregateid);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN ('k')",
    );
    db.execute(&format!("CREATE PUBLICATION {} FOR ALL TABLES", db.name()));
    let config = no_snapshot(&db);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute("ALTER TABLE outbox_1 SET UNLOGGED");
    db.execute("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k', 't', '{}')");
    refused(&mut relay, "unlogged", &["outbox_1", "SET LOGGED", "snapshot.mode=always"]);
    db.execute("ALTER TABLE outbox_1 SET LOGGED");
    refused(&mut Relay::start(&config), "again", &["the last run ended because", "outbox_1 is unlogged"]);
    let relay = Relay::start(&with(config, &[("snapshot.mode", "always")]));
    assert_eq!(kafka().read(&db.topic("order"), 1)[0].key(), "k");
    assert_eq!(relay.stop(), 0);
}

/// An immediate restart must not make a row that was never sent look sent.
#[test]
fn a_stop_for_rows_that_are_not_in_the_stream_is_remembered_until_the_operator_acts() {
    let (db, mut relay) = streaming(postgres18());
    execute(&db, "ALTER PUBLICATION $name SET TABLE outbox WHERE (type = 'none')");
    insert(&db, 2);
    refused(&mut relay, "filtered", &["row filter", "snapshot.mode=always"]);
    execute(&db, "ALTER PUBLICATION $name SET TABLE outbox");
    let cleanup = [("outboxd.cleanup.enable", "true"), ("outboxd.cleanup.interval.ms", "100")];
    let config = with(no_snapshot(&db), &cleanup);
    for _ in 0..2 {
        refused(&mut Relay::start(&config), "again", &["the last run ended because", "row filter"]);
    }
    let file = Watcher::new("outboxd-stop-");
    let path = file.folder().join("config.json").display().to_string();
    std::fs::write(&path, serde_json::to_vec(&config).unwrap()).unwrap();
    let mut status = Relay::command(&["status", "-c", &path]);
    assert_eq!(status.wait_for_exit(DEADLINE), 1, "{}", status.stderr());
    let shown = status.stdout();
    assert!(shown.contains("stopped   the last run ended because"), "{shown} {}", status.stderr());
    assert!(shown.contains("row filter") && shown.contains("outboxd.position.accept="), "{shown}");
    // A configuration that cannot be used must not suppress the report.
    let unusable = with(config.clone(), &[("skipped.operations", "x")]);
    std::fs::write(&path, serde_json::to_vec(&unusable).unwrap()).unwrap();
    let mut status = Relay::command(&["status", "-c", &path]);
    assert_eq!(status.wait_for_exit(DEADLINE), 1, "{}", status.stderr());
    let said = status.stderr();
    assert!(said.contains("run refuses this configuration") && said.contains("skipped.operations"), "{said}");
    let mut again = Relay::start(&config);
    again.wait_for_exit(DEADLINE);
    let said = again.stderr();
    let value =
        said.split_once("outboxd.position.accept=").unwrap().1.split(['"', ' ', '\\']).next().unwrap();
    // Without that row, as the message instructs.
    let relay = Relay::start(&with(no_snapshot(&db), &[("outboxd.position.accept", value)]));
    db.wait_until_streaming();
    insert(&db, 3);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(published(&db), ["1", "3"]);
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0, "it is settled");
}

#[test]
fn a_stop_is_not_shown_of_a_database_that_was_created_again() {
    let (db, mut relay) = streaming(postgres18());
    execute(&db, "ALTER PUBLICATION $name SET TABLE outbox WHERE (type = 'none')");
    refused(&mut relay, "filtered", &["row filter", "snapshot.mode=always"]);
    db.make_anew(postgres18());
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
    let file = Watcher::new("outboxd-stop-");
    let path = file.folder().join("config.json").display().to_string();
    std::fs::write(&path, serde_json::to_vec(&no_snapshot(&db)).unwrap()).unwrap();
    let mut status = Relay::command(&["status", "-c", &path]);
    assert_eq!(status.wait_for_exit(DEADLINE), 1, "{}", status.stderr());
    let (shown, said) = (status.stdout(), status.stderr());
    assert!(!shown.contains("stopped") && !said.contains("is not known"), "{shown} {said}");
}

/// Up to PostgreSQL 17 the stream ends with an error, and a publication that is made then does not help: the server decodes by
/// the catalog as it was. On 18 it is a notice, see `slots`.
#[test]
fn rows_older_than_the_publication_are_refused_with_the_way_out() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
        insert(&db, 1);
        refused(&mut Relay::start(&no_snapshot(&db)), "older", &["pg_replication_slot_advance"]);
        refused(&mut Relay::start(&no_snapshot(&db)), "again", &["pg_replication_slot_advance"]);
        db.query(
            "SELECT pg_replication_slot_advance($1::text::name, pg_current_wal_lsn())::text",
            &[&db.name()],
        );
        let moved_to = db.slot().unwrap().confirmed_flush_lsn.unwrap().to_string();
        let relay = Relay::start(&with(no_snapshot(&db), &[("outboxd.position.accept", &moved_to)]));
        db.wait_until_streaming();
        insert(&db, 2);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        assert_eq!(published(&db), ["2"]);
    }
}

/// PostgreSQL 18 reports it in a warning only, which the role's own setting would suppress.
#[test]
fn a_publication_that_was_away_is_noticed_with_any_message_level_of_the_role() {
    let db = Outbox::create(postgres18());
    execute(&db, "ALTER ROLE CURRENT_USER IN DATABASE $name SET client_min_messages = 'error'");
    let relay = Relay::start(&no_snapshot(&db));
    db.wait_until_streaming();
    insert(&db, 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    execute(&db, "DROP PUBLICATION $name");
    insert(&db, 2);
    execute(&db, "CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'insert')");
    refused(&mut Relay::start(&no_snapshot(&db)), "away", &["streams without the publication"]);
    assert_eq!(published(&db), ["1"]);
}

#[test]
fn a_publication_that_is_dropped_under_the_relay_ends_it() {
    let (db, mut relay) = streaming(postgres15());
    execute(&db, "DROP PUBLICATION $name");
    insert(&db, 2);
    refused(&mut relay, "dropped", &["publication"]);
    assert_eq!(published(&db), ["1"]);
}

/// No row was decoded without it: the poll of the catalog finds it gone.
#[test]
fn a_publication_that_is_gone_is_made_again_as_the_relay_prints_it() {
    for server in [postgres15(), postgres18()] {
        let (db, mut relay) = streaming(server);
        execute(&db, "DROP PUBLICATION $name");
        refused(&mut relay, "gone", &["CREATE PUBLICATION", "is gone"]);
        sends_all_after(&db, &fix_of(&relay));
    }
}

/// The first row of a table comes from a transaction that drops the publication behind it.
#[test]
fn a_publication_that_is_gone_when_a_table_is_first_seen_is_made_again_as_printed() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let mut relay = Relay::start(&no_snapshot(&db));
        db.wait_until_streaming();
        execute(
            &db,
            "BEGIN; INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), 'order', 'o-1', 'Numbered', '1'); DROP PUBLICATION $name; COMMIT",
        );
        refused(&mut relay, "gone", &["is gone"]);
        sends_all_after(&db, &fix_of(&relay));
    }
}

/// Executes a fix, and checks that rows that were written without a publication are sent, and those behind it.
fn sends_all_after(db: &Outbox, fix: &str) {
    insert(db, 2);
    statements(fix).iter().for_each(|statement| db.execute(statement));
    let always = setting(fix, "snapshot.mode");
    let mut relay = Relay::start(&with(no_snapshot(db), &[always]));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{fix}: {}", relay.stderr());
    // The row cannot be decoded: the second fix moves the slot.
    let fix = fix_of(&relay);
    let advance = fix.split_once("SELECT ").unwrap().1.split_once("), ").unwrap().0.replace('…', db.name());
    let end =
        db.query(&format!("SELECT x.end_lsn::text FROM (SELECT {advance})) x"), &[])[0].get::<_, String>(0);
    let accept = fix.split_whitespace().find(|word| word.starts_with("outboxd.position.accept=")).unwrap();
    assert_eq!(accept, "outboxd.position.accept=END_LSN");
    let settings = [setting(&fix, "snapshot.mode"), ("outboxd.position.accept", end.as_str())];
    let relay = Relay::start(&with(no_snapshot(db), &settings));
    eventually(DEADLINE, "the row without a publication is sent", || published(db).contains(&"2".to_owned()));
    db.wait_until_streaming();
    insert(db, 3);
    db.wait_until_confirmed();
    assert!(published(db).contains(&"3".to_owned()));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn what_is_not_prepared_is_refused_at_the_start() {
    let physical = "SELECT pg_create_physical_replication_slot('$name')";
    let foreign = "SELECT pg_create_logical_replication_slot('$name', 'test_decoding')";
    let cases: [(&str, &str, &[&str]); 6] = [
        (
            "CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'update, delete')",
            "filtered",
            &["does not publish inserts", "SET (publish = 'insert')"],
        ),
        ("SELECT", "disabled", &["publication.autocreate.mode=disabled", "CREATE PUBLICATION"]),
        ("SELECT", "no_tables", &["does not publish table", "ADD TABLE"]),
        ("ALTER TABLE outbox SET UNLOGGED", "filtered", &["unlogged", "SET LOGGED"]),
        (physical, "filtered", &["is a physical slot"]),
        (foreign, "filtered", &["belongs to plugin test_decoding", "pg_copy_logical_replication_slot"]),
    ];
    for (sql, autocreate, words) in cases {
        let db = Outbox::create(postgres18());
        execute(&db, sql);
        let config = with(no_snapshot(&db), &[("publication.autocreate.mode", autocreate)]);
        refused(&mut Relay::start(&config), sql, words);
    }
}

/// Nothing of a row is sent without a column that the router needs.
#[test]
fn a_column_that_does_not_reach_the_stream_ends_the_relay_before_anything_is_sent() {
    let plain = format!("CREATE TABLE outbox ({COLUMNS}, payload jsonb)");
    let generated =
        format!("CREATE TABLE outbox ({COLUMNS}, payload jsonb GENERATED ALWAYS AS ('{{}}'::jsonb) STORED)");
    let columns = "id, aggregatetype, aggregateid, type";
    let list = format!("CREATE PUBLICATION $name FOR TABLE outbox ({columns}) WITH (publish = 'insert')");
    let cases: [(&ThrowawayPostgres, &str, &str, &str); 4] = [
        (postgres15(), &generated, "SELECT", "SELECT"),
        (postgres18(), &generated, "SELECT", "SELECT"),
        (postgres18(), &plain, &list, "SELECT"),
        (postgres18(), &plain, "SELECT", "ALTER TABLE outbox DROP COLUMN payload"),
    ];
    for (server, table, before, during) in cases {
        let db = Outbox::create_bare(server, table);
        execute(&db, before);
        let mut relay = Relay::start(&no_snapshot(&db));
        db.wait_until_streaming();
        execute(&db, during);
        db.execute(&format!(
            "INSERT INTO outbox ({columns}) VALUES (gen_random_uuid(), 'order', 'o-1', 'E')"
        ));
        refused(&mut relay, before, &["payload", "public.outbox"]);
        assert_eq!(published(&db), [""; 0]);
    }
}

#[test]
fn publications_of_every_shape_serve() {
    let cases: [Shape; 4] = [
        ("SELECT", &[("publication.autocreate.mode", "all_tables")], &["1", "2"]),
        ("CREATE PUBLICATION $name FOR ALL TABLES", &[], &["1", "2"]),
        ("SELECT", &[("publication.name", "a\", 'b\\'; DROP TABLE outbox; --")], &["1", "2"]),
        (
            "CREATE PUBLICATION $name FOR TABLE outbox WHERE (type <> 'Hidden') WITH (publish = 'insert')",
            &[],
            &["2"],
        ),
    ];
    for (sql, settings, expected) in cases {
        let db = Outbox::create(postgres18());
        execute(&db, sql);
        let relay = Relay::start(&with(no_snapshot(&db), settings));
        db.wait_until_streaming();
        db.insert(&[Event::new("order", "o-1", "Hidden", "1"), Event::new("order", "o-1", "Shown", "2")]);
        db.wait_until_confirmed();
        assert_eq!(published(&db), expected, "{sql}");
        if expected.len() == 1 {
            relay.wait_for_stderr("row filter of the publication: excluded rows are not sent");
        }
        assert_eq!(relay.stop(), 0);
    }
}
