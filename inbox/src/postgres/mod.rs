//! The inbox in PostgreSQL: which events are done, and who has a partition.
//!
//! A partition has an *epoch*, which grows each time a consumer takes it. Every transaction holds a shared advisory lock
//! of its partition and compares the epoch; taking the partition waits for those locks. So nothing is committed by a
//! consumer that has lost the partition, however late it wakes up.

mod connection;
mod error;
mod purge;
mod statements;
mod tenancy;
mod transaction;

pub use connection::Connector;
pub use error::Error;
pub use transaction::Transaction;

pub(crate) use connection::Connection;
pub(crate) use error::is_transient;
pub(crate) use purge::purge;
pub(crate) use tenancy::{Tenancy, take};
pub(crate) use transaction::Entered;

/// The statements that make the inbox's tables, unless they are there.
pub const SCHEMA: &str = include_str!("schema.sql");
