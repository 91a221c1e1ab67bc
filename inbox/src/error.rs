//! The error of this crate.

use thiserror::Error;

use crate::idempotency::{KeyError, StoreError};

/// Error of this crate. Each call to a server returns it, or an error that becomes this one by `?`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of Kafka, or of a setting of its client.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] crate::kafka::Error),
    /// Error of PostgreSQL, or of the inbox's tables in it.
    #[cfg(feature = "tokio-postgres")]
    #[error(transparent)]
    Postgres(#[from] crate::postgres::Error),
    /// Error of the store of idempotency records or leases.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key, a scope or the name of a lease that cannot be stored.
    #[error("the key cannot be stored: {0}")]
    Key(#[from] KeyError),
    /// The key of a lease belongs to the record of a request.
    #[cfg(feature = "records")]
    #[error("the store has no lease under this name, but the record of a request")]
    NotALease,
    /// The fence of a lease is not the newest.
    #[cfg(all(feature = "records", feature = "tokio-postgres"))]
    #[error(transparent)]
    Fence(#[from] crate::lease::FenceError),
    /// Retry topics are configured with an option that needs the order of a key, which they do not keep.
    #[cfg(all(feature = "kafka", feature = "tokio-postgres"))]
    #[error(
        "retry topics need Dedupe::Ids and AfterDeadLetter::KeyGoesOn: they do not keep the order of a key"
    )]
    RetryTopics,
    /// A task of the consumer has ended by itself.
    #[cfg(all(feature = "kafka", feature = "tokio-postgres"))]
    #[error("a task of the consumer ended by itself")]
    Task(#[source] tokio::task::JoinError),
}
