//! Leases: one at a time, until it stops giving signs of life.
//!
//! A lease is an idempotency record that is never completed, so it is kept in the same stores, with the same rules. It saves
//! work that would be done twice; it does not make that impossible. A worker that was stopped in the middle wakes up and does
//! its next step before it looks at any clock. What must not happen twice compares the *fence* at the place of the effect:
//! [`check_fence`] does so in a transaction of PostgreSQL.

#[cfg(feature = "tokio-postgres")]
mod fence;
mod leases;

#[cfg(feature = "tokio-postgres")]
pub use fence::{FenceError, check_fence};
pub use leases::{Acquired, Lease, Leases};

pub use crate::idempotency::LeaseLost;

#[doc(hidden)]
pub use crate::idempotency::LeaseLost as Lost;
/// The signal that a lease is lost.
pub use tokio_util::sync::CancellationToken;

/// The former name of [`crate::Error`].
#[deprecated(note = "use `outboxd_inbox::Error`")]
pub type Error = crate::Error;
