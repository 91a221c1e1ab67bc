use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::error::Error;
use crate::idempotency::{
    Begun, Claim, Ended, Ending, Entry, Fence, Fingerprint, Hold, Key, Lost, Owner, Store, StoreError,
};

/// How long a lease lasts after the last sign of life.
const LASTS: Duration = Duration::from_secs(30);

/// How long it is remembered that there was a lease. Fences grow after that too.
const KEEP: Duration = Duration::from_hours(24);

/// The longest pause between two looks at a lease that somebody else has. Its holder may give it back at any time.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Who does what alone.
#[derive(Debug)]
pub struct Leases<S> {
    store: Arc<S>,
    scope: Arc<str>,
    lasts: Duration,
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
        Self { store: Arc::new(store), scope: format!("lease/{scope}").into(), lasts: LASTS }
    }

    /// How long a lease lasts after the last sign of life, 30 s unless it is said. Signs are given three times as often, and
    /// the work is stopped when a fifth of it is left.
    #[must_use]
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// Asks for a lease once.
    ///
    /// # Errors
    ///
    /// When the name cannot be kept, or the store does not answer. Then nobody has the lease because of it for longer than it
    /// lasts.
    pub async fn try_acquire(&self, name: &str) -> Result<Acquired<S>, Error> {
        let key = Key::new(Arc::clone(&self.scope), name)?;
        let entry = Entry {
            owner: Owner::random(),
            fingerprint: Fingerprint::none(),
            lease: self.lasts,
            keep: KEEP.max(self.lasts),
        };
        let asked = Instant::now();
        match self.store.begin(&key, &entry).await? {
            Begun::Run(claim) => {
                let store = Arc::clone(&self.store);
                let hold = Hold::start(Arc::clone(&store), claim.clone(), asked, self.lasts);
                Ok(Acquired::Held(Lease { claim, store, hold }))
            }
            Begun::InFlight { left } => Ok(Acquired::Busy { left }),
            Begun::Completed(_) | Begun::Failed(_) | Begun::Mismatch => Err(Error::NotALease),
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
        Self { store: Arc::clone(&self.store), scope: Arc::clone(&self.scope), lasts: self.lasts }
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
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        self.hold.guard(work).await
    }

    /// Gives it back. `false` when somebody else has it: it is not taken from them.
    ///
    /// # Errors
    ///
    /// When the store does not answer. Then others get it after it has lasted.
    pub async fn release(self) -> Result<bool, StoreError> {
        Ok(self.store.finish(&self.claim, &Ending::Open, KEEP).await? == Ended::Written)
    }
}
