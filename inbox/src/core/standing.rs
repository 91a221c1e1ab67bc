//! Figures of a topic's partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::partition::Standing;
use super::{Core, Tenure};

/// Figures of a topic's partitions that are assigned to this consumer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TopicStanding {
    /// Number of events in the table.
    pub(crate) parked: usize,
    /// Number of keys with an event in the table. Each event without a key counts as one.
    pub(crate) blocked: usize,
    /// Timestamp of the oldest event in memory that has not ended, in milliseconds since 1970.
    pub(crate) oldest_ms: Option<i64>,
}

impl Core {
    /// Returns the figures of each topic.
    pub(crate) fn standing(&self) -> BTreeMap<Arc<str>, TopicStanding> {
        let mut topics: BTreeMap<Arc<str>, TopicStanding> = BTreeMap::new();
        for (id, partition) in &self.partitions {
            let topic = topics.entry(Arc::clone(&id.topic)).or_default();
            let (blocked, oldest_ms) = partition.open();
            topic.parked += partition.parked_count;
            topic.blocked += blocked;
            topic.oldest_ms = topic.oldest_ms.into_iter().chain(oldest_ms).min();
        }
        topics
    }

    /// Returns the owned partitions with events in the table, which an operator may change, or all owned partitions if `all`.
    pub(crate) fn waiting(&self, all: bool) -> impl Iterator<Item = &Tenure> {
        let held = self.partitions.values().filter(|partition| partition.standing == Standing::Owned);
        held.filter(move |partition| all || partition.parked_count > 0).map(|partition| &partition.tenure)
    }

    /// Reports whether the partition is assigned and not taken again since.
    pub(crate) fn is_current(&self, tenure: &Tenure) -> bool {
        self.partitions.get(&tenure.partition).is_some_and(|partition| partition.tenure == *tenure)
    }

    /// Reports whether everything fails, so that only a few events at a time are tried.
    pub(crate) fn is_guard_tripped(&self) -> bool {
        self.guard.is_tripped()
    }
}
