use rdkafka::error::KafkaError;
use thiserror::Error;

/// What goes wrong between the inbox and Kafka.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the consumer that the inbox cannot work with.
    #[error("{name}={value} cannot be used: {reason}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// Why not.
        reason: &'static str,
    },
    /// The Kafka client needs tokio.
    #[error("a consumer is made outside of a tokio runtime")]
    NoRuntime(#[source] tokio::runtime::TryCurrentError),
    /// librdkafka does not take the configuration.
    #[error("the Kafka client cannot be made")]
    Create(#[source] KafkaError),
    /// The topics cannot be subscribed to.
    #[error("cannot subscribe")]
    Subscribe(#[source] KafkaError),
    /// A context of the service's own keeps the rebalances for itself.
    #[error(
        "records come although no partition is assigned: the consumer's context does not call Rebalances::notify"
    )]
    NotTold,
    /// The consumer has ended for good.
    #[error("cannot read from Kafka any more")]
    Read(#[source] KafkaError),
}
