//! Events: records of Kafka, in the form that a handler receives.

mod headers;
mod id;
mod identity;
mod lineage;
mod placement;
mod position;
mod sequence;

pub use headers::{Header, Headers};
pub use id::{IdError, IdFunction, IdSource};
pub use identity::IdScope;
pub(crate) use identity::Identity;
pub use lineage::Lineage;
pub(crate) use placement::murmur2;
pub(crate) use position::Position;
pub use sequence::{SequenceFunction, SequenceSource};

use std::sync::Arc;

/// Record of Kafka, with its bytes as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Topic from which the record was read.
    pub topic: Arc<str>,
    /// Partition from which the record was read.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: i64,
    /// Key of the record; for a record of outboxd the id of the aggregate.
    pub key: Option<Vec<u8>>,
    /// Value of the record; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Headers in their order, with repeated names.
    pub headers: Headers,
    /// Timestamp of the producer or the broker, in milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
}

impl Event {
    /// Parses the value as JSON.
    ///
    /// # Errors
    ///
    /// Fails if there is no value, or it is not JSON of this shape.
    pub fn json<'e, T: serde::Deserialize<'e>>(&'e self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.value.as_deref().unwrap_or_default())
    }

    /// Returns the size of key, value and headers in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        length(&self.key) + length(&self.value) + self.headers.size()
    }
}

/// Returns an event with these headers, for tests.
#[cfg(test)]
fn event<V: AsRef<[u8]>>(headers: &[(&str, V)]) -> Event {
    let header =
        |(name, value): &(&str, V)| Header { name: (*name).to_owned(), value: Some(value.as_ref().to_vec()) };
    Event {
        topic: "t".into(),
        partition: 0,
        offset: 0,
        key: None,
        value: None,
        headers: headers.iter().map(header).collect(),
        timestamp_ms: None,
    }
}
