use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::client_config::client_config;
use super::error::Error;
use super::options::Options;

/// Where a signal topic's signals are: Debezium reads no other partition.
const PARTITION: i32 = 0;

/// How long the brokers may take to say how far the group is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a topic of signals, from where its consumer group is.
pub(crate) struct SignalTopic {
    consumer: BaseConsumer,
    topic: String,
    /// What keeps it from being read, once that was told.
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
    /// Asks where the group is, and begins there; a new group begins at the topic's beginning. Blocks.
    ///
    /// # Errors
    /// When librdkafka refuses a setting or the brokers do not answer.
    pub(crate) fn open(options: &Options, topic: &str, group: &str) -> Result<Self, Error> {
        let mut config = client_config(options);
        config.set("group.id", group).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        let consumer: BaseConsumer = config.create().map_err(Error::settings)?;
        let mut places = TopicPartitionList::new();
        places.add_partition(topic, PARTITION);
        let unread = |error: KafkaError| Error::unread_tail(topic.to_owned(), &error);
        let committed = consumer.committed_offsets(places, PATIENCE).map_err(unread)?;
        let known = committed.find_partition(topic, PARTITION).map(|place| place.offset());
        let offset = match known {
            Some(Offset::Offset(offset)) => Offset::Offset(offset),
            _ => Offset::Beginning,
        };
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(topic, PARTITION, offset).map_err(unread)?;
        consumer.assign(&assignment).map_err(unread)?;
        Ok(Self { consumer, topic: topic.to_owned(), told: None })
    }

    /// The next record, if one comes within this time. Blocks.
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
                tell(&self.topic, &mut self.told, &error);
                None
            }
        }
    }

    /// The group has read a record: it is not read again. Blocks.
    ///
    /// # Errors
    /// When the brokers do not take it.
    pub(crate) fn commit(&self, record: &SignalRecord) -> Result<(), Error> {
        let unread = |error: KafkaError| Error::unread_tail(self.topic.clone(), &error);
        let mut places = TopicPartitionList::new();
        let next = Offset::Offset(record.offset.saturating_add(1));
        places.add_partition_offset(&self.topic, PARTITION, next).map_err(unread)?;
        self.consumer.commit(&places, CommitMode::Sync).map_err(unread)
    }
}

/// librdkafka tries again, and most heals by itself. What does not is told once: whoever sends a signal waits for it.
fn tell(topic: &str, told: &mut Option<Code>, error: &KafkaError) {
    let code = error.rdkafka_error_code();
    let to_fix = match code {
        Some(Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed) => {
            format!("kafka-acls.sh --add --allow-principal User:… --operation Read --topic {topic} --group …")
        }
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            format!("create the topic: kafka-topics.sh --create --topic {topic} --partitions 1")
        }
        _ => return tracing::debug!(%error, topic, "signals cannot be read now"),
    };
    if std::mem::replace(told, code) != code {
        tracing::warn!(%error, topic, to_fix, "no signal can be read from the topic");
    }
}

impl std::fmt::Debug for SignalTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalTopic").field("topic", &self.topic).finish_non_exhaustive()
    }
}
