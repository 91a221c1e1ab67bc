//! Sources of an event's sequence number.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Event;

/// Function of the service that returns an event's sequence number.
pub type SequenceFunction = dyn Fn(&Event) -> Option<i64> + Send + Sync;

/// Source of an event's sequence number, which grows by one with each event of a key.
#[derive(Clone)]
#[non_exhaustive]
pub enum SequenceSource {
    /// Header of this name, with the number as text.
    Header(String),
    /// Function of the service.
    Function(Arc<SequenceFunction>),
}

impl SequenceSource {
    /// Returns the number of an event. `None` if it has none, or the function of the service panics.
    #[must_use]
    pub fn number(&self, event: &Event) -> Option<i64> {
        match self {
            Self::Header(name) => std::str::from_utf8(event.headers.last(name)?).ok()?.parse().ok(),
            Self::Function(function) => catch_unwind(AssertUnwindSafe(|| function(event))).ok()?,
        }
    }
}

impl fmt::Debug for SequenceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => f.debug_tuple("Header").field(name).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}
