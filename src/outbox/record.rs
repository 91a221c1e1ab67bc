use smallvec::SmallVec;

use crate::connect::record::{Header, ProducerRecord};

/// Headers that fit without an allocation: four of Debezium's context, the id, and some of the user's.
pub(super) const INLINE_HEADERS: usize = 12;

/// A routed row. It borrows from the receive buffer, the table and the encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedRecord<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition, when the row decides it.
    pub partition: Option<i32>,
    /// Record timestamp, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// The key; `None` is Kafka's null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
    /// The headers, in wire order.
    pub headers: SmallVec<[Header<'a>; INLINE_HEADERS]>,
}

impl RoutedRecord<'_> {
    /// The record as the producer takes it.
    #[must_use]
    pub fn as_record(&self) -> ProducerRecord<'_> {
        ProducerRecord {
            topic: self.topic,
            partition: self.partition,
            timestamp_ms: self.timestamp_ms,
            key: self.key,
            value: self.value,
            headers: &self.headers,
        }
    }
}
