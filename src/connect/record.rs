//! What leaves the converters: bytes that go to Kafka as they are.

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
}

impl ProducerRecord<'_> {
    /// What the record counts for in the in-flight window: key and value bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.key.map_or(0, <[u8]>::len).saturating_add(self.value.map_or(0, <[u8]>::len))
    }
}
