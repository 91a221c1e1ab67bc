//! The streaming replication sub-protocol: XLogData, keepalives, standby status updates, and its commands.
//!
//! # References
//! PostgreSQL manual, "Streaming Replication Protocol".

mod command;
mod feedback;
mod message;

pub use command::{CreateSlot, SlotKind, StartReplication};
pub use feedback::Feedback;
pub use message::{ReplicationMessage, StandbyStatusUpdate, XLogData, decode};
