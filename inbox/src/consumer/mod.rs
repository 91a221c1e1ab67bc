//! A consumer: Kafka's records through a handler into PostgreSQL.

mod delivery;
mod error;
mod failure;
mod handler;
mod inbox;
mod run;
mod work;

pub use delivery::Delivery;
pub use error::Error;
pub use failure::Failure;
pub use inbox::Inbox;
