use thiserror::Error;
use tokio_postgres::GenericClient;

use crate::idempotency::Fence;

/// Waits for the transaction of whoever had the row before, and compares what that one has left.
const SEEN: &str = "INSERT INTO fences AS seen (resource, fence) VALUES ($1, $2) \
     ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE seen.fence <= excluded.fence";

/// Why the effect may not take place.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder of the lease was here.
    #[error("a later holder of the lease was at {resource}: roll back")]
    Fenced {
        /// What was to be changed.
        resource: String,
    },
    /// PostgreSQL.
    #[error("PostgreSQL cannot compare the fence")]
    Postgres(#[source] tokio_postgres::Error),
}

/// Compares a fence with the greatest that this resource has seen, in the transaction of the effect, and remembers it. The
/// lease itself may be anywhere.
///
/// The row is locked until the transaction ends, so effects on one resource come one after the other.
///
/// # Errors
///
/// When it has seen a greater one, or PostgreSQL does not answer. Then the transaction must be rolled back.
pub async fn check_fence<C>(transaction: &C, resource: &str, fence: Fence) -> Result<(), FenceError>
where
    C: GenericClient + Sync,
{
    let written =
        transaction.execute(SEEN, &[&resource, &fence.get()]).await.map_err(FenceError::Postgres)?;
    match written {
        0 => Err(FenceError::Fenced { resource: resource.to_owned() }),
        _ => Ok(()),
    }
}
