use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::support::kafka::Kafka;

pub(crate) const PARTITIONS: i32 = 3;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A new topic, whose records are counted by its partitions' ends: nothing is read.
pub(crate) struct Topic {
    name: String,
    consumer: BaseConsumer,
}

impl Topic {
    pub(crate) fn create(kafka: &Kafka, name: &str) -> Self {
        kafka.create_topic(name, PARTITIONS, &[]);
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.bootstrap())
            .set("group.id", "compare")
            .create()
            .unwrap();
        Self { name: name.to_owned(), consumer }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Records that the brokers have.
    pub(crate) fn count(&self) -> u64 {
        let end = |partition| {
            // A topic just made has partitions without a leader.
            let ends = self.consumer.fetch_watermarks(&self.name, partition, REQUEST_TIMEOUT);
            ends.map_or(0, |(_, end)| u64::try_from(end).unwrap_or_default())
        };
        (0..PARTITIONS).map(end).sum()
    }
}
