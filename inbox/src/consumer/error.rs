use thiserror::Error;

/// Why a consumer has ended.
#[derive(Debug, Error)]
pub enum Error {
    /// Kafka.
    #[error(transparent)]
    Kafka(#[from] crate::kafka::Error),
    /// PostgreSQL, at the start.
    #[error(transparent)]
    Postgres(#[from] crate::postgres::Error),
    /// Retry topics keep no order.
    #[error(
        "retry topics need Dedupe::Ids and AfterDeadLetter::KeyGoesOn: they do not keep the order of a key"
    )]
    RetryTopics,
    /// The process that this consumer needs is over.
    #[error("a task of the consumer ended by itself")]
    Task(#[source] tokio::task::JoinError),
}
