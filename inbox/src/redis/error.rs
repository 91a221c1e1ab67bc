use thiserror::Error;

/// What goes wrong between a service and Redis.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no connection.
    #[error("cannot connect to Redis")]
    Connect(#[source] redis::RedisError),
    /// A script failed, or its answer did not arrive.
    #[error("Redis does not run the script {script}")]
    Script {
        /// Its name.
        script: &'static str,
        /// What Redis or the connection says.
        #[source]
        source: redis::RedisError,
    },
}
