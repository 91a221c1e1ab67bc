use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::idempotency::{
    BeginOutcome, BeginRequest, Claim, Fence, Fingerprint, FinishOutcome, Hold, Key, LeaseLost, Outcome,
    Owner, Store,
};

/// How long a lease lasts after the last sign of life.
const DURATION: Duration = Duration::from_secs(30);

/// How long it is remembered that there was a lease. Fences grow after that too.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// The longest pause between two looks at a lease that somebody else has. Its holder may give it back at any time.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Who does what alone.
#[derive(Debug)]
pub struct Leases<S> {
    store: Arc<S>,
    scope: Arc<str>,
    duration: Duration,
}

/// Whether a lease was to be had.
#[derive(Debug)]
pub enum Acquired<S: Store> {
    /// It is ours.
    Held(Lease<S>),
    /// Somebody else has it. What is to be done is *not* done yet: a message must not be acknowledged for this.
    Busy {
        /// Until then it ends at the latest, unless its holder gives signs of life.
        left: Duration,
    },
}

impl<S: Store> Leases<S> {
    /// In this store. The scope keeps services apart.
    #[must_use]
    pub fn new(store: S, scope: &str) -> Self {
        Self { store: Arc::new(store), scope: format!("lease/{scope}").into(), duration: DURATION }
    }

    /// Sets how long a lease lasts after the last sign of life; the default is 30 s. Signs are given three times as often, and
    /// the work is stopped when a fifth of it is left.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// The former name of [`Leases::duration`].
    #[deprecated(note = "renamed to `Leases::duration`")]
    #[must_use]
    pub fn lasts(self, duration: Duration) -> Self {
        self.duration(duration)
    }

    /// Asks for a lease once.
    ///
    /// # Errors
    ///
    /// When the name cannot be kept, or the store does not answer. Then nobody has the lease because of it for longer than it
    /// lasts.
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

    /// Waits until the lease is to be had. In no order: it is for work that one does while others stand by.
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

/// A lease that is held, and kept alive until this value is dropped. When it is dropped without [`Lease::release`], others get
/// it after it has lasted.
#[derive(Debug)]
pub struct Lease<S: Store> {
    claim: Claim,
    store: Arc<S>,
    hold: Hold,
}

impl<S: Store> Lease<S> {
    /// Greater than that of each holder before.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.claim.fence
    }

    /// Fires before somebody else can have it.
    #[must_use]
    pub fn lost(&self) -> &CancellationToken {
        self.hold.lost()
    }

    /// Works until it is done or the lease is lost; then the work is dropped where it is.
    ///
    /// # Errors
    ///
    /// When the lease is lost.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        self.hold.guard(work).await
    }

    /// Gives it back. `false` when somebody else has it: it is not taken from them.
    ///
    /// # Errors
    ///
    /// When the store does not answer. Then others get it after it has lasted.
    pub async fn release(self) -> Result<bool, Error> {
        Ok(self.store.finish(&self.claim, &Outcome::Retryable, KEEP).await? == FinishOutcome::Written)
    }
}
