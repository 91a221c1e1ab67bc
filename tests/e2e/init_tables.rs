//! `outboxd init --tables`: change events of tables, as a new user would begin.

use std::fs;
use std::path::Path;

use rdkafka::consumer::Consumer as _;
use serde_json::Value;

use crate::commands::session::Session;
use crate::init::{Place, run};
use crate::support::kafka::kafka;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::Relay;
use crate::support::session::Address;
use crate::support::wait::{DEADLINE, eventually_some};

const PAGE: &str = include_str!("../../docs/commands.md");

const TABLES: &str = "CREATE TABLE orders (id int PRIMARY KEY, customer text);
                      CREATE TABLE lines (order_id int, n int, sku text, PRIMARY KEY (order_id, n));
                      CREATE TABLE audit (what text)";

fn names(place: &Place) -> Vec<(&'static str, String)> {
    let Address { host, port, user, database, .. } = place.db.address();
    vec![
        ("changes.json", place.file.clone()),
        (
            "postgresql://postgres@localhost/shop",
            format!("postgresql://{user}@{host}:{port}/{database}?sslmode=disable"),
        ),
        ("localhost:9092", kafka().bootstrap()),
        ("localhost", host.clone()),
        ("shop", place.db.name().to_owned()),
    ]
}

#[test]
fn the_session_about_tables_is_what_is_seen() {
    let place = Place::build(postgres18(), TABLES);
    place
        .db
        .execute("INSERT INTO orders VALUES (1, 'Ann'); INSERT INTO lines VALUES (1, 1, 'a'), (1, 2, 'b')");
    assert_eq!(Session::of(PAGE, "Stream tables: outboxd init --tables").replay(&names(&place)), [0, 0]);
    // Who looks again changes nothing: the server refuses whatever does.
    let name = place.db.name();
    place.db.execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let (exit, stdout, stderr) = place.init(&["--tables", "orders,public.l.*", "--yes"]);
    assert!(exit == 0 && stderr.contains("nothing to do"), "{stdout}{stderr}");
}

#[test]
fn tables_stream_with_the_rights_that_init_gives() {
    for server in [postgres15(), postgres18()] {
        let place = Place::build(server, TABLES);
        let Place { db, file, .. } = &place;
        let role = format!("{}_run", db.name());
        let brokers = kafka().bootstrap();
        let asked = ["--kafka", &brokers, "--tables", "orders,audit", "--role", &role];
        let (exit, script, stderr) = place.init(&[&asked[..], &["--print-sql"]].concat());
        assert!(exit == 0 && script.contains("-- undo: DROP PUBLICATION"), "{script}{stderr}");
        assert!(db.leftovers().is_empty() && !Path::new(file).exists(), "{script}");
        let (exit, stdout, stderr) =
            place.init(&[&asked[..], &["--partitions", "2", "--create-slot", "--json", "--yes"]].concat());
        assert_eq!(exit, 0, "{stdout}{stderr}");
        let said: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(said["tables"], serde_json::json!(["public.audit", "public.orders"]), "{stdout}");
        assert_eq!(said["warnings"][0]["code"], "PG028", "{stdout}");

        db.execute(&format!("ALTER ROLE \"{role}\" PASSWORD 'pw'"));
        let written: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let config = written["config"].as_object().unwrap();
        let relay = Relay::start_with(config, &[], &[("OUTBOXD_DATABASE_PASSWORD", "pw")]);
        let slot = config["slot.name"].as_str().unwrap();
        let streams = "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active";
        eventually_some(DEADLINE, "the relay streams", || db.query(streams, &[&slot]).first().map(drop));
        // PostgreSQL would refuse the update of a table without an identity.
        db.execute("INSERT INTO orders VALUES (7, 'Ann'); INSERT INTO audit VALUES ('a'); UPDATE audit SET what = 'b'");
        let prefix = db.name();
        let order = kafka().read(&format!("{prefix}.public.orders"), 1);
        assert_eq!((order[0].key(), order[0].value().contains(r#""customer":"Ann""#)), (r#"{"id":7}"#, true));
        let changes = kafka().read(&format!("{prefix}.public.audit"), 2);
        assert!(
            changes.iter().any(|record| record.value().contains(r#""before":{"what":"a"}"#)),
            "{changes:?}"
        );
        assert_eq!(relay.stop(), 0);

        for step in said["steps"].as_array().unwrap().iter().rev().filter(|step| step["done"] == false) {
            db.execute(step["undo"].as_str().unwrap());
        }
        let identity = db.query("SELECT relreplident::text FROM pg_class WHERE relname = 'audit'", &[]);
        assert_eq!((identity[0].get::<_, String>(0), db.leftovers()), ("d".to_owned(), Vec::new()));
        assert!(db.query("SELECT FROM pg_roles WHERE rolname = $1", &[&role]).is_empty());
    }
}

#[test]
fn topics_are_those_that_the_configuration_asks_for() {
    let place = Place::build(postgres18(), TABLES);
    let brokers = kafka().bootstrap();
    let creation =
        ["-X", "topic.creation.default.partitions=5", "-X", "topic.creation.default.replication.factor=1"];
    let asked = [&["--kafka", &brokers, "--tables", "orders", "--yes"][..], &creation].concat();
    let (exit, stdout, stderr) = place.init(&asked);
    assert_eq!(exit, 0, "{stdout}{stderr}");
    let topic = format!("{}.public.orders", place.db.name());
    let known = kafka().consumer().fetch_metadata(Some(&topic), DEADLINE).unwrap();
    assert_eq!(known.topics()[0].partitions().len(), 5);
}

#[test]
fn a_publication_that_lacks_operations_is_widened() {
    let place = Place::build(postgres18(), TABLES);
    let Place { db, file, .. } = &place;
    let published = || -> bool {
        db.query(
            "SELECT pubupdate AND pubdelete AND NOT pubtruncate FROM pg_publication WHERE pubname = $1",
            &[&format!("{}_changes", db.name())],
        )[0]
        .get(0)
    };
    db.execute(&format!(
        "CREATE PUBLICATION {}_changes FOR TABLE orders WITH (publish = 'insert')",
        db.name()
    ));
    let check = || {
        let brokers = format!("bootstrap.servers={}", kafka().bootstrap());
        let (_, report, stderr) = run(&["check", "-c", file, "-X", &brokers, "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {stderr}"));
        let mut checks = report["checks"].as_array().unwrap().iter();
        checks.find(|check| check["code"] == "PG031").unwrap()["outcome"].as_str().unwrap().to_owned()
    };
    let (exit, stdout, stderr) = place.init(&["--tables", "orders", "--print-sql"]);
    assert!(exit == 0 && stdout.contains("SET (publish = 'insert, update, delete')"), "{stdout}{stderr}");
    assert!(stdout.contains("-- undo: ALTER PUBLICATION") && !published(), "{stdout}");
    let (exit, stdout, stderr) = place.init(&["--tables", "orders", "--yes"]);
    assert!(exit == 0 && published() && check() == "ok", "{stdout}{stderr}");
    db.execute(&format!("ALTER PUBLICATION {}_changes SET (publish = 'insert, delete')", db.name()));
    assert_eq!(check(), "warning");
}

#[test]
fn what_names_no_table_is_reported() {
    let place =
        Place::build(postgres15(), &format!("{TABLES}; CREATE SCHEMA old; CREATE TABLE old.orders (id int)"));
    let init = |more: &[&str]| place.init(more);
    let (exit, _, stderr) = init(&[]);
    assert!(exit == 3 && stderr.contains("--tables old.orders,public.audit,public.lines"), "{stderr}");
    let cases = [
        (vec!["--tables", "public.order"], 3, "did you mean public.orders?"),
        (vec!["--tables", "orders"], 2, "several tables are called \"orders\": old.orders, public.orders"),
        (vec!["--tables", "("], 2, "is no regular expression"),
        (vec!["--tables", "lines", "--create-table"], 2, "cannot be used with"),
    ];
    for (arguments, code, told) in cases {
        let (exit, stdout, stderr) = init(&arguments);
        assert!(exit == code && stderr.contains(told), "{arguments:?}: {stdout}{stderr}");
    }
    place.db.execute("INSERT INTO lines VALUES (1, 1, 'a')");
    // Whether the slot is made now or by the first start.
    for more in ["--role=x", "--create-slot"] {
        let told = "is sent at the first start";
        let (_, stdout, stderr) = init(&["--tables", "lines", more]);
        assert!(stdout.contains("! 1 row that is there ") && stdout.contains(told), "{stdout}{stderr}");
    }
    let (exit, _, stderr) = init(&["--tables", "lines", "--yes"]);
    assert_eq!(exit, 0, "{stderr}");
    let (exit, _, stderr) = init(&["--tables", "lines,audit"]);
    assert!(exit == 2 && stderr.contains("does not capture public.audit"), "{stderr}");
    let (exit, _, stderr) = init(&["--table", "lines"]);
    assert!(exit == 2 && stderr.contains("--table is for an outbox"), "{stderr}");
    let other = place.file.replace(".json", "-2.json");
    let (exit, _, stderr) =
        run(&["init", "--postgres", &place.url, "--create-table", "--yes", "--into", &other]);
    assert_eq!(exit, 0, "{stderr}");
    let (exit, _, stderr) = run(&["init", "--postgres", &place.url, "--tables", "lines", "--into", &other]);
    assert!(exit == 2 && stderr.contains("sends the events of an outbox"), "{stderr}");
}
