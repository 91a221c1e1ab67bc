//! Idempotency records: which work a service was asked to do, and the outcome of that work.
//!
//! They are for requests, and for effects outside the database. Work on a key *begins* with a *claim* that has a *fence*. The owner of the
//! claim sends heartbeats, and *finishes* the claim with an answer that each repeat gets. When the heartbeats stop, the next owner takes
//! over, and a late finish is refused.
//!
//! [`Record`] and [`Heartbeat`] are sans-io; they are the rules that each [`Store`] follows.

mod answer;
mod claim;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
mod fingerprint;
mod heartbeat;
mod key;
mod record;
mod store;

#[cfg(feature = "records")]
mod hold;
#[cfg(feature = "tokio-postgres")]
mod postgres;
#[cfg(feature = "records")]
mod records;
#[cfg(feature = "redis")]
mod redis;

#[cfg(test)]
mod tests;

#[cfg(feature = "tokio-postgres")]
pub use self::postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
pub use answer::Answer;
pub use claim::{BeginOutcome, BeginRequest, Claim, ExtendOutcome, Fence, FinishOutcome, Outcome, Owner};
pub use fingerprint::Fingerprint;
pub use heartbeat::{Heartbeat, HeartbeatAction};
#[cfg(feature = "records")]
pub use hold::LeaseLost;
pub use key::{Key, KeyError};
pub use record::Record;
#[cfg(feature = "records")]
pub use records::{Attempt, OnceOutcome, Records, Start, WorkError};
pub use store::{Store, StoreError};

#[cfg(feature = "records")]
pub(crate) use hold::Hold;

/// The former name of [`HeartbeatAction`].
#[deprecated(note = "renamed to `HeartbeatAction`")]
pub type Beat = HeartbeatAction;

/// The former name of [`BeginOutcome`].
#[deprecated(note = "renamed to `BeginOutcome`")]
pub type Begun = BeginOutcome;

/// The former name of [`FinishOutcome`].
#[deprecated(note = "renamed to `FinishOutcome`")]
pub type Ended = FinishOutcome;

/// The former name of [`Outcome`].
#[deprecated(note = "renamed to `Outcome`")]
pub type Ending = Outcome;

/// The former name of [`BeginRequest`].
#[deprecated(note = "renamed to `BeginRequest`")]
pub type Entry = BeginRequest;

/// The former name of [`ExtendOutcome`].
#[deprecated(note = "renamed to `ExtendOutcome`")]
pub type Extended = ExtendOutcome;

/// The former name of [`WorkError`].
#[cfg(feature = "records")]
#[deprecated(note = "renamed to `WorkError`")]
pub type NotDone<E> = WorkError<E>;

/// The former name of [`OnceOutcome`].
#[cfg(feature = "records")]
#[deprecated(note = "renamed to `OnceOutcome`")]
pub type Once<E> = OnceOutcome<E>;

#[cfg(feature = "records")]
#[doc(hidden)]
pub use hold::LeaseLost as Lost;

/// The former name of [`crate::Error`].
#[cfg(feature = "records")]
#[deprecated(note = "use `outboxd_inbox::Error`")]
pub type Error = crate::Error;
