//! Work that is done once by its key.

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

/// Default time without a heartbeat after which another owner takes over.
const LEASE: Duration = Duration::from_secs(30);

/// Default time for which an answer is stored.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// Records of the work that a service was asked to do, and of its outcome.
#[derive(Debug)]
pub struct Records<S> {
    store: Arc<S>,
    scope: Arc<str>,
    lease: Duration,
    pub(super) keep: Duration,
}

/// Answer to a request to begin.
#[derive(Debug)]
pub enum Start<S: Store> {
    /// Do the work, and finish the attempt with its outcome.
    Run(Attempt<S>),
    /// The work is done, with this answer.
    Completed(Answer),
    /// The work has failed permanently, with this answer.
    Failed(Answer),
    /// Another owner does the work. Retry later.
    InFlight {
        /// Time until it is taken over at the latest, unless its owner sends heartbeats.
        left: Duration,
    },
    /// The key was used for different work.
    Mismatch,
}

impl<S: Store> Records<S> {
    /// Creates records in this store. The scope separates services and their endpoints.
    #[must_use]
    pub fn new(store: S, scope: impl Into<Arc<str>>) -> Self {
        Self { store: Arc::new(store), scope: scope.into(), lease: LEASE, keep: KEEP }
    }

    /// Sets the time without a heartbeat after which another owner takes over, 30 s by default. A heartbeat is sent at least every third of
    /// that time, and the work is stopped when a fifth of it is left.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the time for which an answer is stored and returned to repeats, 24 hours by default. It must be longer than the time in which
    /// repeats can arrive.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Returns the store, to finish a claim in a transaction of the service.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the scope of all keys.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Begins the work of a key, and returns what to do about it.
    ///
    /// # Errors
    ///
    /// When the key is not valid, or the store does not answer. In both cases the work must not be done.
    pub async fn begin(&self, key: &str, fingerprint: Fingerprint) -> Result<Start<S>, Error> {
        self.begin_of(Key::new(Arc::clone(&self.scope), key)?, fingerprint).await
    }

    /// Begins the work of a key that has a scope of its own, as [`Self::begin`] does.
    ///
    /// # Errors
    ///
    /// When the store does not answer. Then the work must not be done.
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
    /// The work has failed and would fail again: repeats get this answer.
    Failed(Answer),
    /// The work has failed and may succeed the next time.
    Retryable(E),
}

impl<E> WorkError<E> {
    /// Creates a [`WorkError::Retryable`] under its former name.
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
    /// The work is done, by this call or an earlier one, with this answer.
    Completed(Answer),
    /// The work has failed permanently, in this call or an earlier one, with this answer.
    Failed(Answer),
    /// The work has failed in this call and may succeed the next time.
    Retryable(E),
    /// Another owner does the work, or has taken over. Retry later.
    InFlight {
        /// Time until it is taken over at the latest, unless its owner sends heartbeats.
        left: Duration,
    },
    /// The key was used for different work.
    Mismatch,
}

impl<S: Store> Records<S> {
    /// Does work outside the database once, and stores its answer. `work` receives the claim, whose key can be passed to the component that
    /// performs the effect. `work` is dropped where it is when the lease is lost.
    ///
    /// # Errors
    ///
    /// When the key is not valid, or the store does not answer. If the store answers at the beginning and not at the end, the work is done
    /// and its outcome is not stored.
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

/// Right to do the work of a key, extended until it is finished or dropped. After a drop, another owner takes over when the lease ends.
#[derive(Debug)]
pub struct Attempt<S: Store> {
    claim: Claim,
    keep: Duration,
    store: Arc<S>,
    hold: Hold,
}

impl<S: Store> Attempt<S> {
    /// Returns the claim, with its fence and the number of the attempt.
    #[must_use]
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Returns the token that is cancelled before another owner can take over. Work that is not fenced must stop then.
    #[must_use]
    pub fn lost(&self) -> &CancellationToken {
        self.hold.lost()
    }

    /// Runs `work` until it is done or the lease is lost; in the latter case the work is dropped where it is.
    ///
    /// # Errors
    ///
    /// When the lease is lost.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        self.hold.guard(work).await
    }

    /// Stores the outcome of the work.
    ///
    /// # Errors
    ///
    /// When the store does not answer. The call may be repeated with the same outcome.
    pub async fn finish(&self, ending: &Outcome) -> Result<FinishOutcome, Error> {
        Ok(self.store.finish(&self.claim, ending, self.keep).await?)
    }
}
