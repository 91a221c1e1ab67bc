//! Change events of any table, as Debezium's PostgreSQL connector writes them: envelopes with the row before and after.
//!
//! ```text
//!   pgoutput::Tuple ──ChangeTable──▶ SourceRecord ──converters──▶ ChangeRecord
//! ```
//!
//! A table is bound once: its schemas are built then, and shared by all its records.

mod context;
mod digest;
#[cfg(test)]
mod direct_tests;
mod envelope;
mod events;
mod message;
mod notification;
mod options;
#[cfg(test)]
mod parts_tests;
mod record;
mod row_change;
mod table;

pub use context::Edge;
pub use context::ReplicationOrigin;
pub use context::{ChangeContext, SkippedHalves, Snapshot};
pub use digest::ChangeDigest;
pub use envelope::transaction::{End, Tally};
pub use events::ChangeEvents;
pub use message::MESSAGES;
pub use options::ChangeOptions;
pub use record::ChangeRecords;
pub use row_change::OldRow;
pub use row_change::RowChange;
pub use table::ChangeTable;
pub use table::reselect::{Lookup, Reselected};
