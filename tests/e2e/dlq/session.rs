//! The session in `docs/dead-letters.md`, typed into the real command.

use std::fs;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use serde_json::Value;

use crate::support::kafka::{Kafka, kafka};
use crate::support::relay::Relay;
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../../docs/dead-letters.md");
const LETTERS: &str = "payments.dlq";
const ORIGIN: &str = "outbox.event.order";
/// 2026-11-20T10:41:07Z
const FIRST_MS: i64 = 1_795_171_267_000;

#[test]
fn the_session_of_the_docs_is_what_is_seen() {
    let kafka = kafka();
    kafka.create_topic(LETTERS, 1, &[("retention.ms", "-1")]);
    kafka.create_topic(ORIGIN, 3, &[("retention.ms", "-1")]);
    (0..41).for_each(|offset| give_up(kafka, offset));
    let folder = Watcher::new("outboxd-dlq-");
    let file = folder.folder().join("letters.ndjson").display().to_string();
    let names = [("localhost:9092", kafka.bootstrap()), ("letters.ndjson", file.clone())];
    let session = PAGE.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
    for step in session.split("$ outboxd ").skip(1) {
        let (command, expected) = step.split_once('\n').unwrap();
        assert_eq!(run(&names, command).trim(), expected.trim(), "{command}");
    }
    kafka.wait_until_decided(ORIGIN);
    assert_eq!(kafka.records(ORIGIN).len(), 38);
    let exported = fs::read_to_string(&file).unwrap();
    let exported: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = PAGE.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let mut shown: Value = serde_json::from_str(shown).unwrap();
    // The page does not show all of it.
    assert_eq!((exported.len(), &shown["value"]), (1, &"…".into()));
    shown["value"] = exported[0]["value"].clone();
    assert_eq!(exported[0], shown);
}

/// Runs a command of the page with the address of the test's Kafka and the test's files.
fn run(names: &[(&str, String)], command: &str) -> String {
    let here = |word| names.iter().find(|(page, _)| *page == word).map_or(word, |(_, here)| here.as_str());
    let arguments: Vec<&str> = command.split_whitespace().map(here).collect();
    let mut process = Relay::command(&arguments);
    assert_eq!(process.wait_for_exit(DEADLINE), 0, "{}", process.stderr());
    names.iter().fold(process.stdout(), |said, (page, here)| said.replace(here, page))
}

/// Writes a dead letter like Spring for Apache Kafka: three lack something, the others met an outage.
fn give_up(kafka: &Kafka, offset: i64) {
    let id = format!("{offset:08x}-5b2c-4f0e-9d54-2f1f8f2f7d10");
    let (key, exception, message, at_ms) = match offset {
        17 => ("8d1f".to_owned(), "com.example.MissingTotal", "order 8d1f has no total", FIRST_MS + 183_000),
        30 => {
            ("77aa".to_owned(), "com.example.MissingTotal", "order 77aa has no total", FIRST_MS + 3_600_000)
        }
        40 => {
            ("90c2".to_owned(), "com.example.MissingTotal", "order 90c2 has no total", FIRST_MS + 80_335_000)
        }
        0 => ("k0".to_owned(), "java.net.ConnectException", "Connection refused", FIRST_MS),
        39 => ("k39".to_owned(), "java.net.ConnectException", "Connection refused", FIRST_MS + 1_304_000),
        n => (format!("k{n}"), "java.net.ConnectException", "Connection refused", FIRST_MS + n * 1_000),
    };
    let value = format!("{{\"lines\":\"{}\"}}", "x".repeat(400));
    let text = [
        ("id", id.as_str()),
        ("kafka_dlt-exception-fqcn", exception),
        ("kafka_dlt-exception-message", message),
        ("kafka_dlt-original-topic", ORIGIN),
        ("kafka_dlt-original-consumer-group", "payments"),
    ];
    let headers = text.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: Some(value.as_bytes()) })
    });
    let headers = headers
        .insert(Header { key: "kafka_dlt-original-partition", value: Some(&1_i32.to_be_bytes()) })
        .insert(Header { key: "kafka_dlt-original-offset", value: Some(&(101 + offset).to_be_bytes()) })
        .insert(Header { key: "kafka_dlt-original-timestamp", value: Some(&(at_ms - 1_000).to_be_bytes()) })
        .insert(Header { key: "kafka_dlt-original-timestamp-type", value: Some(b"CreateTime".as_slice()) });
    let record = BaseRecord::to(LETTERS).key(key.as_bytes()).payload(value.as_bytes());
    kafka.produce(record.headers(headers).partition(0).timestamp(at_ms));
}
