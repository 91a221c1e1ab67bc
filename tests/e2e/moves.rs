//! `outboxd move`: to another cluster of another version, and after a lost slot, with a relay that died in the middle.

use std::fs;
use std::path::PathBuf;

use outboxd::internals::throwaway::{Options, ThrowawayPostgres};
use serde_json::Value;

use crate::commands::session::Session as Told;
use crate::support::backlog::Backlog;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/migrate/to-another-server.md");

const FILES: [&str; 3] = [
    include_str!("../../sql/outbox.sql"),
    include_str!("../../sql/publication.sql"),
    include_str!("../../sql/role.sql"),
];

/// Events by 20 keys, that their order may be seen.
const BACKLOG: Backlog = Backlog { key_count: 20 };

/// Folder of the files.
struct Desk(Watcher);

impl Desk {
    fn new() -> Self {
        Self(Watcher::new("outboxd-move-"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.folder().join(name)
    }

    fn write(&self, name: &str, config: &Config) {
        fs::write(self.path(name), serde_json::to_vec(config).unwrap()).unwrap();
    }

    /// Returns the exit code, and the output as JSON; standard error if the output is not JSON.
    fn outboxd(&self, command: &str, more: &[&str]) -> (i32, Value) {
        let file = self.path("outbox.json").display().to_string();
        let into = self.path("move.properties").display().to_string();
        let into: &[&str] = if command == "cut-over" { &["--into", &into] } else { &[] };
        let arguments = [&["move", command, "-c", &file, "--json"], into, more].concat();
        let mut process = Relay::command(&arguments);
        let exit = process.wait_for_exit(DEADLINE);
        let said = serde_json::from_str(&process.stdout());
        (exit, said.unwrap_or_else(|_| Value::from(process.stderr())))
    }

    /// Returns the configuration of the first start after the cut-over.
    fn told(&self, config: &Config) -> Config {
        let text = fs::read_to_string(self.path("move.properties")).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let settings: Vec<_> = lines.map(|line| line.split_once('=').unwrap()).collect();
        with(config.clone(), &settings)
    }
}

fn rows(db: &Outbox) -> i64 {
    db.query("SELECT count(*) FROM outbox", &[])[0].get(0)
}

/// Runs a relay that dies after some of 3,000 events, with those of 0 to 1,000 confirmed.
fn sent_in_part(db: &Outbox, config: &Config) {
    let topic = db.topic(Backlog::TYPE);
    kafka().create_topic(&topic, 3, &[]);
    let mut relay = Relay::start(config);
    db.wait_until_streaming();
    BACKLOG.insert(db, 0..1000, 10);
    db.wait_until_confirmed();
    BACKLOG.insert(db, 1000..3000, 10);
    kafka().wait_for_count(&topic, 1100);
    relay.kill();
}

#[test]
fn a_relay_continues_at_a_newer_server_with_what_was_not_sent() {
    let (old, new) = (Outbox::create(postgres15()), Outbox::create(postgres18()));
    let (desk, old_config) = (Desk::new(), old.config(kafka()));
    let topic = old.topic(Backlog::TYPE);
    let route = ("transforms.outbox.route.topic.replacement", old.topic("${routedByValue}"));
    let config = with(new.config(kafka()), &[(route.0, &route.1), ("topic.prefix", old.name())]);
    desk.write("old.json", &old_config);
    desk.write("outbox.json", &config);
    let from = desk.path("old.json").display().to_string();
    sent_in_part(&old, &old_config);

    // Not yet: rows of the old server are nowhere.
    BACKLOG.insert(&old, 3000..3100, 10);
    let (exit, said) = desk.outboxd("plan", &["--from", &from]);
    assert!(exit == 3 && said.as_str().unwrap().contains("are neither here nor in Kafka"), "{exit} {said}");
    replicate(&old, &new);
    let (exit, planned) = desk.outboxd("plan", &["--from", &from]);
    assert_eq!((exit, &planned["rows"]), (0, &3100.into()), "{planned}");
    let (sent, unsent) = (planned["sent"].as_u64().unwrap(), planned["unsent"].as_u64().unwrap());
    assert!(sent >= 1100 && unsent >= 100, "{planned}");
    // Another name is in each record's headers: as that service the rows were not sent.
    desk.write("outbox.json", &with(config.clone(), &[("topic.prefix", "other")]));
    let (_, other) = desk.outboxd("plan", &[]);
    assert_eq!((&other["sent"], &other["other_headers"]), (&0.into(), &sent.into()), "{other}");
    desk.write("outbox.json", &config);

    // The application writes to the new server, before and after the cut-over.
    BACKLOG.insert(&new, 3100..3200, 10);
    let (exit, said) = desk.outboxd("cut-over", &["--from", &from]);
    assert_eq!((exit, &said["sent"], &said["unsent"]), (0, &sent.into(), &(unsent + 100).into()), "{said}");
    BACKLOG.insert(&new, 3200..3300, 10);
    goes_on(&new, &desk, &config, &topic, 3300);
}

#[test]
fn a_slot_that_was_lost_costs_no_event_and_repeats_none() {
    let db = Outbox::create(postgres18());
    let (desk, config) = (Desk::new(), db.config(kafka()));
    desk.write("outbox.json", &config);
    sent_in_part(&db, &config);
    let (exit, said) = desk.outboxd("cut-over", &[]);
    let why = said.as_str().unwrap_or_default();
    assert!(exit == 3 && (why.contains("is read by pid") || why.contains("already")), "{exit} {said}");
    eventually(DEADLINE, "the walsender has gone", || db.slot().is_some_and(|slot| !slot.active));
    db.execute(&format!("SELECT pg_drop_replication_slot('{}')", db.name()));
    BACKLOG.insert(&db, 3000..3100, 10);

    let (exit, said) = desk.outboxd("verify", &["--wait", "0"]);
    assert!(exit == 1 && said["unsent"].as_u64().unwrap() >= 100 && said["twice"] == 0, "{said}");
    let path = |name: &str| desk.path(name).display().to_string();
    fs::write(desk.path("move.properties"), "a=b\n").unwrap();
    let (exit, said) = desk.outboxd("cut-over", &[]);
    assert!(exit == 3 && said.as_str().unwrap().contains("has not written it"), "{exit} {said}");
    fs::remove_file(desk.path("move.properties")).unwrap();
    let names = [
        ("outbox.json", path("outbox.json")),
        ("move.properties", path("move.properties")),
        ("orders", db.name().to_owned()),
    ];
    assert_eq!(Told::of(PAGE, "Move with outboxd move").replay(&names), [0, 0]);
    goes_on(&db, &desk, &config, &db.topic(Backlog::TYPE), 3100);
    assert_eq!(Told::of(PAGE, "Verify the move").replay(&names), [0]);
}

/// The role is that of sql/role.sql, and `snapshot.mode` is `no_data`: the next start does what every command predicts.
#[test]
fn a_lost_slot_is_recovered_with_the_rights_that_are_printed() {
    let hba = vec!["host all outboxd all scram-sha-256".to_owned()];
    let server = ThrowawayPostgres::start(&Options { hba, ..postgres::options(18, &[]) }).unwrap();
    let db = Outbox::create_bare(&server, "SELECT 1");
    FILES.iter().for_each(|file| db.execute(file));
    db.execute("ALTER ROLE outboxd PASSWORD 'secret'");
    let settings = [
        ("database.user", "outboxd"),
        ("database.password", "secret"),
        ("publication.name", "dbz_publication"),
        ("publication.autocreate.mode", "disabled"),
        ("snapshot.mode", "no_data"),
    ];
    let (desk, config) = (Desk::new(), with(db.config(kafka()), &settings));
    desk.write("outbox.json", &config);
    let file = desk.path("outbox.json").display().to_string();
    let run = |arguments: &[&str]| {
        let mut process = Relay::command(&[arguments, &["-c", &file]].concat());
        (process.wait_for_exit(DEADLINE), process.stdout() + &process.stderr())
    };
    let insert = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
                  VALUES ('order', 'o-1', 'OrderCreated', '{}') RETURNING id::text";
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.query(insert, &[]);
    kafka().read(&db.topic("order"), 1);
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let id: String = db.query(insert, &[])[0].get(0);

    // Before the slot is dropped: what the next step needs.
    let (exit, plan) = run(&["move", "plan"]);
    assert!(exit == 1 && plan.contains("may not create table \"public\".outboxd_moved"), "{plan}");
    let (_, fix) = plan.split_once("to fix: as the owner of the schema: ").unwrap();
    db.execute(fix.lines().next().unwrap());
    let (_, plan) = run(&["move", "plan"]);
    assert!(!plan.contains("may not create") && plan.contains("outboxd slot drop -c"), "{plan}");

    let next = "the next outboxd run ends with exit code 7";
    let (exit, dropped) = run(&["slot", "drop", "--yes"]);
    assert!(exit == 0 && dropped.contains(&format!("then {next}")), "{dropped}");
    for command in [
        &["status"][..],
        &["explain", &id],
        &["cleanup", "--older-than", "1h", "--time-column", "created_at"],
        &["check"],
    ] {
        let (exit, said) = run(command);
        let is_said = said.contains(next) || command == ["check"] && said.contains("outboxd.position.accept");
        assert!(exit != 0 && is_said, "{command:?}: {exit} {said}");
    }
    let mut start = Relay::start(&config);
    assert_eq!(start.wait_for_exit(DEADLINE), 7, "{}", start.stderr());

    let (exit, said) = desk.outboxd("cut-over", &[]);
    assert_eq!((exit, &said["sent"], &said["unsent"]), (0, &1.into(), &1.into()), "{said}");
    // Another role has made the table: the relay's may read it all the same.
    db.execute("DROP TABLE outboxd_moved");
    let owner = db.address();
    let (user, password) = (
        format!("database.user={}", owner.user),
        format!("database.password={}", owner.password.as_deref().unwrap_or_default()),
    );
    let (exit, said) = desk.outboxd("cut-over", &["-X", &user, "-X", &password]);
    assert_eq!((exit, &said["unsent"]), (0, &1.into()), "{said}");
    let relay = Relay::start(&desk.told(&config));
    kafka().read(&db.topic("order"), 2);
    assert_eq!(relay.stop(), 0);
}

/// Two services have ids of a sequence and one pattern of topic names.
#[test]
fn a_row_of_another_service_with_the_same_id_is_not_taken_for_sent() {
    let columns = "CREATE TABLE outbox (id bigserial PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)";
    let [other, db] = [0, 1].map(|_| Outbox::create_bare(postgres18(), columns));
    let insert = |db: &Outbox, kind: &str, count: usize| {
        db.execute(&format!(
            "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) SELECT '{kind}', g::text, 't', '{{}}' FROM generate_series(1, {count}) g"
        ));
    };
    let route = ("transforms.outbox.route.topic.replacement", db.topic("${routedByValue}"));
    let of = |db: &Outbox| with(db.config(kafka()), &[(route.0, &route.1)]);
    let relay = Relay::start(&of(&other));
    other.wait_until_streaming();
    insert(&other, "invoice", 20);
    // The same topic, id and key, and other contents.
    insert(&other, "payment", 3);
    other.execute("UPDATE outbox SET payload = '1'");
    kafka().wait_for_count(&db.topic("invoice"), 20);
    kafka().wait_for_count(&db.topic("payment"), 3);
    assert_eq!(relay.stop(), 0);

    let (desk, config) = (Desk::new(), of(&db));
    desk.write("outbox.json", &config);
    insert(&db, "payment", 8);
    let (exit, said) = desk.outboxd("plan", &[]);
    assert_eq!((exit, &said["sent"], &said["unsent"]), (0, &0.into(), &8.into()), "{said}");
    assert_eq!(desk.outboxd("cut-over", &[]).0, 0);
    let (exit, said) = desk.outboxd("verify", &["--wait", "0"]);
    assert!(exit == 1 && said["unsent"] == 8, "{said}");
    let relay = Relay::start(&desk.told(&config));
    kafka().wait_for_count(&db.topic("payment"), 11);
    assert_eq!(desk.outboxd("verify", &[]).0, 0);
    assert_eq!(relay.stop(), 0);
}

/// Of two transactions the one that began first commits last.
#[test]
fn rows_are_sent_in_the_order_of_their_commits_or_an_unknown_order_is_reported() {
    for knows in [true, false] {
        let setting = [("track_commit_timestamp", "on")];
        let own = if knows { Some(postgres::start_with(18, &setting)) } else { None };
        let db = Outbox::create(own.as_ref().unwrap_or_else(|| postgres18()));
        let (desk, config) = (Desk::new(), db.config(kafka()));
        desk.write("outbox.json", &config);
        let insert = |n: u32| {
            format!(
                "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), 'order', 'k', 't', '{n}')"
            )
        };
        let slow = Session::new(db.address().clone());
        slow.execute("BEGIN");
        slow.execute(&insert(2));
        db.execute(&insert(1));
        slow.execute(&insert(3));
        slow.execute("COMMIT");
        let mut plan = Relay::command(&["move", "plan", "-c", desk.path("outbox.json").to_str().unwrap()]);
        assert_eq!(plan.wait_for_exit(DEADLINE), 0);
        let said = plan.stdout();
        assert_eq!(said.contains("order of their commits"), !knows, "{said}");
        assert_eq!(desk.outboxd("cut-over", &[]).0, 0);
        let relay = Relay::start(&desk.told(&config));
        let records = kafka().read(&db.topic("order"), 3);
        let values: Vec<_> = records.iter().map(Record::value).collect();
        assert_eq!(values, if knows { ["1", "2", "3"] } else { ["2", "3", "1"] });
        assert_eq!(relay.stop(), 0);
    }
}

/// Checks that the first start sends the missing events, and that each event is there once, in the order of its key.
fn goes_on(db: &Outbox, desk: &Desk, config: &Config, topic: &str, written: u64) {
    let relay = Relay::start(&desk.told(config));
    db.wait_until_streaming();
    BACKLOG.insert(db, written..written + 100, 10);
    let written = written + 100;
    let (exit, said) = desk.outboxd("verify", &[]);
    let seen = (exit, &said["unsent"], &said["twice"], &said["rows"]);
    assert_eq!(seen, (0, &0.into(), &0.into(), &written.into()), "{said}");
    assert_eq!(relay.stop(), 0);
    // Later starts need nothing more.
    let relay = Relay::start(config);
    db.wait_until_streaming();
    BACKLOG.insert(db, written..written + 10, 10);
    let records = kafka().read(topic, usize::try_from(written).unwrap() + 10);
    assert_eq!(relay.stop(), 0);
    assert_eq!(BACKLOG.check(&records, 0..written + 10), 0, "repeats");
}

/// Copies the outbox by logical replication, and ends it when every row is there.
fn replicate(old: &Outbox, new: &Outbox) {
    let (address, name) = (old.address(), old.name());
    let password = address.password.as_deref().unwrap_or_default();
    old.execute(&format!("CREATE PUBLICATION {name}_move FOR TABLE outbox"));
    // A subscription cannot be made in a transaction with other statements.
    new.execute(&format!(
        "CREATE SUBSCRIPTION {name}_move CONNECTION 'host={} port={} user={} password=''{password}'' dbname={}' PUBLICATION {name}_move",
        address.host, address.port, address.user, address.database
    ));
    eventually(DEADLINE, "every row is copied", || rows(new) == rows(old));
    new.execute(&format!("DROP SUBSCRIPTION {name}_move"));
    old.execute(&format!("DROP PUBLICATION {name}_move"));
}
