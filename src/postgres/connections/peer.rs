//! Identity of the service of a session. `application_name` contains it for a second instance, which stands
//! by for its own service only: rows of another one that has the same `slot.name` would never be sent.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

/// Prefix of the sessions' `application_name`, which distinguishes a second instance from a foreign program.
pub(crate) const APPLICATION: &str = "outboxd";

/// The server cuts a longer `application_name` off.
const APPLICATION_BYTES_MAX: usize = 63;

/// Bytes of the digest that replaces a slot name that is too long.
const DIGEST_BYTES: usize = 4;

/// Between the slot's name and the digests; it is in no slot's name.
const SEPARATOR: char = '#';

/// Hexadecimal digits of each digest.
const DIGITS: usize = 4;

/// Subjects of the digests, in their order.
const ASPECTS: [&str; 4] =
    ["another name", "another topic.prefix", "other lists of tables", "another Kafka cluster"];

/// Identity that makes two processes instances of one service, as digests. Zero is unknown.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    configured: [u16; 3],
    /// Destination of its events; unknown at first.
    target: Arc<OnceLock<u16>>,
}

impl Peer {
    /// Creates it from the connector's name, the prefix of topics, and the lists of captured objects, which
    /// may have any order.
    #[must_use]
    pub fn new(name: &str, topic_prefix: &str, lists: &[&[String]]) -> Self {
        let sorted = |list: &&[String]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list.join("\n")
        };
        let lists: Vec<String> = lists.iter().map(sorted).collect();
        Self { configured: [name, topic_prefix, &lists.join("\0")].map(digest), target: Arc::default() }
    }

    /// Stores the identity of the Kafka cluster, or other destination, once it is known.
    pub(crate) fn learn_target(&self, target: &str) {
        self.target.get_or_init(|| digest(target));
    }

    /// Returns the `application_name` of this service's sessions: a name for each slot, by which a second
    /// instance recognises the one that sends the snapshot, and the digests.
    pub(crate) fn application(&self, slot: &str) -> String {
        let mut text = base(slot);
        text.push(SEPARATOR);
        for digest in self.digests() {
            // Writing to a string does not fail.
            write!(text, "{digest:04x}").ok();
        }
        text
    }

    /// Returns the differences of an outboxd session to this service: nothing, or `another name, other lists
    /// of tables`. Sessions of an earlier outboxd have no digests.
    pub(crate) fn differences(&self, application: &str) -> Option<String> {
        let (_, digests) = application.split_once(SEPARATOR)?;
        let digests: Vec<char> = digests.chars().collect();
        let theirs = digests.chunks(DIGITS).map(|digits| u16::from_str_radix(&String::from_iter(digits), 16));
        let differ = |ours: u16, theirs: u16| ours != 0 && theirs != 0 && ours != theirs;
        let compared = ASPECTS.into_iter().zip(self.digests()).zip(theirs);
        let different =
            compared.filter(|((_, ours), theirs)| theirs.as_ref().is_ok_and(|theirs| differ(*ours, *theirs)));
        let different: Vec<&str> = different.map(|((aspect, _), _)| aspect).collect();
        (!different.is_empty()).then(|| different.join(", "))
    }

    /// Returns the part of a message about a session that is another service's.
    pub(crate) fn other(&self, application: &str) -> Option<String> {
        let ours = application.starts_with(APPLICATION);
        let differences = self.differences(application).filter(|_| ours)?;
        Some(format!(": an outboxd of another service, with {differences}"))
    }

    fn digests(&self) -> [u16; 4] {
        let [name, topic_prefix, lists] = self.configured;
        [name, topic_prefix, lists, self.target.get().copied().unwrap_or_default()]
    }
}

/// Returns an `application_name` for display: outboxd's own without the digests.
pub(crate) fn shown(application: &str) -> &str {
    match application.split_once(SEPARATOR) {
        Some((base, _)) if application.starts_with(APPLICATION) => base,
        _ => application,
    }
}

/// Returns the name without digests. A long slot name is cut, and a digest of it replaces the rest; the tilde
/// is in no slot's name.
pub(crate) fn base(slot: &str) -> String {
    let room = APPLICATION_BYTES_MAX.saturating_sub(SEPARATOR.len_utf8() + DIGITS * ASPECTS.len());
    let whole = format!("{APPLICATION}/{slot}");
    if whole.len() <= room {
        return whole;
    }
    let digest = Sha256::digest(slot.as_bytes());
    let digest: String = digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let kept = room.saturating_sub(digest.len()).saturating_sub(1);
    format!("{whole:.kept$}~{digest}")
}

/// Returns a digest that is never zero.
fn digest(text: &str) -> u16 {
    let digest = Sha256::digest(text.as_bytes());
    digest.as_slice().first_chunk().map_or(1, |bytes| u16::from_be_bytes(*bytes).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, prefix: &str, tables: &[&str], target: &str) -> Peer {
        let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
        let peer = Peer::new(name, prefix, &[&tables, &[]]);
        if !target.is_empty() {
            peer.learn_target(target);
        }
        peer
    }

    #[test]
    fn only_the_same_service_is_the_same() {
        let ours = peer("n", "p", &["a", "b"], "k");
        for (other, expected) in [
            (peer("n", "p", &["b", "a"], "k"), None),
            (peer("n", "p", &["a", "b"], ""), None),
            (peer("m", "p", &["a", "b"], "k"), Some("another name")),
            (peer("n", "q", &["a", "b"], ""), Some("another topic.prefix")),
            (peer("n", "p", &["a"], "k"), Some("other lists of tables")),
            (peer("n", "p", &["a", "b"], "l"), Some("another Kafka cluster")),
            (
                peer("m", "q", &[], "l"),
                Some("another name, another topic.prefix, other lists of tables, another Kafka cluster"),
            ),
        ] {
            let (said, heard) = (other.application("slot"), ours.application("slot"));
            assert_eq!(ours.differences(&said).as_deref(), expected, "{said}");
            assert_eq!(other.differences(&heard).as_deref(), expected, "{heard}");
        }
        for older in ["outboxd/slot", "outboxd/slot#", "outboxd/slot#zzzz", "outboxd/slot#é"] {
            assert_eq!(ours.differences(older), None, "{older}");
        }
    }

    #[test]
    fn the_name_of_a_slot_fits_and_stays_another_one() {
        let names = ["s".repeat(63), "s".repeat(62) + "t", "s".repeat(38), "s".repeat(39)];
        let applications = names.map(|name| Peer::default().application(&name));
        for (number, application) in applications.iter().enumerate() {
            assert!(application.len() <= APPLICATION_BYTES_MAX, "{application}");
            assert!(!applications.iter().skip(number + 1).any(|other| other == application), "{application}");
        }
        assert_eq!(Peer::default().application("orders"), "outboxd/orders#0000000000000000");
        assert_eq!(base("orders"), "outboxd/orders");
        assert_eq!(shown(&Peer::default().application("orders")), "outboxd/orders");
        assert_eq!(shown("psql #1"), "psql #1");
    }
}
