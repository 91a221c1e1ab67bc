//! `outboxd check`: its findings, its fixes, and its exit codes.

use std::fs;

use serde_json::{Value, json};

use crate::changes;
use crate::support::kafka::kafka;
use crate::support::outbox::{Columns, Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::registry::{registry, url};
use crate::support::relay::{Config, Relay};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const READY: i32 = 0;
const WARNINGS: i32 = 1;
const FAILURES: i32 = 2;

/// Nothing listens there.
const DEAD_PORT: &str = "1";

/// Output of `outboxd check --json`.
pub(crate) struct Report {
    exit: i32,
    json: Value,
}

impl Report {
    pub(crate) fn of(config: &Config) -> Self {
        let (exit, stdout) = check(config, &["--json"]);
        Self { exit, json: serde_json::from_str(&stdout).unwrap() }
    }

    fn checks(&self) -> impl Iterator<Item = &Value> {
        self.json["checks"].as_array().unwrap().iter()
    }

    /// Returns whether a check has this code and outcome.
    pub(crate) fn has(&self, code: &str, outcome: &str) -> bool {
        self.checks().any(|check| check["code"] == code && check["outcome"] == outcome)
    }

    /// Returns the first check with this code and outcome.
    #[track_caller]
    pub(crate) fn find(&self, code: &str, outcome: &str) -> &Value {
        let found = self.checks().find(|check| check["code"] == code && check["outcome"] == outcome);
        found.unwrap_or_else(|| panic!("no {outcome} of {code} in {:#}", self.json))
    }
}

pub(crate) fn check(config: &Config, arguments: &[&str]) -> (i32, String) {
    let watcher = Watcher::new("outboxd-check-");
    let file = watcher.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let all = [&["check", "-c", file.to_str().unwrap()], arguments].concat();
    let mut command = Relay::command(&all);
    (command.wait_for_exit(DEADLINE), command.stdout())
}

fn with(mut config: Config, changes: &[(&str, &str)]) -> Config {
    config.extend(changes.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    config
}

#[test]
fn a_prepared_system_is_ready_and_stays_as_it_was() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        let (exit, stdout) = check(&db.config(kafka()), &[]);
        assert_eq!(exit, READY, "{stdout}");
        assert!(stdout.contains("✓ wal_level is logical  [PG003]\n"), "{stdout}");
        assert!(stdout.ends_with("ready to run\n") && !stdout.contains('\u{1b}'), "{stdout}");
        assert_eq!(db.slot(), None);
        assert!(db.query("SELECT FROM pg_publication", &[]).is_empty());
        assert!(kafka().topics(db.name()).is_empty());
    }
}

#[test]
fn topics_are_known_from_the_rows_and_not_created() {
    let db = Outbox::create(postgres18());
    let [there, missing] = ["there", "missing"].map(|kind| (db.topic(kind), kind));
    kafka().create_topic(&there.0, 2, &[("max.message.bytes", "20000")]);
    db.insert(&[Event::new(there.1, "1", "E", "{}"), Event::new(missing.1, "1", "E", "{}")]);
    let report = Report::of(&db.config(kafka()));
    assert_eq!((report.exit, &report.json["outcome"]), (WARNINGS, &json!("warning")));
    report.find("KA011", "ok");
    report.find("KA011", "note");
    assert!(report.find("KA015", "ok")["title"].as_str().unwrap().contains("20000"));
    report.find("KA012", "warning");
    assert_eq!(kafka().topics(db.name()), [there.0]);
}

#[test]
fn topics_of_tables_are_known_before_the_first_row() {
    let tables = "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (n int)";
    let db = Outbox::create_bare(postgres18(), tables);
    let [a, b] = ["a", "b"].map(|table| changes::topic(&db, table));
    kafka().create_topic(&b, 1, &[("cleanup.policy", "compact")]);
    let report = |settings: &[(&str, &str)]| Report::of(&changes::config(&db, settings));
    let title =
        |report: &Report, code, outcome| report.find(code, outcome)["title"].as_str().unwrap().to_owned();

    let both = report(&[]);
    assert!(title(&both, "KA011", "ok").contains(&b), "{}", both.json);
    // Its rows have no key.
    assert!(title(&both, "KA014", "warning").contains(&b), "{}", both.json);
    assert!(both.find("KA014", "warning")["fix"].as_str().unwrap().ends_with("set cleanup.policy=delete"));
    kafka().alter_topic(&b, ("cleanup.policy", "delete"));
    assert!(!report(&[]).has("KA014", "warning"));
    let by_the_broker = format!("topic {a:?} does not exist yet; the broker makes it");
    assert!(title(&both, "KA011", "note").starts_with(&by_the_broker), "{}", both.json);

    let group = |copies| {
        report(&[
            ("topic.creation.default.partitions", "7"),
            ("topic.creation.default.replication.factor", copies),
        ])
    };
    let by_us = format!("topic {a:?} does not exist yet; outboxd creates it with 7 partitions and 1 copy");
    assert_eq!(title(&group("1"), "KA011", "note"), by_us + " by topic.creation.default");
    // There is one broker.
    assert!(title(&group("3"), "KA011", "failure").contains("cannot be created by topic.creation.default"));

    let router = "org.apache.kafka.connect.transforms.TimestampRouter";
    let renamed = report(&[("transforms", "day"), ("transforms.day.type", router)]);
    assert!(title(&renamed, "KA010", "skipped").ends_with("their names depend on transforms.day"));
    assert_eq!(kafka().topics(db.name()), [b]);
}

#[test]
fn the_dead_letter_topic_is_looked_at() {
    let db = Outbox::create(postgres18());
    let [order, dead] = ["order", "dead"].map(|kind| db.topic(kind));
    kafka().create_topic(&order, 1, &[("max.message.bytes", "20000")]);
    db.insert(&[Event::new("order", "1", "E", "{}")]);
    let settings = [("errors.tolerance", "all"), ("errors.deadletterqueue.topic.name", dead.as_str())];
    let config = with(db.config(kafka()), &settings);
    assert!(Report::of(&config).find("KA011", "note")["title"].as_str().unwrap().contains(&dead));
    kafka().create_topic(&dead, 1, &[("max.message.bytes", "20000"), ("cleanup.policy", "compact")]);
    let report = Report::of(&config);
    assert!(report.find("KA014", "warning")["title"].as_str().unwrap().contains(&dead));
    let fix = report.find("KA017", "note")["fix"].as_str().unwrap();
    assert!(fix.contains(&dead), "{fix}");
    kafka().run_tool(&fix.replace("BYTES", "20001"));
    Report::of(&config).find("KA017", "ok");
}

#[test]
fn what_exactly_once_needs_is_looked_at() {
    let db = Outbox::create(postgres18());
    let config = with(db.config(kafka()), &[("exactly.once.support", "required")]);
    let topic = format!("__outboxd-state.{}", db.name());
    let report = Report::of(&config);
    assert_eq!(report.exit, READY);
    assert!(report.find("KA018", "note")["title"].as_str().unwrap().contains(&topic));
    assert!(report.find("KA019", "skipped")["title"].as_str().unwrap().contains("transactional.id"));
    assert!(kafka().topics(&topic).is_empty());
    let relay = Relay::start(&config);
    // It comes after the stream has begun.
    eventually(DEADLINE, "the topic of the state", || !kafka().topics(&topic).is_empty());
    assert_eq!(relay.stop(), 0);
    is_compacted_by_the_fix(&config, "KA018", &topic);
}

/// Checks the warning of a topic that is not compacted, and its fix.
fn is_compacted_by_the_fix(config: &Config, code: &str, topic: &str) {
    Report::of(config).find(code, "ok");
    kafka().alter_topic(topic, ("cleanup.policy", "delete"));
    let fix = Report::of(config).find(code, "warning")["fix"].as_str().unwrap().to_owned();
    assert!(fix.contains(topic) && fix.contains("cleanup.policy=compact"), "{fix}");
    kafka().run_tool(&fix);
    Report::of(config).find(code, "ok");
}

#[test]
fn a_slot_that_was_moved_is_reported_before_the_start() {
    let db = Outbox::create(postgres18());
    let topic = format!("{}.positions", db.name());
    let config = with(db.config(kafka()), &[("outboxd.position.topic", &topic)]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    // A slot may be made at the end of the WAL. What lies behind it is confirmed when Kafka has the position.
    db.execute("CREATE TABLE one (n int)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    Report::of(&config).find("PG045", "ok");
    is_compacted_by_the_fix(&config, "KA020", &topic);
    db.execute("CREATE TABLE other (n int)");
    db.query("SELECT pg_replication_slot_advance($1::text::name, pg_current_wal_lsn())::text", &[&db.name()]);
    let report = Report::of(&config);
    let fix = report.find("PG045", "failure")["fix"].as_str().unwrap();
    assert!(fix.contains("outboxd.position.accept="), "{fix}");
}

#[test]
fn a_dead_postgres_leaves_kafka_to_be_checked_and_the_other_way_round() {
    let db = Outbox::create(postgres18());
    let no_postgres = Report::of(&with(db.config(kafka()), &[("database.port", DEAD_PORT)]));
    assert_eq!(no_postgres.exit, FAILURES);
    assert!(no_postgres.find("PG001", "failure")["fix"].is_string());
    no_postgres.find("KA001", "ok");
    let no_kafka = Report::of(&with(db.config(kafka()), &[("bootstrap.servers", "127.0.0.1:1")]));
    assert_eq!(no_kafka.exit, FAILURES);
    no_kafka.find("KA001", "failure");
    no_kafka.find("PG022", "ok");
}

#[test]
fn generated_columns_that_no_stream_has_are_reported() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TABLE a (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED);
         CREATE TABLE b (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL)",
    );
    let config = changes::config(&db, &[("publication.autocreate.mode", "disabled")]);
    db.execute(&format!("CREATE PUBLICATION \"{}\" FOR ALL TABLES", db.name()));
    let report = Report::of(&config);
    let told = |report: &Report, table: &str| {
        let told = report.checks().find(|check| {
            check["code"] == "PG049" && check["title"].as_str().unwrap().ends_with(&format!("public.{table}"))
        });
        told.map(|check| check["fix"].as_str().unwrap().to_owned())
    };
    assert!(told(&report, "b").unwrap().contains("column.exclude.list"));
    db.execute(&told(&report, "a").unwrap());
    assert_eq!(told(&Report::of(&config), "a"), None, "the fix works");

    let outbox = Outbox::create(postgres15());
    outbox.execute(
        "ALTER TABLE outbox DROP COLUMN aggregatetype,
         ADD COLUMN aggregatetype text NOT NULL GENERATED ALWAYS AS ('order') STORED",
    );
    let report = Report::of(&outbox.config(kafka()));
    assert_eq!(report.exit, FAILURES);
    assert!(report.find("PG049", "failure")["title"].as_str().unwrap().contains("aggregatetype"));
}

#[test]
fn a_role_without_rights_gets_the_names_of_the_missing_rights() {
    let db = Outbox::create(postgres15());
    let role = format!("{}_plain", db.name());
    db.execute(&format!("CREATE ROLE {role} LOGIN"));
    let config = with(db.config(kafka()), &[("database.user", &role)]);
    let report = Report::of(&config);
    assert_eq!(report.exit, FAILURES);
    let fix = report.find("PG002", "failure")["fix"].as_str().unwrap().to_owned();
    assert_eq!(fix, format!("as a superuser: ALTER ROLE \"{role}\" REPLICATION;"));
    report.find("PG030", "failure");
    report.find("PG025", "skipped");
    let grant = report.find("PG047", "failure")["fix"].as_str().unwrap().to_owned();

    db.execute(fix.strip_prefix("as a superuser: ").unwrap());
    let publication = report.find("PG030", "failure")["fix"].as_str().unwrap();
    db.execute(publication.strip_prefix("as a role that may: ").unwrap());
    // A start prints the same statement.
    let mut refused = Relay::start(&config);
    assert_eq!(refused.wait_for_exit(DEADLINE), 3);
    let in_json = grant.replace('"', "\\\"");
    assert!(refused.stderr().contains(&in_json), "{grant}: {}", refused.stderr());
    assert_eq!(Report::of(&config).exit, FAILURES);
    db.execute(grant.strip_prefix("as the owner of the table: ").unwrap());
    assert_eq!(Report::of(&config).exit, READY, "the fixes work");
}

#[test]
fn columns_publication_and_slot_that_do_not_fit_are_all_reported_at_once() {
    let db = Outbox::create_with(postgres18(), Columns::SnakeCase);
    let name = db.name();
    db.execute("ALTER TABLE outbox ALTER COLUMN aggregate_id DROP NOT NULL");
    db.execute(&format!("CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'update')"));
    db.query("SELECT pg_create_logical_replication_slot($1, 'test_decoding')", &[&name]);
    let report = Report::of(&db.config(kafka()));
    db.query("SELECT pg_drop_replication_slot($1)", &[&name]);
    assert_eq!(report.exit, FAILURES);
    report.find("PG022", "note");
    report.find("PG023", "warning");
    report.find("PG041", "failure");
    let fix = report.find("PG031", "failure")["fix"].as_str().unwrap();
    db.execute(fix);
    let missing = with(db.config(kafka()), &[("transforms.outbox.route.by.field", "aggregat_type")]);
    let report = Report::of(&missing);
    let fix = report.find("PG022", "failure")["fix"].as_str().unwrap();
    assert!(fix.starts_with("transforms.outbox.route.by.field=aggregate_type"), "{fix}");
}

#[test]
fn partitions_that_are_not_in_the_wal_and_tables_that_are_nearly_captured_are_reported() {
    let columns = "id uuid, aggregatetype text, aggregateid text, type text, payload jsonb";
    let db = Outbox::create_bare(
        postgres18(),
        &format!(
            "CREATE TABLE outbox ({columns}) PARTITION BY LIST (aggregateid);
             CREATE UNLOGGED TABLE outbox_1 PARTITION OF outbox FOR VALUES IN ('k1');
             CREATE TABLE outbox_new ({columns}); CREATE TABLE orders (n int)"
        ),
    );
    db.execute(&format!(
        "CREATE PUBLICATION {} FOR TABLE outbox, outbox_new, orders WITH (publish = 'insert')",
        db.name()
    ));
    let report = Report::of(&db.config(kafka()));
    assert_eq!(report.exit, FAILURES);
    db.execute(report.find("PG021", "failure")["fix"].as_str().unwrap().split(';').next().unwrap());
    let report = Report::of(&db.config(kafka()));
    assert_eq!(report.exit, WARNINGS, "the fix works: {:#}", report.json);
    let misses = report.json["checks"].as_array().unwrap().iter().filter(|check| check["code"] == "PG026");
    let titles: Vec<_> = misses.map(|check| check["title"].as_str().unwrap()).collect();
    assert!(
        titles.iter().any(|title| title.starts_with("table public.outbox_new has every column")),
        "{titles:?}"
    );
    assert!(
        titles.iter().any(|title| title.starts_with("table public.orders is in the publication")),
        "{titles:?}"
    );
}

/// Reasons why the change events of a table are incomplete, out of order, or missing; each fix is tried.
#[test]
fn keys_and_replica_identities_are_reported() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create_bare(
            server,
            "CREATE TABLE whole (id int PRIMARY KEY, small int);
             CREATE TABLE bare (n int, note text);
             CREATE UNLOGGED TABLE aside (id int PRIMARY KEY);
             CREATE TABLE \"Parts\" (id int, n int) PARTITION BY LIST (n);
             CREATE TABLE parts_1 PARTITION OF \"Parts\" FOR VALUES IN (1);
             CREATE TABLE large (id int PRIMARY KEY, n int, body text);
             INSERT INTO large SELECT 1, 1, string_agg(md5(n::text), '') FROM generate_series(1, 1000) n",
        );
        let mut config = db.config(kafka());
        config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
        let config =
            with(config, &[("snapshot.mode", "no_data"), ("message.key.columns", "public.Parts:id")]);
        let told = |code: &str| {
            let report = Report::of(&config);
            let checks =
                report.json["checks"].as_array().unwrap().iter().filter(|check| check["code"] == code);
            checks
                .map(|check| [&check["title"], &check["fix"]].map(|text| text.as_str().unwrap().to_owned()))
                .collect()
        };
        let identities: Vec<[String; 2]> = told("PG027");
        let titles: Vec<_> = identities.iter().map(|[title, _]| title.as_str()).collect();
        let lacks =
            ["table public.bare has no replica identity", "table public.parts_1 has no replica identity"];
        assert_eq!(titles, lacks);
        let keyless: Vec<[String; 2]> = told("PG028");
        let [[title, fix]] = keyless.as_slice() else { panic!("{keyless:?}") };
        assert_eq!(title, "events of table public.bare have no key");
        let key = r#"ALTER TABLE "public"."bare" ADD PRIMARY KEY (…); or set message.key.columns=public\.bare:column,column"#;
        assert_eq!(fix, key);
        let large: Vec<[String; 2]> = told("PG029");
        let [[title, fix]] = large.as_slice() else { panic!("{large:?}") };
        assert!(title.contains("public.large") && title.ends_with(": body"), "{title}");
        db.execute(fix);
        identities.iter().for_each(|[_, fix]| db.execute(fix.split_once("or: ").unwrap().1));
        assert_eq!([told("PG027"), told("PG029")], [Vec::<[String; 2]>::new(), Vec::new()], "the fixes work");
        let (constraint, columns) = key.split_once("; or set ").unwrap();
        let (option, columns) = columns.split_once('=').unwrap();
        let chosen = columns.replace("column,column", "n,note");
        let other = with(config.clone(), &[(option, &format!("public.Parts:id;{chosen}"))]);
        assert!(!Report::of(&other).has("PG028", "note") && !Report::of(&other).has("PG028", "warning"));
        db.execute(&constraint.replace('…', "n"));
        assert_eq!(told("PG028"), Vec::<[String; 2]>::new());
        let unlogged = Report::of(&config).find("PG021", "warning")["fix"].as_str().unwrap().to_owned();
        db.execute(&unlogged);
        assert!(!Report::of(&config).has("PG021", "warning"), "{unlogged}");
    }
}

#[test]
fn a_running_outboxd_is_a_warning() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    let report = Report::of(&config);
    assert_eq!(report.exit, WARNINGS);
    assert!(report.find("PG042", "warning")["title"].as_str().unwrap().contains("an outboxd is running"));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn other_slots_of_the_database_are_reported() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    let [read, forgotten] = ["read", "forgotten"].map(|name| format!("{}_{name}", db.name()));
    let relay = Relay::start(&with(config.clone(), &[("slot.name", &read)]));
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&forgotten]);
    eventually(DEADLINE, "the other slot is read", || {
        let sql = "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active AND NOT temporary";
        !db.query(sql, &[&read]).is_empty()
    });
    let report = Report::of(&config);
    let titles: Vec<_> =
        report.json["checks"].as_array().unwrap().iter().filter(|check| check["code"] == "PG044").collect();
    assert_eq!(titles.len(), 2, "{:#}", report.json);
    let title = |n: usize| titles[n]["title"].as_str().unwrap();
    assert!(title(0).contains(&forgotten) && title(0).contains("no client reads"), "{}", title(0));
    assert!(title(1).contains(&read) && title(1).contains("outboxd/"), "{}", title(1));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn every_mistake_of_the_configuration_is_reported() {
    let db = Outbox::create(postgres18());
    let config = with(db.config(kafka()), &[("slot.nam", "x"), ("database.port", "many")]);
    let report = Report::of(&config);
    assert_eq!((report.exit, report.json["failures"].as_u64()), (FAILURES, Some(2)));
    assert!(report.find("CF001", "failure")["title"].is_string());
}

#[test]
fn a_schema_registry_is_asked_when_a_converter_needs_one() {
    let db = Outbox::create(postgres18());
    let avro = |url: &str| {
        let class = ("value.converter", "io.confluent.connect.avro.AvroConverter");
        with(db.config(kafka()), &[class, ("value.converter.schema.registry.url", url)])
    };
    let report = Report::of(&avro(&registry().url()));
    report.find("SR001", "ok");
    let report = Report::of(&avro(&url(DEAD_PORT.parse().unwrap())));
    assert_eq!(report.exit, FAILURES);
    let title = report.find("SR001", "failure")["title"].as_str().unwrap();
    assert!(title.contains("http://127.0.0.1:1/apis/ccompat/v7 cannot be reached"), "{title}");
}
