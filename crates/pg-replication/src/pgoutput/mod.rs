//! The logical decoding output plugin `pgoutput`, protocol version 1 with logical messages, in text format.
//!
//! Decodes bytes to [`Message`]s, which borrow from the receive buffer.
//!
//! # References
//! PostgreSQL manual, "Logical Replication Message Formats".

#[cfg(any(test, feature = "encode"))]
pub mod encode;
mod message;
#[cfg(test)]
mod properties;
mod relation;
mod tuple;

pub use message::{Begin, Commit, LogicalMessage, Message, OldTuple, decode};
pub use relation::{Column, Relation, RelationCache, ReplicaIdentity, UnknownRelation};
pub use tuple::{ColumnValue, Tuple};
