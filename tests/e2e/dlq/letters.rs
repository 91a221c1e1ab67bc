use std::sync::atomic::{AtomicU32, Ordering};

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use serde_json::Value;

use crate::support::kafka::Kafka;
use crate::support::record::Record;
use crate::support::relay::Relay;
use crate::support::wait::DEADLINE;

/// Two weeks before the first letter, so that nobody's own clock makes it.
const TIMESTAMP_MS: i64 = 1_767_225_600_000;

/// A dead-letter topic, the origin topic of its dead letters, and the topic that stores their states.
pub(crate) struct Dlq<'k> {
    kafka: &'k Kafka,
    pub(crate) topic: String,
    pub(crate) origin: String,
    pub(crate) states: String,
}

/// A letter as a service writes it.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) timestamp_ms: Option<i64>,
}

impl<'k> Dlq<'k> {
    pub(crate) fn new(kafka: &'k Kafka) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let topic = format!("dlq-test-{number}");
        let (origin, states) = (format!("{topic}-origin"), format!("{topic}-states"));
        kafka.create_topic(&topic, 1, &[]);
        kafka.create_topic(&origin, 3, &[]);
        Self { kafka, topic, origin, states }
    }

    /// Writes a record to the origin topic.
    pub(super) fn original(&self, key: &str, value: &str) -> Record {
        let headers = [("id", "e-1"), ("trace", "t")];
        let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value.as_bytes()) })
        });
        let record = BaseRecord::to(&self.origin).key(key.as_bytes()).payload(value.as_bytes());
        self.kafka.produce(record.headers(headers).partition(1).timestamp(TIMESTAMP_MS));
        self.kafka.read(&self.origin, 1).remove(0)
    }

    pub(crate) fn write(&self, letter: &Letter) {
        self.write_all(std::slice::from_ref(letter));
    }

    pub(super) fn write_all(&self, letters: &[Letter]) {
        self.kafka.produce_all(letters.iter().map(|letter| {
            let headers = letter.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: value.as_deref() })
            });
            let mut record = BaseRecord::<[u8], [u8]>::to(&self.topic).partition(0).headers(headers);
            record.key = letter.key.as_deref();
            record.payload = letter.value.as_deref();
            record.timestamp = letter.timestamp_ms;
            record
        }));
    }

    /// Runs `outboxd dlq` on this topic: returns exit code, standard output and standard error.
    pub(super) fn run(&self, command: &str, arguments: &[&str]) -> (i32, String, String) {
        let mut process = self.start(command, arguments);
        let exit = process.wait_for_exit(DEADLINE);
        // What is committed is seen a moment later.
        self.kafka.wait_until_decided(&self.origin);
        (exit, process.stdout(), process.stderr())
    }

    pub(super) fn start(&self, command: &str, arguments: &[&str]) -> Relay {
        let servers = self.kafka.bootstrap();
        let place = ["--bootstrap-servers", &servers, "--from", &self.topic, "--state-topic", &self.states];
        Relay::command(&[&["dlq", command], arguments, &place].concat())
    }

    /// Runs `outboxd dlq` without naming the topic.
    pub(super) fn run_bare(&self, arguments: &[&str]) -> (i32, String, String) {
        let servers = self.kafka.bootstrap();
        let mut process = Relay::command(&[&["dlq"], arguments, &["--bootstrap-servers", &servers]].concat());
        (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
    }

    pub(super) fn json(&self, command: &str, arguments: &[&str]) -> Value {
        self.json_exiting(0, command, arguments)
    }

    pub(super) fn json_exiting(&self, expected: i32, command: &str, arguments: &[&str]) -> Value {
        let (exit, stdout, stderr) = self.run(command, &[arguments, &["--json"]].concat());
        assert_eq!(exit, expected, "{stdout} {stderr}");
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}"))
    }
}

impl Letter {
    pub(super) fn new(key: &str, value: &str) -> Self {
        let (key, value) = (Some(key.as_bytes().to_vec()), Some(value.as_bytes().to_vec()));
        Self { key, value, headers: Vec::new(), timestamp_ms: None }
    }

    fn of(record: &Record) -> Self {
        Self {
            key: record.key.clone(),
            value: record.value.clone(),
            headers: record.headers.clone(),
            timestamp_ms: Some(record.timestamp_ms),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.headers.push((name.to_owned(), Some(value.as_ref().to_vec())));
    }
}

/// Returns a dead letter in outboxd's own dialect.
pub(crate) fn outboxd(dlq: &Dlq<'_>, offset: i64, key: &str, value: &str) -> Letter {
    let mut letter = Letter::new(key, value);
    letter.set("outboxd.errors.topic", &dlq.origin);
    letter.set("outboxd.errors.partition", "1");
    letter.set("outboxd.errors.offset", offset.to_string());
    letter
}

type Dialect = fn(&Dlq<'_>, &Record) -> Letter;

/// Returns the function of each dialect that writes the dead letter of a record.
pub(super) fn dialects() -> [Dialect; 5] {
    [ours, relays, connects, springs, share_groups]
}

fn ours(_: &Dlq<'_>, record: &Record) -> Letter {
    let mut letter = Letter::of(record);
    letter.set("outboxd.errors.topic", &record.topic);
    letter.set("outboxd.errors.partition", record.partition.to_string());
    letter.set("outboxd.errors.offset", record.offset.to_string());
    letter.set("outboxd.errors.reason", "poison");
    letter.set("outboxd.errors.attempts", "3");
    letter
}

fn relays(dlq: &Dlq<'_>, record: &Record) -> Letter {
    let mut letter = connects(dlq, record);
    letter.set("outboxd.errors.reason", "too_large");
    letter.set("outboxd.errors.commit.lsn", "0/1949148");
    letter.set("outboxd.errors.ordinal", "0");
    letter
}

fn connects(_: &Dlq<'_>, record: &Record) -> Letter {
    let mut letter = Letter::of(record);
    letter.set("__connect.errors.topic", &record.topic);
    letter.set("__connect.errors.partition", record.partition.to_string());
    letter.set("__connect.errors.offset", record.offset.to_string());
    letter.set("__connect.errors.connector.name", "sink");
    letter.set("__connect.errors.task.id", "0");
    letter.set("__connect.errors.stage", "VALUE_CONVERTER");
    letter.set("__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException");
    letter
}

fn springs(_: &Dlq<'_>, record: &Record) -> Letter {
    let mut letter = Letter { timestamp_ms: None, ..Letter::of(record) };
    letter.set("kafka_dlt-exception-fqcn", "java.lang.IllegalStateException");
    letter.set("kafka_dlt-exception-stacktrace", "java.lang.IllegalStateException\n\tat A.b(A.java:1)");
    letter.set("kafka_dlt-original-topic", &record.topic);
    letter.set("kafka_dlt-original-partition", record.partition.to_be_bytes());
    letter.set("kafka_dlt-original-offset", record.offset.to_be_bytes());
    letter.set("kafka_dlt-original-timestamp", record.timestamp_ms.to_be_bytes());
    letter.set("kafka_dlt-original-timestamp-type", "CreateTime");
    letter.set("retry_topic-attempts", 3_i32.to_be_bytes());
    letter
}

/// Returns a dead letter of a share group, which copies neither the record nor its headers.
fn share_groups(_: &Dlq<'_>, record: &Record) -> Letter {
    let mut letter = Letter { key: None, value: None, headers: Vec::new(), timestamp_ms: None };
    letter.set("__dlq.errors.topic", &record.topic);
    letter.set("__dlq.errors.partition", record.partition.to_string());
    letter.set("__dlq.errors.offset", record.offset.to_string());
    letter.set("__dlq.errors.group", "payments");
    letter.set("__dlq.errors.delivery.count", "5");
    letter.set("__dlq.errors.message", "Offset rejected by client.");
    letter
}
