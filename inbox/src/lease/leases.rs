//! Leases for a service's own work.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::idempotency::{
    BeginOutcome, BeginRequest, Claim, Fence, Fingerprint, FinishOutcome, Hold, Key, LeaseLost, Outcome,
    Owner, Store,
};

/// Default time that a lease lasts after the last heartbeat.
const DURATION: Duration = Duration::from_secs(30);

/// Time for which the record of a lease is stored. Fences grow after that too.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// Maximum pause between two checks of a lease that another owner holds. It may be released at any time.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Leases of one scope in a store.
#[derive(Debug)]
pub struct Leases<S> {
    store: Arc<S>,
    scope: Arc<str>,
    duration: Duration,
}

/// Result of trying to acquire a lease.
#[derive(Debug)]
pub enum Acquired<S: Store> {
    /// The lease was acquired.
    Held(Lease<S>),
    /// Another owner holds the lease. The work is *not* done yet: a message must not be acknowledged for this.
    Busy {
        /// Time until the lease ends at the latest, unless its owner sends heartbeats.
        left: Duration,
    },
}

impl<S: Store> Leases<S> {
    /// Creates leases in this store. The scope separates services.
    #[must_use]
    pub fn new(store: S, scope: &str) -> Self {
        Self { store: Arc::new(store), scope: format!("lease/{scope}").into(), duration: DURATION }
    }

    /// Sets the time that a lease lasts after the last heartbeat, 30 s by default. Three heartbeats are sent within that time, and
    /// the work is stopped when a fifth of it is left.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Sets the duration; former name of [`Leases::duration`].
    #[deprecated(note = "renamed to `Leases::duration`")]
    #[must_use]
    pub fn lasts(self, duration: Duration) -> Self {
        self.duration(duration)
    }

    /// Tries once to acquire a lease.
    ///
    /// # Errors
    ///
    /// Fails if the name cannot be stored or belongs to the record of a request, or if the store does not answer. If the store
    /// acquired the lease nevertheless, it ends after its duration.
    pub async fn try_acquire(&self, name: &str) -> Result<Acquired<S>, Error> {
        let key = Key::new(Arc::clone(&self.scope), name)?;
        let entry = BeginRequest {
            owner: Owner::random(),
            fingerprint: Fingerprint::none(),
            lease: self.duration,
            keep: KEEP.max(self.duration),
        };
        let asked = Instant::now();
        match self.store.begin(&key, &entry).await? {
            BeginOutcome::Run(claim) => {
                let store = Arc::clone(&self.store);
                let hold = Hold::start(Arc::clone(&store), claim.clone(), asked, self.duration);
                Ok(Acquired::Held(Lease { claim, store, hold }))
            }
            BeginOutcome::InFlight { left } => Ok(Acquired::Busy { left }),
            BeginOutcome::Completed(_) | BeginOutcome::Failed(_) | BeginOutcome::Mismatch => {
                Err(Error::NotALease)
            }
        }
    }

    /// Waits until the lease is acquired. Waiting callers are not served in order: this is for work that one instance does while
    /// the other ones are on standby.
    ///
    /// # Errors
    ///
    /// As [`Leases::try_acquire`].
    pub async fn acquire(&self, name: &str) -> Result<Lease<S>, Error> {
        loop {
            match self.try_acquire(name).await? {
                Acquired::Held(lease) => return Ok(lease),
                Acquired::Busy { left } => {
                    tokio::time::sleep(left.clamp(LOOK_INTERVAL / 10, LOOK_INTERVAL)).await;
                }
            }
        }
    }
}

impl<S> Clone for Leases<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), scope: Arc::clone(&self.scope), duration: self.duration }
    }
}

/// Acquired lease, which heartbeats extend until this value is dropped. If it is dropped without [`Lease::release`], other owners
/// can acquire the lease after its duration.
#[derive(Debug)]
pub struct Lease<S: Store> {
    claim: Claim,
    store: Arc<S>,
    hold: Hold,
}

impl<S: Store> Lease<S> {
    /// Returns the fence, which is greater than that of every earlier owner.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.claim.fence
    }

    /// Returns the token that is cancelled before another owner can acquire the lease.
    #[must_use]
    pub fn lost(&self) -> &CancellationToken {
        self.hold.lost()
    }

    /// Runs the work until it ends or the lease is lost. If the lease is lost, the work is dropped at its current await.
    ///
    /// # Errors
    ///
    /// Fails if the lease is lost.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        self.hold.guard(work).await
    }

    /// Releases the lease. Returns `false` if another owner holds it, which then keeps it.
    ///
    /// # Errors
    ///
    /// Fails if the store does not answer. Other owners can then acquire the lease after its duration.
    pub async fn release(self) -> Result<bool, Error> {
        Ok(self.store.finish(&self.claim, &Outcome::Retryable, KEEP).await? == FinishOutcome::Written)
    }
}
