use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::Producer as _;

use super::clients::Clients;
use super::topic_refusal::{colliding_topic, collision};

/// Asks about one topic. Asking blocks, so it can be cloned and moved to a thread that may.
#[derive(Clone)]
pub struct TopicProbe {
    clients: Arc<Clients>,
    topic: String,
}

/// What the brokers say of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicAnswer {
    /// It is there. Or there is something about it that the producer will tell better: then with no partitions.
    There {
        /// How many it has.
        partitions: usize,
    },
    /// They do not know it, or do not lead its partitions yet. Where topics are made by their first use, asking makes it.
    Absent,
    /// No answer in time.
    Silent,
}

impl TopicProbe {
    pub(super) fn new(clients: Arc<Clients>, topic: &str) -> Self {
        Self { clients, topic: topic.to_owned() }
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Whether a broker knows it. Blocks for `patience` at most.
    #[must_use]
    pub fn ask(&self, patience: Duration) -> TopicAnswer {
        self.partitions(patience)
            .map_or_else(|answer| answer, |ids| TopicAnswer::There { partitions: ids.len() })
    }

    /// Whether also the leader of each partition answers for it: a topic is known before its logs are made. Blocks for
    /// `patience` at most, for each partition and once more.
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

    /// Returns why the brokers will not make the topic, if an existing one is the reason. Blocks for `patience` at most.
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
