//! Digests of rows and records.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::connect::record::{DIGEST_HEADER, POSITION_HEADER};
use crate::trace::is_of_trace;

/// Header that identifies the process that sent the record. Its value differs each time.
const RUN_ID_HEADER: &str = "__debezium.context.runId";

/// Headers that `outboxd dlq replay` adds to a record that it sends again.
const REPLAY_HEADERS: &str = "outboxd.replay.";

/// Identity by which a row and its records find each other: the hash of the event's id.
///
/// Two events may share one. That is no harm: events of one identity are distinguished by their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity(pub u64);

/// Parts of a record, as digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Contents {
    /// Digest of the key.
    pub key: u64,
    /// Digest of the value.
    pub value: u64,
    /// Digest of the headers, but for those that differ each time the record is sent, and those of outboxd's
    /// own.
    pub headers: u64,
}

/// Treatment of the headers of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceHeaders {
    /// Compared: they are the event's, from a column.
    Compared,
    /// Tracing makes them, and others each time.
    Skipped,
}

/// A part of a record that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The key.
    Key,
    /// The value.
    Value,
    /// The headers.
    Headers,
    /// The record's timestamp, when a column decides it.
    Timestamp,
    /// The partition, when a column decides it.
    Partition,
}

/// Parts of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Parts(u8);

impl Identity {
    /// Returns the identity of an event with this id. One without an id is identified by its key and value.
    #[must_use]
    pub(crate) fn new(id: Option<&[u8]>, contents: Contents) -> Self {
        match id {
            Some(id) => Self(hash(id)),
            None => Self(hash((contents.key, contents.value))),
        }
    }

    /// Returns the identity of a key in a topic.
    #[must_use]
    pub(crate) fn of_key(topic: u32, key: &[u8]) -> Self {
        Self(hash((topic, key)))
    }

    /// Returns the identity of a row without a key, made of its fields.
    #[must_use]
    pub(crate) fn of_fields(topic: u32, fields: impl Hash) -> Self {
        Self(hash((topic, fields)))
    }

    /// Returns a number below `1 << bits`, the same for the same identity.
    #[must_use]
    pub(crate) const fn range(self, bits: u32) -> u64 {
        self.0 >> (u64::BITS - bits)
    }

    /// Returns whether it belongs to the part of all identities that is `share` of 2^32.
    #[must_use]
    pub(crate) const fn is_in_share(self, share: u64) -> bool {
        // Not the bits that decide the range.
        self.0 & 0xFFFF_FFFF < share
    }
}

impl Contents {
    /// Computes the digests of a record with this key, value and headers.
    #[must_use]
    pub(crate) fn new<'a>(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
        traces: TraceHeaders,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        for (name, value) in headers {
            match name {
                POSITION_HEADER | DIGEST_HEADER => {}
                _ if name.starts_with(REPLAY_HEADERS) => {}
                _ if traces == TraceHeaders::Skipped && is_of_trace(name) => {}
                RUN_ID_HEADER => name.hash(&mut hasher),
                _ => (name, value).hash(&mut hasher),
            }
        }
        Self { key: hash(key), value: hash(value), headers: hasher.finish() }
    }

    /// Returns the parts that differ.
    #[must_use]
    pub(crate) fn difference(self, other: Self) -> Parts {
        let mut parts = Parts::default();
        parts.set(Part::Key, self.key != other.key);
        parts.set(Part::Value, self.value != other.value);
        parts.set(Part::Headers, self.headers != other.headers);
        parts
    }
}

impl Part {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Key, "key"),
        (Self::Value, "value"),
        (Self::Headers, "headers"),
        (Self::Timestamp, "timestamp"),
        (Self::Partition, "partition"),
    ];

    const fn bit(self) -> u8 {
        match self {
            Self::Key => 1,
            Self::Value => 2,
            Self::Headers => 4,
            Self::Timestamp => 8,
            Self::Partition => 16,
        }
    }
}

impl Parts {
    /// Adds a part if it differs.
    pub(crate) const fn set(&mut self, part: Part, differs: bool) {
        if differs {
            self.0 |= part.bit();
        }
    }

    /// Returns whether there is none.
    #[must_use]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether only this part differs.
    #[must_use]
    pub(crate) const fn are_only(self, part: Part) -> bool {
        self.0 == part.bit()
    }

    /// Returns the names of the parts.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Part::ALL.into_iter().filter(move |(part, _)| self.0 & part.bit() != 0).map(|(_, name)| name)
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        f.write_str(&names.join(", "))
    }
}

pub(super) fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(key: &str, value: &str, headers: &[(&'static str, &'static str)]) -> Contents {
        let headers = headers.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
        Contents::new(Some(key.as_bytes()), Some(value.as_bytes()), headers, TraceHeaders::Compared)
    }

    /// It is the event that it was before.
    #[test]
    fn a_dead_letter_that_was_sent_again_has_the_contents_of_its_event() {
        let of_event = [("id", "1"), ("type", "E")];
        let again =
            [("id", "1"), ("type", "E"), ("outboxd.replay.count", "1"), ("outboxd.replay.from", "dead/0/7")];
        assert_eq!(contents("k", "v", &of_event), contents("k", "v", &again));
    }

    #[test]
    fn what_tracing_has_made_may_differ_and_what_a_column_says_may_not() {
        let with_span = |traceparent: &'static [u8], traces| {
            let headers = [("traceparent", traceparent), ("tracestate", b"a=b"), ("id", b"1")];
            Contents::new(None, None, headers.into_iter().map(|(name, value)| (name, Some(value))), traces)
        };
        let id = std::iter::once(("id", Some(&b"1"[..])));
        let untraced = Contents::new(None, None, id, TraceHeaders::Skipped);
        assert_eq!(with_span(b"00-1", TraceHeaders::Skipped), untraced);
        let [one, other] = [&b"00-1"[..], b"00-2"].map(|parent| with_span(parent, TraceHeaders::Compared));
        assert_eq!(one.difference(other).to_string(), "headers");
    }

    #[test]
    fn what_differs_is_named() {
        let base = contents("k", "v", &[("id", "1"), ("a", "b")]);
        let cases: [(Contents, &str); 8] = [
            (base, ""),
            (contents("l", "v", &[("id", "1"), ("a", "b")]), "key"),
            (contents("k", "w", &[("id", "1"), ("a", "b")]), "value"),
            (contents("k", "v", &[("id", "1"), ("a", "c")]), "headers"),
            (contents("k", "v", &[("a", "b"), ("id", "1")]), "headers"),
            (contents("l", "w", &[]), "key, value, headers"),
            (contents("k", "v", &[("id", "1"), ("a", "b"), (POSITION_HEADER, "1/2/3")]), ""),
            (contents("k", "v", &[("id", "1"), ("a", "b"), (RUN_ID_HEADER, "x")]), "headers"),
        ];
        for (other, expected) in cases {
            assert_eq!(base.difference(other).to_string(), expected);
        }
    }

    #[test]
    fn the_run_may_differ() {
        let [one, other] = ["1", "2"].map(|run| contents("k", "v", &[(RUN_ID_HEADER, run)]));
        assert_eq!(one, other);
    }

    #[test]
    fn null_is_not_empty() {
        let [null, empty] =
            [None, Some(&b""[..])].map(|v| Contents::new(v, v, std::iter::empty(), TraceHeaders::Compared));
        assert_eq!(null.difference(empty).to_string(), "key, value");
        assert_ne!(Identity::new(None, null), Identity::new(Some(b""), null));
        assert_eq!(Identity::new(Some(b"1"), null), Identity::new(Some(b"1"), empty));
    }

    #[test]
    fn a_share_is_about_as_large_as_asked_for() {
        let share = u64::from(u32::MAX) / 10;
        let count = (0..10_000u32)
            .filter(|n| Identity::new(Some(&n.to_le_bytes()), Contents::default()).is_in_share(share))
            .count();
        assert!((900..1_100).contains(&count), "{count}");
    }
}
