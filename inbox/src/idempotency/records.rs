use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::answer::Answer;
use super::claim::{BeginOutcome, BeginRequest, Claim, FinishOutcome, Outcome, Owner};
use super::fingerprint::Fingerprint;
use super::hold::{Hold, LeaseLost};
use super::key::Key;
use super::store::Store;
use crate::Error;

/// Others take over when there was no sign of life for so long.
const LEASE: Duration = Duration::from_secs(30);

/// How long an answer is given again.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// Records of what a service was asked to do, and of what came of it.
#[derive(Debug)]
pub struct Records<S> {
    store: Arc<S>,
    scope: Arc<str>,
    lease: Duration,
    pub(super) keep: Duration,
}

/// What to do about a request.
#[derive(Debug)]
pub enum Start<S: Store> {
    /// Do it, and tell how it went.
    Run(Attempt<S>),
    /// It is done, with this answer.
    Completed(Answer),
    /// It has failed for good, with this answer.
    Failed(Answer),
    /// Another one is at it. Come again later.
    InFlight {
        /// Until then it is taken over at the latest, unless it gives signs of life.
        left: Duration,
    },
    /// The key was used for something else.
    Mismatch,
}

impl<S: Store> Records<S> {
    /// In this store. The scope keeps services and their endpoints apart.
    #[must_use]
    pub fn new(store: S, scope: impl Into<Arc<str>>) -> Self {
        Self { store: Arc::new(store), scope: scope.into(), lease: LEASE, keep: KEEP }
    }

    /// Others take over when there was no sign of life for so long, 30 s unless it is said. Signs are given three times as
    /// often, and the work is stopped when a fifth of it is left.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long an answer is given again, 24 hours unless it is said. It must be longer than repeats can come.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// The store, to finish a claim in a transaction of the service's own.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The scope of all keys.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Asks what to do about a key.
    ///
    /// # Errors
    ///
    /// When the key cannot be kept, or the store does not answer. Then nothing may be done.
    pub async fn begin(&self, key: &str, fingerprint: Fingerprint) -> Result<Start<S>, Error> {
        self.begin_of(Key::new(Arc::clone(&self.scope), key)?, fingerprint).await
    }

    /// The same for a key with a scope of its own.
    ///
    /// # Errors
    ///
    /// When the store does not answer. Then nothing may be done.
    pub async fn begin_of(&self, key: Key, fingerprint: Fingerprint) -> Result<Start<S>, Error> {
        let entry = BeginRequest { owner: Owner::random(), fingerprint, lease: self.lease, keep: self.keep };
        let asked = Instant::now();
        Ok(match self.store.begin(&key, &entry).await? {
            BeginOutcome::Run(claim) => {
                let store = Arc::clone(&self.store);
                let hold = Hold::start(Arc::clone(&store), claim.clone(), asked, self.lease);
                Start::Run(Attempt { claim, keep: self.keep, store, hold })
            }
            BeginOutcome::Completed(answer) => Start::Completed(answer),
            BeginOutcome::Failed(answer) => Start::Failed(answer),
            BeginOutcome::InFlight { left } => Start::InFlight { left },
            BeginOutcome::Mismatch => Start::Mismatch,
        })
    }
}

/// Error of work that is done once. Any error becomes [`WorkError::Retryable`] by `?`.
#[derive(Debug)]
pub enum WorkError<E> {
    /// It has failed, and would again: repeats get this answer.
    Failed(Answer),
    /// It has failed, and may succeed the next time.
    Retryable(E),
}

impl<E> WorkError<E> {
    /// The former name of [`WorkError::Retryable`].
    #[deprecated(note = "renamed to `WorkError::Retryable`")]
    #[allow(non_snake_case, reason = "it was a variant")]
    pub fn Open(error: E) -> Self {
        Self::Retryable(error)
    }
}

impl<E> From<E> for WorkError<E> {
    fn from(error: E) -> Self {
        Self::Retryable(error)
    }
}

/// Outcome of [`Records::once`].
#[derive(Debug)]
pub enum OnceOutcome<E> {
    /// It is done, now or before, with this answer.
    Completed(Answer),
    /// It has failed for good, now or before, with this answer.
    Failed(Answer),
    /// It has failed now, and may succeed the next time.
    Retryable(E),
    /// Another one is at it, or has taken over. Come again later.
    InFlight {
        /// Until then it is taken over at the latest, unless it gives signs of life.
        left: Duration,
    },
    /// The key was used for something else.
    Mismatch,
}

impl<S: Store> Records<S> {
    /// Does something outside the database once, and remembers its answer. `work` is given the claim, whose key is for whoever
    /// does the effect. It is dropped where it is when the lease is lost.
    ///
    /// # Errors
    ///
    /// When the key cannot be kept, or the store does not answer. When it was there at the beginning and is not at the end, the
    /// work is done and not remembered.
    pub async fn once<F, R, E>(
        &self,
        key: &str,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<OnceOutcome<E>, Error>
    where
        F: FnOnce(Claim) -> R,
        R: Future<Output = Result<Answer, WorkError<E>>>,
    {
        let attempt = match self.begin(key, fingerprint).await? {
            Start::Run(attempt) => attempt,
            Start::Completed(answer) => return Ok(OnceOutcome::Completed(answer)),
            Start::Failed(answer) => return Ok(OnceOutcome::Failed(answer)),
            Start::InFlight { left } => return Ok(OnceOutcome::InFlight { left }),
            Start::Mismatch => return Ok(OnceOutcome::Mismatch),
        };
        let taken_over = OnceOutcome::InFlight { left: self.lease };
        let Ok(done) = attempt.guard(work(attempt.claim().clone())).await else { return Ok(taken_over) };
        let (ending, once) = match done {
            Ok(answer) => (Outcome::Completed(answer.clone()), OnceOutcome::Completed(answer)),
            Err(WorkError::Failed(answer)) => (Outcome::Failed(answer.clone()), OnceOutcome::Failed(answer)),
            Err(WorkError::Retryable(error)) => (Outcome::Retryable, OnceOutcome::Retryable(error)),
        };
        match attempt.finish(&ending).await? {
            FinishOutcome::Fenced => Ok(taken_over),
            FinishOutcome::Written | FinishOutcome::AlreadyFinished => Ok(once),
        }
    }
}

impl<S> Clone for Records<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            scope: Arc::clone(&self.scope),
            lease: self.lease,
            keep: self.keep,
        }
    }
}

/// The right to do something, kept alive until it is finished or dropped. When it is dropped, others take over after the
/// lease.
#[derive(Debug)]
pub struct Attempt<S: Store> {
    claim: Claim,
    keep: Duration,
    store: Arc<S>,
    hold: Hold,
}

impl<S: Store> Attempt<S> {
    /// With its fence, and the how manieth attempt it is.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Fires before another one can take over. What is not fenced must stop then.
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

    /// Tells how it went.
    ///
    /// # Errors
    ///
    /// When the store does not answer. The same may be told again.
    pub async fn finish(&self, ending: &Outcome) -> Result<FinishOutcome, Error> {
        Ok(self.store.finish(&self.claim, ending, self.keep).await?)
    }
}
