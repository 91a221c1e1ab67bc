//! Headers of events in a retry topic.

use crate::event::{Event, Header, Headers};

const ATTEMPTS: &str = "retry_topic-attempts";
const BACKOFF_TIMESTAMP: &str = "retry_topic-backoff-timestamp";
const RETRY_TIMESTAMP: &str = "retry_topic-original-timestamp";
const TOPIC: &str = "kafka_original-topic";
const PARTITION: &str = "kafka_original-partition";
const OFFSET: &str = "kafka_original-offset";
const TIMESTAMP: &str = "kafka_original-timestamp";
const MESSAGE: &str = "kafka_exception-message";

/// Content of the headers of an event in a retry topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetryRecord {
    /// Topic from which the event was first read.
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: Option<i64>,
    /// Number of failed attempts.
    pub(crate) attempts: u32,
    /// Time before which the event must not be handled, in milliseconds since 1970.
    pub(crate) not_before_ms: i64,
}

impl RetryRecord {
    /// Returns the record of an event that has failed, for the first time or again.
    pub(crate) fn after(event: &Event, attempts: u32, not_before_ms: i64) -> Self {
        match Self::of(event) {
            Some(before) => Self { attempts, not_before_ms, ..before },
            None => Self {
                topic: event.topic.to_string(),
                partition: event.partition,
                offset: event.offset,
                timestamp_ms: event.timestamp_ms,
                attempts,
                not_before_ms,
            },
        }
    }

    /// Returns the record in an event's headers; `None` if the event does not come from a retry topic.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let header = |name| event.headers.last(name);
        Some(Self {
            topic: String::from_utf8(header(TOPIC)?.to_vec()).ok()?,
            partition: i32::from_be_bytes(header(PARTITION)?.try_into().ok()?),
            offset: i64::from_be_bytes(header(OFFSET)?.try_into().ok()?),
            timestamp_ms: header(TIMESTAMP)
                .and_then(|bytes| Some(i64::from_be_bytes(bytes.try_into().ok()?))),
            attempts: u32::from_be_bytes(header(ATTEMPTS)?.try_into().ok()?),
            not_before_ms: integer(header(BACKOFF_TIMESTAMP)?)?,
        })
    }

    /// Returns the event's own headers, and those of this record.
    pub(crate) fn headers(&self, event: &Event, error: &str) -> Headers {
        let own = event.headers.iter().filter(|header| !is_retry_header(&header.name)).cloned();
        let since = self.timestamp_ms.unwrap_or_default();
        let more = [
            (TOPIC, self.topic.as_bytes().to_vec()),
            (PARTITION, self.partition.to_be_bytes().to_vec()),
            (OFFSET, self.offset.to_be_bytes().to_vec()),
            (ATTEMPTS, self.attempts.to_be_bytes().to_vec()),
            (BACKOFF_TIMESTAMP, self.not_before_ms.to_be_bytes().to_vec()),
            (RETRY_TIMESTAMP, since.to_be_bytes().to_vec()),
            (MESSAGE, error.as_bytes().to_vec()),
        ];
        let timestamp = self.timestamp_ms.map(|time| (TIMESTAMP, time.to_be_bytes().to_vec()));
        let more = more.into_iter().chain(timestamp);
        own.chain(more.map(|(name, value)| Header { name: name.to_owned(), value: Some(value) })).collect()
    }
}

/// Reports whether a header belongs to a retry topic and not to the event.
pub(crate) fn is_retry_header(name: &str) -> bool {
    ["retry_topic-", "kafka_original-", "kafka_exception-"].iter().any(|prefix| name.starts_with(prefix))
}

/// Reads a number as Java's `BigInteger` writes it: the highest byte first, as short as possible. Returns `None` for more
/// than 8 bytes or none.
fn integer(bytes: &[u8]) -> Option<i64> {
    let first = *bytes.first().filter(|_| bytes.len() <= 8)?;
    let sign: i64 = if first >= 0x80 { -1 } else { 0 };
    Some(bytes.iter().fold(sign, |number, byte| (number << 8) | i64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(headers: Headers) -> Event {
        let (topic, key, value) = ("orders".into(), None, None);
        Event { topic, partition: 3, offset: 17, key, value, headers, timestamp_ms: Some(9) }
    }

    #[test]
    fn what_java_writes_is_read() {
        assert_eq!(integer(&[0x01, 0x8B, 0xCF, 0xE5, 0x68, 0x00]), Some(1_700_000_000_000));
        assert_eq!((integer(&[]), integer(&[0; 9]), integer(&[0xFF])), (None, None, Some(-1)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_keeps_the_origin(attempts in any::<[u32; 2]>(), times in any::<[i64; 2]>()) {
            let own = Header { name: "id".to_owned(), value: None };
            let first = event(Headers::from_iter([own.clone()]));
            let record = RetryRecord::after(&first, attempts[0], times[0]);
            let second = Event { topic: "orders-retry-0".into(), ..event(record.headers(&first, "no")) };
            prop_assert_eq!(RetryRecord::of(&second), Some(record));
            let again = RetryRecord::after(&second, attempts[1], times[1]);
            prop_assert_eq!((again.topic.as_str(), again.partition, again.offset), ("orders", 3, 17));
            let headers = again.headers(&second, "no");
            prop_assert_eq!(headers.iter().filter(|header| **header == own).count(), 1);
            prop_assert_eq!(headers.iter().filter(|header| header.name == ATTEMPTS).count(), 1);
        }

        #[test]
        fn any_header_is_read_or_ignored(value in any::<Vec<u8>>()) {
            let names = [TOPIC, PARTITION, OFFSET, TIMESTAMP, ATTEMPTS, BACKOFF_TIMESTAMP];
            let header = |name: &&str| Header { name: (*name).to_owned(), value: Some(value.clone()) };
            RetryRecord::of(&event(names.iter().map(header).collect()));
        }
    }
}
