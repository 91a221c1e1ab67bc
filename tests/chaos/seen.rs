//! Consumers' view: the records of the campaign's topics, and the events to which they belong.

use std::fmt::Write;

use openssl::hash::{MessageDigest, hash};
use serde_json::Value;

use crate::shape::Shape;
use crate::support::kafka::Kafka;
use crate::support::record::Record;
use crate::world::{DEAD_LETTERS, Place};

/// A record. What it claims to be comes from its payload or its key, not from headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) place: Place,
    pub(crate) offset: i64,
    pub(crate) key: String,
    pub(crate) md5: String,
    pub(crate) letter: bool,
    /// Other fields of the record.
    pub(crate) header_id: String,
    pub(crate) timestamp_ms: i64,
}

/// Returns the committed records of all topics with this prefix, in order within each partition.
pub(crate) fn read(kafka: &Kafka, prefix: &str, shape: Shape) -> Vec<Seen> {
    let seen = match shape {
        Shape::Outbox => seen,
        Shape::Tables | Shape::Signals => change,
    };
    let records = kafka.records_of_prefix(prefix);
    records.iter().filter(|record| !Shape::is_of_signals(&record.topic)).map(seen).collect()
}

fn seen(record: &Record) -> Seen {
    let letter = record.topic.ends_with(DEAD_LETTERS);
    let value = record.value.as_deref().unwrap_or_default();
    let (id, payload) = if letter { letter_of(value) } else { (id_of(record), value.to_vec()) };
    Seen {
        id,
        place: (record.topic.clone(), record.partition),
        offset: record.offset,
        key: record.key().to_owned(),
        md5: hex(&hash(MessageDigest::md5(), &payload).unwrap()),
        letter,
        header_id: record.header("id").to_owned(),
        timestamp_ms: record.timestamp_ms,
    }
}

/// Parses a change: its operation with the id that the row had last. Key, operation and row are all in it, so it
/// contains each of them once.
fn change(record: &Record) -> Seen {
    let value: Value = serde_json::from_slice(record.value.as_deref().unwrap_or_default()).unwrap();
    let key: Value = serde_json::from_str(record.key()).unwrap();
    let op = value["op"].as_str().unwrap_or_default();
    let row = if op == "d" { &value["before"] } else { &value["after"] };
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    let id = format!("{op}:{}", text("id"));
    Seen {
        place: (record.topic.clone(), record.partition),
        offset: record.offset,
        key: key["key"].as_str().unwrap_or_default().to_owned(),
        md5: hex(&hash(MessageDigest::md5(), text("payload").as_bytes()).unwrap()),
        letter: false,
        header_id: id.clone(),
        id,
        timestamp_ms: row["stamp"].as_i64().unwrap_or_default(),
    }
}

/// Returns the id from `{"id":"…`, or from the key if the payload is empty.
fn id_of(record: &Record) -> String {
    let payload = record.value.as_deref().unwrap_or_default();
    match payload.strip_prefix(br#"{"id":""#).and_then(|rest| rest.get(..36)) {
        Some(id) => String::from_utf8_lossy(id).into_owned(),
        None => record.key().trim_start_matches("empty-").to_owned(),
    }
}

/// Parses a dead letter, which is the row.
fn letter_of(value: &[u8]) -> (String, Vec<u8>) {
    let row: Value = serde_json::from_slice(value).unwrap();
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    (text("id"), text("payload").into_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
