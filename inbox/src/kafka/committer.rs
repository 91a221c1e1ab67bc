use std::sync::Arc;

use rdkafka::consumer::{CommitMode, Consumer as _, StreamConsumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::context::{self, InboxContext};
use crate::core::PartitionId;

/// Commits offsets, on a thread of its own.
///
/// rdkafka has a way to commit without waiting, but never tells how that ends (rust-rdkafka#856). Kafka refuses commits during
/// a rebalance, so somebody must wait for the answer.
pub(crate) struct Committer<C: InboxContext> {
    pub(super) inner: Arc<StreamConsumer<C>>,
}

impl<C: InboxContext> Committer<C> {
    /// Commits up to these offsets; whether Kafka has accepted that. Blocks until it has answered, and when it is away for
    /// up to the session's timeout.
    pub(crate) fn commit<'i>(&self, ends: impl Iterator<Item = (&'i PartitionId, i64)>) -> bool {
        let mut list = TopicPartitionList::new();
        ends.for_each(|(id, end)| context::add(&mut list, id, end));
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
