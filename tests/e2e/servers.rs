//! The servers that every other module stands on.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use outboxd::internals::error::{Diagnose, report};
use outboxd::internals::secret::Secret;
use outboxd::internals::throwaway::{Authentication, Options, StopMode, ThrowawayPostgres};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::support::certificate::Authority;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Columns, Event, Outbox};
use crate::support::postgres::{self, postgres15, postgres18};
use crate::support::relay::Relay;
use crate::support::session::{Address, Session};
use crate::support::wait::{DEADLINE, eventually};

/// Set in the process that [`nothing_is_left_of_a_killed_parent`] starts to kill it.
const HOLD: &str = "OUTBOXD_TEST_HOLD_SERVERS";

#[test]
fn postgres_15_and_18_run_with_logical_decoding() {
    for (server, major) in [(postgres15(), 15), (postgres18(), 18)] {
        assert_eq!(server.major(), major);
        let db = Outbox::create(server);
        let rows = db.query(
            "SELECT current_setting('server_version_num')::int / 10000, current_setting('wal_level')",
            &[],
        );
        assert_eq!((rows[0].get(0), rows[0].get(1)), (i32::from(major), "logical"));
    }
}

#[test]
fn the_outbox_takes_events_in_order() {
    let events: Vec<_> = (0..20).map(|n| Event::new("order", &n.to_string(), "OrderCreated", "{}")).collect();
    for columns in [Columns::Debezium, Columns::SnakeCase] {
        let db = Outbox::create_with(postgres18(), columns);
        db.insert(&events);
        let rows = db.query("SELECT id::text FROM outbox ORDER BY ctid", &[]);
        let ids: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let expected: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
        assert_eq!(ids, expected, "{columns:?}");
    }
}

#[test]
fn the_outbox_follows_its_slot() {
    let db = Outbox::create(postgres15());
    assert_eq!(db.slot(), None);
    db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&db.name()]);
    let slot = db.slot().unwrap();
    assert!(!slot.active && slot.confirmed_flush_lsn >= slot.restart_lsn, "{slot:?}");
    let target = db.current_wal_lsn();
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    eventually(DEADLINE, "the slot is where it was moved to", || {
        db.slot().is_some_and(|slot| slot.confirmed_flush_lsn >= Some(target))
    });
    db.query("SELECT pg_drop_replication_slot($1)", &[&db.name()]);
}

#[test]
fn postgres_keeps_its_data_through_a_crash_and_a_stop() {
    let mut server = postgres::start(15);
    let db = Outbox::create(&server);
    db.insert(&[Event::new("order", "1", "OrderCreated", "{}")]);
    server.kill().unwrap();
    server.start_again().unwrap();
    assert!(server.log().unwrap().contains("automatic recovery in progress"));
    for mode in [StopMode::Fast, StopMode::Immediate, StopMode::Smart] {
        assert_eq!(db.query("SELECT FROM outbox", &[]).len(), 1, "before {mode:?}");
        db.disconnect();
        server.stop(mode, DEADLINE).unwrap();
        server.start_again().unwrap();
    }
    assert_eq!(db.query("SELECT FROM outbox", &[]).len(), 1);
}

#[test]
fn a_stop_that_takes_too_long_is_an_error() {
    let mut server = postgres::start(18);
    let session = Session::new(Address::of(&server, "postgres"));
    session.execute("SELECT");
    server.stop(StopMode::Smart, Duration::from_millis(200)).unwrap_err();
    server.stop(StopMode::Fast, DEADLINE).unwrap();
}

#[test]
fn postgres_asks_for_the_password_with_scram() {
    let authentication = Authentication::ScramSha256(Secret::new("it's \\ secret"));
    let options = Options { authentication, ..postgres::options(18, &[]) };
    let server = ThrowawayPostgres::start(&options).unwrap();
    let address = Address::of(&server, "postgres");
    Session::new(address.clone()).execute("SELECT");
    let stranger = Session::new(Address { password: Some("guess".to_owned()), ..address });
    let refused = stranger.try_execute("SELECT").unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "28P01");
}

#[test]
fn postgres_speaks_tls_with_the_certificate_it_is_given() {
    let [authority, stranger] = ["ours", "somebody else's"].map(Authority::new);
    let certificate = Some(authority.issue("localhost"));
    let hba = vec!["hostnossl all all all reject".to_owned()];
    let server =
        ThrowawayPostgres::start(&Options { certificate, hba, ..postgres::options(18, &[]) }).unwrap();
    let with = |root_cert| Session::new(Address { root_cert, ..Address::of(&server, "postgres") });
    let rows =
        with(Some(authority.pem())).query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]);
    assert!(rows[0].get::<_, bool>(0));
    assert!(with(Some(stranger.pem())).try_execute("SELECT").is_err(), "an unknown authority");
    assert!(with(None).try_execute("SELECT").is_err(), "plain text");
}

#[test]
fn settings_that_postgres_refuses_are_shown() {
    let options = postgres::options(15, &[("wal_level", "telepathic")]);
    let error = ThrowawayPostgres::start(&options).unwrap_err();
    assert!(report(&error).contains("invalid value for parameter \"wal_level\": \"telepathic\""), "{error}");
    assert!(error.fix().is_none());
}

#[test]
fn a_record_is_read_back_whole() {
    let topic = "servers.read-back";
    kafka().create_topic(topic, 1, &[("max.message.bytes", "20000")]);
    assert_eq!(kafka().records(topic), []);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "id", value: Some("1") })
        .insert(Header { key: "id", value: Some("2") })
        .insert(Header { key: "none", value: None::<&str> });
    let record = BaseRecord::to(topic).key(b"key".as_slice()).payload(b"value".as_slice());
    kafka().produce(record.headers(headers).timestamp(1_700_000_000_123));
    kafka().produce(BaseRecord::to(topic).key(b"tombstone".as_slice()));

    let records = kafka().read(topic, 2);
    let [record, tombstone] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.place(), record.timestamp_ms), ((topic, 0, 0), 1_700_000_000_123));
    assert_eq!((record.key(), record.value(), record.header("id")), ("key", "value", "2"));
    assert_eq!(record.headers.len(), 3);
    assert_eq!(record.headers[2], ("none".to_owned(), None));
    assert_eq!((tombstone.key(), &tombstone.value), ("tombstone", &None));
    assert_eq!(kafka().topics("servers."), [topic]);
    assert_eq!(kafka().records_of_prefix("servers."), records);
}

#[test]
fn kafka_keeps_its_data_through_a_kill_a_stop_and_a_pause() {
    let mut kafka = Kafka::start();
    kafka.create_topic("durable", 2, &[]);
    kafka.produce(BaseRecord::to("durable").key(b"1".as_slice()));
    kafka.kill();
    kafka.start_again();
    kafka.produce(BaseRecord::to("durable").key(b"2".as_slice()));
    kafka.stop();
    kafka.start_again();
    kafka.pause();
    kafka.resume();
    let mut keys: Vec<_> = kafka.read("durable", 2).iter().map(|record| record.key().to_owned()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["1", "2"]);
}

#[test]
fn the_binary_runs_and_leaves() {
    let mut help = Relay::command(&["--help"]);
    assert_eq!(help.wait_for_exit(DEADLINE), 0);
    assert!(!help.is_running());
}

#[test]
fn nothing_is_left_of_a_killed_parent() {
    if env::var_os(HOLD).is_some() {
        hold_servers();
    }
    let mut holder = Command::new(env::current_exe().unwrap())
        .args(["--exact", "servers::nothing_is_left_of_a_killed_parent", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    let folders: Vec<PathBuf> =
        lines.filter_map(|line| Some(line.split_once("folder: ")?.1.into())).take(2).collect();
    assert!(folders.len() == 2 && folders.iter().all(|folder| folder.is_dir()), "{folders:?}");
    assert!(folders.iter().all(|folder| is_mentioned_by_a_process(folder)));

    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually(DEADLINE, "the servers and their folders are gone", || {
        folders.iter().all(|folder| !folder.exists() && !is_mentioned_by_a_process(folder))
    });
}

/// Prints the folders of the servers and never returns.
fn hold_servers() -> ! {
    let (postgres, kafka) = (postgres::start(15), Kafka::start());
    for folder in [postgres.folder(), kafka.folder()] {
        println!("folder: {}", folder.display());
    }
    loop {
        std::thread::park();
    }
}

fn is_mentioned_by_a_process(folder: &Path) -> bool {
    let folder = folder.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut command_lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    command_lines.any(|line| line.windows(folder.len()).any(|window| window == folder))
}
