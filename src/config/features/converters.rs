//! Converters and their options. Kafka Connect gives a converter only the options of the configuration that names its
//! class: the connector's or the worker's.

use crate::config::notice::{Notice, NoticeKind};
use crate::config::source::file::Entry;
use crate::config::source::settings::Settings;
use crate::config::source::spelling;

const CONVERTERS: [&str; 3] = ["key.converter", "value.converter", "header.converter"];
/// Keys of a worker's configuration that a connector's does not have.
const WORKER: [&str; 7] = [
    "config.storage.topic",
    "group.id",
    "listeners",
    "offset.storage.file.filename",
    "offset.storage.topic",
    "plugin.path",
    "status.storage.topic",
];

/// Returns whether the entries are those of a worker's `.properties` file.
pub(in crate::config) fn is_worker(entries: &[Entry]) -> bool {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    WORKER.iter().any(|key| has(key)) && !has("connector.class") && !has("transforms")
}

/// Adapts the converters when a further file is added to those before it. A converter that the file names loses its
/// earlier options. The file's options for a converter that only a worker's file names are dropped, with a notice.
pub(in crate::config) fn lay(
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
