//! Disk work on a thread of its own.

use std::io;

use tokio::task::spawn_blocking;

/// Runs what waits for a disk on a thread of its own: the relay has only one, which streams.
pub(in crate::cleanup) async fn aside<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<io::Error> + Send + 'static,
{
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}
