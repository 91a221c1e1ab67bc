//! A record of Kafka, as a handler is given it.

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

/// A record of Kafka, with its bytes as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The topic that it was read from.
    pub topic: Arc<str>,
    /// The partition that it was read from.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// The record's key; for a record of outboxd the id of the aggregate.
    pub key: Option<Vec<u8>>,
    /// The record's value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// In their order, with repeated names.
    pub headers: Headers,
    /// Milliseconds since 1970, as the producer or the broker said.
    pub timestamp_ms: Option<i64>,
}

impl Event {
    /// The value as JSON.
    ///
    /// # Errors
    ///
    /// When there is no value, or it is not JSON of this shape.
    pub fn json<'e, T: serde::Deserialize<'e>>(&'e self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.value.as_deref().unwrap_or_default())
    }

    /// Bytes of key, value and headers.
    #[must_use]
    pub fn size(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        length(&self.key) + length(&self.value) + self.headers.size()
    }
}

/// An event with these headers, for tests.
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
