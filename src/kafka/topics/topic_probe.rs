//! Requests for one topic's metadata, which may create the topic.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::Producer as _;

use super::topic_refusal::{colliding_topic, collision};
use crate::kafka::produce::clients::Clients;

/// Asks about one topic. Asking blocks, so it can be cloned and moved to a thread that may.
#[derive(Clone)]
pub struct TopicProbe {
    clients: Arc<Clients>,
    topic: String,
}

/// Answer of the brokers for a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicAnswer {
    /// It exists. Or it has a fault that the producer will report better: then with no partitions.
    There {
        /// Number of its partitions.
        partitions: usize,
    },
    /// They do not know it, or do not lead its partitions yet. Where topics are created by their first use,
    /// this request creates it.
    Absent,
    /// No answer in time.
    Silent,
}

impl TopicProbe {
    pub(in crate::kafka) fn new(clients: Arc<Clients>, topic: &str) -> Self {
        Self { clients, topic: topic.to_owned() }
    }

    /// Returns the topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Requests its metadata from a broker. Blocks for `patience` at most.
    #[must_use]
    pub fn ask(&self, patience: Duration) -> TopicAnswer {
        self.partitions(patience)
            .map_or_else(|answer| answer, |ids| TopicAnswer::There { partitions: ids.len() })
    }

    /// Requests its metadata, and an answer from the leader of each partition: a topic is known before its logs
    /// are created. Blocks for `patience` at most, for each partition and once more.
    #[must_use]
    pub fn ask_leaders(&self, patience: Duration) -> TopicAnswer {
        let partitions = match self.partitions(patience) {
            Ok(partitions) => partitions,
            Err(answer) => return answer,
        };
        let client = self.clients.prompt().client();
        let leads = |partition: &i32| client.fetch_watermarks(&self.topic, *partition, patience).is_ok();
        let led = partitions.iter().all(leads);
        if led { TopicAnswer::There { partitions: partitions.len() } } else { TopicAnswer::Absent }
    }

    /// Returns why the brokers will not create the topic, if an existing one is the reason. Blocks for `patience` at most.
    #[must_use]
    pub fn collision(&self, patience: Duration) -> Option<String> {
        let other = colliding_topic(self.clients.prompt().client(), &self.topic, patience)?;
        Some(collision(&other))
    }

    fn partitions(&self, patience: Duration) -> Result<Vec<i32>, TopicAnswer> {
        let client = self.clients.prompt().client();
        let metadata = client.fetch_metadata(Some(&self.topic), patience).map_err(|_| TopicAnswer::Silent)?;
        let topic = metadata.topics().first().ok_or(TopicAnswer::Absent)?;
        match topic.error().map(Code::from) {
            None if topic.partitions().is_empty() => Err(TopicAnswer::Absent),
            None => Ok(topic.partitions().iter().map(rdkafka::metadata::MetadataPartition::id).collect()),
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::LeaderNotAvailable) => {
                Err(TopicAnswer::Absent)
            }
            Some(_) => Err(TopicAnswer::There { partitions: 0 }),
        }
    }
}

impl std::fmt::Debug for TopicProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicProbe").field("topic", &self.topic).finish_non_exhaustive()
    }
}
