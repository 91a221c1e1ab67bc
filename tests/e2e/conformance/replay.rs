//! Cases without servers: PostgreSQL's side is a recording, Kafka's is librdkafka's mock broker. Everything in between is the
//! product: the configuration, the start, the stream, the catalog's answers, the transforms, the producer.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use outboxd::internals::config::Sources;
use outboxd::internals::error::{Diagnose as _, report};
use pg_replication::wal::Lsn;
use serde_json::json;
use tempfile::TempDir;

use super::case::Case;
use super::cases::{self, File};
use super::configuration::{beside_a_file, config};
use super::outcome::compare;
use crate::support::in_process::RelayInProcess;
use crate::support::mock_kafka::MockKafka;
use crate::support::outbox::config_of;
use crate::support::recording::Recording;
use crate::support::recording::server::RecordedServer;
use crate::support::relay::Config;
use crate::support::session::Address;
use crate::support::wait::let_pass;

/// Cases that are replayed at the same time: each mostly waits.
const WORKERS: usize = 6;

/// Maximum duration of a replay. It takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// Interval at which a replay is checked.
const INTERVAL: Duration = Duration::from_millis(5);

/// The exit code of a relay that ends because a request is not in its recording.
const REFUSED_EXIT: i32 = 4;

/// The partitions of a topic that the broker makes.
const PARTITIONS: i32 = 3;

/// Replays the cases of a folder.
pub(super) fn replay_all(folder: &str) {
    let files = Mutex::new(cases::named(folder).into_iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(file) = files.lock().unwrap().next() else { return };
                    if let Err(difference) = replay(&file) {
                        failures.lock().unwrap().push(format!("{}\n{difference}", file.name));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} cases failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

/// Writes the recording of a case.
pub(super) fn write(name: &str, case: &Case, mut recording: Recording, address: &Address, started_ms: i64) {
    let facts = [
        ("case", case.digest()),
        ("database", address.database.clone()),
        ("user", address.user.clone()),
        ("started_ms", started_ms.to_string()),
    ];
    recording.facts.extend(facts.map(|(fact, value)| (fact.to_owned(), value)));
    recording.write(name);
}

fn replay(file: &File) -> Result<(), String> {
    let case = file.read();
    let fix = format!("record it: OUTBOXD_RECORD=1 CASES={} cargo test --test e2e end_to_end", file.name);
    let recording = Recording::read(&file.name).ok_or_else(|| format!("there is no recording\n{fix}"))?;
    if recording.facts["case"] != case.digest() {
        return Err(format!("the case has changed since it was recorded\n{fix}"));
    }
    replay_case(&case, &recording)
}

fn replay_case(case: &Case, recording: &Recording) -> Result<(), String> {
    assert_ne!(case.fails, Some(REFUSED_EXIT), "a refused request would end a replay with it");
    let kafka = MockKafka::start(1);
    let made = case.topics.iter().map(|topic| (topic.as_str(), case.partitions));
    let others: BTreeSet<&str> = case.records.iter().map(|record| record.topic.as_str()).collect();
    let others = others.into_iter().filter(|topic| !case.topics.iter().any(|made| made == topic));
    for (topic, partitions) in made.chain(others.map(|topic| (topic, PARTITIONS))) {
        kafka.create_topic(topic, partitions, 1);
    }
    let server = RecordedServer::start(recording);
    let exit = run(case, recording, &server, &kafka.bootstrap());
    let started_ms = recording.facts["started_ms"].parse().unwrap();
    let outcome = exit.and_then(|(exit, error)| {
        compare(case, exit, &kafka.all_records(), started_ms)
            .map_err(|difference| format!("{difference}\n{error}"))
    });
    // A request that is refused and does no harm is a poll that the recorded run was too short for.
    outcome.map_err(|difference| match server.unknown() {
        unknown if unknown.is_empty() => difference,
        unknown => format!("{difference}\nrequests that are not in the recording:\n{}", unknown.join("\n")),
    })
}

/// Runs a relay until it has confirmed what it had confirmed in the recording. Returns its exit code and what it reports.
fn run(
    case: &Case,
    recording: &Recording,
    server: &RecordedServer,
    bootstrap: &str,
) -> Result<(i32, String), String> {
    let folder = TempDir::new().unwrap();
    let sources = sources(case, &base(recording, server, bootstrap), &folder);
    let relay = match RelayInProcess::start_from(&sources) {
        Ok(relay) => relay,
        Err(exit) => return Ok((exit.code().into(), String::new())),
    };
    let target = recording.facts["flushed"].parse::<Lsn>().unwrap().get();
    let began = Instant::now();
    let is_done = || case.fails.is_none() && target > 0 && server.flushed() >= target;
    while !relay.has_ended() && !is_done() {
        if began.elapsed() >= DEADLINE {
            let flushed = Lsn::new(server.flushed());
            return Err(format!("confirmed {flushed} of {}", Lsn::new(target)));
        }
        let_pass(INTERVAL);
    }
    match relay.stop() {
        Ok(()) => Ok((0, String::new())),
        Err(error) => Ok((error.exit().code().into(), report(&error))),
    }
}

fn base(recording: &Recording, server: &RecordedServer, bootstrap: &str) -> Config {
    let address = Address {
        host: "127.0.0.1".to_owned(),
        port: server.port(),
        user: recording.facts["user"].clone(),
        password: None,
        database: recording.facts["database"].clone(),
        root_cert: None,
    };
    let mut config = config_of(&address, bootstrap);
    config.insert("database.sslmode".to_owned(), json!("disable"));
    // The mock broker makes no topics with settings.
    config.insert("outboxd.position.topic".to_owned(), json!(""));
    config
}

fn sources(case: &Case, base: &Config, folder: &TempDir) -> Sources {
    let (name, text, overrides) = match &case.properties {
        Some(properties) => {
            let overrides = beside_a_file(base, &["database.sslmode", "outboxd.position.topic"]);
            ("application.properties", properties.clone(), overrides)
        }
        None => ("config.json", serde_json::to_string(&config(case, base)).unwrap(), Vec::new()),
    };
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    Sources { files: vec![file], overrides, ..Sources::default() }
}

#[test]
fn every_recording_belongs_to_a_case() {
    let files: Vec<String> =
        cases::FOLDERS.iter().flat_map(|folder| cases::all(folder)).map(|file| file.name).collect();
    for folder in cases::FOLDERS {
        let entries = fs::read_dir(Recording::folder().join(folder)).unwrap();
        for entry in entries.map(|entry| entry.unwrap().path()) {
            let name = format!("{folder}/{}", entry.file_stem().unwrap().to_string_lossy());
            assert!(files.contains(&name), "{} is the recording of no case", entry.display());
        }
    }
}

#[test]
fn every_long_text_belongs_to_a_recording() {
    let dropped = Recording::drop_unused_texts();
    assert!(
        dropped == 0,
        "{dropped} texts that no recording names were removed from tests/recordings/texts.txt"
    );
}

/// Returns the file of the folder `relay` with this name, and its recording.
fn recorded(name: &str) -> (Case, Recording) {
    let file = cases::all("relay").into_iter().find(|file| file.name == name).unwrap();
    (file.read(), Recording::read(name).unwrap())
}

#[test]
fn a_changed_message_of_the_stream_is_found() {
    let (case, mut recording) = recorded("relay/defaults");
    assert_eq!(replay_case(&case, &recording), Ok(()));
    let messages = recording.rounds.iter_mut().flat_map(|round| &mut round.answer);
    let mut changes = messages.filter_map(|message| message.pgoutput());
    let insert = changes.find(|change| change.first() == Some(&b'I')).unwrap();
    let value = br#"{"a": 1}"#;
    let place = insert.windows(value.len()).position(|part| part == value).unwrap();
    insert[place + 6] = b'7';
    let difference = replay_case(&case, &recording).unwrap_err();
    assert!(difference.contains(r#"{\"a\": 7}"#), "{difference}");
}

#[test]
fn a_changed_record_is_found() {
    let (mut case, recording) = recorded("relay/defaults");
    let last = case.records.pop().unwrap();
    assert!(replay_case(&case, &recording).is_err(), "a record more than expected");
    let mut other = last.clone();
    other.topic.push('x');
    case.records.push(other);
    assert!(replay_case(&case, &recording).is_err(), "another topic");
    case.records.extend([last.clone(), last]);
    assert!(replay_case(&case, &recording).is_err(), "a record less than expected");
}

#[test]
fn an_answer_that_is_missing_is_found() {
    let (case, mut recording) = recorded("relay/defaults");
    recording.rounds.retain(|round| !round.request.contains("IDENTIFY_SYSTEM"));
    let difference = replay_case(&case, &recording).unwrap_err();
    assert!(difference.contains("requests that are not in the recording"), "{difference}");
    assert!(difference.contains("IDENTIFY_SYSTEM"), "{difference}");
}
