use std::sync::Arc;
use std::time::Duration;

use super::topic_creation::TopicCreation;
use crate::secret::Secret;

/// How Kafka is reached. Keys and values are librdkafka's; what our guarantees rest on is set by the producer itself
/// and cannot be overridden.
#[derive(Debug, Clone)]
pub struct Options {
    /// `bootstrap.servers`.
    pub bootstrap_servers: String,
    /// What `producer.*` and `rdkafka.*` say, translated to librdkafka's names. Values may be secrets.
    pub properties: Vec<(String, Secret)>,
    /// How long a start waits for the first broker to answer (`outboxd.connect.timeout.ms`, 5 s).
    pub connect_timeout: Duration,
    /// `topic.creation.*`: how topics are made that are not there; without it they are for the brokers to make.
    pub topic_creation: Option<Arc<TopicCreation>>,
}
