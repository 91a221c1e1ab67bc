use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::support::kafka::Kafka;

pub(crate) const PARTITIONS: i32 = 3;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// New topics, whose records are counted by their partitions' ends: nothing is read.
pub(crate) struct Topic {
    names: Vec<String>,
    consumer: BaseConsumer,
}

impl Topic {
    pub(crate) fn create(kafka: &Kafka, name: &str) -> Self {
        Self::create_all(kafka, vec![name.to_owned()])
    }

    /// Creates several topics.
    pub(crate) fn create_all(kafka: &Kafka, names: Vec<String>) -> Self {
        for name in &names {
            kafka.create_topic(name, PARTITIONS, &[]);
        }
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.bootstrap())
            .set("group.id", "compare")
            .create()
            .unwrap();
        Self { names, consumer }
    }

    /// Returns the name of the first topic.
    pub(crate) fn name(&self) -> &str {
        &self.names[0]
    }

    /// Records that the brokers have.
    pub(crate) fn count(&self) -> u64 {
        (0..self.names.len()).map(|index| self.count_of(index)).sum()
    }

    /// Returns the number of records of one topic.
    pub(crate) fn count_of(&self, index: usize) -> u64 {
        let end = |partition| {
            // A topic just made has partitions without a leader.
            let ends = self.consumer.fetch_watermarks(&self.names[index], partition, REQUEST_TIMEOUT);
            ends.map_or(0, |(_, end)| u64::try_from(end).unwrap_or_default())
        };
        (0..PARTITIONS).map(end).sum()
    }
}
