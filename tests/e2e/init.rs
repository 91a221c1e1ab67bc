//! `outboxd init`, on tables as frameworks and programs make them, and as a new user would.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use outboxd::internals::throwaway::ThrowawayPostgres;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::session::Session;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::Relay;
use crate::support::session::Address;
use crate::support::wait::{DEADLINE, eventually_some};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/commands.md");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    ddl: String,
    preset: String,
    unmarked: Option<String>,
    router: BTreeMap<String, String>,
}

/// Runs a command; its exit code, standard output, and standard error.
pub(crate) fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut process = Relay::command(arguments);
    (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
}

fn url(address: &Address) -> String {
    let Address { host, port, user, password, database, .. } = address;
    let password = password.as_deref().map(|password| format!(":{password}")).unwrap_or_default();
    format!("postgresql://{user}{password}@{host}:{port}/{database}?sslmode=disable")
}

/// A database, and the future path of its configuration.
pub(crate) struct Place {
    pub(crate) db: Outbox,
    pub(crate) url: String,
    pub(crate) file: String,
    _folder: Watcher,
}

impl Place {
    pub(crate) fn build(server: &ThrowawayPostgres, ddl: &str) -> Self {
        let db = Outbox::create_bare(server, ddl);
        let folder = Watcher::new("outboxd-init-");
        let file = folder.folder().join("outbox.json").display().to_string();
        let url = url(db.address());
        Self { db, url, file, _folder: folder }
    }

    pub(crate) fn init(&self, more: &[&str]) -> (i32, String, String) {
        run(&[&["init", "--postgres", &self.url, "--into", &self.file], more].concat())
    }

    /// Returns the names that differ in a session of the page. `more` comes before the names that others contain.
    fn names(&self, more: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
        let address = Address { password: None, ..self.db.address().clone() };
        let first =
            [("outbox.json", self.file.clone()), ("postgresql://postgres@localhost/orders", url(&address))];
        [&first, more, &[("orders", self.db.name().to_owned())]].concat()
    }

    /// Returns the names for a session in which there is Kafka too.
    fn names_with_kafka(&self, more: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
        let brokers = ("localhost:9092", kafka().bootstrap());
        let host = ("localhost", self.db.address().host.clone());
        self.names(&[&[brokers], more, &[host]].concat())
    }
}

fn cases() -> Vec<(String, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/init");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let cases = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    cases
        .map(|path| {
            let case = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap());
            (path.display().to_string(), case.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        })
        .collect()
}

#[test]
fn each_known_outbox_is_found_and_its_configuration_can_run() {
    for (at, (name, case)) in cases().into_iter().enumerate() {
        let place = Place::build(if at % 2 == 0 { postgres15() } else { postgres18() }, &case.ddl);
        let Place { db, file, .. } = &place;
        let brokers = kafka().bootstrap();
        let (exit, stdout, stderr) = place.init(&["--kafka", &brokers, "--json", "--yes"]);
        assert_eq!(exit, 0, "{name}: {stdout}{stderr}");
        let said: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(said["preset"], case.preset.as_str(), "{name}");
        assert_eq!(said["poller"]["told"], json!(case.unmarked), "{name}");

        let written: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let config = written["config"].as_object().unwrap();
        let router: BTreeMap<_, _> = config
            .iter()
            .filter_map(|(key, value)| {
                Some((key.strip_prefix("transforms.outbox.")?, value.as_str().unwrap()))
            })
            .filter(|(key, _)| *key != "type")
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(router, case.router, "{name}");
        // Beside a program that still sends, nothing may begin.
        assert_eq!(config.contains_key("snapshot.mode"), case.unmarked.is_some(), "{name}");
        assert_eq!(db.leftovers().is_empty(), case.unmarked.is_some(), "{name}");

        let (exit, checks, stderr) = run(&["check", "-c", file, "--json"]);
        assert!(exit < 2, "{name}: {checks}{stderr}");
        let before = fs::read_to_string(file).unwrap();
        // A second run writes nothing: the server refuses whatever does.
        db.execute(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", db.name()));
        let (exit, stdout, stderr) = place.init(&["--kafka", &brokers, "--yes"]);
        assert!(exit == 0 && stderr.contains("nothing to do"), "{name}: {stdout}{stderr}");
        let (_, again, _) = place.init(&["--kafka", &brokers, "--yes", "--json"]);
        assert_eq!(serde_json::from_str::<Value>(&again).unwrap()["done"], true, "{name}: {again}");
        assert_eq!(stdout.contains("a row for each listener"), case.preset == "modulith", "{name}: {stdout}");
        assert!(stdout.contains("already there: "), "{name}: {stdout}");
        assert_eq!(fs::read_to_string(file).unwrap(), before);
    }
}

#[test]
fn an_empty_database_becomes_one_whose_events_are_in_kafka() {
    let place = Place::build(postgres18(), "SELECT 1");
    let Place { db, file, .. } = &place;
    let topic = format!("{}.events", db.name());
    let brokers = kafka().bootstrap();
    let init = |more: &[&str]| place.init(&[&["--kafka", &brokers, "--topic", &topic], more].concat());

    let (exit, _, stderr) = init(&[]);
    assert!(exit == 3 && stderr.contains("--create-table"), "{stderr}");
    assert!(stderr.contains("--tables SCHEMA.TABLE,… sends each change"), "{stderr}");
    // More copies than there are brokers: nothing is made, in PostgreSQL neither.
    let (exit, _, stderr) = init(&["--create-table", "--yes", "--replication-factor", "9"]);
    assert!(exit == 3 && stderr.contains("--replication-factor N"), "{stderr}");
    assert_eq!((db.leftovers(), fs::exists(file).unwrap()), (Vec::new(), false), "{stderr}");
    assert!(db.query("SELECT FROM pg_tables WHERE tablename = 'outbox'", &[]).is_empty(), "{stderr}");
    let (exit, _, stderr) = init(&["--create-table", "--yes", "--partitions", "0"]);
    assert!(exit == 2 && stderr.contains("--partitions"), "{stderr}");
    let (exit, script, stderr) = init(&["--create-table", "--print-sql"]);
    assert!(exit == 0 && script.contains("-- undo: DROP TABLE public.outbox;"), "{script}{stderr}");
    let (exit, stdout, stderr) = init(&["--create-table"]);
    assert!(exit == 1 && stderr.contains("--yes makes it"), "{stdout}{stderr}");
    assert!(db.leftovers().is_empty() && !Path::new(file).exists());

    let (exit, stdout, stderr) = init(&["--create-table", "--yes"]);
    assert_eq!(exit, 0, "{stdout}{stderr}");
    assert!(stderr.contains(&format!("made topic {topic}\n")), "{stderr}");
    let (exit, stdout, stderr) = init(&["--create-table", "--yes"]);
    assert!(exit == 0 && stderr.contains("nothing to do"), "{stdout}{stderr}");

    let text = fs::read_to_string(file).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let password = db.address().password.clone().unwrap_or_default();
    assert!(password.is_empty() || !text.contains(&password), "{text}");
    let environment = [("OUTBOXD_DATABASE_PASSWORD", password.as_str())];
    let relay = Relay::start_with(config["config"].as_object().unwrap(), &[], &environment);
    let slot = config["config"]["slot.name"].as_str().unwrap();
    let streams =
        "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid WHERE slot_name = $1";
    eventually_some(DEADLINE, "the relay streams", || db.query(streams, &[&slot]).first().map(drop));
    let insert = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '7', 'Made', '{}')";
    db.execute(insert);
    let records = kafka().read(&topic, 1);
    assert_eq!((records[0].key(), records[0].header("event_type")), ("7", "Made"));
    assert_eq!(relay.stop(), 0);
}

#[test]
fn without_the_right_to_read_the_table_the_statement_is_named() {
    let db = Outbox::create(postgres15());
    let role = format!("{}_app", db.name());
    db.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'pw'"));
    let folder = Watcher::new("outboxd-init-");
    let file = folder.folder().join("outbox.properties").display().to_string();
    let app = Address { user: role.clone(), password: Some("pw".to_owned()), ..db.address().clone() };
    let arguments = ["init", "--postgres", &url(&app), "--into", &file, "--yes"];
    let (exit, _, stderr) = run(&arguments);
    let grant = format!("GRANT SELECT ON \"public\".\"outbox\" TO \"{role}\";");
    assert!(exit == 3 && stderr.contains(&grant), "{exit} {stderr}");
    db.execute(&grant);
    let (_, _, stderr) = run(&arguments);
    assert!(!stderr.contains("permission denied for table"), "{stderr}");
}

#[test]
fn without_rights_the_statements_for_a_superuser_are_listed() {
    let db = Outbox::create_bare(postgres15(), "SELECT 1");
    let (name, role) = (db.name(), format!("{}_app", db.name()));
    db.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'pw'; GRANT CREATE ON SCHEMA public TO {role}"));
    let folder = Watcher::new("outboxd-init-");
    let file = folder.folder().join("outbox.properties").display().to_string();
    let app = Address { user: role.clone(), password: Some("pw".to_owned()), ..db.address().clone() };
    let arguments = ["init", "--postgres", &url(&app), "--into", &file, "--create-table", "--yes"];
    let (exit, _, stderr) = run(&arguments);
    assert_eq!(exit, 3, "{stderr}");
    assert!(
        stderr.contains(&format!("role \"{role}\" may not do this: ALTER ROLE \"{role}\" REPLICATION;")),
        "{stderr}"
    );
    assert!(!Path::new(&file).exists());
    // The printed statements are the missing ones, and the rest continues from there.
    let fix: Vec<_> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| line.ends_with(';') && !line.starts_with("error"))
        .collect();
    assert!(fix.iter().any(|line| line.starts_with("CREATE PUBLICATION")), "{stderr}");
    for statement in fix {
        db.execute(statement);
    }
    let (exit, stdout, stderr) = run(&arguments);
    assert_eq!(exit, 0, "{stdout}{stderr}");
    assert!(stdout.contains(&format!("already there: publication \"{name}_outbox\"")), "{stdout}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("database.password=${env:OUTBOXD_DATABASE_PASSWORD}\n") && !text.contains("pw@"),
        "{text}"
    );
    db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn what_cannot_be_decided_is_asked() {
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb);"
        )
    };
    let ddl = table("outbox") + &table("outbox_old") + "CREATE TABLE orders (id int)";
    let place = Place::build(postgres15(), &ddl);
    let init = |more: &[&str]| place.init(more);
    let (exit, _, stderr) = init(&[]);
    assert!(
        exit == 2
            && stderr.contains("2 tables look like an outbox: public.outbox, public.outbox_old")
            && stderr.contains("--table public.outbox, or --table public.outbox_old"),
        "{stderr}"
    );
    let (exit, _, stderr) = init(&["--table", "orders"]);
    assert!(exit == 3 && stderr.contains("public.orders does not look like an outbox"), "{stderr}");
    let (exit, _, stderr) = init(&["--table", "no_such"]);
    assert!(exit == 3 && stderr.contains("has no table \"no_such\""), "{stderr}");
    let (_, _, stderr) = init(&["--preset", "debezum"]);
    assert!(stderr.contains("did you mean debezium?"), "{stderr}");
    // Brokers that are not there are noticed, although no topic is known yet.
    let (exit, _, stderr) = init(&["--kafka", "127.0.0.1:1", "--table", "public.outbox"]);
    assert!(exit == 5 && stderr.contains("127.0.0.1:1"), "{stderr}");
    let (exit, _, stderr) = init(&["--preset", "no_such"]);
    assert!(exit == 2 && stderr.contains("there are modulith, "), "{stderr}");
    let (exit, stdout, stderr) = init(&["--table", "public.outbox"]);
    assert!(exit == 1 && stdout.contains("outbox public.outbox, known as debezium\n"), "{stdout}{stderr}");
    let nowhere = place.file.replace("outbox.json", "nowhere/outbox.json");
    let chosen = ["init", "--postgres", &place.url, "--table", "public.outbox", "--yes", "--into", &nowhere];
    let (exit, _, stderr) = run(&chosen);
    assert!(exit == 1 && stderr.contains("cannot be written"), "{stderr}");
    assert_eq!(place.db.leftovers(), Vec::<String>::new(), "nothing is made before that is known");
    let (exit, _, stderr) = run(&["init", "--into", &place.file]);
    assert!(exit == 2 && stderr.contains("no PostgreSQL server is given"), "{stderr}");
}

#[test]
fn what_init_makes_its_undo_statements_take_back() {
    for server in [postgres15(), postgres18()] {
        let place = Place::build(server, "SELECT 1");
        let Place { db, file, .. } = &place;
        let role = format!("{}_run", db.name());
        let (exit, stdout, stderr) =
            place.init(&["--role", &role, "--create-table", "--create-slot", "--yes", "--json"]);
        assert_eq!(exit, 0, "{stderr}");
        let said: Value = serde_json::from_str(&stdout).unwrap();
        let steps: Vec<_> = said["steps"].as_array().unwrap().iter().collect();
        assert!(
            steps.iter().any(|step| step["sql"].as_str().unwrap().contains("pg_create_logical")),
            "{stdout}"
        );
        let made = || {
            let sql = "SELECT count(*) FROM (SELECT FROM pg_roles WHERE rolname = $1 UNION ALL SELECT FROM pg_tables WHERE tablename = 'outbox')";
            db.query(&format!("{sql} AS made"), &[&role])[0].get::<_, i64>(0)
        };
        assert_eq!((made(), db.leftovers().len()), (2, 2));

        // The role has what a relay needs.
        db.execute(&format!("ALTER ROLE \"{role}\" PASSWORD 'pw'"));
        let brokers = format!("bootstrap.servers={}", kafka().bootstrap());
        let check = ["check", "-c", file, "-X", &brokers];
        let mut check = Relay::command_with(&check, &[("OUTBOXD_DATABASE_PASSWORD", "pw")]);
        assert!(check.wait_for_exit(DEADLINE) < 2, "{}{}", check.stdout(), check.stderr());

        for step in steps.iter().rev().filter(|step| step["done"] == false) {
            db.execute(step["undo"].as_str().unwrap());
        }
        assert_eq!((made(), db.leftovers()), (0, Vec::new()));
    }
}

#[test]
fn a_mark_that_no_client_polls_by_means_nothing() {
    let columns =
        "id uuid, aggregatetype text, aggregateid text, type text, payload jsonb, processed_at timestamptz";
    let place = Place::build(postgres15(), &format!("CREATE TABLE outbox ({columns})"));
    let (exit, stdout, stderr) = place.init(&["--no-poller", "--yes", "--json"]);
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, &said["poller"], place.db.leftovers().len()), (0, &Value::Null, 1), "{stdout}{stderr}");
    assert_eq!(
        said["configuration"]["snapshot.mode"], "no_data",
        "the poller has sent what is there: {stdout}"
    );
}

#[test]
fn the_session_of_a_new_user_is_what_is_seen() {
    let place = Place::build(postgres18(), "SELECT 1");
    let names = place.names_with_kafka(&[("orders.events", format!("{}.events", place.db.name()))]);
    assert_eq!(Session::of(PAGE, "Create an outbox: outboxd init").replay(&names), [0, 0]);
}

#[test]
fn the_session_about_a_poller_is_what_is_seen() {
    let columns = "id uuid PRIMARY KEY, aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL, \
                   processed_at timestamptz";
    let place = Place::build(postgres18(), &format!("CREATE TABLE outbox ({columns})"));
    place.db.execute(
        "INSERT INTO outbox SELECT gen_random_uuid(), '42', 'OrderPaid', '{}' FROM generate_series(1, 214)",
    );
    let names = place.names_with_kafka(&[]);
    assert_eq!(Session::of(PAGE, "Keep a table that a relay polls").replay(&names), [0]);
    // A user who continues regardless is warned.
    let (_, report, stderr) = run(&["check", "-c", &place.file, "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    let mut checks = report["checks"].as_array().unwrap().iter();
    let polled = checks.find(|check| check["code"] == "PG046").unwrap();
    assert_eq!(
        (&polled["outcome"], &polled["fix"]),
        (&"note".into(), &format!("outboxd migrate plan -c {} --mark processed_at", place.file).into())
    );
    assert_eq!(place.db.leftovers(), Vec::<String>::new());
}

#[test]
fn the_session_about_a_role_is_what_is_seen() {
    let columns = "id uuid, aggregatetype text, aggregateid text, type text, payload jsonb";
    let place = Place::build(postgres18(), &format!("CREATE TABLE outbox ({columns})"));
    let role = format!("{}_relay", place.db.name());
    let names = place.names(&[("shop_relay", role.clone())]);
    assert_eq!(Session::of(PAGE, "Use an unprivileged role").replay(&names), [0]);
    // Its password is not known here, and is not needed to see that nothing is missing.
    let (exit, stdout, stderr) = place.init(&["--role", &role, "--yes"]);
    assert!(exit == 0 && stderr.contains("nothing to do"), "{stdout}{stderr}");
    place.db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
