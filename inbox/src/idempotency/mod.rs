//! Idempotency records: what a service was asked to do, and of what came of it.
//!
//! For requests, and for effects outside the database. A key is *begun*, which gives a *claim* with a *fence*; whoever has
//! the claim gives signs of life, and *finishes* it with an answer that each repeat gets. When the signs stop, the next one
//! takes over, and a late finish is refused.
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
pub use claim::{Begun, Claim, Ended, Ending, Entry, Extended, Fence, Owner};
pub use fingerprint::Fingerprint;
pub use heartbeat::{Beat, Heartbeat};
#[cfg(feature = "records")]
pub use hold::Lost;
pub use key::{Key, KeyError};
pub use record::Record;
#[cfg(feature = "records")]
pub use records::{Attempt, Error, NotDone, Once, Records, Start};
pub use store::{Store, StoreError};

#[cfg(feature = "records")]
pub(crate) use hold::Hold;
