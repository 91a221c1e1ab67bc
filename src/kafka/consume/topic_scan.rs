//! Reads topics once, from the front or a time to their present ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Timestamp};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::reader::{Reader, consumer, partition_ids, unreachable};
use crate::connect::record::{Header, ID_HEADER, POSITION_HEADER};
use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::error::Error;
use crate::kafka::options::Options;

/// Settings that bound the memory, and exclude aborted transactions.
const SETTINGS: [(&str, &str); 10] = [
    // Asked for by the interface; nothing is assigned or committed through a group.
    ("group.id", "outboxd"),
    ("enable.auto.commit", "false"),
    ("enable.partition.eof", "true"),
    ("isolation.level", "read_committed"),
    ("fetch.message.max.bytes", "1048576"),
    ("fetch.max.bytes", "8388608"),
    // Not more than the line before sets. A larger record arrives all the same, up to the next setting.
    ("message.max.bytes", "8388608"),
    ("receive.message.max.bytes", "1000000000"),
    ("queued.max.messages.kbytes", "16384"),
    ("check.crcs", "true"),
];

/// Timeout of one request for partitions and offsets.
const QUESTION: Duration = Duration::from_secs(10);

/// Longest time without a record while records are read.
const STALL: Duration = Duration::from_secs(30);

/// Interval in which it is checked whether the records are still needed.
const SLICE: Duration = Duration::from_millis(100);

/// Everything that some topics have now, read once from the front.
pub(crate) struct TopicScan {
    pub(in crate::kafka) consumer: Reader,
    servers: String,
    failures: ConnectionFailures,
    partitions: Vec<ScannedPartition>,
}

/// A partition that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScannedPartition {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub id: i32,
    /// The first offset that is still there.
    pub low: i64,
    /// The first offset that is read.
    pub from: i64,
    /// The offset after the last one that is read.
    pub end: i64,
}

/// A record of a topic.
#[derive(Debug)]
pub(crate) struct ScannedRecord<'m> {
    pub(in crate::kafka) message: &'m BorrowedMessage<'m>,
}

impl ScannedRecord<'_> {
    /// Returns the topic.
    #[must_use]
    pub(crate) fn topic(&self) -> &str {
        self.message.topic()
    }

    /// Returns the partition.
    #[must_use]
    pub(crate) fn partition(&self) -> i32 {
        self.message.partition()
    }

    /// Returns the offset.
    #[must_use]
    pub(crate) fn offset(&self) -> i64 {
        self.message.offset()
    }

    /// Returns the key.
    #[must_use]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.message.key()
    }

    /// Returns the value.
    #[must_use]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.message.payload()
    }

    /// Returns the headers, in wire order.
    pub(crate) fn headers(&self) -> impl Iterator<Item = Header<'_>> {
        let headers = rdkafka_gaps::headers::of(self.message);
        headers.map(|header| Header { name: header.key, value: header.value })
    }

    /// Returns the event's id, from the header `id`.
    #[must_use]
    pub(crate) fn event_id(&self) -> Option<&[u8]> {
        self.headers().find(|header| header.name == ID_HEADER)?.value
    }

    /// Returns the text of the last header `outboxd.position`.
    #[must_use]
    pub(crate) fn position(&self) -> Option<&[u8]> {
        self.headers().filter(|header| header.name == POSITION_HEADER).last()?.value
    }

    /// Returns the timestamp of its producer, in milliseconds since 1970; none when the broker has set its
    /// own.
    #[must_use]
    pub(crate) fn created_ms(&self) -> Option<i64> {
        match self.message.timestamp() {
            Timestamp::CreateTime(millis) => Some(millis),
            Timestamp::LogAppendTime(_) | Timestamp::NotAvailable => None,
        }
    }

    /// Returns its timestamp, set by the producer or by the broker.
    #[must_use]
    pub(crate) fn timestamp_ms(&self) -> Option<i64> {
        self.message.timestamp().to_millis()
    }
}

impl TopicScan {
    /// Requests the begin and the end of the topics. What is written later is not read. With `since_ms` it
    /// begins at the first record that has this timestamp or a later one. A topic that does not exist has no
    /// partitions. Blocks.
    ///
    /// # Errors
    /// When the brokers do not answer, or deny access.
    pub(crate) fn open(options: &Options, topics: &[String], since_ms: Option<i64>) -> Result<Self, Error> {
        let mut config = client_config(options);
        for (key, value) in SETTINGS {
            config.set(key, value);
        }
        let failures = ConnectionFailures::default();
        let consumer = consumer(options, &config, &failures)?;
        let servers = options.bootstrap_servers.clone();
        let mut scan = Self { consumer, servers, failures, partitions: Vec::new() };
        for topic in topics {
            let ids = partition_ids(&scan.consumer, topic, QUESTION);
            for id in ids.map_err(|error| scan.failed(topic, &error))? {
                let watermarks = scan.consumer.fetch_watermarks(topic, id, QUESTION);
                let (low, end) = watermarks.map_err(|error| scan.failed(topic, &error))?;
                scan.partitions.push(ScannedPartition { topic: topic.clone(), id, low, from: low, end });
            }
        }
        if let Some(since_ms) = since_ms {
            scan.begin_at(since_ms)?;
        }
        Ok(scan)
    }

    /// Returns the partitions to read.
    #[must_use]
    pub(crate) fn partitions(&self) -> &[ScannedPartition] {
        &self.partitions
    }

    /// Passes every record to `take`, topic by topic, those of a partition in their order. Ends early once
    /// they are not wanted any more. Blocks.
    ///
    /// # Errors
    /// When the brokers deny access, nothing arrives any more, or `take` fails.
    pub(crate) fn read<E: From<Error>>(
        &self,
        wanted: impl Fn() -> bool,
        mut take: impl FnMut(&ScannedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for partitions in self.partitions.chunk_by(|one, other| one.topic == other.topic) {
            self.read_topic(partitions, &wanted, &mut take)?;
        }
        Ok(())
    }

    /// Reads one topic at a time, because the end of a partition is reported by its number alone.
    fn read_topic<E: From<Error>>(
        &self,
        partitions: &[ScannedPartition],
        wanted: &impl Fn() -> bool,
        take: &mut impl FnMut(&ScannedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(ScannedPartition { topic, .. }) = partitions.first() else { return Ok(()) };
        let mut open = self.assign(partitions).map_err(|error| unread(topic, &error))?;
        let (mut last, mut trouble) = (Instant::now(), None);
        while !open.is_empty() && wanted() {
            match self.consumer.poll(SLICE) {
                Some(Ok(message)) => {
                    last = Instant::now();
                    let (id, offset) = (message.partition(), message.offset());
                    let Some(end) = open.get(&id).copied() else { continue };
                    if offset < end {
                        take(&ScannedRecord { message: &message })?;
                    }
                    if offset.saturating_add(1) >= end {
                        open.remove(&id);
                    }
                }
                // Behind the last record may be the marker of a transaction.
                Some(Err(KafkaError::PartitionEOF(id))) => {
                    last = Instant::now();
                    open.remove(&id);
                }
                Some(Err(error)) if error.rdkafka_error_code().is_some_and(is_forbidden) => {
                    return Err(unread(topic, &error).into());
                }
                // Most heal by themselves, and librdkafka tries again.
                Some(Err(error)) => trouble = Some(error),
                None => {}
            }
            if last.elapsed() >= STALL {
                let error = trouble.unwrap_or(KafkaError::MessageConsumption(Code::OperationTimedOut));
                return Err(self.failed(topic, &error).into());
            }
        }
        Ok(())
    }

    fn begin_at(&mut self, since_ms: i64) -> Result<(), Error> {
        let mut question = TopicPartitionList::with_capacity(self.partitions.len());
        for ScannedPartition { topic, id, .. } in &self.partitions {
            let added = question.add_partition_offset(topic, *id, Offset::Offset(since_ms));
            added.map_err(|error| unread(topic, &error))?;
        }
        let Some(first) = self.partitions.first().map(|partition| partition.topic.clone()) else {
            return Ok(());
        };
        let answer = self
            .consumer
            .offsets_for_times(question, QUESTION)
            .map_err(|error| self.failed(&first, &error))?;
        for partition in &mut self.partitions {
            let found = answer.find_partition(&partition.topic, partition.id);
            partition.from = match found.map(|element| element.offset()) {
                Some(Offset::Offset(offset)) => offset.clamp(partition.low, partition.end.max(partition.low)),
                // Nothing is as young.
                Some(Offset::End) => partition.end,
                _ => partition.low,
            };
        }
        Ok(())
    }

    /// Begins to read. The partitions that have something to be read, each with its end.
    fn assign(&self, partitions: &[ScannedPartition]) -> KafkaResult<HashMap<i32, i64>> {
        let (mut assignment, mut open) = (TopicPartitionList::new(), HashMap::new());
        for ScannedPartition { topic, id, from, end, .. } in partitions {
            if from < end {
                assignment.add_partition_offset(topic, *id, Offset::Offset(*from))?;
                open.insert(*id, *end);
            }
        }
        self.consumer.assign(&assignment)?;
        Ok(open)
    }
}

impl TopicScan {
    /// Makes the error of a request for a topic that failed.
    fn failed(&self, topic: &str, error: &KafkaError) -> Error {
        let away = unreachable(&self.servers, &self.failures, error, QUESTION);
        away.unwrap_or_else(|| unread(topic, error))
    }
}

pub(in crate::kafka) fn unread(topic: &str, error: &KafkaError) -> Error {
    let forbidden = error.rdkafka_error_code().is_some_and(is_forbidden);
    Error::Unread { topic: topic.to_owned(), reason: error.to_string(), forbidden }
}

pub(in crate::kafka) const fn is_forbidden(code: Code) -> bool {
    matches!(code, Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed)
}

impl std::fmt::Debug for TopicScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicScan").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}
