//! Storage of Debezium's source offset.

use std::time::Duration;

use crate::relay::{OffsetOptions, OffsetStore};
use crate::source_offset::OffsetKey;

use crate::config::known::check;
use crate::config::read::Reader;

/// One of Connect's backing stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Kafka,
    File,
    /// `MemoryOffsetBackingStore`: lost when the process ends.
    Memory,
    /// A database, Redis and the like.
    Other,
}

/// Reads the options; `None` when no offset is stored, or in a store that outboxd cannot read.
pub(in crate::config) fn options(
    reader: &mut Reader<'_>,
    connector: &str,
    topic_prefix: &str,
) -> Option<OffsetOptions> {
    let flush_interval = reader.millis("offset.flush.interval.ms", 0, Duration::from_secs(60));
    let flush_timeout = reader.millis("offset.flush.timeout.ms", 1, Duration::from_secs(5));
    let store = store(reader)?;
    let key = OffsetKey::new(connector, topic_prefix);
    Some(OffsetOptions { store, key, flush_interval, flush_timeout })
}

fn store(reader: &mut Reader<'_>) -> Option<OffsetStore> {
    const FILE: &str = "offset.storage.file.filename";
    // A connector may have its own topic in addition to the worker's.
    let topic_key = ["offsets.storage.topic", "offset.storage.topic"]
        .into_iter()
        .find(|key| reader.filled(key).is_some())
        .unwrap_or("offset.storage.topic");
    let (topic, file) = (reader.filled(topic_key), reader.path(FILE));
    let class = reader.filled("offset.storage").map(Store::of_class);
    match class.or(topic.map(|_| Store::Kafka)).or(file.as_ref().map(|_| Store::File))? {
        Store::Kafka => {
            let topic = reader.required(topic_key, "the topic that holds the offsets", "connect-offsets");
            Some(OffsetStore::Topic(topic))
        }
        Store::File => match file {
            Some(file) => Some(OffsetStore::File(file)),
            None => {
                reader.missing(FILE, "the file that holds the offsets", &[(FILE, "data/offsets.dat")]);
                None
            }
        },
        Store::Memory => None,
        Store::Other => {
            if let Some(setting) = reader.settings.get("offset.storage") {
                let reason =
                    "offsets are read from a topic or a file only: outboxd begins where the slot stands";
                check::ignore(&mut reader.notices, reason, setting);
            }
            None
        }
    }
}

impl Store {
    fn of_class(class: &str) -> Self {
        match class.rsplit('.').next() {
            Some("KafkaOffsetBackingStore") => Self::Kafka,
            Some("FileOffsetBackingStore") => Self::File,
            Some("MemoryOffsetBackingStore") => Self::Memory,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::layers::Dialect;
    use crate::config::source::settings::{Origin, Setting, Settings};

    const CONNECT: &str = "offset.storage=org.apache.kafka.connect.storage.";

    fn read(lines: &[&str]) -> Result<(Option<OffsetStore>, usize), String> {
        let mut settings = Settings::default();
        for line in lines {
            let (key, value) = line.split_once('=').unwrap();
            let (written, value, origin) = (key.to_owned(), value.to_owned(), Origin::CommandLine);
            settings.insert(key.to_owned(), Setting { written, value, origin, secret: false });
        }
        let mut reader = Reader::new(&settings, Dialect::Connect);
        let store = options(&mut reader, "c", "p").map(|options| options.store);
        match reader.problems.first() {
            Some(problem) => Err(problem.to_string()),
            None => Ok((store, reader.notices.len())),
        }
    }

    #[test]
    fn the_store_is_the_one_that_debezium_uses() {
        let topic = || Some(OffsetStore::Topic("t".to_owned()));
        let file = || Some(OffsetStore::File("f".into()));
        let class = |name: &str| format!("{CONNECT}{name}");
        let kafka = class("KafkaOffsetBackingStore");
        let in_file = class("FileOffsetBackingStore");
        let memory = class("MemoryOffsetBackingStore");
        let redis = "offset.storage=io.debezium.storage.redis.offset.RedisOffsetBackingStore";
        let cases: [(&[&str], _); 9] = [
            (&[], (None, 0)),
            (&["offset.storage.topic=t"], (topic(), 0)),
            (&["offset.storage.topic=worker", "offsets.storage.topic=t"], (topic(), 0)),
            (&["offset.storage.file.filename=f"], (file(), 0)),
            (&["offset.storage.topic=t", "offset.storage.file.filename=f"], (topic(), 0)),
            (&[&in_file, "offset.storage.topic=t", "offset.storage.file.filename=f"], (file(), 0)),
            (&[&kafka, "offset.storage.topic=t", "offset.storage.file.filename=f"], (topic(), 0)),
            (&[&memory, "offset.storage.file.filename=f"], (None, 0)),
            (&[redis, "offset.storage.file.filename=f"], (None, 1)),
        ];
        for (lines, expected) in cases {
            assert_eq!(read(lines), Ok(expected), "{lines:?}");
        }
        assert!(read(&[&kafka]).unwrap_err().contains("offset.storage.topic is missing"));
        assert!(read(&[&in_file]).unwrap_err().contains("offset.storage.file.filename is missing"));
        // As the examples of Debezium Server have it.
        let at_once = ["offset.storage.file.filename=f", "offset.flush.interval.ms=0"];
        assert_eq!(read(&at_once), Ok((file(), 0)));
        assert!(read(&["offset.flush.interval.ms=-1"]).is_err());
    }
}
