use smallvec::SmallVec;

use super::encoder::Encoder;
use super::topic::TopicId;
use crate::connect::converter::Encoded;
use crate::connect::record::{Header, ProducerRecord};

/// Headers that fit without an allocation: four of Debezium's context, the id, and some of the user's.
pub(super) const INLINE_HEADERS: usize = 12;

/// An event whose parts are converted; they lie in the encoder's scratch space, or where they came from.
pub(super) struct Converted<'a> {
    pub(super) topic: TopicId,
    pub(super) partition: Option<i32>,
    pub(super) timestamp_ms: i64,
    pub(super) key: Encoded<'a>,
    pub(super) value: Encoded<'a>,
    pub(super) headers: Headers<'a>,
}

/// Converted headers, in wire order.
pub(super) type Headers<'a> = SmallVec<[(&'a str, Encoded<'a>); INLINE_HEADERS]>;

impl<'a> Converted<'a> {
    /// The record, once nothing more is written to the encoder.
    pub(super) fn resolve(self, encoder: &'a Encoder) -> RoutedRecord<'a> {
        let scratch = &encoder.scratch;
        let header = |(name, value): (&'a str, Encoded<'a>)| Header { name, value: value.resolve(scratch) };
        RoutedRecord {
            topic: encoder.topics.name(self.topic),
            partition: self.partition,
            timestamp_ms: self.timestamp_ms,
            key: self.key.resolve(scratch),
            value: self.value.resolve(scratch),
            headers: self.headers.into_iter().map(header).collect(),
        }
    }
}

/// A routed event. It borrows from the receive buffer, the table and the encoder.
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
            position: None,
        }
    }
}
