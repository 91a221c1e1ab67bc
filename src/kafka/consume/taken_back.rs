//! Detection of committed transactions that were aborted nevertheless: an operator has no other way to end a
//! transaction that Kafka has forgotten to end.

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::log_ends::LogEnd;
use crate::kafka::consume::reader::{Reader, reader};
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::time::Time;

/// Returns the first of these records, which are decided, that consumers of committed records do not find.
///
/// # Errors
/// When the brokers do not answer in time.
pub(in crate::kafka) fn taken_back(
    options: &Options,
    records: &[LogEnd],
    time: &Time<'_>,
) -> Result<Option<LogEnd>, Error> {
    for record in records {
        if !is_there(options, record, time)? {
            return Ok(Some(record.clone()));
        }
    }
    Ok(None)
}

/// Returns whether a record exists. Uses a consumer of its own: the end of a partition that another record
/// is in would be mistaken for that of this one's.
fn is_there(options: &Options, record: &LogEnd, time: &Time<'_>) -> Result<bool, Error> {
    let consumer = reader(options, "read_committed", &ConnectionFailures::default())?;
    let found = find(&consumer, record, time);
    found.map_err(|error| Error::unread_tail(record.topic.clone(), &error))
}

fn find(consumer: &Reader, record: &LogEnd, time: &Time<'_>) -> KafkaResult<bool> {
    let LogEnd { topic, partition, offset } = record;
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    consumer.assign(&assignment)?;
    let mut trouble = None;
    loop {
        match consumer.poll(time.slice()) {
            Some(Ok(message)) => return Ok(message.offset() == *offset),
            // Behind aborted records there may be nothing.
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(false),
            // Most heal by themselves, and librdkafka tries again.
            Some(Err(error)) => trouble = Some(error),
            None => {}
        }
        if time.is_over() {
            return Err(trouble.unwrap_or(KafkaError::MessageConsumption(Code::OperationTimedOut)));
        }
    }
}
