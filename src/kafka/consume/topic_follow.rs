//! The continuation of a scan: records as they are written, also in new topics and partitions.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::topic_scan::{ScannedPartition, ScannedRecord, TopicScan, is_forbidden, unread};
use crate::kafka::error::Error;

/// Interval in which it is checked whether the records are still needed.
const SLICE: Duration = Duration::from_millis(100);

/// Interval between two searches for new topics and partitions.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

/// Timeout of such a search.
const QUESTION: Duration = Duration::from_secs(5);

impl TopicScan {
    /// Passes records to `take` as they are written, those of a partition in their order, until `take` ends it. It begins
    /// after the existing records, or with `from_the_front` where the scan begins. New topics that `follows` accepts, and
    /// new partitions, are read from their beginning. Waits for brokers that are down. Blocks.
    ///
    /// # Errors
    /// When the brokers deny access, or `take` fails.
    pub(crate) fn follow<E: From<Error>>(
        &self,
        from_the_front: bool,
        follows: impl Fn(&str) -> bool,
        wanted: impl Fn() -> bool,
        mut take: impl FnMut(&ScannedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = self.partitions().first().map(|partition| partition.topic.clone()).unwrap_or_default();
        self.assign_all(from_the_front).map_err(|error| unread(&first, &error))?;
        let known = self.partitions().iter().map(|partition| (partition.topic.clone(), partition.id));
        let (mut known, mut looked): (HashSet<_>, _) = (known.collect(), Instant::now());
        while wanted() {
            if looked.elapsed() >= LOOK_INTERVAL {
                if let Err(error) = self.take_up(&mut known, &follows) {
                    tracing::debug!(%error, "looking for new topics");
                }
                looked = Instant::now();
            }
            match self.consumer.poll(SLICE) {
                Some(Ok(message)) => take(&ScannedRecord { message: &message })?,
                Some(Err(error)) if error.rdkafka_error_code().is_some_and(is_forbidden) => {
                    return Err(unread(&first, &error).into());
                }
                // Ends of partitions; and most faults heal by themselves.
                Some(Err(error)) => tracing::debug!(%error, "following topics"),
                None => {}
            }
        }
        Ok(())
    }

    /// Reads new topics and partitions from their beginning.
    fn take_up(
        &self,
        known: &mut HashSet<(String, i32)>,
        follows: impl Fn(&str) -> bool,
    ) -> Result<(), KafkaError> {
        let metadata = self.consumer.fetch_metadata(None, QUESTION)?;
        let mut new = TopicPartitionList::new();
        for topic in metadata.topics().iter().filter(|topic| follows(topic.name())) {
            for partition in topic.partitions() {
                if known.insert((topic.name().to_owned(), partition.id())) {
                    new.add_partition_offset(topic.name(), partition.id(), Offset::Beginning)?;
                }
            }
        }
        if new.count() > 0 { self.consumer.incremental_assign(&new) } else { Ok(()) }
    }

    fn assign_all(&self, from_the_front: bool) -> Result<(), KafkaError> {
        let mut assignment = TopicPartitionList::new();
        for ScannedPartition { topic, id, from, end, .. } in self.partitions() {
            let offset = if from_the_front { *from } else { *end };
            assignment.add_partition_offset(topic, *id, Offset::Offset(offset))?;
        }
        // New partitions can be added to it.
        if assignment.count() > 0 { self.consumer.incremental_assign(&assignment) } else { Ok(()) }
    }
}
