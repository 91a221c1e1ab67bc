use std::collections::HashSet;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::kafka::{TopicAnswer, TopicProbe};

/// How long one question about a topic may take.
const QUESTION: Duration = Duration::from_millis(500);

/// How long to wait until a topic that was absent is asked for again.
const INTERVAL: Duration = Duration::from_millis(50);

/// How long a topic may take to be made. Then its record is handed over, and librdkafka tells what is wrong.
const CREATION_PATIENCE: Duration = Duration::from_secs(5);

/// How many topics are remembered. With more, which a column of many values can name, each is asked for again.
const REMEMBERED_MAX: usize = 10_000;

/// The topics that records may be handed over for.
#[derive(Debug, Default)]
pub(super) struct SettledTopics(HashSet<String>);

impl SettledTopics {
    pub(super) fn contains(&self, topic: &str) -> bool {
        self.0.contains(topic)
    }

    pub(super) fn insert(&mut self, topic: String) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(topic);
    }
}

/// Waits until a topic is there. One that is there at the first question is taken as it is; of one that is just being
/// made each partition's leader must answer: librdkafka loses records for a partition that has none.
/// Brokers that are down are waited for.
pub(super) async fn settled(probe: &TopicProbe) {
    let mut absent_since = None;
    loop {
        match ask(probe.clone(), absent_since.is_some()).await {
            TopicAnswer::There => break,
            TopicAnswer::Silent => {}
            TopicAnswer::Absent => {
                let since = *absent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= CREATION_PATIENCE {
                    return;
                }
            }
        }
        sleep(INTERVAL).await;
    }
    if absent_since.is_some() {
        tracing::info!(topic = probe.topic(), "topic was made");
    }
}

async fn ask(probe: TopicProbe, leaders: bool) -> TopicAnswer {
    let asking =
        spawn_blocking(move || if leaders { probe.ask_leaders(QUESTION) } else { probe.ask(QUESTION) });
    asking.await.unwrap_or(TopicAnswer::Silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_settled_once_it_was_inserted() {
        let mut topics = SettledTopics::default();
        assert!(!topics.contains("a"));
        topics.insert("a".to_owned());
        topics.insert("b".to_owned());
        for topic in ["a", "b", "b", "a"] {
            assert!(topics.contains(topic), "{topic}");
        }
        assert!(!topics.contains("c"));
    }

    #[test]
    fn topics_without_end_are_not_remembered() {
        let mut topics = SettledTopics::default();
        for number in 0..=REMEMBERED_MAX {
            topics.insert(number.to_string());
            assert!(topics.contains(&number.to_string()) && topics.0.len() <= REMEMBERED_MAX);
        }
    }
}
