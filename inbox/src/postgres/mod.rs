//! Inbox in PostgreSQL: the events that are done, and the owners of the partitions.
//!
//! A partition has an *epoch*, which grows each time a consumer takes the partition. Every transaction holds a shared advisory lock of its
//! partition and compares the epoch; a consumer that takes the partition waits for those locks. So a consumer that has lost the partition
//! commits nothing, however late it continues.

mod claim;
mod connection;
mod doubt;
mod error;
mod lease;
mod parking;
#[cfg(feature = "position")]
mod placed;
mod positions;
mod purge;
mod schema;
mod sequence;
mod session;
#[cfg(feature = "sqlx")]
mod sqlx_session;
mod statements;
mod tenancy;
mod tokio_session;
mod transaction;
mod way;

#[cfg(feature = "sqlx")]
pub use claim::claim_with_sqlx;
pub use claim::{Claim, claim};
pub use connection::Connector;
pub use error::{DriverError, Error};
pub use lease::HandlerTransaction;
#[cfg(feature = "sqlx")]
pub use sqlx_session::SqlxTransaction;
pub use tokio_session::{Savepoint, Transaction};

pub(crate) use connection::{Connection, Opener};
pub(crate) use doubt::Doubts;
pub(crate) use error::{is_conflict, is_read_only};
pub(crate) use parking::{Settled, Written};
#[cfg(feature = "position")]
pub(crate) use placed::Placed;
pub(crate) use purge::purge;
pub(crate) use sequence::{DeadNumber, Numbered};
pub(crate) use session::Parameter;
pub(crate) use statements::Mark;
pub(crate) use tenancy::{End, NotStored, Taken, Tenancy, find_lost, give_back, store_offsets, take};
pub(crate) use tokio_session::Session;
pub(crate) use transaction::Entered;
pub(crate) use way::Remembers;
#[cfg(feature = "position")]
pub(crate) use way::{Change, Comparable};

/// Statements that create the inbox's tables, or migrate those of an older version to [`VERSION`]. They can run repeatedly.
pub const SCHEMA: &str = include_str!("schema.sql");

/// Version of the inbox's tables.
pub const VERSION: i32 = 5;
