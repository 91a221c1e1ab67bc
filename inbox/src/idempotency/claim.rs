//! Claims of keys.

use std::fmt;
use std::time::Duration;

use super::answer::Answer;
use super::fingerprint::Fingerprint;
use super::key::Key;

/// Identity of one attempt: a random number of 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u128);

impl Owner {
    /// Returns a new random owner.
    #[must_use]
    pub fn random() -> Self {
        Self(fastrand::u128(..))
    }
}

impl From<u128> for Owner {
    fn from(number: u128) -> Self {
        Self(number)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Number that grows each time a key changes its owner, also after its record was deleted: it is at least the microseconds since 1970 of
/// the store's clock. A resource that has seen a greater fence refuses a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(i64);

impl Fence {
    /// Returns the fence after `last`.
    #[must_use]
    pub fn next(last: Option<Self>, now: Duration) -> Self {
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        Self(last.map_or(now, |last| now.max(last.0.saturating_add(1))))
    }

    /// Returns the fence as a number, for a column of the resource.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for Fence {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

/// Request to begin the work of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeginRequest {
    /// Owner of the attempt. A request that is sent again because its answer was lost has the same owner.
    pub owner: Owner,
    /// Fingerprint of the requested work.
    pub fingerprint: Fingerprint,
    /// Time without a heartbeat after which another owner may take over.
    pub lease: Duration,
    /// Time for which the record is stored.
    pub keep: Duration,
}

/// Right to do the work of a key until the lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Key of the work.
    pub key: Key,
    /// Owner of the claim.
    pub owner: Owner,
    /// Fence, greater than that of each earlier claim of the key.
    pub fence: Fence,
    /// Number of this attempt at the key, from 1.
    pub attempt: u32,
}

/// Answer of a store to a [`BeginRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginOutcome {
    /// The caller has the claim and does the work.
    Run(Claim),
    /// The work is done, with this answer.
    Completed(Answer),
    /// The work has failed permanently, with this answer.
    Failed(Answer),
    /// Another owner has the claim.
    InFlight {
        /// Remaining time of its lease, unless the lease is extended.
        left: Duration,
    },
    /// The key was used for different work.
    Mismatch,
}

/// Outcome of the work, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done: repeats get this answer.
    Completed(Answer),
    /// The work has failed and would fail again: repeats get this answer.
    Failed(Answer),
    /// The work has failed and may succeed the next time: only the attempt is stored.
    Retryable,
}

impl Outcome {
    /// The former name of [`Outcome::Retryable`].
    #[deprecated(note = "renamed to `Outcome::Retryable`")]
    #[allow(non_upper_case_globals, reason = "it was a variant")]
    pub const Open: Self = Self::Retryable;
}

/// Answer of a store to an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishOutcome {
    /// The outcome is stored, or an earlier call has stored one of the same kind, whose answer remains.
    Written,
    /// The same owner has already stored another outcome, which is not changed.
    AlreadyFinished,
    /// The claim has ended: another owner has the key, or the record was deleted. Nothing was stored.
    Fenced,
}

impl FinishOutcome {
    /// The former name of [`FinishOutcome::AlreadyFinished`].
    #[deprecated(note = "renamed to `FinishOutcome::AlreadyFinished`")]
    #[allow(non_upper_case_globals, reason = "it was a variant")]
    pub const Otherwise: Self = Self::AlreadyFinished;
}

/// Answer of a store to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendOutcome {
    /// The lease was extended.
    Extended,
    /// The same owner has finished the work: no more heartbeats are needed, and no other owner takes over.
    AlreadyFinished,
    /// The claim has ended: another owner has the key, or the record was deleted.
    Fenced,
}

impl ExtendOutcome {
    /// The former name of [`ExtendOutcome::Extended`].
    #[deprecated(note = "renamed to `ExtendOutcome::Extended`")]
    #[allow(non_upper_case_globals, reason = "it was a variant")]
    pub const Yes: Self = Self::Extended;

    /// The former name of [`ExtendOutcome::AlreadyFinished`].
    #[deprecated(note = "renamed to `ExtendOutcome::AlreadyFinished`")]
    #[allow(non_upper_case_globals, reason = "it was a variant")]
    pub const Ended: Self = Self::AlreadyFinished;
}
