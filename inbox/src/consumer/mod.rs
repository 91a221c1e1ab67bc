//! A consumer: reads Kafka's records, and applies them to PostgreSQL through a handler.

mod dedupe;
mod delivery;
mod failure;
mod handler;
mod inbox;
mod offsets;
mod parking;
#[cfg(feature = "position")]
mod position;
mod retry;
mod run;
mod sequence;
mod settings;
mod telemetry;
mod work;

pub use dedupe::Dedupe;
pub use delivery::Delivery;
pub use failure::Failure;
pub use inbox::Inbox;

pub(crate) use handler::{Each, Handler};

/// Former name of [`crate::Error`].
#[deprecated(note = "use `outboxd_inbox::Error`")]
pub type Error = crate::Error;
