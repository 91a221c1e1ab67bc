//! Errors of Kafka.

use rdkafka::error::KafkaError;
use thiserror::Error;

/// Error of the connection between the inbox and Kafka.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Setting of the consumer that the inbox does not support.
    #[error("{name}={value} cannot be used: {reason}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// Reason for the refusal.
        reason: &'static str,
    },
    /// Consumer that is created outside of a tokio runtime, which the Kafka client needs.
    #[error("a consumer is made outside of a tokio runtime")]
    NoRuntime(#[source] tokio::runtime::TryCurrentError),
    /// Configuration that librdkafka refuses.
    #[error("the Kafka client cannot be made")]
    Create(#[source] KafkaError),
    /// Failed subscription to the topics.
    #[error("cannot subscribe")]
    Subscribe(#[source] KafkaError),
    /// Context of the service that does not pass rebalances to the inbox.
    #[error(
        "records come although no partition is assigned: the consumer's context does not call Rebalances::notify"
    )]
    NotTold,
    /// Permanent failure of the consumer.
    #[error("cannot read from Kafka any more")]
    Read(#[source] KafkaError),
}
