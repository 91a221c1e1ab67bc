//! Converted records: bytes that are sent to Kafka unchanged.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Header with the event's id.
pub const ID_HEADER: &str = "id";

/// Header with the event's position in the source, as `SYSTEM/COMMIT/L<LSN>/NUMBER`: the system identifier, the commit
/// LSN and the LSN of the change in 16 hexadecimal digits each, and its number among the changes with that LSN in 8. A
/// record other than the first one of its event has its part behind them, as `/PART` in 2 digits.
pub const POSITION_HEADER: &str = "outboxd.position";

/// Header that identifies a change event when it is produced again: a digest of the change, in 16 hexadecimal digits.
/// The event itself contains its creation time, and so differs each time.
pub const DIGEST_HEADER: &str = "outboxd.digest";

/// Header of a dead letter that is too large even for its topic: the size in bytes of its value, which is omitted.
pub const VALUE_OMITTED_HEADER: &str = "outboxd.errors.value.left.out.bytes";

/// Hash that identifies a record when its row is read again. Not stable from one version of outboxd to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Returns the fingerprint of a record with this key, value and `id` header. Topic, partition and timestamp do not
    /// count.
    #[must_use]
    pub fn new(key: Option<&[u8]>, value: Option<&[u8]>, id: Option<&[u8]>) -> Self {
        let mut hasher = DefaultHasher::new();
        (key, value, id).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Returns the fingerprint of a record with these headers. If they have the digest of a change, it counts instead
    /// of the value and the id.
    #[must_use]
    pub fn of<'r>(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'r str, Option<&'r [u8]>)>,
    ) -> Self {
        let (mut id, mut digest) = (None, None);
        for (name, text) in headers {
            match name {
                ID_HEADER => id = id.or(Some(text)),
                DIGEST_HEADER => digest = text,
                _ => {}
            }
        }
        let Some(digest) = digest else { return Self::new(key, value, id.flatten()) };
        // A delete and its tombstone belong to one change and have the same key.
        let what = if value.is_some() { "event" } else { "tombstone" };
        Self::new(key, Some(digest), Some(what.as_bytes()))
    }
}

/// One header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Name of the header.
    pub name: &'a str,
    /// Bytes of the header; `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
}

/// A record in the form that is sent to Kafka. It borrows from the receive buffer and from the encoder's scratch space,
/// and lives until the producer has copied it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerRecord<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Partition, if the row determines it; otherwise the key's hash does.
    pub partition: Option<i32>,
    /// Record timestamp, in milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// The key; `None` is Kafka's null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
    /// The headers, in wire order.
    pub headers: &'a [Header<'a>],
    /// Text of [`POSITION_HEADER`], which follows the other headers, if requested.
    pub position: Option<&'a [u8]>,
}

/// A waiting record, which owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    topic: String,
    partition: Option<i32>,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl From<&ProducerRecord<'_>> for OwnedRecord {
    fn from(record: &ProducerRecord<'_>) -> Self {
        let header = |header: &Header<'_>| (header.name.to_owned(), header.value.map(<[u8]>::to_vec));
        Self {
            topic: record.topic.to_owned(),
            partition: record.partition,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.iter().map(header).collect(),
        }
    }
}

impl OwnedRecord {
    /// Returns the headers, for [`Self::as_record`].
    #[must_use]
    pub fn headers(&self) -> Vec<Header<'_>> {
        self.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect()
    }

    /// Returns the record for the producer, without its position, which is added when it is sent.
    #[must_use]
    pub fn as_record<'a>(&'a self, headers: &'a [Header<'a>]) -> ProducerRecord<'a> {
        ProducerRecord {
            topic: &self.topic,
            partition: self.partition,
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
            position: None,
        }
    }
}

/// Returns a header's share of [`ProducerRecord::weight`], in bytes.
pub fn header_weight(name: &str, value: Option<&[u8]>) -> usize {
    name.len().saturating_add(value.map_or(0, <[u8]>::len))
}

impl ProducerRecord<'_> {
    /// Returns the record's weight in the in-flight window: the bytes of its key, its value and its headers with their
    /// names.
    #[must_use]
    pub fn weight(&self) -> usize {
        let headers = self.all_headers().map(|header| header_weight(header.name, header.value));
        let rest = self.key.map_or(0, <[u8]>::len).saturating_add(self.value.map_or(0, <[u8]>::len));
        headers.fold(rest, usize::saturating_add)
    }

    /// Returns all headers, in wire order.
    pub fn all_headers(&self) -> impl Iterator<Item = Header<'_>> {
        let position = self.position.map(|text| Header { name: POSITION_HEADER, value: Some(text) });
        self.headers.iter().copied().chain(position)
    }

    /// Returns the event's id, from the `id` header.
    #[must_use]
    pub fn event_id(&self) -> Option<&[u8]> {
        self.headers.iter().find(|header| header.name == ID_HEADER)?.value
    }

    /// Returns the record's fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.key, self.value, self.headers.iter().map(|header| (header.name, header.value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_known_by_its_digest_and_other_records_by_their_contents() {
        let of = |key: &str, value: Option<&str>, digest: Option<&str>| {
            let headers = [("id", Some(&b"1"[..])), (DIGEST_HEADER, digest.map(str::as_bytes))];
            let count = if digest.is_some() { 2 } else { 1 };
            Fingerprint::of(Some(key.as_bytes()), value.map(str::as_bytes), headers.into_iter().take(count))
        };
        let change = of("k", Some("made at 1"), Some("d"));
        assert_eq!(change, of("k", Some("made at 2"), Some("d")));
        for other in [
            of("l", Some("made at 1"), Some("d")),
            of("k", None, Some("d")),
            of("k", Some("made at 1"), Some("e")),
            of("k", Some("made at 1"), None),
        ] {
            assert_ne!(change, other);
        }
        assert_ne!(of("k", Some("made at 1"), None), of("k", Some("made at 2"), None));
        assert_eq!(of("k", Some("v"), None), Fingerprint::new(Some(b"k"), Some(b"v"), Some(b"1")));
    }

    /// Everything that is copied into the producer's queue.
    #[test]
    fn each_part_of_a_record_counts_in_the_window() {
        let headers = [Header { name: "id", value: Some(b"123") }, Header { name: "null", value: None }];
        let record = ProducerRecord {
            topic: "a",
            partition: None,
            timestamp_ms: 7,
            key: Some(b"ke"),
            value: Some(b"value"),
            headers: &headers,
            position: Some(b"p"),
        };
        let of_headers = 2 + 3 + 4 + POSITION_HEADER.len() + 1;
        assert_eq!(record.weight(), 2 + 5 + of_headers);
        assert_eq!(ProducerRecord { key: None, value: None, ..record }.weight(), of_headers);
        assert_eq!(ProducerRecord { headers: &[], position: None, ..record }.weight(), 2 + 5);
    }

    #[test]
    fn a_record_that_waits_is_the_one_that_came() {
        let headers = [Header { name: ID_HEADER, value: Some(b"1") }, Header { name: "null", value: None }];
        let full = ProducerRecord {
            topic: "a",
            partition: Some(3),
            timestamp_ms: 7,
            key: Some(b"k"),
            value: Some(b"v"),
            headers: &headers,
            position: None,
        };
        let bare = ProducerRecord { partition: None, key: None, value: None, headers: &[], ..full };
        for record in [full, bare] {
            let owned = OwnedRecord::from(&record);
            assert_eq!(owned.as_record(&owned.headers()), record);
        }
    }
}
