use std::time::Duration;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::error::Error;
use super::topic_scan::{ScannedPartition, ScannedRecord, TopicScan, is_forbidden, unread};

/// How often it is looked whether anybody still wants the records.
const SLICE: Duration = Duration::from_millis(100);

impl TopicScan {
    /// Gives records to `take` as they are written, those of a partition in their order, until they are not wanted any more. It
    /// begins behind what was there when the topics were asked; with `from_the_front` where the scan begins. Brokers that are away are
    /// waited for. Blocks.
    ///
    /// # Errors
    /// When the brokers do not let us, or `take` fails.
    pub(crate) fn follow<E: From<Error>>(
        &self,
        from_the_front: bool,
        wanted: impl Fn() -> bool,
        mut take: impl FnMut(&ScannedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(first) = self.partitions().first().map(|partition| partition.topic.clone()) else {
            return Ok(());
        };
        self.assign_all(from_the_front).map_err(|error| unread(&first, &error))?;
        while wanted() {
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

    fn assign_all(&self, from_the_front: bool) -> Result<(), KafkaError> {
        let mut assignment = TopicPartitionList::new();
        for ScannedPartition { topic, id, from, end, .. } in self.partitions() {
            let offset = if from_the_front { *from } else { *end };
            assignment.add_partition_offset(topic, *id, Offset::Offset(offset))?;
        }
        self.consumer.assign(&assignment)
    }
}
