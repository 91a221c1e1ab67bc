//! Topics and partitions that records may be sent to; the first record of a partition is sent alone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::partitioner::partition_of;
use crate::connect::record::ProducerRecord;

/// Most topics that are remembered. With more, which a column of many values can name, each is requested
/// again.
const REMEMBERED_MAX: usize = 10_000;

/// Time for which an answer counts: partitions may be added, and a leader may forget a producer that is idle.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(300);

/// The topics to which records may be sent, and the state of their partitions.
///
/// A leader without a state of the producer accepts any sequence number from it: were the producer's first batch refused,
/// the next ones in flight would be written all the same. So the first record of a partition is sent alone.
#[derive(Debug, Default)]
pub(in crate::kafka) struct Topics {
    known: HashMap<String, Topic>,
    /// Number of times that nothing was in flight any more.
    times_empty: u64,
    /// Value of that counter when answers were last forgotten: the first record of a partition may still be
    /// in flight.
    forgotten: Option<u64>,
}

#[derive(Debug)]
struct Topic {
    asked: Instant,
    /// Number of its partitions then; 0 when that is not known.
    count: usize,
    /// Openings for each partition, and each way of sending, which has a producer of its own.
    partitions: Vec<[Opening; 2]>,
}

/// Number of times that the queue had been empty when a partition had its first record. It is open from the
/// next one on.
type Opening = Option<u64>;

/// Permission to send a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Yes, to this partition; librdkafka chooses one for a record without a key.
    To(Option<i32>),
    /// Once everything in flight is reported, including the first record of its partition.
    AfterQueueEmpty,
    /// Once its topic was requested.
    Unknown,
}

impl Topics {
    /// Decides about a record.
    pub(in crate::kafka) fn admit(&mut self, record: &ProducerRecord<'_>, pace: Pace) -> Admission {
        let Some(topic) = self.known.get_mut(record.topic) else { return Admission::Unknown };
        let partition = match (record.partition, record.key) {
            (None, Some(key)) => partition_of(key, topic.partitions.len()),
            (given, _) => given,
        };
        match partition.and_then(|partition| topic.opening(partition, pace)) {
            Some(None) if self.forgotten == Some(self.times_empty) => return Admission::AfterQueueEmpty,
            Some(opening @ None) => *opening = Some(self.times_empty),
            Some(Some(first)) if *first == self.times_empty => return Admission::AfterQueueEmpty,
            Some(Some(_)) | None => {}
        }
        Admission::To(partition)
    }

    /// Records that nothing is in flight any more.
    pub(in crate::kafka) const fn queue_is_empty(&mut self) {
        self.times_empty = self.times_empty.saturating_add(1);
    }

    /// Returns whether the topic had this partition when it was queried.
    pub(in crate::kafka) fn had(&self, topic: &str, partition: i32) -> bool {
        let count = self.known.get(topic).map_or(0, |topic| topic.count);
        usize::try_from(partition).is_ok_and(|partition| partition < count)
    }

    /// Stores the answer for a topic, which has `count` partitions, 0 when that is not known. `watched` of
    /// them are sent their first record alone; for others librdkafka chooses the partition.
    pub(in crate::kafka) fn insert(&mut self, topic: String, count: usize, watched: usize, asked: Instant) {
        if self.known.len() >= REMEMBERED_MAX {
            self.known.clear();
            self.forgotten = Some(self.times_empty);
        }
        self.known.insert(topic, Topic { asked, count, partitions: vec![[None; 2]; watched] });
    }

    /// Forgets the answers that are too old.
    pub(in crate::kafka) fn forget_old(&mut self, now: Instant) {
        let before = self.known.len();
        self.known.retain(|_, topic| now.saturating_duration_since(topic.asked) < ANSWER_AGE_MAX);
        if self.known.len() < before {
            self.forgotten = Some(self.times_empty);
        }
    }
}

impl Topic {
    fn opening(&mut self, partition: i32, pace: Pace) -> Option<&mut Opening> {
        let ways = self.partitions.get_mut(usize::try_from(partition).ok()?)?;
        ways.get_mut(usize::from(pace == Pace::Bulk))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const TOPIC: &str = "a";

    fn record<'t>(topic: &'t str, partition: Option<i32>, key: Option<&'static [u8]>) -> ProducerRecord<'t> {
        ProducerRecord { topic, partition, timestamp_ms: 0, key, value: None, headers: &[], position: None }
    }

    fn one_topic(partitions: usize) -> Topics {
        let mut topics = Topics::default();
        topics.insert(TOPIC.to_owned(), partitions, partitions, Instant::now());
        topics
    }

    #[test]
    fn a_topic_is_asked_for_first_and_again_after_a_while() {
        let mut topics = Topics::default();
        let (a, b) = (record(TOPIC, None, Some(b"key")), record("b", None, None));
        assert_eq!(topics.admit(&a, Pace::Prompt), Admission::Unknown);
        let asked = Instant::now();
        topics.insert(TOPIC.to_owned(), 1, 1, asked);
        assert_eq!(topics.admit(&a, Pace::Prompt), Admission::To(Some(0)));
        assert_eq!(topics.admit(&b, Pace::Prompt), Admission::Unknown);
        topics.forget_old(asked + ANSWER_AGE_MAX / 2);
        assert_eq!(topics.admit(&a, Pace::Prompt), Admission::AfterQueueEmpty);
        topics.forget_old(asked + ANSWER_AGE_MAX);
        assert_eq!(topics.admit(&a, Pace::Prompt), Admission::Unknown);
    }

    #[test]
    fn a_row_may_decide_and_without_a_key_or_a_count_librdkafka_does() {
        let key: Option<&[u8]> = Some(b"key");
        // Known partitions, the row's partition, its key; the chosen partition.
        let cases = [
            (5, Some(3), key, Some(3)),
            (5, Some(5), key, Some(5)),
            (5, Some(-1), key, Some(-1)),
            (5, None, None, None),
            (0, None, key, None),
            (0, Some(2), None, Some(2)),
        ];
        for (partitions, partition, key, expected) in cases {
            let mut topics = one_topic(partitions);
            let admission = topics.admit(&record(TOPIC, partition, key), Pace::Prompt);
            assert_eq!(admission, Admission::To(expected), "{partition:?} of {partitions}");
        }
    }

    #[test]
    fn a_first_record_is_waited_for_although_its_topic_was_forgotten() {
        let mut topics = one_topic(1);
        let first = record(TOPIC, None, Some(b"key"));
        assert_eq!(topics.admit(&first, Pace::Prompt), Admission::To(Some(0)));
        topics.forget_old(Instant::now() + ANSWER_AGE_MAX);
        topics.insert(TOPIC.to_owned(), 1, 1, Instant::now());
        assert_eq!(topics.admit(&first, Pace::Prompt), Admission::AfterQueueEmpty);
        topics.queue_is_empty();
        assert_eq!(topics.admit(&first, Pace::Prompt), Admission::To(Some(0)));
        assert_eq!(topics.admit(&first, Pace::Prompt), Admission::AfterQueueEmpty);
    }

    #[test]
    fn a_partition_that_existed_is_distinguished_from_one_that_never_did() {
        let mut topics = Topics::default();
        topics.insert(TOPIC.to_owned(), 3, 0, Instant::now());
        let cases = [(TOPIC, 2, true), (TOPIC, 3, false), (TOPIC, -1, false), ("another", 0, false)];
        for (topic, partition, expected) in cases {
            assert_eq!(topics.had(topic, partition), expected, "{partition} of {topic}");
        }
    }

    #[test]
    fn topics_without_end_are_not_remembered() {
        let mut topics = Topics::default();
        for number in 0..=REMEMBERED_MAX {
            topics.insert(number.to_string(), 1, 1, Instant::now());
            assert_ne!(
                topics.admit(&record(&number.to_string(), None, None), Pace::Bulk),
                Admission::Unknown
            );
            assert!(topics.known.len() <= REMEMBERED_MAX);
        }
    }

    proptest! {
        #[test]
        fn nothing_follows_the_first_record_of_a_partition_before_the_queue_was_empty(
            turns in prop::collection::vec((0..4i32, any::<bool>(), prop::bool::weighted(0.2)), 0..300),
        ) {
            let mut topics = one_topic(4);
            let (mut open, mut first) = (HashSet::new(), HashSet::new());
            for (partition, bulk, empty) in turns {
                let pace = if bulk { Pace::Bulk } else { Pace::Prompt };
                let place = (partition, bulk);
                let admission = topics.admit(&record(TOPIC, Some(partition), None), pace);
                let waits = !open.contains(&place) && !first.insert(place);
                prop_assert_eq!(admission == Admission::AfterQueueEmpty, waits);
                if empty {
                    topics.queue_is_empty();
                    open.extend(first.drain());
                }
            }
        }
    }
}
