use thiserror::Error;

use crate::idempotency::{KeyError, StoreError};

/// Why a lease cannot be asked for.
#[derive(Debug, Error)]
pub enum Error {
    /// The name cannot be kept.
    #[error("the name of the lease cannot be kept: {0}")]
    Name(#[from] KeyError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Under the name there is something else.
    #[error("under this name the store has no lease, but the record of a request")]
    NotALease,
}
