use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Event;

/// A function of the service that tells an event's number.
pub type SequenceFunction = dyn Fn(&Event) -> Option<i64> + Send + Sync;

/// Where the number of an event is found, which grows by one with each event of a key.
#[derive(Clone)]
#[non_exhaustive]
pub enum SequenceSource {
    /// In this header, as text.
    Header(String),
    /// Told by a function of the service.
    Function(Arc<SequenceFunction>),
}

impl SequenceSource {
    /// The number of an event, unless it has none, or the function of the service panics.
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
