use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaResult;
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use crate::core::PartitionId;

/// What Kafka has changed.
#[derive(Debug)]
pub(crate) enum Rebalanced {
    Assigned(PartitionId),
    Revoked(PartitionId),
}

/// What librdkafka's callbacks share with the loop. They run inside the loop's own wait for a record.
#[derive(Debug, Default)]
pub(crate) struct Context {
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    rebalanced: Vec<Rebalanced>,
    /// Up to where each partition has ended.
    ends: BTreeMap<PartitionId, i64>,
    /// A commit was refused, as Kafka does during a rebalance.
    commit_failed: bool,
}

impl Context {
    /// What has changed since it was last asked, in order.
    pub(crate) fn take_rebalanced(&self) -> Vec<Rebalanced> {
        std::mem::take(&mut self.lock().rebalanced)
    }

    /// Whether a commit was refused since this was last asked.
    pub(super) fn take_commit_failed(&self) -> bool {
        std::mem::take(&mut self.lock().commit_failed)
    }

    pub(super) fn set_commit_failed(&self) {
        self.lock().commit_failed = true;
    }

    /// To be committed when the partition is taken away.
    pub(crate) fn set_end(&self, id: &PartitionId, end: i64) {
        let mut shared = self.lock();
        match shared.ends.get_mut(id) {
            Some(known) => *known = end,
            None => drop(shared.ends.insert(id.clone(), end)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assigned(&self, list: &TopicPartitionList) {
        let mut shared = self.lock();
        shared.rebalanced.extend(ids(list).map(Rebalanced::Assigned));
    }

    /// What has ended is committed once more, so that the next consumer begins there.
    fn revoked(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let mut ends = TopicPartitionList::new();
        let mut shared = self.lock();
        for id in ids(list) {
            if let Some(end) = shared.ends.remove(&id) {
                add(&mut ends, &id, end);
            }
            shared.rebalanced.push(Rebalanced::Revoked(id));
        }
        drop(shared);
        if ends.count() > 0
            && !consumer.assignment_lost()
            && let Err(error) = consumer.commit(&ends, CommitMode::Async)
        {
            tracing::warn!(%error, "offsets are not committed: the next consumer is given some events again");
        }
    }
}

/// One more offset of a list.
pub(super) fn add(list: &mut TopicPartitionList, id: &PartitionId, end: i64) {
    // It refuses negative offsets, which no record has.
    list.add_partition_offset(&id.topic, id.partition, Offset::Offset(end)).ok();
}

fn ids(list: &TopicPartitionList) -> impl Iterator<Item = PartitionId> {
    list.elements()
        .into_iter()
        .map(|element| PartitionId { topic: Arc::from(element.topic()), partition: element.partition() })
}

impl ClientContext for Context {}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => self.assigned(list),
            Rebalance::Revoke(list) => self.revoked(consumer, list),
            Rebalance::Error(error) => tracing::warn!(%error, "a rebalance has failed"),
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::warn!(%error, "offsets are not committed yet");
            self.set_commit_failed();
        }
    }
}
