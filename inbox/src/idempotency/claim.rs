use std::fmt;
use std::time::Duration;

use super::answer::Answer;
use super::fingerprint::Fingerprint;
use super::key::Key;

/// Who does something: a number that nobody else draws.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u128);

impl Owner {
    /// A new one.
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

/// A number that grows each time a key changes hands, also after its record was forgotten: it is at least the
/// microseconds since 1970 of the store's clock. A resource that has seen a greater one refuses the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(i64);

impl Fence {
    /// The one after `last`.
    #[must_use]
    pub fn next(last: Option<Self>, now: Duration) -> Self {
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        Self(last.map_or(now, |last| now.max(last.0.saturating_add(1))))
    }

    /// As a number, for a column of the resource's.
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

/// A request to begin the work of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeginRequest {
    /// Who it is. Who asks again because an answer was lost is the same.
    pub owner: Owner,
    /// What is to be done.
    pub fingerprint: Fingerprint,
    /// How long others wait for a sign of life before they take over.
    pub lease: Duration,
    /// How long the record is kept.
    pub keep: Duration,
}

/// The right to do what a key stands for, until the lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What for.
    pub key: Key,
    /// Whose it is.
    pub owner: Owner,
    /// Greater than that of each claim before it.
    pub fence: Fence,
    /// How often this key was begun, from 1.
    pub attempt: u32,
}

/// Answer of a store to a [`BeginRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginOutcome {
    /// Do it.
    Run(Claim),
    /// It is done.
    Completed(Answer),
    /// It has failed for good.
    Failed(Answer),
    /// Another one is at it, and may be for so long.
    InFlight {
        /// Until its lease ends, unless it is extended.
        left: Duration,
    },
    /// The key stands for something else.
    Mismatch,
}

/// Outcome of the work, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done: repeats get this answer.
    Completed(Answer),
    /// It has failed, and would again: repeats get this answer.
    Failed(Answer),
    /// It has failed, and may succeed the next time: nothing is remembered but that it was tried.
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
    /// It was written down, now or at the same wish before.
    Written,
    /// The same owner has finished it with another outcome before. That one stays.
    AlreadyFinished,
    /// The claim is over: another one has taken the key, or it is forgotten. Nothing was written.
    Fenced,
}

impl FinishOutcome {
    /// The former name of [`FinishOutcome::AlreadyFinished`].
    #[deprecated(note = "renamed to `FinishOutcome::AlreadyFinished`")]
    #[allow(non_upper_case_globals, reason = "it was a variant")]
    pub const Otherwise: Self = Self::AlreadyFinished;
}

/// Answer of a store to a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendOutcome {
    /// The lease lasts longer.
    Extended,
    /// The same owner has finished it: it needs no more signs, and nobody takes over.
    AlreadyFinished,
    /// The claim is over: another one has taken the key, or it is forgotten.
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
