//! Counts by topic.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::Metrics;
use super::labels::{Label, fixed, owned};

/// Most topics that get a series of their own. Later ones are counted together as `topic="other"`: a client
/// that writes rows chooses the topics, and must not choose the number of series that Prometheus stores.
pub(crate) const TOPIC_LABELS_MAX: usize = 200;

const TOPIC: &str = "topic";
const OTHER: &str = "other";

/// Count of a topic since the process started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicCount {
    pub(crate) topic: String,
    pub(crate) events: u64,
}

/// `outboxd_events_published_total` by topic.
#[derive(Debug, Default)]
pub(super) struct PublishedByTopic {
    pub(super) family: Family<Label, Counter>,
    named: Mutex<HashSet<Box<str>>>,
}

impl PublishedByTopic {
    /// Returns the topic's own counter, while there is room.
    fn named(&self, topic: &str) -> Option<Counter> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if !named.contains(topic) {
            if named.len() >= TOPIC_LABELS_MAX {
                return None;
            }
            named.insert(topic.into());
        }
        Some(self.family.get_or_create_owned(&owned(TOPIC, topic)))
    }

    fn other(&self) -> Counter {
        self.family.get_or_create_owned(&fixed(TOPIC, OTHER))
    }

    /// Returns the count of each named topic, and of the others together when there are some.
    pub(super) fn counts(&self) -> Vec<TopicCount> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let count =
            |topic: &str, counter: &Counter| TopicCount { topic: topic.to_owned(), events: counter.get() };
        let mut counts: Vec<_> = named
            .iter()
            .filter_map(|topic| Some(count(topic, &*self.family.get(&owned(TOPIC, topic))?)))
            .collect();
        if named.len() >= TOPIC_LABELS_MAX {
            counts.push(count(OTHER, &self.other()));
        }
        counts
    }
}

/// Counts published events by topic in the hot loop: a known topic costs one look-up and no allocation.
#[derive(Debug)]
pub struct TopicTally {
    metrics: Metrics,
    counters: HashMap<Box<str>, Counter>,
}

impl TopicTally {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { metrics, counters: HashMap::new() }
    }

    /// Counts events that the brokers acknowledged in `topic`.
    pub fn add(&mut self, topic: &str, events: u64) {
        if let Some(counter) = self.counters.get(topic) {
            counter.inc_by(events);
            return;
        }
        let published = self.metrics.published();
        match published.named(topic) {
            Some(counter) => {
                counter.inc_by(events);
                self.counters.insert(topic.into(), counter);
            }
            None => {
                published.other().inc_by(events);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConfigInfo;
    use super::*;

    #[test]
    fn later_topics_share_one_series() {
        let metrics = Metrics::new(&ConfigInfo::default());
        let mut tallies = [metrics.topic_tally(), metrics.topic_tally()];
        for topic in 0..TOPIC_LABELS_MAX + 50 {
            for tally in &mut tallies {
                tally.add(&format!("topic-{topic}"), 3);
            }
        }
        let text = metrics.encode().unwrap();
        let series = text.lines().filter(|line| line.starts_with("outboxd_events_published_total{")).count();
        assert_eq!(series, TOPIC_LABELS_MAX + 1);
        assert!(text.contains("outboxd_events_published_total{topic=\"topic-0\"} 6\n"));
        assert!(text.contains("outboxd_events_published_total{topic=\"other\"} 300\n"));
    }
}
