//! Checks of fences.

use thiserror::Error;
use tokio_postgres::GenericClient;

use crate::idempotency::Fence;

/// Statement that stores a fence unless a greater one is stored. It waits for the transaction that has locked the row.
const SEEN: &str = "INSERT INTO fences AS seen (resource, fence) VALUES ($1, $2) \
     ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE seen.fence <= excluded.fence";

/// Error of checking a fence. The effect must not take place.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder of the lease has used the resource.
    #[error("a later holder of the lease was at {resource}: roll back")]
    Fenced {
        /// Name of the resource.
        resource: String,
    },
    /// PostgreSQL cannot compare the fence.
    #[error("PostgreSQL cannot compare the fence")]
    Postgres(#[source] tokio_postgres::Error),
}

/// Compares a fence with the greatest one stored for this resource, in the transaction of the effect, and stores it. The lease
/// itself may be in any store.
///
/// The row is locked until the transaction ends, so effects on one resource come one after the other.
///
/// # Errors
///
/// Fails if a greater fence is stored, or PostgreSQL does not answer. The transaction must then be rolled back.
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
