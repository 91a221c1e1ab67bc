//! Events with converted parts.

pub(in crate::outbox) mod encoder;
pub(in crate::outbox) mod raw;

use encoder::Encoder;

use smallvec::SmallVec;

use super::topic::TopicId;
use connect_data::converter::Encoded;
use connect_data::record::{Header, ProducerRecord};

/// Number of headers that fit without an allocation: four of Debezium's context, the id, and some of the
/// user's.
pub(in crate::outbox) const INLINE_HEADERS: usize = 12;

/// An event with converted parts, which are in the encoder's scratch space or borrowed from their source.
pub(in crate::outbox) struct Converted<'a> {
    pub(in crate::outbox) topic: TopicId,
    pub(in crate::outbox) partition: Option<i32>,
    pub(in crate::outbox) timestamp_ms: i64,
    pub(in crate::outbox) key: Encoded<'a>,
    pub(in crate::outbox) value: Encoded<'a>,
    pub(in crate::outbox) headers: Headers<'a>,
}

/// Converted headers, in wire order.
pub(in crate::outbox) type Headers<'a> = SmallVec<[(&'a str, Encoded<'a>); INLINE_HEADERS]>;

impl<'a> Converted<'a> {
    /// Returns the record. Nothing may be written to the encoder after that.
    pub(in crate::outbox) fn resolve(self, encoder: &'a Encoder) -> RoutedRecord<'a> {
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
    /// The partition, if the row chooses it.
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
    /// Returns the record in the producer's form.
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
