//! Rebalances of a consumer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::{ClientContext, TopicPartitionList};

use super::group_offset::GroupOffset;
use crate::core::PartitionId;

/// Change of the partitions that are assigned to this consumer.
#[derive(Debug)]
pub(crate) enum Rebalanced {
    Assigned(PartitionId),
    Revoked(PartitionId),
}

/// Rebalances, which librdkafka's callbacks report to the inbox. The callbacks run inside the client's wait for a record.
///
/// A context of the service's own contains one of these, returns it by [`AsRef`], and passes each rebalance to it:
///
/// ```
/// # use outboxd_inbox::kafka::Rebalances;
/// # use outboxd_inbox::rdkafka::ClientContext;
/// # use outboxd_inbox::rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
/// # #[derive(Default)]
/// # struct MyContext { rebalances: Rebalances }
/// # impl ClientContext for MyContext {}
/// impl ConsumerContext for MyContext {
///     fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
///         self.rebalances.notify(consumer, rebalance);
///     }
/// }
/// ```
#[derive(Debug, Default)]
pub struct Rebalances {
    shared: Mutex<Shared>,
    /// True after the first assignment.
    is_told: AtomicBool,
}

/// Context that passes each rebalance to the inbox: [`Context`], or one of the service's own.
pub trait InboxContext: ConsumerContext + AsRef<Rebalances> + 'static {}

impl<C: ConsumerContext + AsRef<Rebalances> + 'static> InboxContext for C {}

/// Context of a consumer that the inbox creates.
#[derive(Debug, Default)]
pub struct Context {
    rebalances: Rebalances,
}

#[derive(Debug, Default)]
struct Shared {
    rebalanced: Vec<Rebalanced>,
    /// Offset up to which each partition has ended.
    ends: BTreeMap<PartitionId, GroupOffset>,
}

impl Rebalances {
    /// Passes a rebalance to the inbox, before it takes place.
    pub fn notify<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => self.assigned(list),
            Rebalance::Revoke(list) => self.revoked(consumer, list),
            Rebalance::Error(error) => tracing::warn!(%error, "a rebalance has failed"),
        }
    }

    /// Passes a rebalance to the inbox, under the former name of [`Rebalances::notify`].
    #[deprecated(note = "renamed to `Rebalances::notify`")]
    pub fn report<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>, rebalance: &Rebalance<'_>) {
        self.notify(consumer, rebalance);
    }

    /// Reports whether any partition has been assigned yet.
    pub(super) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Returns the changes since the last call, in order.
    pub(crate) fn take_rebalanced(&self) -> Vec<Rebalanced> {
        std::mem::take(&mut self.lock().rebalanced)
    }

    /// Reports whether there are changes that `take_rebalanced` would return.
    pub(super) fn has_rebalanced(&self) -> bool {
        !self.lock().rebalanced.is_empty()
    }

    /// Sets the offsets that are committed when a partition is revoked.
    pub(super) fn set_ends(&self, ends: impl Iterator<Item = (PartitionId, GroupOffset)>) {
        let mut shared = self.lock();
        shared.ends.clear();
        shared.ends.extend(ends);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assigned(&self, list: &TopicPartitionList) {
        self.is_told.store(true, Ordering::Relaxed);
        let mut shared = self.lock();
        shared.rebalanced.extend(ids(list).map(Rebalanced::Assigned));
    }

    /// Commits the ends of the partitions once more, so that the next consumer begins there. Whether that succeeds is not
    /// reported: see `committer`.
    fn revoked<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>, list: &TopicPartitionList) {
        let mut ends = TopicPartitionList::new();
        let mut shared = self.lock();
        for id in ids(list) {
            if let Some(end) = shared.ends.remove(&id) {
                end.add_to(&mut ends, &id);
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

fn ids(list: &TopicPartitionList) -> impl Iterator<Item = PartitionId> {
    list.elements()
        .into_iter()
        .map(|element| PartitionId { topic: Arc::from(element.topic()), partition: element.partition() })
}

impl ClientContext for Context {}

impl AsRef<Rebalances> for Context {
    fn as_ref(&self) -> &Rebalances {
        &self.rebalances
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        self.rebalances.notify(consumer, rebalance);
    }
}
