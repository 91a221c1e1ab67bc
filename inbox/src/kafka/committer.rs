//! Commits of offsets on a thread.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::consumer::{CommitMode, Consumer as _, StreamConsumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::context::InboxContext;
use super::group_offset::GroupOffset;
use crate::core::PartitionId;

/// Time limit for an answer from the brokers.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Committer of offsets, for a thread of its own.
///
/// rdkafka can commit without waiting, but never reports the result (rust-rdkafka#856). Kafka refuses commits during a
/// rebalance, so the result has to be waited for.
pub(crate) struct Committer<C: InboxContext> {
    pub(super) inner: Arc<StreamConsumer<C>>,
}

impl<C: InboxContext> Committer<C> {
    /// Returns those of these partitions for which the group has no offset any more: Kafka deletes it with the topic. Empty if Kafka
    /// does not answer.
    pub(crate) fn without_offset(&self, ids: &[PartitionId]) -> Vec<PartitionId> {
        let mut list = TopicPartitionList::new();
        for id in ids {
            list.add_partition(&id.topic, id.partition);
        }
        if ids.is_empty() {
            return Vec::new();
        }
        let Ok(committed) = self.inner.committed_offsets(list, ANSWER_WITHIN) else { return Vec::new() };
        let gone = |id: &&PartitionId| {
            let found = committed.find_partition(&id.topic, id.partition);
            found.is_some_and(|found| found.error().is_ok() && found.offset() == Offset::Invalid)
        };
        ids.iter().filter(gone).cloned().collect()
    }

    /// Commits up to these offsets. Returns whether Kafka has accepted them. Blocks until Kafka has answered; if it is
    /// unavailable, for up to the session timeout.
    pub(crate) fn commit<'i>(&self, ends: impl Iterator<Item = (&'i PartitionId, &'i GroupOffset)>) -> bool {
        let mut list = TopicPartitionList::new();
        ends.for_each(|(id, end)| end.add_to(&mut list, id));
        if list.count() == 0 {
            return true;
        }
        match self.inner.commit(&list, CommitMode::Sync) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "offsets are not committed yet");
                false
            }
        }
    }
}
