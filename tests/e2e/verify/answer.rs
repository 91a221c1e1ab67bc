use std::fs;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::Event;
use crate::support::record::Record;
use crate::support::relay::{Config, Relay};
use crate::support::wait::DEADLINE;
use crate::support::watcher::Watcher;

/// Output of `outboxd verify --json`.
pub(super) struct Answer {
    pub(super) exit: i32,
    pub(super) json: Value,
}

impl Answer {
    pub(super) fn of(config: &Config, arguments: &[&str]) -> Self {
        let (exit, stdout, stderr) = verify(config, &[&["--json"], arguments].concat());
        let json = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}"));
        Self { exit, json }
    }

    pub(super) fn count(&self, of: &str) -> u64 {
        self.json["counts"][of].as_u64().unwrap_or_else(|| panic!("no count of {of}: {:#}", self.json))
    }

    /// Returns the problem and the id of each finding, in order.
    pub(super) fn findings(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = self.json["findings"].as_array().unwrap();
        let mut all: Vec<_> = findings.iter().map(|f| (text(&f["problem"]), text(&f["id"]))).collect();
        all.sort();
        all
    }

    #[track_caller]
    pub(super) fn assert(&self, exit: i32, findings: &[(&str, &Event)]) {
        let mut expected: Vec<_> =
            findings.iter().map(|(problem, event)| ((*problem).to_owned(), event.id.to_string())).collect();
        expected.sort();
        assert_eq!((self.exit, self.findings()), (exit, expected), "{:#}", self.json);
    }
}

/// Runs `outboxd verify`: returns its exit code, standard output and standard error.
pub(super) fn verify(config: &Config, arguments: &[&str]) -> (i32, String, String) {
    let watcher = Watcher::new("outboxd-verify-");
    let file = watcher.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let all = [&["verify", "-c", file.to_str().unwrap()], arguments].concat();
    let mut command = Relay::command(&all);
    (command.wait_for_exit(DEADLINE), command.stdout(), command.stderr())
}

/// Writes a record that is already there once more, with another value if one is given.
pub(super) fn produce_again(record: &Record, value: Option<&str>) {
    let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: value.as_deref() })
    });
    let value = value.map_or_else(|| record.value().as_bytes(), str::as_bytes);
    let again = BaseRecord::to(&record.topic).key(record.key().as_bytes()).payload(value).headers(headers);
    kafka().produce(again.partition(record.partition).timestamp(record.timestamp_ms));
}
