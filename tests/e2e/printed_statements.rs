//! Statements and settings that refused starts and `check` print, executed on the server that refuses.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use outboxd::internals::postgres::{Connection, TlsSetup};
use outboxd::internals::throwaway::StopMode;
use tokio::runtime::Builder;

use crate::changes;
use crate::check::Report;
use crate::cleanup_partitions::{by_number, insert, partitions};
use crate::init::Place;
use crate::printed_commands::Desk;
use crate::printed_fixes::{fix_of_refused, setting, statements};
use crate::support::collector::request;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres18, start_with};
use crate::support::relay::{Relay, with};
use crate::support::session::{Address, Session};
use crate::support::wait::{DEADLINE, eventually};

/// A database without anything: each refused start prints the next step.
#[test]
fn a_database_and_its_outbox_are_made_as_refused_starts_print_them() {
    let db = Outbox::create_bare(postgres18(), "SELECT");
    let name = format!("{}_Shop", db.name());
    let config =
        with(db.config(kafka()), &[("database.dbname", &name), ("publication.autocreate.mode", "filtered")]);
    let made = statements(&fix_of_refused(&config, 4));
    assert_eq!(made.len(), 1, "{made:?}");
    db.execute(&made[0]);
    let shop = Session::new(Address { database: name.clone(), ..db.address().clone() });
    shop.execute(&script(&fix_of_refused(&config, 3)));
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    shop.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', 'o-1', 'Made', '{}')",
    );
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    assert_eq!(relay.stop(), 0);
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
    shop.disconnect();
    db.execute(&format!("DROP DATABASE \"{name}\" WITH (FORCE)"));
}

#[test]
fn a_start_before_the_first_table_waits_for_it_after_the_fix() {
    let db = Outbox::create_bare(postgres18(), "SELECT");
    let config = changes::config(&db, &[("publication.autocreate.mode", "filtered")]);
    let fix = fix_of_refused(&config, 3);
    let relay = Relay::start(&with(config, &[setting(&fix, "publication.autocreate.mode")]));
    db.wait_until_streaming();
    db.execute("CREATE TABLE goods (id int PRIMARY KEY); INSERT INTO goods VALUES (1)");
    assert_eq!(kafka().read(&changes::topic(&db, "goods"), 1).len(), 1);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_server_without_tls_is_read_after_the_fix() {
    let db = Outbox::create(postgres18());
    let config = with(db.config(kafka()), &[("database.sslmode", "require")]);
    let fix = fix_of_refused(&config, 4);
    let relay = Relay::start(&with(config, &[setting(&fix, "database.sslmode")]));
    db.insert(&[Event::new("order", "o-1", "Made", "{}")]);
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}

/// A table that the role need not read, except for the statement of the snapshot.
#[test]
fn a_table_that_a_statement_reads_is_granted_as_the_refused_start_prints_it() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TABLE goods (id int PRIMARY KEY); CREATE TABLE prices (id int PRIMARY KEY); INSERT INTO prices VALUES (7)",
    );
    let role = format!("{}_plain", db.name());
    db.execute(&format!("CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON goods TO {role}"));
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE goods", db.name()));
    let settings = [
        ("database.user", role.as_str()),
        ("table.include.list", "public.goods"),
        ("publication.autocreate.mode", "disabled"),
        ("snapshot.mode", "initial"),
        ("snapshot.select.statement.overrides", "public.goods"),
        ("snapshot.select.statement.overrides.public.goods", "SELECT * FROM prices"),
    ];
    let config = changes::config(&db, &settings);
    let made = statements(&fix_of_refused(&config, 3));
    assert_eq!(made.len(), 1, "{made:?}");
    db.execute(&made[0].replace("TO ROLE", &format!("TO {role}")));
    let relay = Relay::start(&config);
    assert_eq!(kafka().read(&changes::topic(&db, "goods"), 1).len(), 1);
    assert_eq!(relay.stop(), 0);
    db.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn a_value_without_a_form_is_sent_as_null_after_the_fix() {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD COLUMN n numeric(10,2) DEFAULT 'NaN'");
    db.insert(&[Event::new("order", "o-1", "Made", "{}")]);
    let settings = [
        ("event.converting.failure.handling.mode", "fail"),
        ("transforms.outbox.table.fields.additional.placement", "n:header"),
    ];
    let config = with(db.config(kafka()), &settings);
    let fix = fix_of_refused(&config, 6);
    let relay = Relay::start(&with(config, &[setting(&fix, "event.converting.failure.handling.mode")]));
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    assert_eq!(relay.stop(), 0);
}

/// A schema registry that asks for a login, and has one schema for everything.
#[test]
fn a_registry_is_logged_in_to_after_the_fix() {
    const LOGIN: &str = "relay:hunter2";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), LOGIN)));
    let db = Outbox::create(postgres18());
    let settings = [
        ("value.converter", "io.confluent.connect.avro.AvroConverter"),
        ("value.converter.schema.registry.url", url.as_str()),
    ];
    let config = with(db.config(kafka()), &settings);
    db.insert(&[Event::new("order", "o-1", "Made", "{}")]);
    let fix = fix_of_refused(&config, 3);
    let source = setting(&fix, "value.converter.basic.auth.credentials.source");
    let (_, login) = fix.split_once(" and ").unwrap();
    let login = login.split(',').next().unwrap();
    let relay = Relay::start(&with(config, &[source, (login, LOGIN)]));
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

fn answer(mut stream: TcpStream, login: &str) {
    let (head, _) = request(&stream);
    let is_known = head.contains(&format!("Basic {}\r\n", BASE64_STANDARD.encode(login)));
    let (status, body) = match is_known {
        true => ("200 OK", r#"{"id":1,"version":1,"subject":"s","schema":"\"string\""}"#),
        false => ("401 Unauthorized", r#"{"error_code":401,"message":"Unauthorized"}"#),
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .unwrap();
}

#[test]
fn a_database_of_any_bytes_is_replaced_as_check_prints_it() {
    let db = Outbox::create_bare(postgres18(), "SELECT");
    let [bytes, texts] = ["bytes", "texts"].map(|end| format!("{}_{end}", db.name()));
    db.execute(&format!("CREATE DATABASE {bytes} TEMPLATE template0 ENCODING 'SQL_ASCII'"));
    let of = |database: &str| Report::of(&with(db.config(kafka()), &[("database.dbname", database)]));
    let report = of(&bytes);
    let made = statements(report.find("PG006", "warning")["fix"].as_str().unwrap());
    made.iter().for_each(|statement| db.execute(&statement.replace('…', &texts)));
    of(&texts).find("PG006", "ok");
    [bytes, texts].iter().for_each(|name| db.execute(&format!("DROP DATABASE {name} WITH (FORCE)")));
}

/// A server of its own, whose only walsender is taken, and whose slots have little room.
#[test]
fn limits_of_the_server_are_raised_as_check_prints_them() {
    let mut server = start_with(18, &[("max_wal_senders", "1"), ("max_slot_wal_keep_size", "64MB")]);
    let (first, second) = (Outbox::create(&server), Outbox::create(&server));
    let relay = Relay::start(&first.config(kafka()));
    first.wait_until_streaming();
    let other = second.config(kafka());
    let report = Report::of(&other);
    let made = statements(report.find("PG008", "failure")["fix"].as_str().unwrap());
    let [holders, raise] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!(second.query(holders, &[]).len(), 1, "the relay");
    second.execute(raise.split(" and ").next().unwrap());
    assert_eq!(relay.stop(), 0);

    let report = Report::of(&first.config(kafka()));
    let made = statements(report.find("PG043", "warning")["fix"].as_str().unwrap());
    assert_eq!(made.len(), 2, "{made:?}");
    made.iter().for_each(|statement| first.execute(&statement.replace('…', "10GB")));
    eventually(DEADLINE, "the slot has room", || Report::of(&first.config(kafka())).has("PG043", "ok"));

    [&first, &second].iter().for_each(|db| db.disconnect());
    server.stop(StopMode::Fast, DEADLINE).unwrap();
    server.start_again().unwrap();
    let relay = Relay::start(&first.config(kafka()));
    first.wait_until_streaming();
    Report::of(&other).find("PG008", "ok");
    assert_eq!(relay.stop(), 0);
}

/// A publication of another program, which no events would come through.
#[test]
fn a_publication_without_inserts_is_changed_as_init_prints_it() {
    let place = Place::build(postgres18(), include_str!("../../sql/outbox.sql"));
    let name = format!("{}_outbox", place.db.name());
    place.db.execute(&format!("CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'update')"));
    let (exit, _, stderr) = place.init(&["--yes"]);
    assert_eq!(exit, 3, "{stderr}");
    let made = statements(&stderr);
    assert_eq!(made.len(), 1, "{stderr}");
    place.db.execute(&made[0]);
    let (exit, stdout, stderr) = place.init(&["--yes"]);
    assert!(exit == 0 && stdout.contains("already there: publication"), "{stdout}{stderr}");
}

#[test]
fn a_table_that_init_has_added_to_a_publication_is_taken_out_by_the_undo() {
    let place = Place::build(postgres18(), include_str!("../../sql/outbox.sql"));
    let name = format!("{}_outbox", place.db.name());
    place.db.execute("CREATE TABLE other (n int)");
    place.db.execute(&format!("CREATE PUBLICATION {name} FOR TABLE other WITH (publish = 'insert')"));
    let published = || {
        let sql = "SELECT tablename::text FROM pg_publication_tables ORDER BY 1";
        place.db.query(sql, &[]).iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    let (exit, stdout, stderr) = place.init(&["--yes", "--json"]);
    assert_eq!((exit, published()), (0, vec!["other".to_owned(), "outbox".to_owned()]), "{stdout}{stderr}");
    let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let steps = said["steps"].as_array().unwrap().iter().filter(|step| step["done"] == false);
    steps.for_each(|step| place.db.execute(step["undo"].as_str().unwrap()));
    assert_eq!(published(), ["other"]);
}

#[test]
fn a_slot_becomes_a_failover_slot_by_the_command_that_is_printed() {
    let db = Outbox::create(postgres18());
    let name = db.name();
    db.execute(&format!("CREATE PUBLICATION {name} FOR TABLE outbox"));
    db.execute(&format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')"));
    let config = with(db.config(kafka()), &[("slot.failover", "true")]);
    let relay = Relay::start(&config);
    let warning = relay.wait_for_stderr("was made without failover");
    assert_eq!(relay.stop(), 0);
    let (_, command) = warning.split_once("psql ").unwrap();
    let (_, database) = command.split_once("dbname=").unwrap();
    assert!(database.starts_with(&format!("{name} replication=database")), "{command}");
    replicate(&db, &command.split('\'').nth(1).unwrap().replace('\\', ""));
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert!(!relay.stop_and_tell().contains("was made without failover"));
}

/// A role that may delete rows and does not own the outbox. The server is its own: cleanup waits for open transactions.
#[test]
fn a_role_removes_partitions_after_the_grant_that_cleanup_prints() {
    let server = start_with(18, &[]);
    let db = by_number(&server);
    let [owner, role] = ["owner", "cleaner"].map(|end| format!("{}_{end}", db.name()));
    let owned = partitions(&db).into_iter().chain(["outbox".to_owned()]);
    let owned: String = owned.map(|table| format!("ALTER TABLE {table} OWNER TO {owner}; ")).collect();
    db.execute(&format!("CREATE ROLE {owner}; CREATE ROLE {role} LOGIN REPLICATION; {owned}"));
    db.execute(&format!("GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA public TO {role}"));
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    [0, 100].iter().for_each(|from| db.execute(&insert(*from, 5)));
    db.wait_until_confirmed();
    let desk = Desk::of(&with(config, &[("database.user", &role)]));
    let cleanup = "cleanup --partitions drop --execute --also-before-slot --yes";
    let (_, said) = desk.run(cleanup);
    let grants = statements(&said);
    assert_eq!(grants.len(), 1, "{said}");
    db.execute(&grants[0]);
    let (exit, said) = desk.run(cleanup);
    assert!(exit == 0 && said.contains("dropped public.outbox_1"), "{exit} {said}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn statements_that_only_report_are_accepted_by_the_server() {
    let table = include_str!("../checks/fixes.tsv").lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let reports: Vec<_> =
        table.filter(|row| row[1].starts_with("SELECT ") && row[2].starts_with("reports: ")).collect();
    assert!(!reports.is_empty());
    let db = Outbox::create_bare(postgres18(), "SELECT");
    reports.iter().for_each(|row| drop(db.query(&row[1].replace("{limit}", ""), &[])));
}

/// Executes a command of the replication protocol.
fn replicate(db: &Outbox, command: &str) {
    let options = db.address().options();
    let work = async {
        let tls = TlsSetup::new(&options).unwrap();
        let mut connection = Connection::open(&options, &tls, "printed", 1 << 20).await.unwrap();
        connection.command("executing a fix", command).await.unwrap();
    };
    Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

/// Returns the statements of the file that a `psql -f` in the text names.
fn script(text: &str) -> String {
    let (_, file) = text.split_once("psql -f ").unwrap_or_else(|| panic!("no psql in {text}"));
    let file = file.split([' ', ';', '\n']).next().unwrap();
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}
