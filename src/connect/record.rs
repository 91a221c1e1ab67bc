//! What leaves the converters: bytes that go to Kafka as they are.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The header that has the event's id.
pub const ID_HEADER: &str = "id";

/// The header that tells where the event stands in the source: the system identifier, the commit LSN in 16 hexadecimal
/// digits, the ordinal in 8.
pub const POSITION_HEADER: &str = "outboxd.position";

/// By what a record is known again when its row is read another time. Not stable from one version of outboxd to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of a record with this key, value and `id` header. Topic, partition and timestamp do not count.
    #[must_use]
    pub fn new(key: Option<&[u8]>, value: Option<&[u8]>, id: Option<&[u8]>) -> Self {
        let mut hasher = DefaultHasher::new();
        (key, value, id).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// One header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The header's name.
    pub name: &'a str,
    /// Its bytes; `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
}

/// A record as it goes to Kafka. It borrows from the receive buffer and from the encoder's scratch space, and lives
/// until the producer has copied it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerRecord<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition, when the row decides it; otherwise the key's hash does.
    pub partition: Option<i32>,
    /// Record timestamp, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// The key; `None` is Kafka's null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
    /// The headers, in wire order.
    pub headers: &'a [Header<'a>],
    /// The text of [`POSITION_HEADER`], which stands behind them, when it is asked for.
    pub position: Option<&'a [u8]>,
}

impl ProducerRecord<'_> {
    /// What the record counts for in the in-flight window: key and value bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.key.map_or(0, <[u8]>::len).saturating_add(self.value.map_or(0, <[u8]>::len))
    }

    /// All headers, in wire order.
    pub fn all_headers(&self) -> impl Iterator<Item = Header<'_>> {
        let position = self.position.map(|text| Header { name: POSITION_HEADER, value: Some(text) });
        self.headers.iter().copied().chain(position)
    }

    /// The event's id, from the `id` header.
    #[must_use]
    pub fn event_id(&self) -> Option<&[u8]> {
        self.headers.iter().find(|header| header.name == ID_HEADER)?.value
    }

    /// By what it is known again.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new(self.key, self.value, self.event_id())
    }
}
