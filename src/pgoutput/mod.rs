//! The logical decoding output plugin `pgoutput`, protocol version 1 with logical messages, in text format.
//!
//! Bytes in, [`Message`]s out, borrowing from the receive buffer.
//!
//! # References
//! PostgreSQL manual, "Logical Replication Message Formats".

#[cfg(test)]
pub(crate) mod encode;
mod message;
#[cfg(test)]
mod properties;
mod relation;
mod tuple;

pub(crate) use message::{Begin, Commit, LogicalMessage};
pub use message::{Message, OldTuple, decode};
pub(crate) use relation::UnknownRelation;
pub use relation::{Column, Relation, RelationCache, ReplicaIdentity};
pub use tuple::{ColumnValue, Tuple};
