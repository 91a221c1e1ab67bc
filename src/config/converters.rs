//! A converter and its options belong together: Kafka Connect gives a converter only the options that stand where its
//! class stands, in the connector's configuration or in the worker's.

use super::file::Entry;
use super::notice::{Notice, NoticeKind};
use super::settings::Settings;
use super::spelling;

const CONVERTERS: [&str; 3] = ["key.converter", "value.converter", "header.converter"];
/// What a worker's configuration has and a connector's has not.
const WORKER: [&str; 7] = [
    "config.storage.topic",
    "group.id",
    "listeners",
    "offset.storage.file.filename",
    "offset.storage.topic",
    "plugin.path",
    "status.storage.topic",
];

/// Whether the entries are those of a worker's `.properties` file.
pub(super) fn is_worker(entries: &[Entry]) -> bool {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    WORKER.iter().any(|key| has(key)) && !has("connector.class") && !has("transforms")
}

/// What becomes of converters when a further file is laid over those before it: a converter that the file names takes
/// none of the options that stood before, and the options of a converter that only a worker's file names are not the
/// connector's to say.
pub(super) fn lay(
    settings: &mut Settings,
    entries: Vec<Entry>,
    behind_worker: bool,
) -> (Vec<Entry>, Vec<Notice>) {
    let mut entries = entries;
    let mut notices = Vec::new();
    for converter in CONVERTERS {
        let below = format!("{converter}.");
        if entries.iter().any(|entry| spelling::canonical(&entry.key).iter().any(|key| key == converter)) {
            settings.forget(&below);
        } else if behind_worker && settings.get(converter).is_some() {
            let is_option = |entry: &Entry| entry.key.starts_with(&below);
            let keys: Vec<_> = entries.iter().filter(|e| is_option(e)).map(|e| e.key.clone()).collect();
            entries.retain(|entry| !is_option(entry));
            if !keys.is_empty() {
                let text = format!(
                    "{converter} belongs to the worker, and so do its options: name the \
                                    converter here too"
                );
                notices.push(Notice { kind: NoticeKind::Ignored, keys, text });
            }
        }
    }
    (entries, notices)
}
