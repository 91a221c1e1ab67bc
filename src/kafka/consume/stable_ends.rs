//! The last stable offsets of partitions: the proof that consumers of committed records see a transaction.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::{Offset, TopicPartitionList};

use super::taken_back::taken_back;
use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::log_ends::LogEnd;
use crate::kafka::consume::reader::{Reader, partition_ids, serve_token};
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::time::Time;

/// Pause before partitions are queried again: the markers of a transaction are written within milliseconds,
/// or something is in their way.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Shortest timeout of a request, even when the time is nearly over: an answer is more precise than none.
const ANSWER_MIN: Duration = Duration::from_millis(500);

/// Most topics that are remembered in which nothing is left. With more, which a column of many values can
/// name, each is queried again.
const REMEMBERED_MAX: usize = 10_000;

/// Stable ends of partitions. Up to its last stable offset each transaction in a partition has ended, and
/// consumers of committed records see it.
pub(in crate::kafka) struct StableEnds {
    options: Options,
    /// Consumer of committed records.
    decided: Reader,
    /// Consumer of all records.
    all: Reader,
    /// Topics in which everything is decided that was there before our first transaction.
    settled: Mutex<HashSet<String>>,
}

impl StableEnds {
    pub(in crate::kafka) fn new(options: &Options) -> Result<Self, Error> {
        let consumer = |isolation: &str| {
            let mut config = client_config(options);
            config.set("isolation.level", isolation);
            config.create_with_context(ConnectionFailures::default()).map_err(Error::settings)
        };
        let (decided, all) = (consumer("read_committed")?, consumer("read_uncommitted")?);
        Ok(Self { options: options.clone(), decided, all, settled: Mutex::default() })
    }

    /// Returns the last record of each partition of a topic that is not known to be settled; none when there
    /// is no such topic.
    pub(in crate::kafka) fn unsettled(&self, topic: &str, patience: Duration) -> KafkaResult<Vec<LogEnd>> {
        if self.settled.lock().unwrap_or_else(PoisonError::into_inner).contains(topic) {
            return Ok(Vec::new());
        }
        // A token must be there before, and again when it was renewed.
        serve_token(&self.all);
        let mut question = TopicPartitionList::new();
        for partition in partition_ids(&self.all, topic, patience)? {
            question.add_partition_offset(topic, partition, Offset::End)?;
        }
        let answer = ask(&self.all, question, patience)?;
        let ends = answer.elements().into_iter().map(|end| {
            end.error()?;
            let Offset::Offset(next) = end.offset() else {
                return Err(KafkaError::OffsetFetch(Code::NoOffset));
            };
            Ok(LogEnd { topic: topic.to_owned(), partition: end.partition(), offset: next.saturating_sub(1) })
        });
        ends.collect()
    }

    /// Records that everything in the topic until now is decided.
    pub(in crate::kafka) fn settle(&self, topic: &str) {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if settled.len() >= REMEMBERED_MAX {
            settled.clear();
        }
        settled.insert(topic.to_owned());
    }

    /// Waits until these records are decided; those that are leave the list. Asks once at least.
    ///
    /// # Errors
    /// A record that is not decided in time, or the reason why this is unknown.
    pub(in crate::kafka) fn wait(&self, records: &mut Vec<LogEnd>, time: &Time<'_>) -> Result<(), Error> {
        let mut pause = PAUSE_MIN;
        loop {
            let answer = self.drop_decided(records, time.slice().max(ANSWER_MIN));
            let Some(LogEnd { topic, partition, .. }) = records.first() else { return Ok(()) };
            if time.is_over() {
                let (topic, partition) = (topic.clone(), *partition);
                return Err(match answer {
                    Ok(()) => Error::Undecided { topic, partition },
                    Err(error) => Error::unread_tail(topic, &error),
                });
            }
            if answer.is_err() {
                self.find_leaders(records, time);
            }
            // Nothing is assigned, so that no record comes.
            self.decided.poll(pause);
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    /// Returns the first of these records, which are decided, that was aborted.
    ///
    /// # Errors
    /// When the brokers do not answer in time.
    pub(in crate::kafka) fn taken_back(
        &self,
        records: &[LogEnd],
        time: &Time<'_>,
    ) -> Result<Option<LogEnd>, Error> {
        taken_back(&self.options, records, time)
    }

    /// Removes the decided records. A partition whose stable end is not returned is undecided.
    fn drop_decided(&self, records: &mut Vec<LogEnd>, patience: Duration) -> KafkaResult<()> {
        let mut question = TopicPartitionList::with_capacity(records.len());
        for LogEnd { topic, partition, .. } in &*records {
            question.add_partition_offset(topic, *partition, Offset::End)?;
        }
        let answer = ask(&self.decided, question, patience)?;
        let answers = answer.elements();
        let mut answers = answers.iter();
        records.retain(|record| {
            // In the order of the question.
            let end = answers
                .next()
                .filter(|end| end.topic() == record.topic && end.partition() == record.partition);
            !end.is_some_and(|end| matches!(end.offset(), Offset::Offset(next) if next > record.offset))
        });
        Ok(())
    }

    /// Requests the leaders: while librdkafka tries to reach a leader that is gone, it does not request the
    /// new one.
    fn find_leaders(&self, records: &[LogEnd], time: &Time<'_>) {
        let topics: BTreeSet<&str> = records.iter().map(|record| record.topic.as_str()).collect();
        for topic in topics {
            // The answer is for librdkafka, which requests it again with the records if it is missing.
            if time.is_over() || self.decided.fetch_metadata(Some(topic), time.slice()).is_err() {
                return;
            }
        }
    }
}

fn ask(
    consumer: &Reader,
    question: TopicPartitionList,
    patience: Duration,
) -> KafkaResult<TopicPartitionList> {
    if question.count() == 0 {
        return Ok(question);
    }
    // Nothing is assigned: only messages of librdkafka itself arrive, and would accumulate.
    while consumer.poll(Duration::ZERO).is_some() {}
    consumer.offsets_for_times(question, patience)
}
