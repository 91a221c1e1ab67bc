use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use openssl::base64;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::volatile;
use crate::support::record::Record;

/// The headers that `extended.headers.enabled` adds, in a case with topic prefix `srv`.
const CONTEXT: [(&str, &str); 4] = [
    ("__debezium.context.connectorLogicalName", "srv"),
    ("__debezium.context.taskId", "0"),
    ("__debezium.context.connectorName", "postgresql"),
    (RUN_ID, RUN),
];
const RUN_ID: &str = "__debezium.context.runId";
/// Stands for the id of a run, a UUID of version 7.
const RUN: &str = "RUN";

/// One file of `tests/cases/relay` and its neighbours; the README there describes each field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    #[expect(dead_code, reason = "for whoever reads the file")]
    about: String,
    pub(super) source: String,
    #[expect(dead_code, reason = "tests/checks/inventory.rs looks for it")]
    #[serde(default)]
    shows: Vec<String>,
    pub(super) schema: String,
    pub(super) before: Option<String>,
    #[serde(default)]
    pub(super) topics: Vec<String>,
    #[serde(default = "three")]
    pub(super) partitions: i32,
    /// Base of the configuration.
    #[serde(default)]
    pub(super) base: Base,
    pub(super) properties: Option<String>,
    #[serde(default)]
    pub(super) config: BTreeMap<String, Option<String>>,
    /// Each transaction waits until the earlier ones are sent, because it changes the catalog.
    #[serde(default)]
    pub(super) waits: bool,
    pub(super) tx: Vec<String>,
    pub(super) fails: Option<i32>,
    pub(super) records: Vec<Expected>,
}

/// The configuration that all cases of a kind share.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Base {
    #[default]
    Outbox,
    Tables,
}

/// A record as a case writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    pub(super) topic: String,
    partition: i32,
    key: Option<Bytes>,
    value: Option<Bytes>,
    #[serde(deserialize_with = "headers")]
    headers: Vec<(String, Option<Bytes>)>,
    timestamp: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Binary { base64: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Time {
    Exact(i64),
    Word(Now),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Now {
    Now,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Header {
    Named(String, Option<Bytes>),
    Group(Group),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Group {
    Context,
}

impl Case {
    /// Returns a digest of everything that determines the messages between PostgreSQL and the relay.
    pub(super) fn digest(&self) -> String {
        let Self { schema, before, topics, partitions, base, properties, config, waits, tx, .. } = self;
        let parts =
            format!("{:?}", (schema, before, topics, partitions, base, properties, config, waits, tx));
        let digest = Sha256::digest(parts.as_bytes());
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Expected {
    /// Returns this record as a case would describe it. A time from `now_ms` on is "now".
    pub(super) fn of(record: &Record, now_ms: i64) -> Self {
        let header = |(name, value): &(String, Option<Vec<u8>>)| {
            let value = value.as_deref().map(Bytes::of);
            (name.clone(), if name == RUN_ID { value.map(run_id) } else { value })
        };
        let timestamp = match record.timestamp_ms {
            ms if ms >= now_ms => Time::Word(Now::Now),
            ms => Time::Exact(ms),
        };
        Self {
            topic: record.topic.clone(),
            partition: record.partition,
            key: record.key.as_deref().map(Bytes::of),
            value: record.value.as_deref().map(Bytes::of),
            headers: record.headers.iter().map(header).collect(),
            timestamp,
        }
    }
}

/// Writes what a run decides in the records of tables as a case does.
pub(super) fn mask(records: &mut [Expected], run_ms: RangeInclusive<i64>) {
    let parts = records.iter_mut().flat_map(|record| {
        let headers = record.headers.iter_mut().filter_map(|(_, value)| value.as_mut());
        [record.key.as_mut(), record.value.as_mut()].into_iter().flatten().chain(headers)
    });
    let texts = parts.filter_map(|part| match part {
        Bytes::Text(text) => Some(text),
        Bytes::Binary { .. } => None,
    });
    let mut texts: Vec<&mut String> = texts.collect();
    volatile::mask(&mut texts, run_ms);
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { base64: base64::encode_block(bytes) },
        }
    }
}

/// Masks a run id that is alone or in a JSON text.
fn run_id(value: Bytes) -> Bytes {
    let is_version_7 = |text: &str| text.parse::<uuid::Uuid>().is_ok_and(|id| id.get_version_num() == 7);
    match value {
        Bytes::Text(text) => {
            let parts: Vec<_> =
                text.split('"').map(|part| if is_version_7(part) { RUN } else { part }).collect();
            Bytes::Text(parts.join("\""))
        }
        binary @ Bytes::Binary { .. } => binary,
    }
}

fn headers<'de, D>(deserializer: D) -> Result<Vec<(String, Option<Bytes>)>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let written = Vec::<Header>::deserialize(deserializer)?;
    let context = || CONTEXT.map(|(name, value)| (name.to_owned(), Some(Bytes::Text(value.to_owned()))));
    let headers = written.into_iter().flat_map(|header| match header {
        Header::Named(name, value) => vec![(name, value)],
        Header::Group(Group::Context) => context().into(),
    });
    Ok(headers.collect())
}

fn three() -> i32 {
    3
}
