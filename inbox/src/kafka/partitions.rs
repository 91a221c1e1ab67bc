//! Queries for partitions.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::KafkaResult;
#[cfg(feature = "position")]
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::context::InboxContext;
use super::group_offset::GroupOffset;
use crate::core::PartitionId;

/// Time limit for an answer from the brokers.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Client for queries about partitions.
pub(crate) struct Partitions<C: InboxContext> {
    pub(super) inner: Arc<StreamConsumer<C>>,
}

impl<C: InboxContext> Clone for Partitions<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C: InboxContext> Partitions<C> {
    /// Returns the offset that the consumer group has committed. Blocks until a broker has answered.
    pub(crate) fn committed(&self, id: &PartitionId) -> KafkaResult<Option<GroupOffset>> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&id.topic, id.partition);
        let committed = self.inner.committed_offsets(list, ANSWER_WITHIN)?;
        Ok(committed.elements().first().and_then(GroupOffset::of))
    }

    /// Returns the current number of partitions of a topic. Blocks until a broker has answered.
    #[cfg(feature = "position")]
    pub(crate) fn count(&self, topic: &str) -> KafkaResult<i32> {
        let metadata = self.inner.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
        let counts = metadata.topics().iter().map(|topic| i32::try_from(topic.partitions().len()));
        // A broker that does not know the topic yet returns no partitions.
        let count = counts.filter_map(Result::ok).max().filter(|count| *count > 0);
        count.ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))
    }
}
