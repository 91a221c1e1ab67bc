//! Identifiers found in the write-ahead log: positions, transactions, objects, times.

mod id;
mod lsn;
mod timestamp;

pub use id::{Oid, SystemId, TimelineId, Xid};
pub use lsn::Lsn;
pub use timestamp::PgTimestamp;
