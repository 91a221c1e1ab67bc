//! Commits of offsets on a thread.

use std::sync::Arc;

use rdkafka::consumer::{CommitMode, Consumer as _, StreamConsumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::context::{self, InboxContext};
use crate::core::PartitionId;

/// Committer of offsets, for a thread of its own.
///
/// rdkafka can commit without waiting, but never reports the result (rust-rdkafka#856). Kafka refuses commits during a
/// rebalance, so the result has to be waited for.
pub(crate) struct Committer<C: InboxContext> {
    pub(super) inner: Arc<StreamConsumer<C>>,
}

impl<C: InboxContext> Committer<C> {
    /// Commits up to these offsets. Returns whether Kafka has accepted them. Blocks until Kafka has answered; if it is
    /// unavailable, for up to the session timeout.
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
