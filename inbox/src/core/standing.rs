use std::collections::BTreeMap;
use std::sync::Arc;

use super::partition::Standing;
use super::{Core, Tenure};

/// How it stands with the partitions of a topic that this consumer holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TopicStanding {
    /// Events in the table.
    pub(crate) parked: usize,
    /// Keys of which an event waits in the table; events without a key count one by one.
    pub(crate) blocked: usize,
    /// When the oldest event in memory that has not ended was written, in milliseconds since 1970.
    pub(crate) oldest_ms: Option<i64>,
}

impl Core {
    /// How it stands with each topic.
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

    /// Returns the partitions with events in the table, which an operator may change, or all that are held.
    pub(crate) fn waiting(&self, all: bool) -> impl Iterator<Item = &Tenure> {
        let held = self.partitions.values().filter(|partition| partition.standing == Standing::Owned);
        held.filter(move |partition| all || partition.parked_count > 0).map(|partition| &partition.tenure)
    }

    /// Whether everything fails, so that a few events at a time are tried.
    pub(crate) fn is_guard_tripped(&self) -> bool {
        self.guard.is_tripped()
    }
}
