//! The topic of signals, read from the offset of its consumer group.

use std::time::Duration;

use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::reader::{Reader, consumer};
use crate::kafka::error::{Error, signal_right};
use crate::kafka::options::Options;
use crate::kafka::tool_lines;

/// Partition of a signal topic's signals: Debezium reads no other.
const PARTITION: i32 = 0;

/// Time that the brokers may take to return the group's offset.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a topic of signals, from where its consumer group is.
pub(crate) struct SignalTopic {
    consumer: Reader,
    topic: String,
    /// Command line that creates the topic.
    create: String,
    /// Code of the failure that was last logged.
    told: Option<Code>,
}

/// A record of the topic.
#[derive(Debug)]
pub(crate) struct SignalRecord {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    offset: i64,
}

impl SignalTopic {
    /// Requests the group's offset, and begins there; a new group begins at the topic's beginning. Blocks.
    ///
    /// # Errors
    /// When librdkafka refuses a setting or the brokers do not answer.
    pub(crate) fn open(options: &Options, topic: &str, group: &str) -> Result<Self, Error> {
        let mut config = client_config(options);
        config.set("group.id", group).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        let consumer = consumer(options, &config, &ConnectionFailures::default())?;
        let mut places = TopicPartitionList::new();
        places.add_partition(topic, PARTITION);
        let unread = |error| unusable("read", topic, &error);
        let committed = consumer.committed_offsets(places, PATIENCE).map_err(unread)?;
        let known = committed.find_partition(topic, PARTITION).map(|place| place.offset());
        let offset = match known {
            Some(Offset::Offset(offset)) => Offset::Offset(offset),
            _ => Offset::Beginning,
        };
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(topic, PARTITION, offset).map_err(unread)?;
        consumer.assign(&assignment).map_err(unread)?;
        let create = tool_lines::topics_at(options, &format!("--create --topic {topic} --partitions 1"));
        Ok(Self { consumer, topic: topic.to_owned(), create, told: None })
    }

    /// Returns the next record, if one arrives within this time. Blocks.
    pub(crate) fn next(&mut self, within: Duration) -> Option<SignalRecord> {
        match self.consumer.poll(within)? {
            Ok(message) => {
                self.told = None;
                Some(SignalRecord {
                    key: message.key().map(<[u8]>::to_vec),
                    value: message.payload().map(<[u8]>::to_vec),
                    offset: message.offset(),
                })
            }
            Err(error) => {
                report(&self.topic, &self.create, &mut self.told, &error);
                None
            }
        }
    }

    /// Commits a record for the group, so that it is not read again. Blocks.
    ///
    /// # Errors
    /// When the brokers do not accept it.
    pub(crate) fn commit(&self, record: &SignalRecord) -> Result<(), Error> {
        let unread = |error| unusable("stored", &self.topic, &error);
        let mut places = TopicPartitionList::new();
        let next = Offset::Offset(record.offset.saturating_add(1));
        places.add_partition_offset(&self.topic, PARTITION, next).map_err(unread)?;
        self.consumer.commit(&places, CommitMode::Sync).map_err(unread)
    }
}

fn unusable(doing: &'static str, topic: &str, error: &KafkaError) -> Error {
    Error::SignalGroup { doing, topic: topic.to_owned(), reason: error.to_string() }
}

/// Logs an error once, unless it is transient: the sender of a signal waits for it. librdkafka tries
/// again.
fn report(topic: &str, create: &str, told: &mut Option<Code>, error: &KafkaError) {
    let code = error.rdkafka_error_code();
    let fix = match code {
        Some(Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed) => signal_right(topic),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            format!("create the topic: {create}")
        }
        _ => return tracing::debug!(%error, topic, "signals cannot be read now"),
    };
    if std::mem::replace(told, code) != code {
        tracing::warn!(%error, topic, fix, "cannot read signals from the topic");
    }
}

impl std::fmt::Debug for SignalTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalTopic").field("topic", &self.topic).finish_non_exhaustive()
    }
}
