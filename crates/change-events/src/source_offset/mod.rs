//! Connect's source offset: the position up to which a connector had sent its source, as stored by Debezium's PostgreSQL
//! connector.
//!
//! ```text
//!   ["orders-outbox",{"server":"orders"}] ──▶ {"lsn_proc":…,"messageType":"INSERT","lsn_commit":…,"lsn":…,"txId":…,"ts_usec":…}
//!            OffsetKey                               SourceOffset ──▶ SentBefore: which rows of the stream were sent
//! ```
//!
//! The bytes of both are the same in Connect's offset topic and in the file of Debezium Server, which is a Java `HashMap`
//! ([`OffsetMap`]).

mod incremental;
mod key;
mod map;
mod sent;
mod value;

pub use incremental::UnreadTable;
pub use key::OffsetKey;
pub use map::OffsetMap;
pub use sent::SentBefore;
pub use value::{MessageType, SourceOffset};
pub use value::{OffsetError, SnapshotProgress};
