//! Dead letters in the index.

use outboxd_inbox::dead_letter::{Contents, DeadLetter, replay_count};
use sha2::{Digest as _, Sha256};

use super::state::Outcome;

/// Digest of the contents of a dead letter, or of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Digest([u8; 16]);

/// Facts of a dead letter in the index: neither its value nor its key.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// Time at which it was given up if that is known, otherwise the record's timestamp.
    pub(super) when_ms: Option<i64>,
    /// The number of its [`Cause`].
    pub(super) cause: usize,
    pub(super) origin_partition: Option<i32>,
    pub(super) origin_offset: Option<i64>,
    pub(super) key: Option<Digest>,
    pub(super) contents: Contents,
    pub(super) replays: u32,
    pub(super) digest: Digest,
    /// True if the filters accept it.
    pub(super) selected: bool,
    pub(super) outcome: Option<Outcome>,
}

/// Common facts of dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Cause {
    pub(super) dialect: Option<&'static str>,
    pub(super) topic: Option<String>,
    pub(super) consumer: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) exception: Option<String>,
}

/// A borrowed record.
#[derive(Debug)]
pub(super) struct RecordView<'r> {
    pub(super) timestamp_ms: Option<i64>,
    pub(super) key: Option<&'r [u8]>,
    pub(super) value: Option<&'r [u8]>,
    pub(super) headers: Vec<(&'r str, Option<&'r [u8]>)>,
}

impl RecordView<'_> {
    /// Parses its headers.
    pub(super) fn read(&self) -> Option<DeadLetter> {
        DeadLetter::read(self.headers.iter().copied())
    }

    pub(super) fn replays(&self) -> u32 {
        replay_count(self.headers.iter().copied())
    }

    /// Returns the digest, which identifies the record.
    pub(super) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(self.timestamp_ms.unwrap_or(-1).to_be_bytes());
        add(&mut hash, self.key);
        add(&mut hash, self.value);
        for (name, value) in &self.headers {
            add(&mut hash, Some(name.as_bytes()));
            add(&mut hash, *value);
        }
        Digest::of(hash)
    }
}

impl Cause {
    pub(super) fn of(letter: Option<&DeadLetter>) -> Self {
        let Some(letter) = letter else { return Self::default() };
        Self {
            dialect: Some(letter.dialect.name()),
            topic: letter.origin.as_ref().map(|origin| origin.topic.clone()),
            consumer: letter.consumer.clone(),
            reason: letter.reason.clone(),
            exception: letter.exception.clone(),
        }
    }
}

impl Digest {
    pub(super) fn of_key(key: &[u8]) -> Self {
        Self::of(Sha256::new_with_prefix(key))
    }

    fn of(hash: Sha256) -> Self {
        Self(hash.finalize().first_chunk().copied().unwrap_or_default())
    }
}

/// Formats as hexadecimal digits.
impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Hashes a part with its length, so that the next part is not mistaken for a piece of it.
fn add(hash: &mut Sha256, part: Option<&[u8]>) {
    let length = part.and_then(|part| u64::try_from(part.len()).ok()).unwrap_or(u64::MAX);
    hash.update(length.to_be_bytes());
    hash.update(part.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_distinguishes_records() {
        let of = |key: Option<&str>, value: Option<&str>, header: (&str, Option<&str>)| {
            let headers = vec![(header.0, header.1.map(str::as_bytes))];
            let view = RecordView {
                timestamp_ms: Some(1),
                key: key.map(str::as_bytes),
                value: value.map(str::as_bytes),
                headers,
            };
            view.digest()
        };
        let all = [
            of(Some("a"), Some("b"), ("c", Some("d"))),
            of(Some("ab"), Some(""), ("c", Some("d"))),
            of(Some("ab"), None, ("c", Some("d"))),
            of(None, Some("b"), ("c", Some("d"))),
            of(Some("a"), Some("b"), ("c", None)),
            of(Some("a"), Some("b"), ("cd", Some(""))),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(all[0], of(Some("a"), Some("b"), ("c", Some("d"))));
    }
}
