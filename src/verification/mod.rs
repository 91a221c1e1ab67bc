//! Compares the records that rows should have become with the records that are in Kafka.
//!
//! ```text
//! row    ─▶ Expected ─┐                               ┌─▶ Finding: missing, changed, repeated, …
//!                     ├─ by Identity ─▶ Comparison ───┼─▶ Tally: how many of each
//! record ─▶ Found ────┘                               └─▶ OrderEntry ─▶ order of each key
//! ```
//!
//! Neither holds a row's values: only digests, places and the event's id. Both can be written to bytes and read back, so
//! that they may lie on disk until those of one identity are together.

mod compare;
mod digest;
mod entry;
mod finding;
mod latest;
mod order;
mod retention;
mod tally;

#[cfg(test)]
mod mutation_tests;

#[cfg(test)]
pub(crate) use compare::Compared;
pub(crate) use compare::Comparison;
pub(crate) use digest::{Contents, Identity, Part, TraceHeaders};
pub(crate) use entry::{
    Entry, Expected, Found, MalformedEntry, OrderEntry, RowName, RowPlace, Spot, TopicNumber,
};
#[cfg(test)]
pub(crate) use finding::Place;
pub(crate) use finding::{Deletion, Finding, Problem, Severity};
pub(crate) use latest::{
    Change, FieldDigest, Fields, Latest, Read, ReadSnapshot, Row, State, Truncated, Visibility, key_payload,
    read,
};
pub(crate) use order::{OrderCheck, Positions};
pub(crate) use retention::{PartitionStart, Retention, TopicState, Topics};
pub(crate) use tally::Tally;
