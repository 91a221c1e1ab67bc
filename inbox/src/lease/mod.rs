//! Leases: one holder at a time, until its heartbeats stop.
//!
//! A lease is an idempotency record that is never completed, so it is stored in the same stores, with the same rules. It saves work
//! that would be done twice; it does not make that impossible. A worker that was suspended in the middle resumes with its next step
//! before it reads any clock. An effect that must not happen twice has to compare the *fence* where it takes place: [`check_fence`]
//! does so in a transaction of PostgreSQL.

#[cfg(feature = "tokio-postgres")]
mod fence;
mod leases;

#[cfg(feature = "tokio-postgres")]
pub use fence::{FenceError, check_fence};
pub use leases::{Acquired, Lease, Leases};

pub use crate::idempotency::LeaseLost;

#[doc(hidden)]
pub use crate::idempotency::LeaseLost as Lost;
/// Signal of a lost lease.
pub use tokio_util::sync::CancellationToken;

/// Former name of [`crate::Error`].
#[deprecated(note = "use `outboxd_inbox::Error`")]
pub type Error = crate::Error;
