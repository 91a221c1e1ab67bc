//! The treatment of a relation's rows in the stream: captured with a binding, or skipped and counted.

use super::captured::NotSent;
use super::route::Bound;

/// Treatment of the rows of a relation.
#[derive(Debug)]
pub(in crate::relay) enum Table {
    /// Captured: its rows become records.
    Captured(Bound),
    /// Not captured: its rows are counted.
    NotCaptured(NotSent),
}
