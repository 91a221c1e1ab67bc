//! Compares the rows of tables with the last record of each key: for change events, where a key has many records.
//!
//! ```text
//! row    ─▶ Row    ─┐                           ┌─▶ Finding: missing, changed, not_deleted, …
//!                   ├─ by Identity ─▶ Latest ───┤
//! record ─▶ Change ─┘                           └─▶ Tally
//! ```
//!
//! A record is written at another time than its row is read, so only fields are compared that are the same each time.

mod compare;
mod entry;
mod value;
mod visibility;

pub(crate) use compare::{Latest, Truncated};
pub(crate) use entry::{Change, FieldDigest, Fields, Row, State};
pub(crate) use value::{Read, key_payload, read};
pub(crate) use visibility::{ReadSnapshot, Visibility};
