//! Identity of an event.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Event;

/// Scope in which an event's id is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IdScope {
    /// The events of a topic; for CloudEvents, whose id is in the header `ce_id`, those with the same `ce_source`. Events in retry
    /// topics belong to the topic from which they came.
    #[default]
    Topic,
    /// All events of the consumer. It suits ids that are random or named by their source, such as UUIDs, when the same event may
    /// come from several topics.
    Consumer,
}

/// Identity of an event, which its repeats share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Scope of the id: a topic or the source of a CloudEvent; empty for [`IdScope::Consumer`].
    pub(crate) source: Arc<str>,
    pub(crate) id: Arc<str>,
    /// Hash of key and value.
    pub(crate) content: i64,
}

impl Identity {
    pub(crate) fn new(source: Arc<str>, id: Arc<str>, event: &Event) -> Self {
        Self { source, id, content: hash(event) }
    }

    /// Returns the source and the id, as a key of maps.
    pub(crate) fn scoped_id(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.source), Arc::clone(&self.id))
    }
}

/// Returns the first 64 bits of SHA-256 over key and value. Headers are excluded: a repeat may have different ones, such as those
/// of a replay.
fn hash(event: &Event) -> i64 {
    let mut hash = Sha256::new();
    for part in [&event.key, &event.value] {
        // A missing part differs from an empty one, and the length keeps the parts apart.
        let length = part.as_ref().map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        hash.update(length.to_be_bytes());
        hash.update(part.as_deref().unwrap_or_default());
    }
    let digest = hash.finalize();
    digest.first_chunk().map_or(0, |first| i64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::event;

    #[test]
    fn contents_differ_by_key_and_value_and_not_by_headers() {
        let of = |key: Option<&str>, value: Option<&str>, headers: &[(&str, &str)]| {
            let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
            hash(&Event { key: bytes(key), value: bytes(value), ..event(headers) })
        };
        let one = of(Some("a"), Some("b"), &[]);
        assert_eq!(one, of(Some("a"), Some("b"), &[("x", "y")]));
        let others = [
            of(Some("a"), Some("c"), &[]),
            of(Some("ab"), Some(""), &[]),
            of(Some(""), Some("ab"), &[]),
            of(None, Some("ab"), &[]),
            of(Some("ab"), None, &[]),
        ];
        let distinct = others.iter().chain([&one]).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(distinct.len(), 6);
    }
}
