//! Keys that have a dead letter: their later events follow it, to preserve the order of the key.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::transaction::EventPosition;

/// The keys whose later events follow a dead letter.
///
/// Digests stand for the keys, so that the limit is one of memory too: about 100 bytes a key.
#[derive(Debug)]
pub(super) struct HeldKeys {
    /// Behind which event each is held.
    since: HashMap<[u8; 32], EventPosition>,
    max: usize,
}

/// Error: no room for another key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl HeldKeys {
    pub(super) fn new(max: usize) -> Self {
        Self { since: HashMap::new(), max }
    }

    /// Holds a key of a topic from this event on; without a topic, that of every topic.
    pub(super) fn hold(&mut self, topic: Option<&str>, key: &[u8], at: EventPosition) -> Result<(), Full> {
        let digest = digest(topic, key);
        if self.since.len() >= self.max && !self.since.contains_key(&digest) {
            return Err(Full);
        }
        let since = self.since.entry(digest).or_insert(at);
        *since = at.min(*since);
        Ok(())
    }

    /// Returns the number of keys.
    pub(super) fn count(&self) -> usize {
        self.since.len()
    }

    /// Releases all keys.
    pub(super) fn release(&mut self) {
        self.since.clear();
    }

    /// Returns the dead letter that an event follows. An event before it does not follow: after a broken
    /// connection it is read again.
    pub(super) fn held_behind(&self, topic: &str, key: &[u8], at: EventPosition) -> Option<EventPosition> {
        if self.since.is_empty() {
            return None;
        }
        let found = [Some(topic), None].map(|topic| self.since.get(&digest(topic, key)).copied());
        found.into_iter().flatten().min().filter(|since| *since < at)
    }
}

fn digest(topic: Option<&str>, key: &[u8]) -> [u8; 32] {
    // No topic has a NUL in its name.
    let topic = topic.unwrap_or("\0");
    Sha256::new().chain_update(topic).chain_update("\0").chain_update(key).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::wal::Lsn;

    fn at(commit_lsn: u64, ordinal: u64) -> EventPosition {
        EventPosition::new(Lsn::new(commit_lsn), Lsn::new(commit_lsn.saturating_sub(1)), ordinal)
    }

    #[test]
    fn later_events_of_the_key_follow_and_no_others() {
        let mut keys = HeldKeys::new(10);
        keys.hold(Some("a"), b"1", at(10, 3)).unwrap();
        keys.hold(None, b"2", at(10, 4)).unwrap();
        keys.hold(Some("a"), b"1", at(20, 0)).unwrap();
        let cases = [
            ("a", "1", at(10, 2), None),
            // The dead letter itself, read again.
            ("a", "1", at(10, 3), None),
            // The next record of the same change.
            ("a", "1", at(10, 3).next_part(), Some(at(10, 3))),
            ("a", "1", at(10, 4), Some(at(10, 3))),
            ("a", "1", at(30, 0), Some(at(10, 3))),
            ("b", "1", at(30, 0), None),
            ("a", "11", at(30, 0), None),
            ("b", "2", at(11, 0), Some(at(10, 4))),
            ("\0b", "2", at(11, 0), Some(at(10, 4))),
        ];
        for (topic, key, position, expected) in cases {
            assert_eq!(keys.held_behind(topic, key.as_bytes(), position), expected, "{topic} {key}");
        }
    }

    #[test]
    fn there_is_a_limit_and_what_is_held_stays_so() {
        let mut keys = HeldKeys::new(2);
        assert_eq!(keys.hold(Some("a"), b"1", at(1, 0)), Ok(()));
        assert_eq!(keys.hold(Some("a"), b"2", at(2, 0)), Ok(()));
        assert_eq!(keys.hold(Some("a"), b"3", at(3, 0)), Err(Full));
        assert_eq!(keys.hold(Some("a"), b"1", at(4, 0)), Ok(()));
        assert_eq!(keys.held_behind("a", b"3", at(5, 0)), None);
        assert_eq!(keys.held_behind("a", b"1", at(5, 0)), Some(at(1, 0)));
    }

    proptest! {
        #[test]
        fn it_holds_as_a_plain_map_does(
            steps in prop::collection::vec((prop::option::of("[ab]"), "[xy]{0,2}", 0..9u64, any::<bool>()), 0..60),
        ) {
            let (mut keys, mut naive) = (HeldKeys::new(100), BTreeMap::new());
            for (topic, key, lsn, holds) in steps {
                if holds {
                    keys.hold(topic.as_deref(), key.as_bytes(), at(lsn, 0)).unwrap();
                    let since = naive.entry((topic, key)).or_insert(lsn);
                    *since = lsn.min(*since);
                    continue;
                }
                let asked = topic.unwrap_or_else(|| "a".to_owned());
                let found = [Some(asked.clone()), None].map(|topic| naive.get(&(topic, key.clone())).copied());
                let expected = found.into_iter().flatten().min().filter(|since| *since < lsn);
                prop_assert_eq!(keys.held_behind(&asked, key.as_bytes(), at(lsn, 0)), expected.map(|lsn| at(lsn, 0)));
            }
        }
    }
}
