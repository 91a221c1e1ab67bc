use std::io;

use tokio::task::spawn_blocking;

/// Does what waits for a disk on a thread that nobody else waits for: the relay has one only, and it streams.
pub(in crate::cleanup) async fn aside<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<io::Error> + Send + 'static,
{
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}
