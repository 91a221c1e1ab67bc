//! Printed fixes, executed in the state that prints them. `tests/checks/fixes.tsv` lists all of them.

use outboxd::internals::throwaway::StopMode;
use serde_json::Value;

use crate::changes;
use crate::check::Report;
use crate::printed_commands::Desk;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{newest, postgres18, start_with};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const PARTITIONED: &str = "DROP TABLE outbox;
    CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb) PARTITION BY LIST (aggregateid);
    CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN ('k1')";

/// A finding of `outboxd check`.
struct Finding {
    /// Statements before it; `$name` is the name of the publication and the slot.
    before: &'static str,
    settings: &'static [(&'static str, &'static str)],
    code: &'static str,
    outcome: &'static str,
    /// Settings of the fix.
    then: &'static [(&'static str, &'static str)],
}

const FINDINGS: [Finding; 8] = [
    Finding {
        before: "ALTER TABLE outbox ALTER COLUMN aggregateid DROP NOT NULL",
        settings: &[],
        code: "PG023",
        outcome: "warning",
        then: &[],
    },
    Finding {
        before: "ALTER TABLE outbox SET UNLOGGED",
        settings: &[],
        code: "PG021",
        outcome: "failure",
        then: &[],
    },
    Finding {
        before: "SELECT",
        settings: &[("publication.autocreate.mode", "disabled")],
        code: "PG030",
        outcome: "failure",
        then: &[],
    },
    Finding {
        before: "SELECT pg_create_logical_replication_slot('$name', 'pgoutput')",
        settings: &[],
        code: "PG030",
        outcome: "warning",
        then: &[],
    },
    Finding {
        before: "CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'update')",
        settings: &[],
        code: "PG031",
        outcome: "failure",
        then: &[],
    },
    Finding {
        before: "CREATE TABLE other (n int); CREATE PUBLICATION $name FOR TABLE other",
        settings: &[("publication.autocreate.mode", "disabled")],
        code: "PG032",
        outcome: "failure",
        then: &[],
    },
    Finding {
        before: "CREATE PUBLICATION $name FOR TABLE outbox (id, aggregatetype, aggregateid, type) WITH (publish = 'insert')",
        settings: &[],
        code: "PG034",
        outcome: "failure",
        then: &[],
    },
    Finding {
        before: "CREATE PUBLICATION $name FOR ALL TABLES",
        settings: &[],
        code: "PG035",
        outcome: "warning",
        then: &[("publication.name", "outboxd")],
    },
];

#[test]
fn a_fix_of_check_settles_the_finding() {
    for Finding { before, settings, code, outcome, then } in FINDINGS {
        let db = Outbox::create(postgres18());
        execute(&db, before);
        let config = with(db.config(kafka()), settings);
        let report = Report::of(&config);
        let fix = report.find(code, outcome)["fix"].as_str().unwrap();
        let statements = statements(fix);
        assert!(!statements.is_empty(), "{code}: no statement in {fix}");
        statements.iter().for_each(|statement| db.execute(statement));
        let report = Report::of(&with(config, then));
        assert!(!report.has(code, outcome), "{code} after {statements:?}");
    }
}

/// A partition and its root: which of the two names the rows come under.
#[test]
fn rows_of_a_partition_come_under_the_name_that_the_fix_chooses() {
    for (include, via_root, outcome, text) in
        [("public.outbox_1", true, "failure", "fix"), ("public.outbox", false, "note", "detail")]
    {
        let db = Outbox::create(postgres18());
        execute(&db, PARTITIONED);
        execute(
            &db,
            &format!(
                "CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = {via_root})"
            ),
        );
        let config = with(db.config(kafka()), &[("table.include.list", include)]);
        let report = Report::of(&config);
        let fix = report.find("PG024", outcome)[text].as_str().unwrap();
        statements(fix).iter().for_each(|statement| db.execute(statement));
        assert!(!Report::of(&config).has("PG024", outcome), "{include} after {fix}");
    }
}

#[test]
fn a_role_reads_a_table_in_a_schema_after_the_fix() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE SCHEMA \"Shop\"; CREATE TABLE \"Shop\".\"Orders\" (id int PRIMARY KEY)",
    );
    let role = format!("{}_plain", db.name());
    execute(&db, "CREATE PUBLICATION $name FOR TABLE \"Shop\".\"Orders\"");
    db.execute(&format!("CREATE ROLE {role} LOGIN REPLICATION"));
    let settings = [
        ("database.user", role.as_str()),
        ("table.include.list", "Shop.Orders"),
        ("publication.autocreate.mode", "disabled"),
        ("snapshot.mode", "initial"),
    ];
    let config = changes::config(&db, &settings);
    let report = Report::of(&config);
    let grants = statements(report.find("PG047", "failure")["fix"].as_str().unwrap());
    assert!(grants.len() == 2 && grants[0].starts_with("GRANT USAGE ON SCHEMA"), "{grants:?}");
    grants.iter().for_each(|grant| db.execute(grant));
    assert!(!Report::of(&config).has("PG047", "failure"));
    db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// A refused start: statements before it, settings, and settings of the fix.
type Refused = (&'static str, (&'static str, &'static str), &'static [(&'static str, &'static str)]);

#[test]
fn a_start_that_was_refused_succeeds_after_the_fix() {
    let filtered = ("publication.autocreate.mode", "filtered");
    let cases: [Refused; 5] = [
        ("CREATE PUBLICATION $name FOR TABLE outbox WITH (publish = 'update, delete')", filtered, &[]),
        ("SELECT", ("publication.autocreate.mode", "disabled"), &[]),
        (
            "SELECT",
            ("publication.autocreate.mode", "no_tables"),
            // The stop for rows that are not in the stream is remembered.
            &[("snapshot.mode", "always")],
        ),
        ("ALTER TABLE outbox SET UNLOGGED", filtered, &[]),
        (
            "SELECT pg_create_logical_replication_slot('$name', 'test_decoding')",
            filtered,
            &[("slot.name", "$name_pgoutput")],
        ),
    ];
    for (before, autocreate, then) in cases {
        let db = Outbox::create(postgres18());
        execute(&db, before);
        let config = with(db.config(kafka()), &[("snapshot.mode", "no_data"), autocreate]);
        let fix = fix_of_refused(&config, 3);
        let statements = statements(&fix);
        assert!(!statements.is_empty(), "no statement in {fix}");
        statements.iter().for_each(|statement| db.execute(statement));
        let then: Vec<_> =
            then.iter().map(|(key, value)| (*key, value.replace("$name", db.name()))).collect();
        let then: Vec<_> = then.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let relay = Relay::start(&with(config, &then));
        eventually(DEADLINE, "a relay streams", || {
            let active = "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
                          WHERE database = current_database() AND state = 'streaming'";
            !db.query(active, &[]).is_empty()
        });
        // The rows of an existing slot come before those of the snapshot.
        if then.iter().any(|(key, _)| *key == "snapshot.mode") {
            relay.wait_for_snapshot();
        }
        db.insert(&[Event::new("order", "o-1", "Made", "{}")]);
        assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1, "{before}");
        assert_eq!(relay.stop(), 0);
    }
}

/// A row that cannot be routed: a setting that adds what it lacks, its columns, and the values.
const ROWS: [(&str, &str, &str); 5] = [
    ("table.field.event.key=aggregateid", "aggregatetype", "NULL"),
    ("table.fields.additional.placement=part:partition", "part", "-1"),
    ("table.field.event.timestamp=at", "at", "'1960-01-01'"),
    ("table.field.event.timestamp=at", "at", "'infinity'"),
    ("table.field.event.timestamp=ms", "ms", "-1"),
];

/// The constraint cannot be added while the row is in the table: with the other setting outboxd continues behind it.
#[test]
fn the_constraint_of_a_fix_forbids_the_next_row_of_its_kind() {
    for (setting, column, value) in ROWS {
        let db = Outbox::create(postgres18());
        db.execute(
            "ALTER TABLE outbox RENAME TO \"Outbox\";
             ALTER TABLE \"Outbox\" ALTER COLUMN aggregatetype DROP NOT NULL, ADD COLUMN part int, ADD COLUMN at timestamptz, ADD COLUMN ms bigint",
        );
        let (key, chosen) = setting.split_once('=').unwrap();
        let key = format!("transforms.outbox.{key}");
        let table = ("table.include.list", "public.Outbox");
        let settings = [("snapshot.mode", "no_data"), table, (key.as_str(), chosen)];
        let config = with(db.config(kafka()), &settings);
        let mut relay = Relay::start(&config);
        db.wait_until_streaming();
        let mut columns = vec![("aggregatetype", "'order'"), ("part", "0"), ("at", "now()"), ("ms", "1")];
        columns.retain(|(other, _)| *other != column);
        columns.push((column, value));
        let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let insert = format!(
            "INSERT INTO \"Outbox\" (id, aggregateid, type, payload, {}) VALUES (gen_random_uuid(), 'k', 'Made', '{{}}', {})",
            names.join(", "),
            values.join(", ")
        );
        db.execute(&insert);
        assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
        let fix = fix_of(&relay);
        assert!(fix.contains("errors.tolerance=all"), "{fix}");
        let relay = Relay::start(&with(config, &[("errors.tolerance", "all")]));
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        db.execute("DELETE FROM \"Outbox\"");
        let statements = statements(&fix);
        assert_eq!(statements.len(), 1, "{fix}");
        statements.iter().for_each(|statement| db.execute(statement));
        assert!(db.try_query(&insert).is_err(), "{fix}");
    }
}

/// A server of its own, with each setting that `check` would change.
#[test]
fn settings_of_the_server_are_as_check_prints_them() {
    // PostgreSQL 19 decodes with it.
    let wal_level = if newest() < 19 { "replica" } else { "logical" };
    let unfit = [
        ("wal_level", wal_level),
        ("max_wal_senders", "10"),
        ("max_replication_slots", "1"),
        ("wal_sender_timeout", "1s"),
        ("idle_replication_slot_timeout", "1h"),
    ];
    let mut server = start_with(18, &unfit);
    let db = Outbox::create(&server);
    db.execute("SELECT pg_create_physical_replication_slot('taken')");
    let config = db.config(kafka());
    let mut expected = vec![("PG007", "failure"), ("PG010", "warning"), ("PG011", "warning")];
    if wal_level == "replica" {
        expected.insert(0, ("PG003", "failure"));
    }
    let report = Report::of(&config);
    let mut fixes: Vec<_> = expected
        .iter()
        .map(|(code, outcome)| report.find(code, outcome)["fix"].as_str().unwrap().to_owned())
        .collect();
    fixes.push(report.find("PG009", "note")["detail"].as_str().unwrap().to_owned());
    if wal_level == "replica" {
        // A start prints the same.
        let refused = fix_of_refused(&config, 3);
        assert!(fixes[0].starts_with(refused.lines().next().unwrap()), "{refused}");
        // A migration too.
        db.execute("ALTER TABLE outbox ADD COLUMN sent_at timestamptz");
        let fix = Desk::of(&config).fix("migrate plan --mark sent_at");
        assert!(fix.contains("ALTER SYSTEM SET wal_level"), "{fix}");
        fixes.push(fix);
    }
    for fix in &fixes {
        let statements = statements(fix);
        assert!(statements.iter().any(|statement| statement.starts_with("ALTER SYSTEM")), "{fix}");
        statements.iter().for_each(|statement| db.execute(statement));
    }
    db.disconnect();
    server.stop(StopMode::Fast, DEADLINE).unwrap();
    server.start_again().unwrap();
    let report = Report::of(&config);
    for (code, outcome) in expected {
        assert!(!report.has(code, outcome), "{code}");
    }
    assert!(report.find("PG009", "note")["title"].as_str().unwrap().contains("51200 MB"));
}

/// Starts a relay that is refused, and returns the fix that it logs.
#[track_caller]
pub(crate) fn fix_of_refused(config: &Config, exit: i32) -> String {
    let mut relay = Relay::start(config);
    assert_eq!(relay.wait_for_exit(DEADLINE), exit, "{}", relay.stderr());
    fix_of(&relay)
}

/// Returns the fix of the last line of the log that has one.
#[track_caller]
pub(crate) fn fix_of(relay: &Relay) -> String {
    let said = relay.stderr();
    let lines = said.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut fixes = lines.filter_map(|line| line["fix"].as_str().map(str::to_owned));
    fixes.next().unwrap_or_else(|| panic!("no fix in {said}"))
}

/// Returns the setting `KEY=VALUE` of a fix.
#[track_caller]
pub(crate) fn setting<'f>(fix: &'f str, key: &str) -> (&'f str, &'f str) {
    let words = fix.split_whitespace().filter_map(|word| word.split_once('='));
    let mut settings = words.filter(|(name, _)| *name == key);
    let (name, value) = settings.next().unwrap_or_else(|| panic!("no {key} in {fix}"));
    (name, value.trim_end_matches([',', ';', ':', '.', ')']))
}

/// Returns the statements of a fix, in their order. Words before a statement, and lines without one, are for the reader.
pub(crate) fn statements(fix: &str) -> Vec<String> {
    const WORDS: [&str; 7] = ["ALTER ", "BEGIN", "COMMIT", "CREATE ", "DROP ", "GRANT ", "SELECT "];
    fix.split([';', '\n'])
        .filter_map(|part| {
            let start = WORDS.iter().filter_map(|word| part.find(word)).min()?;
            part.get(start..).map(str::to_owned)
        })
        .collect()
}

pub(crate) fn execute(db: &Outbox, sql: &str) {
    db.execute(&sql.replace("$name", db.name()));
}
