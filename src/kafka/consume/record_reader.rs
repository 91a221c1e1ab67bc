//! Reads single records by partition and offset.

use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::reader::{LATE, Reader, reader};
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::time::Time;

/// Timeout of reading a record.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most records that are skipped instead of seeking.
const PASSED_OVER_MAX: i64 = 500;

/// Reader of single committed records by their offsets. Consecutive records need no seek.
pub(crate) struct RecordReader {
    consumer: Reader,
    /// Topic, partition and offset of the next record without a seek.
    next: Option<(String, i32, i64)>,
}

/// A record as it lies in its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    /// Its timestamp, set by the producer or by the broker, in milliseconds since 1970.
    pub(crate) timestamp_ms: Option<i64>,
    /// The key; `None` is Kafka's null.
    pub(crate) key: Option<Vec<u8>>,
    /// The value; `None` is Kafka's null.
    pub(crate) value: Option<Vec<u8>>,
    /// The headers, in wire order.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl RecordReader {
    /// Sets the consumer up, without a request to a broker.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let consumer = reader(options, "read_committed", &ConnectionFailures::default())?;
        Ok(Self { consumer, next: None })
    }

    /// Returns the record at this place; none when it does not exist any more. Blocks.
    ///
    /// # Errors
    /// When the brokers deny access, or do not answer.
    pub(crate) fn read(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        stop: &CancellationToken,
    ) -> Result<Option<StoredRecord>, Error> {
        let found = self.find(topic, partition, offset, &Time::new(PATIENCE, stop));
        found.map_err(|error| Error::unread_tail(topic.to_owned(), &error))
    }

    fn find(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        time: &Time<'_>,
    ) -> KafkaResult<Option<StoredRecord>> {
        if !self.is_near(topic, partition, offset) {
            let mut assignment = TopicPartitionList::new();
            assignment.add_partition_offset(topic, partition, Offset::Offset(offset))?;
            self.consumer.assign(&assignment)?;
        }
        self.next = None;
        let mut trouble = None;
        loop {
            match self.consumer.poll(time.slice()) {
                Some(Ok(message)) if message.offset() < offset => {}
                // The next request may be for a skipped record.
                Some(Ok(message)) if message.offset() > offset => return Ok(None),
                Some(Ok(message)) => {
                    self.next = Some((topic.to_owned(), partition, offset.saturating_add(1)));
                    return Ok(Some(StoredRecord::of(&message)));
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(None),
                // Most heal by themselves, and librdkafka tries again.
                Some(Err(error)) => trouble = Some(error),
                None => {}
            }
            if time.is_over() {
                return Err(trouble.unwrap_or(LATE));
            }
        }
    }

    fn is_near(&self, topic: &str, partition: i32, offset: i64) -> bool {
        self.next.as_ref().is_some_and(|(at_topic, at_partition, at)| {
            let distance = offset.saturating_sub(*at);
            at_topic == topic && *at_partition == partition && (0..=PASSED_OVER_MAX).contains(&distance)
        })
    }
}

impl StoredRecord {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        Self {
            timestamp_ms: message.timestamp().to_millis(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: rdkafka_gaps::headers::of(message)
                .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

impl std::fmt::Debug for RecordReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordReader").field("next", &self.next).finish_non_exhaustive()
    }
}
