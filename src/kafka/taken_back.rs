//! Whether what was committed has been aborted all the same: an operator has no other way to end a transaction that Kafka
//! has forgotten to end.

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::log_ends::LogEnd;
use super::producer::client_config;
use super::stable_ends::unread;
use super::time::Time;
use super::{Error, Options};

/// Asked for by the interface; nothing is assigned or committed through a group.
const GROUP_ID: &str = "outboxd";

const SETTINGS: [(&str, &str); 5] = [
    ("group.id", GROUP_ID),
    ("enable.auto.commit", "false"),
    ("isolation.level", "read_committed"),
    // Behind aborted records there may be nothing.
    ("enable.partition.eof", "true"),
    ("fetch.wait.max.ms", "10"),
];

/// The first of these records, which are decided, that consumers of committed records do not find.
///
/// # Errors
/// When the brokers do not say in time.
pub(super) fn taken_back(
    options: &Options,
    records: &[LogEnd],
    time: &Time<'_>,
) -> Result<Option<LogEnd>, Error> {
    let mut config = client_config(options);
    for (key, value) in SETTINGS {
        config.set(key, value);
    }
    let consumer: BaseConsumer = config.create().map_err(Error::Settings)?;
    for record in records {
        if !is_there(&consumer, record, time).map_err(|error| unread(record.topic.clone(), &error))? {
            return Ok(Some(record.clone()));
        }
    }
    Ok(None)
}

fn is_there(consumer: &BaseConsumer, record: &LogEnd, time: &Time<'_>) -> KafkaResult<bool> {
    let LogEnd { topic, partition, offset } = record;
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    consumer.assign(&assignment)?;
    let mut trouble = None;
    loop {
        match consumer.poll(time.slice()) {
            // What is left over of the assignment before is not meant.
            Some(Ok(message)) if message.topic() != topic || message.partition() != *partition => {}
            Some(Ok(message)) => return Ok(message.offset() == *offset),
            Some(Err(KafkaError::PartitionEOF(id))) if id == *partition => return Ok(false),
            // Most heal by themselves, and librdkafka tries again.
            Some(Err(error)) => trouble = Some(error),
            None => {}
        }
        if time.is_over() {
            return Err(trouble.unwrap_or(KafkaError::MessageConsumption(Code::OperationTimedOut)));
        }
    }
}
