//! Change events of any table, as Debezium's PostgreSQL connector writes them: envelopes with the row before and after.
//!
//! ```text
//!   pgoutput::Tuple ──ChangeTable──▶ SourceRecord ──converters──▶ ChangeRecord
//! ```
//!
//! A table is bound once: its schemas are built then, and shared by all its records.

mod binding;
mod context;
mod digest;
mod direct;
#[cfg(test)]
mod direct_tests;
mod events;
mod headers;
mod key;
mod labels;
mod message;
mod notification;
mod options;
#[cfg(test)]
mod parts_tests;
mod placeholder;
mod raw_key;
mod record;
mod remains;
mod reselect;
mod routed;
mod row_change;
mod shape;
mod source;
mod table;
mod transaction;
mod values;
mod zero;

pub(crate) use context::Edge;
pub(crate) use context::ReplicationOrigin;
pub use context::{ChangeContext, SkippedHalves, Snapshot};
pub(crate) use digest::ChangeDigest;
pub use events::ChangeEvents;
pub(crate) use message::MESSAGES;
pub(crate) use options::ChangeOptions;
pub use record::ChangeRecords;
pub(crate) use reselect::{Lookup, Reselected};
pub(crate) use row_change::OldRow;
pub use row_change::RowChange;
pub use table::ChangeTable;
pub(crate) use transaction::{End, Tally};
