use super::capture::NotSent;
use super::route::Bound;

/// What the rows of a relation are to us.
#[derive(Debug)]
pub(super) enum Table {
    /// Its rows become records.
    Captured(Bound),
    /// Its rows are counted.
    NotCaptured(NotSent),
}
