//! Kafka Connect's topic of source offsets (`offset.storage.topic`).

use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::{Message as _, Offset, TopicPartitionList};
use tokio::time::timeout;

use super::value_producer::ValueProducer;
use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::reader::{Reader, consumer};
use crate::kafka::error::Error;
use crate::kafka::options::Options;

/// Asked for by the interface; nothing is assigned or committed through a group.
const GROUP_ID: &str = "outboxd";

/// The compacted topic in which Connect stores its source offsets: the last value of a key counts, and a value of null
/// removes the key.
pub(crate) struct OffsetTopic {
    options: Options,
    name: String,
    producer: ValueProducer,
}

/// Value of a key in the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredValue {
    /// The value.
    pub bytes: Vec<u8>,
    /// The record's timestamp, in milliseconds since 1970.
    pub stored_at_ms: Option<i64>,
}

impl OffsetTopic {
    /// Sets up a producer of its own: a stored offset must neither wait behind records nor delay them. A
    /// write that is not acknowledged within `patience` is given up; a later one is newer.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub(crate) fn new(options: &Options, name: &str, patience: Duration) -> Result<Self, Error> {
        let settings = vec![
            ("message.timeout.ms", patience.as_millis().max(1).to_string()),
            ("enable.gapless.guarantee", "false".to_owned()),
            ("linger.ms", "0".to_owned()),
        ];
        let producer = ValueProducer::new(options, settings, None)?;
        Ok(Self { options: options.clone(), name: name.to_owned(), producer })
    }

    /// Returns its name.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the last value of a key, from the whole topic. Blocks for `patience` at most.
    ///
    /// # Errors
    /// When the topic does not exist or cannot be read to its end in time.
    pub(crate) fn read(&self, key: &[u8], patience: Duration) -> Result<Option<StoredValue>, Error> {
        let deadline = Instant::now() + patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        let failed = |error: KafkaError| self.unread(error.to_string());
        let consumer = self.consumer()?;
        let partitions = self.partitions(&consumer, left())?;
        let mut assignment = TopicPartitionList::new();
        for partition in &partitions {
            assignment.add_partition_offset(&self.name, *partition, Offset::Beginning).map_err(failed)?;
        }
        consumer.assign(&assignment).map_err(failed)?;
        let (mut last, mut ended, mut trouble) = (None, 0, None);
        while ended < partitions.len() {
            match consumer.poll(left()) {
                Some(Ok(message)) if message.key() == Some(key) => {
                    let stored_at_ms = message.timestamp().to_millis();
                    last = message.payload().map(|bytes| StoredValue { bytes: bytes.to_vec(), stored_at_ms });
                }
                Some(Ok(_)) => {}
                Some(Err(KafkaError::PartitionEOF(_))) => ended = ended.saturating_add(1),
                // Most heal by themselves, and librdkafka tries again.
                Some(Err(error)) => trouble = Some(error.to_string()),
                None => {}
            }
            if left().is_zero() && ended < partitions.len() {
                let reason = format!("it was not read to its end within {} s", patience.as_secs());
                return Err(self.unread(trouble.unwrap_or(reason)));
            }
        }
        Ok(last)
    }

    /// Stores a value under a key, in the partition that Connect's producer would choose.
    ///
    /// # Errors
    /// When it is not acknowledged in time.
    pub(crate) async fn write(&self, key: &[u8], value: &str, patience: Duration) -> Result<(), Error> {
        let sent = self.producer.send(&self.name, None, key, value.as_bytes());
        let sent = sent.map_err(|error| self.unwritten(&error))?;
        // librdkafka has its own timeout; the rest is for its report.
        match timeout(patience.saturating_mul(2), sent).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(error))) => Err(self.unwritten(&error)),
            Ok(Err(_)) | Err(_) => Err(self.unwritten(&"no answer")),
        }
    }

    fn consumer(&self) -> Result<Reader, Error> {
        let mut config = client_config(&self.options);
        config.set("group.id", GROUP_ID).set("enable.auto.commit", "false");
        // Reports the end of a partition also after aborted transactions.
        config.set("enable.partition.eof", "true");
        // Only the ends are requested, not further records.
        config.set("fetch.wait.max.ms", "10");
        consumer(&self.options, &config, &ConnectionFailures::default())
    }

    fn partitions(&self, consumer: &Reader, patience: Duration) -> Result<Vec<i32>, Error> {
        // A consumer's request does not create the topic.
        let metadata = consumer
            .fetch_metadata(Some(&self.name), patience)
            .map_err(|error| self.unread(error.to_string()))?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.name);
        let partitions: Vec<_> =
            topic.into_iter().flat_map(|topic| topic.partitions()).map(|p| p.id()).collect();
        if partitions.is_empty() {
            return Err(Error::NoOffsetTopic { topic: self.name.clone() });
        }
        Ok(partitions)
    }

    fn unread(&self, reason: String) -> Error {
        Error::OffsetTopic { doing: "read", topic: self.name.clone(), reason }
    }

    fn unwritten(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::OffsetTopic { doing: "written", topic: self.name.clone(), reason: reason.to_string() }
    }
}

impl std::fmt::Debug for OffsetTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OffsetTopic({})", self.name)
    }
}
