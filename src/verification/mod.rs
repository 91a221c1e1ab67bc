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
mod order;
mod retention;
mod tally;

pub use compare::Comparison;
pub use digest::{Contents, Identity, Part, Parts};
pub use entry::{Entry, Expected, Found, MalformedEntry, OrderEntry, RowName, Spot, TopicNumber};
pub use finding::{Finding, Place, Problem};
pub use order::{Positions, out_of_order};
pub use retention::{Missed, PartitionStart, TopicState, Topics};
pub use tally::Tally;
