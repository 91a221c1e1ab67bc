//! Plan of the dead letters to send, their order, and those that are held back.

use std::collections::{HashMap, HashSet};
use std::fmt;

use outboxd_inbox::dead_letter::Contents;

use super::index::Index;
use super::letter::{Digest, Letter};

/// The order in which dead letters are sent, by their numbers in the index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) order: Vec<usize>,
    pub(super) held: Vec<(usize, Hold)>,
    /// Number of those that go before an earlier dead letter of their key that the filters exclude.
    pub(super) overtaking: u64,
}

/// Reason for which a dead letter is not sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hold {
    NoOrigin,
    Row,
    ValueLeftOut,
    Replayed,
    NoTopic(String),
    Follows,
    Gone,
    OriginGone,
    Changed,
    Refused(String),
}

/// Destination of dead letters.
#[derive(Debug)]
pub(super) struct Target<'t> {
    pub(super) to: Option<&'t str>,
    pub(super) max_replays: u32,
    /// The topics that exist, with their partitions.
    pub(super) topics: &'t HashMap<String, usize>,
}

/// Dead letters of one key, from one topic.
pub(super) type Group<'i> = (Option<&'i str>, Digest);

impl Plan {
    /// Plans the dead letters that the filters accept.
    pub(super) fn new(index: &Index, target: &Target<'_>) -> Self {
        let (mut plan, mut held) = (Self::default(), HashSet::new());
        let mut left_out: HashSet<Group<'_>> = HashSet::new();
        for number in in_order(index) {
            let Some(letter) = index.letters.get(number) else { continue };
            let group = group(index, letter);
            if !letter.selected {
                left_out.extend(group);
                continue;
            }
            let follows = || group.filter(|group| held.contains(group)).map(|_| Hold::Follows);
            match target.hold(index, letter).or_else(follows) {
                Some(hold) => {
                    held.extend(group);
                    plan.held.push((number, hold));
                }
                None => {
                    let overtakes = group.is_some_and(|group| left_out.contains(&group));
                    plan.overtaking = plan.overtaking.saturating_add(u64::from(overtakes));
                    plan.order.push(number);
                }
            }
        }
        plan
    }

    /// Plans to discard all that the filters accept, in the order of the topic: they have no destination.
    pub(super) fn to_discard(index: &Index) -> Self {
        let selected = index.letters.iter().enumerate().filter(|(_, letter)| letter.selected);
        Self { order: selected.map(|(number, _)| number).collect(), ..Self::default() }
    }
}

impl Target<'_> {
    /// Returns the destination topic of a dead letter, and its partition if it must have the same one as
    /// before.
    pub(super) fn of<'l>(&'l self, index: &'l Index, letter: &Letter) -> Option<(&'l str, Option<i32>)> {
        if let Some(to) = self.to {
            return Some((to, None));
        }
        let topic = index.cause(letter)?.topic.as_deref()?;
        let partitions = self.topics.get(topic).copied().unwrap_or_default();
        let exists = |partition: &i32| usize::try_from(*partition).is_ok_and(|number| number < partitions);
        Some((topic, letter.origin_partition.filter(exists)))
    }

    fn hold(&self, index: &Index, letter: &Letter) -> Option<Hold> {
        let Some((topic, _)) = self.of(index, letter) else { return Some(Hold::NoOrigin) };
        match letter.contents {
            Contents::Row => return Some(Hold::Row),
            Contents::ValueLeftOut => return Some(Hold::ValueLeftOut),
            Contents::Reference if letter.origin_partition.is_none() || letter.origin_offset.is_none() => {
                return Some(Hold::NoOrigin);
            }
            Contents::Record | Contents::Reference => {}
        }
        if letter.replays >= self.max_replays {
            return Some(Hold::Replayed);
        }
        (!self.topics.contains_key(topic)).then(|| Hold::NoTopic(topic.to_owned()))
    }
}

/// Returns the group that keeps its order. A record without a key has none.
pub(super) fn group<'i>(index: &'i Index, letter: &Letter) -> Option<Group<'i>> {
    Some((index.cause(letter)?.topic.as_deref(), letter.key?))
}

/// Number of a dead letter; partition and offset of its original record.
type Placed = (usize, Option<(i32, i64)>);

/// Returns all dead letters in the order of the topic; but those of one key, from one partition, in the order
/// that they had there. They swap places.
fn in_order(index: &Index) -> Vec<usize> {
    let mut order: Vec<usize> = (0..index.letters.len()).collect();
    let mut groups: HashMap<Group<'_>, Vec<Placed>> = HashMap::new();
    for (number, letter) in index.letters.iter().enumerate() {
        let Some(group) = group(index, letter) else { continue };
        let place = letter.origin_partition.zip(letter.origin_offset);
        groups.entry(group).or_default().push((number, place));
    }
    for places in groups.into_values().filter(|places| places.len() > 1) {
        let partition = |place: &Placed| place.1.map(|(partition, _)| partition);
        let first = places.first().and_then(partition);
        if first.is_none() || places.iter().any(|place| partition(place) != first) {
            continue;
        }
        let mut sorted = places.clone();
        sorted.sort_by_key(|(_, place)| *place);
        for ((slot, _), (number, _)) in places.into_iter().zip(sorted) {
            if let Some(taken) = order.get_mut(slot) {
                *taken = number;
            }
        }
    }
    order
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOrigin => f.write_str("their origin is unknown: name a topic with --to"),
            Self::Row => {
                f.write_str("columns of a row that made no record: insert the event again, then discard")
            }
            Self::ValueLeftOut => f.write_str("the value was too large and is not in the dead letter"),
            Self::Replayed => f.write_str("sent again too often: --max-replays"),
            Self::NoTopic(topic) => write!(f, "there is no topic {topic:?}"),
            Self::Follows => f.write_str("behind a dead letter of the same key that is held back"),
            Self::Gone => f.write_str("not in the dead-letter topic any more"),
            Self::OriginGone => f.write_str("the dead letter only names its record, which no longer exists"),
            Self::Changed => f.write_str("another dead letter has its place now"),
            Self::Refused(reason) => write!(f, "Kafka refuses them: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::change::dlq::letter::Cause;

    fn letter(offset: i64, key: &str, origin_offset: Option<i64>) -> Letter {
        Letter {
            partition: 0,
            offset,
            when_ms: None,
            cause: 0,
            origin_partition: Some(1),
            origin_offset,
            key: (!key.is_empty()).then(|| Digest::of_key(key.as_bytes())),
            contents: Contents::Record,
            replays: 0,
            digest: Digest::of_key(b""),
            selected: true,
            outcome: None,
        }
    }

    fn index(letters: Vec<Letter>) -> Index {
        let of = |topic: Option<&str>| Cause { topic: topic.map(str::to_owned), ..Cause::default() };
        Index {
            letters,
            causes: vec![of(Some("orders")), of(None), of(Some("gone"))],
            begins: HashMap::new(),
        }
    }

    fn plan(letters: Vec<Letter>, to: Option<&str>) -> Plan {
        let topics = HashMap::from([("orders".to_owned(), 3), ("other".to_owned(), 1)]);
        Plan::new(&index(letters), &Target { to, max_replays: 2, topics: &topics })
    }

    #[test]
    fn dead_letters_of_a_key_go_in_the_order_of_their_origin() {
        let letters = vec![
            letter(0, "a", Some(20)),
            letter(1, "b", Some(5)),
            letter(2, "a", Some(10)),
            letter(3, "", Some(2)),
            letter(4, "a", Some(15)),
            letter(5, "", Some(1)),
        ];
        assert_eq!(plan(letters, None).order, [2, 1, 4, 3, 0, 5]);
    }

    #[test]
    fn without_offsets_of_one_partition_they_go_as_they_lie() {
        let elsewhere = Letter { origin_partition: Some(2), ..letter(2, "a", Some(1)) };
        assert_eq!(plan(vec![letter(0, "a", Some(2)), elsewhere], None).order, [0, 1]);
        assert_eq!(plan(vec![letter(0, "a", None), letter(1, "a", Some(1))], None).order, [0, 1]);
    }

    #[test]
    fn a_dead_letter_that_is_held_back_holds_its_key() {
        let tired = Letter { replays: 2, ..letter(1, "a", Some(2)) };
        let letters = vec![letter(0, "a", Some(1)), tired, letter(2, "a", Some(3)), letter(3, "b", Some(4))];
        let plan = plan(letters, None);
        assert_eq!(plan.order, [0, 3]);
        assert_eq!(plan.held, [(1, Hold::Replayed), (2, Hold::Follows)]);
    }

    #[test]
    fn dead_letters_that_cannot_be_sent_are_held_back_with_the_reason() {
        let base = || letter(0, "", Some(1));
        for (letter, to, hold) in [
            (base(), None, None),
            (Letter { cause: 1, ..base() }, None, Some(Hold::NoOrigin)),
            (Letter { cause: 1, ..base() }, Some("other"), None),
            (Letter { cause: 2, ..base() }, None, Some(Hold::NoTopic("gone".to_owned()))),
            (base(), Some("nowhere"), Some(Hold::NoTopic("nowhere".to_owned()))),
            (Letter { contents: Contents::Row, ..base() }, Some("other"), Some(Hold::Row)),
            (Letter { contents: Contents::ValueLeftOut, ..base() }, None, Some(Hold::ValueLeftOut)),
            (Letter { contents: Contents::Reference, ..base() }, None, None),
            (
                Letter { contents: Contents::Reference, origin_offset: None, ..base() },
                None,
                Some(Hold::NoOrigin),
            ),
        ] {
            let plan = plan(vec![letter], to);
            assert_eq!(plan.held.first().map(|(_, hold)| hold.clone()), hold, "{to:?}");
            assert_eq!(plan.order.is_empty(), hold.is_some());
        }
    }

    #[test]
    fn dead_letters_that_overtake_what_the_filters_exclude_are_counted() {
        let left_out = Letter { selected: false, ..letter(0, "a", Some(1)) };
        let plan = plan(vec![left_out, letter(1, "a", Some(2)), letter(2, "b", Some(3))], None);
        assert_eq!((plan.order, plan.overtaking), (vec![1, 2], 1));
    }

    #[test]
    fn the_partition_stays_when_the_topic_still_has_it() {
        let index = index(vec![letter(0, "a", Some(1))]);
        let of = |to, partitions| {
            let topics = HashMap::from([("orders".to_owned(), partitions)]);
            let target = Target { to, max_replays: 1, topics: &topics };
            target.of(&index, &index.letters[0]).map(|(topic, partition)| (topic.to_owned(), partition))
        };
        assert_eq!(of(None, 2), Some(("orders".to_owned(), Some(1))));
        assert_eq!(of(None, 1), Some(("orders".to_owned(), None)));
        assert_eq!(of(Some("other"), 2), Some(("other".to_owned(), None)));
    }
}
