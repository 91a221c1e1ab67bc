//! A consumer: Kafka's records through a handler into PostgreSQL.

mod dedupe;
mod delivery;
mod failure;
mod handler;
mod inbox;
mod parking;
#[cfg(feature = "position")]
mod position;
mod retry;
mod run;
mod sequence;
mod telemetry;
mod work;

pub use dedupe::Dedupe;
pub use delivery::Delivery;
pub use failure::Failure;
pub use inbox::Inbox;

pub(crate) use handler::{Each, Handler};

/// The former name of [`crate::Error`].
#[deprecated(note = "use `outboxd_inbox::Error`")]
pub type Error = crate::Error;
