//! The configuration of a case: the one with which its records were recorded, and the case's own settings.

use serde_json::json;

use super::case::{Base, Case};
use crate::support::relay::Config;

/// The settings that cases of tables share.
const OF_TABLES: [(&str, &str); 4] = [
    ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("key.converter.schemas.enable", "false"),
    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter.schemas.enable", "false"),
];

/// The settings that a case with a file of its own cannot know.
const ADDRESSES: [&str; 7] = [
    "bootstrap.servers",
    "database.hostname",
    "database.port",
    "database.user",
    "database.dbname",
    "slot.name",
    "publication.name",
];

/// Returns the settings of a case without a file of its own; `base` has the addresses and the names.
pub(super) fn config(case: &Case, base: &Config) -> Config {
    let mut config = base.clone();
    config.remove("transforms.outbox.route.topic.replacement");
    if case.base == Base::Tables {
        config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
    }
    let recorded = [
        ("topic.prefix", "srv"),
        ("publication.autocreate.mode", "filtered"),
        ("snapshot.mode", "no_data"),
        ("tombstones.on.delete", "false"),
        ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("value.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("poll.interval.ms", "50"),
    ];
    config.extend(recorded.map(|(key, value)| (key.to_owned(), json!(value))));
    if case.base == Base::Tables {
        config.extend(OF_TABLES.map(|(key, value)| (key.to_owned(), json!(value))));
    }
    for (key, value) in &case.config {
        match value {
            Some(value) => drop(config.insert(key.clone(), json!(value))),
            None => drop(config.remove(key)),
        }
    }
    config
}

/// Returns the settings in addition to the file of a case: addresses and names, and `more` of the base's.
pub(super) fn beside_a_file(base: &Config, more: &[&str]) -> Vec<String> {
    let keys = ADDRESSES.iter().chain(more).filter(|key| base.contains_key(**key));
    keys.map(|key| format!("{key}={}", base[*key].as_str().unwrap())).collect()
}
