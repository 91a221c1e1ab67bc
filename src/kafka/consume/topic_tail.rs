//! Reads a topic backwards from its end, in growing steps, until the caller has found its records.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::reader::{Reader, consumer};
use crate::connect::record::{Fingerprint, POSITION_HEADER};
use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::error::Error;
use crate::kafka::options::Options;

/// Asked for by the interface; nothing is assigned or committed through a group.
const GROUP_ID: &str = "outboxd";

/// Settings that bound the memory and the bytes in flight, and exclude aborted transactions.
const SETTINGS: [(&str, &str); 7] = [
    ("enable.auto.commit", "false"),
    ("enable.partition.eof", "true"),
    ("isolation.level", "read_committed"),
    // Only the end is requested, not further records.
    ("fetch.wait.max.ms", "10"),
    ("fetch.message.max.bytes", "262144"),
    ("queued.max.messages.kbytes", "4096"),
    ("queued.min.messages", "1000"),
];

/// Timeout of one request for the partitions and their ends.
const QUESTION: Duration = Duration::from_millis(2_000);

/// Longest time without a record while records are read.
const STALL: Duration = Duration::from_secs(5);

/// Interval in which it is checked whether the result is still needed.
const SLICE: Duration = Duration::from_millis(100);

/// Number of records of a partition that are read at first, and at most in one step.
const STEP_FIRST: i64 = 500;
const STEP_MAX: i64 = 32_000;

/// Number of foreign records of a partition in a row after which the search ends.
const FOREIGN_MAX: i64 = 10_000;

/// A record near the end of a topic.
#[derive(Debug)]
pub(crate) struct TailRecord<'m> {
    message: &'m BorrowedMessage<'m>,
}

/// Relevance of a record to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relevance {
    /// Foreign, or without a position.
    Foreign,
    /// Ours, and older than the wanted record.
    Old,
    /// Ours, and the wanted record.
    Recent,
}

/// The end of a topic: the last records of each of its partitions, read backwards in steps.
pub(crate) struct TopicTail {
    consumer: Reader,
    topic: String,
    partitions: Vec<Partition>,
}

#[derive(Debug)]
struct Partition {
    id: i32,
    /// Begin of the log.
    low: i64,
    /// Everything from here on was read,
    from: i64,
    /// up to here.
    next: i64,
    /// The oldest record of ours in the last step.
    oldest: Option<Relevance>,
    is_done: bool,
}

/// Range to read of a partition.
#[derive(Debug, Clone, Copy)]
struct Span {
    partition: i32,
    from: i64,
    /// End, exclusive; `None` is that of the log.
    until: Option<i64>,
}

impl TailRecord<'_> {
    /// Returns the text of the last header `outboxd.position`.
    #[must_use]
    pub(crate) fn position(&self) -> Option<&[u8]> {
        rdkafka_gaps::headers::of(self.message).filter(|header| header.key == POSITION_HEADER).last()?.value
    }

    /// Returns the fingerprint by which it is recognised.
    #[must_use]
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let headers = rdkafka_gaps::headers::of(self.message).map(|header| (header.key, header.value));
        Fingerprint::of(self.message.key(), self.message.payload(), headers)
    }
}

impl TopicTail {
    /// Requests the topic's partitions; an unknown topic has none. Blocks for some seconds at most.
    ///
    /// # Errors
    /// When the brokers do not answer, or deny access.
    pub(crate) fn open(options: &Options, topic: &str) -> Result<Self, Error> {
        let mut config = client_config(options);
        config.set("group.id", GROUP_ID);
        for (key, value) in SETTINGS {
            config.set(key, value);
        }
        let consumer = consumer(options, &config, &ConnectionFailures::default())?;
        let mut tail = Self { consumer, topic: topic.to_owned(), partitions: Vec::new() };
        tail.partitions = tail.partition_ids()?.into_iter().map(Partition::unread).collect();
        Ok(tail)
    }

    /// Returns the number of the topic's partitions.
    pub(crate) const fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Reads backwards, until each partition has shown an old record of outboxd's, or its beginning, or too
    /// many foreign ones. Records of one step come in their order. Reads about `records_max` at most, and
    /// none any more once the result is not needed.
    ///
    /// # Errors
    ///
    /// When the brokers deny access, or nothing arrives any more. Records already passed to `take` remain valid.
    pub(crate) fn read_back(
        &mut self,
        records_max: i64,
        wanted: impl Fn() -> bool,
        mut take: impl FnMut(&TailRecord<'_>) -> Relevance,
    ) -> Result<(), Error> {
        self.find_ends()?;
        let (mut step, mut left) = (STEP_FIRST, records_max);
        let mut seen = HashMap::<i32, bool>::new();
        loop {
            let unread = self.partitions.iter().filter(|partition| !partition.is_done);
            let spans: Vec<_> = unread.map(|partition| partition.span(step)).collect();
            left = left.saturating_sub(step.saturating_mul(i64::try_from(spans.len()).unwrap_or(i64::MAX)));
            if spans.is_empty() || left < 0 || !wanted() {
                return Ok(());
            }
            self.read(&spans, &wanted, &mut take)?;
            for span in &spans {
                let Some(partition) = self.partitions.iter_mut().find(|p| p.id == span.partition) else {
                    continue;
                };
                let ours = seen.entry(partition.id).or_default();
                *ours |= partition.oldest.is_some();
                partition.from = span.from;
                partition.is_done = partition.from <= partition.low
                    || partition.oldest.take() == Some(Relevance::Old)
                    || !*ours && partition.next.saturating_sub(partition.from) >= FOREIGN_MAX;
            }
            step = step.saturating_mul(4).min(STEP_MAX);
        }
    }

    /// Reads the records that were written since then.
    ///
    /// # Errors
    /// As [`Self::read_back`].
    pub(crate) fn read_on(
        &mut self,
        wanted: impl Fn() -> bool,
        mut take: impl FnMut(&TailRecord<'_>) -> Relevance,
    ) -> Result<(), Error> {
        let spans = self.partitions.iter();
        let spans: Vec<_> = spans.map(|p| Span { partition: p.id, from: p.next, until: None }).collect();
        if spans.is_empty() { Ok(()) } else { self.read(&spans, &wanted, &mut take) }
    }

    fn partition_ids(&self) -> Result<Vec<i32>, Error> {
        // A consumer's request does not create the topic.
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), QUESTION);
        let metadata = metadata.map_err(|error| self.failed(&error))?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        let code = topic.and_then(rdkafka::metadata::MetadataTopic::error).map(Code::from);
        if let Some(code) = code.filter(|code| is_forbidden(*code)) {
            return Err(self.failed(&KafkaError::MetadataFetch(code)));
        }
        Ok(topic.into_iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id()).collect())
    }

    fn find_ends(&mut self) -> Result<(), Error> {
        for index in 0..self.partitions.len() {
            let Some(id) = self.partitions.get(index).map(|partition| partition.id) else { continue };
            let ends = self.consumer.fetch_watermarks(&self.topic, id, QUESTION);
            let (low, end) = ends.map_err(|error| self.failed(&error))?;
            if let Some(partition) = self.partitions.get_mut(index) {
                (partition.low, partition.from, partition.next) = (low, end, end);
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        spans: &[Span],
        wanted: &impl Fn() -> bool,
        take: &mut impl FnMut(&TailRecord<'_>) -> Relevance,
    ) -> Result<(), Error> {
        self.assign(spans)?;
        let mut open: HashMap<i32, Span> = spans.iter().map(|span| (span.partition, *span)).collect();
        let (mut last, mut trouble) = (Instant::now(), None);
        while !open.is_empty() && wanted() {
            match self.consumer.poll(SLICE) {
                Some(Ok(message)) => {
                    last = Instant::now();
                    let (id, offset) = (message.partition(), message.offset());
                    let Some(span) = open.get(&id) else { continue };
                    if span.until.is_some_and(|until| offset >= until) {
                        // Further records are skipped. A paused partition stays paused over an assignment.
                        open.remove(&id);
                        continue;
                    }
                    let relevance = take(&TailRecord { message: &message });
                    if let Some(partition) = self.partitions.iter_mut().find(|p| p.id == id) {
                        partition.see(relevance, offset);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(id))) => {
                    last = Instant::now();
                    open.remove(&id);
                }
                Some(Err(error)) if error.rdkafka_error_code().is_some_and(is_forbidden) => {
                    return Err(self.failed(&error));
                }
                // Most heal by themselves, and librdkafka tries again.
                Some(Err(error)) => trouble = Some(error),
                None => {}
            }
            if last.elapsed() >= STALL {
                let error = trouble.unwrap_or(KafkaError::MessageConsumption(Code::OperationTimedOut));
                return Err(self.failed(&error));
            }
        }
        Ok(())
    }

    fn assign(&self, spans: &[Span]) -> Result<(), Error> {
        let mut assignment = TopicPartitionList::new();
        for span in spans {
            let offset = Offset::Offset(span.from);
            let added = assignment.add_partition_offset(&self.topic, span.partition, offset);
            added.map_err(|error| self.failed(&error))?;
        }
        self.consumer.assign(&assignment).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &KafkaError) -> Error {
        let forbidden = error.rdkafka_error_code().is_some_and(is_forbidden);
        Error::TopicTail { topic: self.topic.clone(), reason: error.to_string(), forbidden }
    }
}

impl Partition {
    const fn unread(id: i32) -> Self {
        Self { id, low: 0, from: 0, next: 0, oldest: None, is_done: false }
    }

    /// Returns the span of this number of records before what was read.
    fn span(&self, step: i64) -> Span {
        let until = (self.from < self.next).then_some(self.from);
        Span { partition: self.id, from: self.from.saturating_sub(step).max(self.low), until }
    }

    fn see(&mut self, relevance: Relevance, offset: i64) {
        if relevance != Relevance::Foreign {
            self.oldest.get_or_insert(relevance);
        }
        self.next = self.next.max(offset.saturating_add(1));
    }
}

const fn is_forbidden(code: Code) -> bool {
    matches!(code, Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed)
}

impl std::fmt::Debug for TopicTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicTail").field("topic", &self.topic).finish_non_exhaustive()
    }
}
