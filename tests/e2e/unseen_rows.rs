//! Rows of a captured table that could be missed silently: after any change of the table, of its partitions or of the
//! publication, each row is sent, or the relay ends and reports the reason.

use std::time::Duration;

use outboxd::internals::throwaway::unused_port;

use crate::printed_fixes::{fix_of, statements};
use crate::support::http::{Page, get_until};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually, eventually_some};

const COLUMNS: &str = "id uuid, aggregatetype text, aggregateid text, type text, payload jsonb";

/// A table with a partition for each key.
const PARTITIONED: &str =
    "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb)
     PARTITION BY LIST (aggregateid);
     CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN ('k1');
     CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES IN ('k2')";

/// Foreign tables that nothing stands behind.
const NOWHERE: &str =
    "CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing";

fn named(db: &Outbox) -> Config {
    with(db.config(kafka()), &[("snapshot.mode", "no_data")])
}

/// Returns a configuration in which a restart has no memory of the partitions.
fn forgetful(db: &Outbox) -> Config {
    with(named(db), &[("outboxd.position.topic", "")])
}

/// Returns a configuration without `table.include.list`: tables are captured for their columns.
fn by_columns(db: &Outbox) -> Config {
    let mut config = named(db);
    config.remove("table.include.list");
    config
}

/// Inserts a row whose payload is this number.
fn insert(db: &Outbox, table: &str, key: &str, n: u32) {
    db.execute(&format!(
        "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload)
         VALUES (gen_random_uuid(), 'order', '{key}', 'Numbered', '{n}')"
    ));
}

fn published(db: &Outbox) -> Vec<String> {
    let mut values: Vec<_> =
        kafka().records(&db.topic("order")).iter().map(|record| record.value().to_owned()).collect();
    values.sort();
    values
}

/// Runs the statements with the name of the publication and the slot for `$name`.
fn execute(db: &Outbox, sql: &str) {
    db.execute(&sql.replace("$name", db.name()));
}

/// Starts a relay and waits until it has sent the first row.
fn streaming(db: &Outbox, config: &Config) -> Relay {
    let relay = Relay::start(config);
    sent_first(db);
    relay
}

fn sent_first(db: &Outbox) {
    db.wait_until_streaming();
    insert(db, "outbox", "k1", 1);
    db.wait_until_confirmed();
    guard_has_looked(db);
}

/// Waits until the guard's first check is over, since an earlier state is not compared with anything. A lock delays a
/// check; when the next one waits for it too, the first is over.
pub(crate) fn guard_has_looked(db: &Outbox) {
    let sql = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE $1
               AND query LIKE '%pg_publication_namespace%' AND wait_event_type = 'Lock'";
    let (other, application) = (Session::new(db.address().clone()), format!("outboxd/{}#%", db.name()));
    for _ in 0..2 {
        other.execute("BEGIN; LOCK TABLE pg_publication_namespace IN ACCESS EXCLUSIVE MODE");
        eventually(DEADLINE, "the guard looks", || !db.query(sql, &[&application]).is_empty());
        other.execute("COMMIT");
    }
}

/// Starts a relay with its status port and waits until it has sent the first row.
fn watched(db: &Outbox) -> (Relay, u16) {
    let http = unused_port().unwrap();
    let relay = Relay::start_with(&named(db), &["--http", &http.to_string()], &[]);
    sent_first(db);
    (relay, http)
}

pub(crate) fn warns_of(page: &Page, word: &str) -> bool {
    page.code == 200 && page.json()["warnings"].to_string().contains(word)
}

#[track_caller]
fn refused(relay: &mut Relay, what: &str, words: &[&str]) {
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{what}: {}", relay.stderr());
    let said = relay.stderr();
    words.iter().for_each(|word| assert!(said.contains(word), "{what}: {word} is not in {said}"));
}

/// Rows 1 to 3 of the table in the issue: a table that is captured for its columns stays captured without them.
#[test]
fn a_column_that_is_renamed_under_a_table_captured_by_columns_ends_the_relay() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let mut relay = streaming(&db, &by_columns(&db));
        db.execute(
            "ALTER TABLE outbox RENAME COLUMN payload TO body;
             INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k1', 'Numbered', '2')",
        );
        refused(&mut relay, "renamed", &["public.outbox", "payload", "table.exclude.list"]);
        refused(&mut Relay::start(&named(&db)), "again, by name", &["public.outbox", "payload"]);
        assert_eq!(published(&db), ["1"]);
    }
}

/// Another table has the columns, so that a start finds something to capture: only the kept position knows of the first.
#[test]
fn a_table_that_is_altered_or_renamed_while_the_relay_is_stopped_stays_captured() {
    let db = Outbox::create(postgres18());
    db.execute(&format!("CREATE TABLE other ({COLUMNS})"));
    assert_eq!(streaming(&db, &by_columns(&db)).stop(), 0);
    insert(&db, "outbox", "k1", 2);
    db.execute("ALTER TABLE outbox RENAME TO former");
    let relay = Relay::start(&by_columns(&db));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(published(&db), ["1", "2"]);
    db.execute(
        "ALTER TABLE former RENAME COLUMN payload TO body;
         INSERT INTO former VALUES (gen_random_uuid(), 'order', 'k1', 'Numbered', '3')",
    );
    refused(&mut Relay::start(&by_columns(&db)), "altered", &["public.former", "payload"]);
}

#[test]
fn a_row_that_is_older_than_a_column_the_router_needs_ends_the_relay() {
    let db = Outbox::create(postgres18());
    assert_eq!(streaming(&db, &by_columns(&db)).stop(), 0);
    insert(&db, "outbox", "k1", 2);
    db.execute("ALTER TABLE outbox ADD COLUMN tenant text");
    let tenant = ("transforms.outbox.table.fields.additional.placement", "tenant:header");
    let config = with(by_columns(&db), &[tenant]);
    let words = ["public.outbox", "tenant", "table.field.additional.missing=ignore"];
    refused(&mut Relay::start(&config), "older", &words);
    let ignore = ("transforms.outbox.table.field.additional.missing", "ignore");
    let relay = Relay::start(&with(config, &[ignore]));
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(published(&db), ["1", "2"]);
}

#[test]
fn a_column_list_without_a_column_the_router_needs_ends_the_relay() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        assert_eq!(streaming(&db, &by_columns(&db)).stop(), 0);
        execute(&db, "ALTER PUBLICATION $name SET TABLE outbox (id, aggregatetype, aggregateid, type)");
        let mut relay = Relay::start(&by_columns(&db));
        db.wait_until_streaming();
        insert(&db, "outbox", "k1", 2);
        refused(&mut relay, "column list", &["public.outbox", "payload"]);
        assert_eq!(published(&db), ["1"]);
    }
}

/// Rows 4 and 5. The catalog of today does not know the partition any more.
#[test]
fn rows_of_a_partition_that_is_gone_are_sent_all_the_same() {
    let gone = ["DROP TABLE outbox_1", "ALTER TABLE outbox DETACH PARTITION outbox_1"];
    for (server, sql) in [(postgres15(), gone[0]), (postgres18(), gone[0]), (postgres18(), gone[1])] {
        let db = Outbox::create_bare(server, PARTITIONED);
        assert_eq!(streaming(&db, &named(&db)).stop(), 0);
        insert(&db, "outbox", "k1", 2);
        db.execute(sql);
        insert(&db, "outbox", "k2", 3);
        let relay = Relay::start(&named(&db));
        db.wait_until_streaming();
        db.wait_until_confirmed();
        assert_eq!(published(&db), ["1", "2", "3"], "{sql}");
        assert_eq!(relay.stop(), 0);
    }
}

/// As long as a relay has seen the partition, it needs nothing else to know it.
#[test]
fn rows_of_a_partition_that_goes_while_the_relay_streams_are_sent() {
    let db = Outbox::create_bare(postgres18(), PARTITIONED);
    execute(&db, "CREATE PUBLICATION $name FOR ALL TABLES");
    let relay = streaming(&db, &named(&db));
    db.execute(
        "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k1', 'Numbered', '2'); DROP TABLE outbox_1",
    );
    db.wait_until_confirmed();
    assert_eq!(published(&db), ["1", "2"]);
    assert_eq!(relay.stop(), 0);
}

/// The publication has other tables as well: the relay cannot determine whether the rows were ours.
#[test]
fn rows_of_a_partition_that_is_gone_are_asked_for_when_the_publication_has_other_tables() {
    let db = Outbox::create_bare(postgres18(), PARTITIONED);
    execute(&db, "CREATE TABLE orders (n int); CREATE PUBLICATION $name FOR TABLE outbox, orders");
    assert_eq!(streaming(&db, &forgetful(&db)).stop(), 0);
    insert(&db, "outbox", "k1", 2);
    db.execute("INSERT INTO orders VALUES (1); DROP TABLE outbox_1");
    let words = ["public.outbox_1", "table.include.list", "table.exclude.list"];
    refused(&mut Relay::start(&forgetful(&db)), "not known", &words);
    let both = with(forgetful(&db), &[("table.include.list", r"public\.outbox(_\d+)?")]);
    let relay = Relay::start(&both);
    db.wait_until_streaming();
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(published(&db), ["1", "2"]);
}

/// Rows 6 and 7.
#[test]
fn a_table_that_is_renamed_or_moved_while_the_relay_streams_is_still_sent() {
    let cases = [
        (postgres15(), "ALTER TABLE outbox RENAME TO outbox_old", "outbox_old"),
        (postgres18(), "ALTER TABLE outbox RENAME TO outbox_old", "outbox_old"),
        (
            postgres18(),
            "CREATE SCHEMA elsewhere; ALTER TABLE outbox SET SCHEMA elsewhere",
            "elsewhere.outbox",
        ),
    ];
    for (server, sql, name) in cases {
        let db = Outbox::create(server);
        let (relay, http) = watched(&db);
        db.execute(sql);
        insert(&db, name, "k1", 2);
        db.wait_until_confirmed();
        get_until(http, "/readyz", "warns of the name", |page| warns_of(page, name));
        // A new session does not forget it.
        db.end_the_stream();
        insert(&db, name, "k1", 3);
        db.wait_until_confirmed();
        assert_eq!(published(&db), ["1", "2", "3"], "{sql}");
        let said = relay.stop_and_tell();
        assert_eq!(said.lines().filter(|line| line.contains("is named")).count(), 1, "once: {said}");
        assert!(said.contains("table.include.list"), "{said}");
    }
}

/// Row 8.
#[test]
fn a_partition_whose_rows_never_reach_the_wal_is_refused() {
    let unlogged = "CREATE UNLOGGED TABLE outbox_3 PARTITION OF outbox FOR VALUES IN ('k3')";
    let foreign = "CREATE FOREIGN TABLE outbox_3 PARTITION OF outbox FOR VALUES IN ('k3') SERVER nowhere";
    let cases = [
        (postgres15(), unlogged, "SET LOGGED"),
        (postgres18(), unlogged, "SET LOGGED"),
        (postgres18(), foreign, "DETACH PARTITION"),
    ];
    for (server, sql, fix) in cases {
        let db = Outbox::create_bare(server, &format!("{PARTITIONED}; {NOWHERE}"));
        let mut relay = streaming(&db, &named(&db));
        db.execute(sql);
        refused(&mut relay, sql, &["outbox_3", fix]);
        refused(&mut Relay::start(&named(&db)), "at the start", &["outbox_3", fix]);
        statements(&fix_of(&relay)).iter().for_each(|statement| db.execute(statement));
        let relay = Relay::start(&with(named(&db), &[("snapshot.mode", "always")]));
        db.wait_until_streaming();
        assert_eq!(relay.stop(), 0);
    }
}

/// Row 11, and the other exclusions of a publication.
#[test]
fn a_publication_that_excludes_more_while_the_relay_streams_ends_it() {
    let cases = [
        ("SET TABLE outbox WHERE (type <> 'Numbered')", "row filter"),
        ("SET TABLE outbox (id, aggregatetype, aggregateid, type, payload)", "column list"),
        ("SET (publish = 'insert, update')", "published operations"),
    ];
    let mut started = Vec::new();
    for (sql, words) in cases {
        let db = Outbox::create(postgres18());
        execute(&db, "CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'insert')");
        let relay = streaming(&db, &named(&db));
        execute(&db, &format!("ALTER PUBLICATION $name {sql}"));
        started.push((db, relay, words));
    }
    for (_, relay, words) in &mut started {
        refused(relay, words, &[words, "snapshot.mode=always"]);
    }
    // At a start that sends the rows from the table, what is there is meant.
    for (db, _, words) in &started {
        let relay = Relay::start(&with(named(db), &[("snapshot.mode", "always")]));
        db.wait_until_streaming();
        if *words != "published operations" {
            relay.wait_for_stderr(words);
        }
        assert_eq!(relay.stop(), 0);
    }
}

/// What comes and goes between two looks is in the versions of the catalog's rows.
#[test]
fn a_publication_that_is_changed_and_changed_back_ends_the_relay() {
    let there_and_back = [
        ("ALTER PUBLICATION $name RENAME TO elsewhere", "ALTER PUBLICATION elsewhere RENAME TO $name"),
        (
            "ALTER PUBLICATION $name SET (publish = 'update')",
            "ALTER PUBLICATION $name SET (publish = 'insert')",
        ),
        (
            "ALTER PUBLICATION $name SET TABLE outbox WHERE (type <> 'x')",
            "ALTER PUBLICATION $name SET TABLE outbox",
        ),
        ("ALTER PUBLICATION $name DROP TABLE outbox", "ALTER PUBLICATION $name ADD TABLE outbox"),
    ];
    let mut started = Vec::new();
    for (there, back) in there_and_back {
        let db = Outbox::create(postgres18());
        execute(&db, "CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'insert')");
        let relay = streaming(&db, &named(&db));
        // In one transaction: no look can fall between them.
        execute(&db, &format!("{there}; {back}"));
        started.push((relay, there));
    }
    for (relay, there) in &mut started {
        refused(relay, there, &["changed back", "snapshot.mode=always"]);
    }
}

/// Nothing in the catalog distinguishes this from every rewrite, so it does not end the relay.
#[test]
fn a_table_that_was_perhaps_unlogged_for_a_moment_is_warned_of() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        // PostgreSQL refuses it for a table that a publication names.
        execute(&db, "CREATE PUBLICATION $name FOR ALL TABLES");
        let (relay, http) = watched(&db);
        db.execute("ALTER TABLE outbox SET UNLOGGED; ALTER TABLE outbox SET LOGGED");
        relay.wait_for_stderr("may have been unlogged");
        get_until(http, "/readyz", "warns of it", |page| warns_of(page, "may have been unlogged"));
        insert(&db, "outbox", "k1", 2);
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        assert_eq!(published(&db), ["1", "2"]);
    }
}

/// Other statements rewrite the table as well. The objects that they do not change distinguish them: the TOAST table,
/// and the sequence of the identity column.
#[test]
fn a_table_that_is_truncated_or_packed_is_not_suspected() {
    let cases = [
        ("TRUNCATE outbox", "was truncated, or rewritten"),
        ("VACUUM FULL outbox", "was truncated, or rewritten"),
        ("ALTER TABLE outbox ALTER COLUMN type TYPE varchar(99)", "was rewritten: no event is missing"),
    ];
    for server in [postgres15(), postgres18()] {
        for (sql, words) in cases {
            let identity = "n bigint GENERATED ALWAYS AS IDENTITY";
            let db = Outbox::create_bare(server, &format!("CREATE TABLE outbox ({COLUMNS}, {identity})"));
            execute(&db, "CREATE PUBLICATION $name FOR ALL TABLES");
            let (relay, http) = watched(&db);
            db.execute(sql);
            relay.wait_for_stderr(words);
            insert(&db, "outbox", "k1", 2);
            db.wait_until_confirmed();
            get_until(http, "/readyz", "has no warning", |page| {
                page.code == 200 && page.json()["warnings"].is_null()
            });
            assert_eq!(relay.stop(), 0);
            assert_eq!(published(&db), ["1", "2"]);
        }
    }
}

/// A table that is not captured: each reason is counted, and reported once.
#[test]
fn rows_that_are_not_sent_have_a_reason() {
    let db = Outbox::create(postgres18());
    execute(
        &db,
        &format!(
            "CREATE TABLE orders (n int); CREATE TABLE outbox_2 ({COLUMNS});
             CREATE PUBLICATION $name FOR TABLE outbox, orders, outbox_2"
        ),
    );
    let (relay, http) = watched(&db);
    db.execute("INSERT INTO orders SELECT generate_series(1, 3); DELETE FROM outbox; TRUNCATE outbox");
    insert(&db, "outbox_2", "k1", 2);
    db.wait_until_confirmed();
    for (table, reason, rows) in [
        ("public.orders", "table.include.list", 3.0),
        ("public.outbox_2", "table.include.list", 1.0),
        ("public.outbox", "delete", 1.0),
        ("public.outbox", "truncate", 1.0),
    ] {
        let series = format!("outboxd_rows_not_sent_total{{table=\"{table}\",reason=\"{reason}\"}}");
        get_until(http, "/metrics", &series, |page| page.sample(&series) == Some(rows));
    }
    get_until(http, "/readyz", "warns of the near miss", |page| {
        warns_of(page, "public.outbox_2 has every column")
            && warns_of(page, "public.orders is in the publication")
    });
    let said = relay.stop_and_tell();
    assert!(said.lines().any(|line| line.contains("WARN") && line.contains("public.outbox_2")), "{said}");
    assert_eq!(published(&db), ["1"]);
}

/// Nothing is read until the catalog describes a table. The server still receives status updates.
#[test]
fn a_catalog_that_does_not_answer_holds_up_no_status_update() {
    const PATIENCE: Duration = Duration::from_secs(2);
    let server = postgres::start_with(18, &[("wal_sender_timeout", "2s")]);
    let db = Outbox::create(&server);
    let relay = streaming(&db, &named(&db));
    let (walsender, _) = eventually_some(DEADLINE, "the server has heard from us", || db.last_reply());
    // The description of the table waits for this lock, and the walsender needs it not.
    let other = Session::new(db.address().clone());
    other.execute("ALTER TABLE outbox ADD COLUMN more int");
    other.execute("BEGIN; LOCK TABLE pg_attrdef IN ACCESS EXCLUSIVE MODE");
    insert(&db, "outbox", "k1", 2);
    db.wait_for_status_updates(3 * PATIENCE);
    assert_eq!(published(&db), ["1"], "the row waits");
    other.execute("COMMIT");
    db.wait_until_confirmed();
    assert_eq!(published(&db), ["1", "2"]);
    let after = db.last_reply().map(|(walsender, _)| walsender);
    assert_eq!(after, Some(walsender), "no connection was lost: {}", relay.stderr());
    assert_eq!(relay.stop(), 0);
}
