//! What leaves the converters: bytes that go to Kafka as they are.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The header that has the event's id.
pub(crate) const ID_HEADER: &str = "id";

/// The header that tells where the event stands in the source: the system identifier, the commit LSN and that of the change in 16
/// hexadecimal digits each, its number among the changes with that LSN in 8; behind them the part in 2, when it is not the first record of
/// its event.
pub(crate) const POSITION_HEADER: &str = "outboxd.position";

/// The header of a change event that must be known again: a digest of the change, in 16 hexadecimal digits. The event itself
/// tells when it was made, and so is another one each time.
pub(crate) const DIGEST_HEADER: &str = "outboxd.digest";

/// The header of a dead letter that is too large even for its topic: how many bytes its value has, which is left out.
pub(crate) const VALUE_LEFT_OUT_HEADER: &str = "outboxd.errors.value.left.out.bytes";

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

    /// Of a record with these headers. One that tells the digest of a change is known by it.
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
        // A delete and its tombstone are of one change and have one key.
        let what = if value.is_some() { "event" } else { "tombstone" };
        Self::new(key, Some(digest), Some(what.as_bytes()))
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

/// A record that waits, when what it borrowed from is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedRecord {
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
    /// Its headers, for [`Self::as_record`].
    #[must_use]
    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        self.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect()
    }

    /// The record as the producer takes it. Its position is told when it is sent.
    #[must_use]
    pub(crate) fn as_record<'a>(&'a self, headers: &'a [Header<'a>]) -> ProducerRecord<'a> {
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

/// What a header counts for in [`ProducerRecord::weight`].
pub(crate) fn header_weight(name: &str, value: Option<&[u8]>) -> usize {
    name.len().saturating_add(value.map_or(0, <[u8]>::len))
}

impl ProducerRecord<'_> {
    /// What the record counts for in the in-flight window: the bytes of its key, its value and its headers with their names.
    #[must_use]
    pub fn weight(&self) -> usize {
        let headers = self.all_headers().map(|header| header_weight(header.name, header.value));
        let rest = self.key.map_or(0, <[u8]>::len).saturating_add(self.value.map_or(0, <[u8]>::len));
        headers.fold(rest, usize::saturating_add)
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
