//! Errors of Redis.

use thiserror::Error;

/// Error of the work with Redis.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be opened.
    #[error("cannot connect to Redis")]
    Connect(#[source] redis::RedisError),
    /// A script failed, or its result did not arrive.
    #[error("Redis does not run the script {script}")]
    Script {
        /// Name of the script.
        script: &'static str,
        /// Cause, as returned by Redis or the connection.
        #[source]
        source: redis::RedisError,
    },
}
