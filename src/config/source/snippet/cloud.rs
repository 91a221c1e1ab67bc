//! Keys of Confluent Cloud's managed connectors, as the settings of Debezium and Kafka Connect that they stand for.

use crate::config::error::Problem;
use crate::config::notice::Notice;
use crate::config::source::file::Entry;
use crate::config::source::layers::Dialect;
use crate::config::source::settings::{Origin, Setting, holds_secret};

const POSTGRES: &str = "io.debezium.connector.postgresql.PostgresConnector";
/// Keys that only a managed connector has.
const KEYS: [&str; 5] = [
    "kafka.api.key",
    "kafka.auth.mode",
    "kafka.service.account.id",
    "output.data.format",
    "output.key.format",
];
/// Keys that concern only where a managed connector runs.
const PLATFORM: [&str; 8] = [
    "auto.restart.on.user.error",
    "cloud.environment",
    "cloud.provider",
    "kafka.deployment.type",
    "kafka.max.partition.validation.disable",
    "kafka.region",
    "kafka.service.account.id",
    "sr.service.account.id",
];
/// Formats of records, with the converter of each.
const FORMATS: [(&str, &str); 5] = [
    ("AVRO", "io.confluent.connect.avro.AvroConverter"),
    ("JSON", "org.apache.kafka.connect.json.JsonConverter"),
    ("JSON_SR", "io.confluent.connect.json.JsonSchemaConverter"),
    ("PROTOBUF", "io.confluent.connect.protobuf.ProtobufConverter"),
    ("STRING", "org.apache.kafka.connect.storage.StringConverter"),
];
/// Settings that make an event of the row after the change.
const UNWRAP: &str = "transforms=unwrap\ntransforms.unwrap.type=io.debezium.transforms.ExtractNewRecordState";

/// Settings in the place of the keys of a managed connector.
#[derive(Debug, Default)]
pub(in crate::config::source) struct Translated {
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
    pub notices: Vec<Notice>,
}

/// Translates the settings of a managed connector; others stay as they are. `origin` is the source of a line.
pub(in crate::config::source) fn translate(
    entries: Vec<Entry>,
    origin: impl Fn(Option<usize>) -> Origin,
) -> Translated {
    if !is_managed(&entries) {
        return Translated { entries, ..Translated::default() };
    }
    let mut translator = Translator { origin, all: &entries, done: Translated::default() };
    entries.iter().for_each(|entry| translator.add(entry));
    translator.check_state();
    translator.done
}

fn is_managed(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| KEYS.contains(&entry.key.as_str()) || is_class(entry))
}

fn is_class(entry: &Entry) -> bool {
    entry.key == "connector.class"
        && matches!(entry.value.trim(), "PostgresCdcSource" | "PostgresCdcSourceV2")
}

struct Translator<'e, O> {
    origin: O,
    all: &'e [Entry],
    done: Translated,
}

impl<O: Fn(Option<usize>) -> Origin> Translator<'_, O> {
    fn add(&mut self, entry: &Entry) {
        let value = entry.value.trim();
        match entry.key.as_str() {
            "connector.class" if is_class(entry) => self.put("connector.class", POSTGRES, entry),
            "output.data.format" => self.format("value.converter", entry),
            "output.key.format" => self.format("key.converter", entry),
            "json.output.decimal.format" => self.put("value.converter.decimal.format", value, entry),
            "kafka.endpoint" if self.get("bootstrap.servers").is_none() => {
                self.put("bootstrap.servers", value, entry);
            }
            "kafka.auth.mode" if value == "KAFKA_API_KEY" => {}
            "kafka.auth.mode" => {
                let reason = "only a connector inside Confluent Cloud can sign in that way";
                let fix = "set kafka.auth.mode=KAFKA_API_KEY, kafka.api.key and kafka.api.secret";
                self.refuse(entry, reason, fix);
            }
            "kafka.api.key" => self.credentials(entry),
            "kafka.api.secret" => {}
            "after.state.only" if value.eq_ignore_ascii_case("false") => {}
            "after.state.only" => {
                let reason = "in Debezium a transform makes the row after the change out of an event";
                self.refuse(entry, reason, &format!("instead of it, set\n{UNWRAP}"));
            }
            "csfle.enabled" if !value.eq_ignore_ascii_case("false") => {
                let reason = "outboxd does not encrypt fields";
                self.refuse(entry, reason, "csfle.enabled=false sends the fields without encryption");
            }
            "csfle.enabled" => {}
            key if PLATFORM.contains(&key) => {
                self.done.notices.push(Notice::ignored(key, "it is for Confluent Cloud's platform"));
            }
            _ => self.done.entries.push(entry.clone()),
        }
    }

    fn get(&self, key: &str) -> Option<&Entry> {
        self.all.iter().rev().find(|entry| entry.key == key)
    }

    fn put(&mut self, key: &str, value: &str, from: &Entry) {
        self.done.entries.push(Entry { key: key.to_owned(), value: value.to_owned(), line: from.line });
    }

    fn setting(&self, entry: &Entry) -> Setting {
        Setting {
            written: entry.key.clone(),
            value: entry.value.clone(),
            origin: (self.origin)(entry.line),
            secret: holds_secret(&entry.key),
        }
    }

    fn refuse(&mut self, entry: &Entry, reason: &str, fix: &str) {
        self.done.problems.push(Problem::refused(&self.setting(entry), reason, fix));
    }

    /// Adds the converter of a format. A converter that the file names itself wins.
    fn format(&mut self, converter: &str, entry: &Entry) {
        let known = FORMATS.iter().find(|(name, _)| name.eq_ignore_ascii_case(entry.value.trim()));
        let Some((name, class)) = known else {
            let names = FORMATS.map(|(name, _)| name).join(", ");
            let allowed = format!("it must be one of {names}");
            return self.done.problems.push(Problem::invalid(&self.setting(entry), allowed));
        };
        if self.get(converter).is_some() {
            return;
        }
        self.put(converter, class, entry);
        let schemas = format!("{converter}.schemas.enable");
        if *name == "JSON" && self.get(&schemas).is_none() {
            self.put(&schemas, "false", entry);
        }
    }

    /// Adds the login with an API key.
    fn credentials(&mut self, key: &Entry) {
        let Some(secret) = self.get("kafka.api.secret").cloned() else {
            let lines = [("kafka.api.secret", "${env:KAFKA_API_SECRET}")];
            let missing = Dialect::Connect.missing("kafka.api.secret", "it belongs to kafka.api.key", &lines);
            return self.done.problems.push(missing);
        };
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let jaas = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{}\" password=\"{}\";",
            quoted(&key.value),
            quoted(&secret.value)
        );
        self.put("producer.override.security.protocol", "SASL_SSL", key);
        self.put("producer.override.sasl.mechanism", "PLAIN", key);
        self.put("producer.override.sasl.jaas.config", &jaas, &secret);
    }

    /// Refuses the first generation of the connector without `after.state.only`, which is true there.
    fn check_state(&mut self) {
        let class = self.get("connector.class").filter(|class| class.value.trim() == "PostgresCdcSource");
        if let (Some(class), None) = (class.cloned(), self.get("after.state.only")) {
            let reason = "without after.state.only it sends the row after the change instead of the event";
            let fix = format!("set after.state.only=false for events, or for rows also\n{UNWRAP}");
            self.refuse(&class, reason, &fix);
        }
    }
}
