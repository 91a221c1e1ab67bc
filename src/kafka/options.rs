use std::time::Duration;

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
}
