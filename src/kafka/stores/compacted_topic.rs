//! The common part of the topics of this folder: one partition, and the last value of each key.

use std::ops::Range;
use std::time::Duration;

use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::reader::{LATE, Reader, code, partition_ids, reader, unreachable};
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::time::Time;
use crate::kafka::topics::administrator::Administrator;

/// The one partition that is used.
pub(in crate::kafka) const PARTITION: i32 = 0;

/// Distance from its end at which the topic is read at first, and the step by which it grows. The topic is
/// compacted, but not immediately.
const TAIL: i64 = 200;
const FURTHER: i64 = 16;

/// Most last values of a key that are stored while the topic is read.
const VALUES_MAX: usize = 64;

/// Settings with which the topic is created. Small segments, because the last one is never compacted.
const PROPERTIES: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")];

/// A compacted topic of one partition, in which each key has its last value.
#[derive(Debug, Clone)]
pub(in crate::kafka) struct CompactedTopic {
    pub(in crate::kafka) options: Options,
    pub(in crate::kafka) name: String,
    failures: ConnectionFailures,
}

impl CompactedTopic {
    pub(in crate::kafka) fn new(options: &Options, name: &str) -> Self {
        Self { options: options.clone(), name: name.to_owned(), failures: ConnectionFailures::default() }
    }

    /// Creates a consumer with this `isolation.level`.
    pub(in crate::kafka) fn reader(&self, isolation: &str) -> Result<Reader, Error> {
        reader(&self.options, isolation, &self.failures)
    }

    /// Returns the error for unreachable brokers, when that is why there was no answer within `patience`.
    pub(in crate::kafka) fn unreachable(&self, error: &KafkaError, patience: Duration) -> Option<Error> {
        unreachable(&self.options.bootstrap_servers, &self.failures, error, patience)
    }

    /// Creates the topic. Returns false if it exists already.
    pub(in crate::kafka) async fn make(&self, patience: Duration) -> KafkaResult<bool> {
        let admin = Administrator::new(&self.options, self.failures.clone())?;
        let mut topic = NewTopic::new(&self.name, 1, TopicReplication::Fixed(-1));
        topic.config = PROPERTIES.to_vec();
        let options = AdminOptions::new().request_timeout(Some(patience)).operation_timeout(Some(patience));
        match admin.client().await?.create_topics([&topic], &options).await?.into_iter().next() {
            Some(Err((_, Code::TopicAlreadyExists))) | None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err((_, code))) => Err(KafkaError::AdminOp(code)),
        }
    }

    /// Returns begin and end of the partition, as far as the consumer may see it; `None` when there is no
    /// such topic. Whether it exists is queried second: as the first request of a consumer it takes
    /// librdkafka a tenth of a second.
    pub(in crate::kafka) fn bounds(
        &self,
        consumer: &Reader,
        time: &Time<'_>,
    ) -> KafkaResult<Option<(i64, i64)>> {
        match time.insist(|slice| consumer.fetch_watermarks(&self.name, PARTITION, slice)) {
            Ok(bounds) => Ok(Some(bounds)),
            Err(error) if is_unknown(&error) && !self.is_there(consumer, time)? => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_there(&self, consumer: &Reader, time: &Time<'_>) -> KafkaResult<bool> {
        Ok(!time.insist(|slice| partition_ids(consumer, &self.name, slice))?.is_empty())
    }

    /// Returns the last values of a key, oldest first; `None` among them removes the key. Reads from the end
    /// of the topic backwards until there is one, so that what was written long before the last value may be
    /// missing.
    pub(in crate::kafka) fn last_values(
        &self,
        consumer: &Reader,
        offsets: Range<i64>,
        key: &[u8],
        time: &Time<'_>,
    ) -> KafkaResult<Vec<Option<Vec<u8>>>> {
        let mut distance = TAIL;
        loop {
            let from = offsets.end.saturating_sub(distance).max(offsets.start);
            let values = self.values_between(consumer, from..offsets.end, key, time)?;
            if !values.is_empty() || from == offsets.start {
                return Ok(values);
            }
            distance = distance.saturating_mul(FURTHER);
        }
    }

    /// Reads the values of the key at these offsets.
    fn values_between(
        &self,
        consumer: &Reader,
        offsets: Range<i64>,
        key: &[u8],
        time: &Time<'_>,
    ) -> KafkaResult<Vec<Option<Vec<u8>>>> {
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(&self.name, PARTITION, Offset::Offset(offsets.start))?;
        consumer.assign(&assignment)?;
        let (mut values, mut trouble) = (Vec::new(), None);
        loop {
            match consumer.poll(time.slice()) {
                Some(Ok(message)) => {
                    if message.key() == Some(key) {
                        if values.len() == VALUES_MAX {
                            values.remove(0);
                        }
                        values.push(message.payload().map(<[u8]>::to_vec));
                    }
                    // PartitionEOF would come a moment later. Records that are written from now on are not needed.
                    if message.offset() + 1 >= offsets.end {
                        return Ok(values);
                    }
                }
                None => {}
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(values),
                // A missing right to read does not heal until it is granted.
                Some(Err(error)) if is_forbidden(&error) => return Err(error),
                // Most others heal by themselves, and librdkafka tries again.
                Some(Err(error)) => trouble = Some(error),
            }
            if time.is_over() {
                return Err(trouble.unwrap_or(LATE));
            }
        }
    }
}

/// Returns whether the brokers do not know the topic, or its partition.
fn is_unknown(error: &KafkaError) -> bool {
    matches!(code(error), Some(Code::UnknownPartition | Code::UnknownTopic | Code::UnknownTopicOrPartition))
}

/// Returns whether the brokers deny access, or librdkafka cannot send the request. Waiting does not help.
pub(in crate::kafka) fn is_forbidden(error: &KafkaError) -> bool {
    matches!(code(error), Some(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed))
        || matches!(error, KafkaError::AdminOpCreation(_))
}

/// Returns the brokers' name of it.
pub(in crate::kafka) fn reason(error: &KafkaError) -> String {
    code(error).map_or_else(|| error.to_string(), |code| code.to_string())
}
