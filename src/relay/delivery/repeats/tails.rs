//! Records of repeated transactions that are in their topics already, and the decision to skip an event.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::RepeatRange;
use super::position_text::parse;
use crate::connect::record::{Fingerprint, ProducerRecord};
use crate::kafka::{Relevance, TailRecord, partition_of};
use crate::transaction::EventPosition;
use crate::wal::{Lsn, SystemId};

/// Most records that are remembered over all topics, 32 bytes each. Those beyond are repeated.
const RECORDS_MAX: usize = 1_000_000;

/// Most topics that are read. Of the others everything is repeated.
const TOPICS_MAX: usize = 10_000;

/// A record of ours that is in Kafka: nothing but the same event made into the same bytes has both.
type Known = (EventPosition, Fingerprint);

/// Records of repeated transactions that are in their topics already.
///
/// An event is skipped only because its own record was read from its own topic: nothing is concluded from
/// other records, neither from later ones of the partition nor from the partition they are in. So it does not
/// matter whether the number of partitions, the routing or the history is what it was: what is not found is
/// sent.
///
/// *Invariant:* behind the first event of a partition that is sent nothing more of that partition is skipped.
/// Otherwise what is sent would be the last record of its key though a later one exists.
#[derive(Debug)]
pub(in crate::relay) struct Tails {
    system_id: SystemId,
    from: Lsn,
    to: Lsn,
    quiet_at: Option<Instant>,
    /// Each topic that was asked.
    topics: HashMap<String, Tail>,
    /// Number of further records that can be remembered.
    room: usize,
    left_out: u64,
}

/// Presence of an event's record in its topic.
#[derive(Debug)]
pub(in crate::relay) enum Presence {
    /// The end of the topic must be read first.
    Unknown(Box<Question>),
    /// In the topic.
    There,
    /// Not in the topic, or unknown.
    New,
}

/// Range to read of a topic.
#[derive(Debug, Clone)]
pub(in crate::relay) struct Question {
    pub(in crate::relay) topic: String,
    pub(super) quiet_at: Option<Instant>,
    system_id: SystemId,
    from: Lsn,
    to: Lsn,
    room: usize,
}

/// Records found so far, while the topic is read.
#[derive(Debug)]
pub(in crate::relay) struct Found {
    question: Question,
    known: Vec<Known>,
    is_full: bool,
}

/// Result for a topic.
#[derive(Debug)]
pub(in crate::relay) struct Tail {
    topic: String,
    /// Sorted.
    known: Vec<Known>,
    /// Number of partitions of the topic.
    partitions: usize,
    /// Partitions of which something was not found. `None` is that of the records without a key.
    gaps: HashSet<Option<i32>>,
}

impl Tail {
    /// Makes the tail of a topic that could not be read.
    pub(super) fn unread(topic: String) -> Self {
        Self { topic, known: Vec::new(), partitions: 0, gaps: HashSet::new() }
    }

    fn has(&mut self, record: &ProducerRecord<'_>, position: EventPosition) -> bool {
        if self.known.is_empty() {
            return false;
        }
        let by_key = || record.key.and_then(|key| partition_of(key, self.partitions));
        let partition = record.partition.or_else(by_key);
        if self.gaps.contains(&partition) {
            return false;
        }
        let is_known = self.known.binary_search(&(position, record.fingerprint())).is_ok();
        if !is_known {
            self.gaps.insert(partition);
        }
        is_known
    }
}

impl Tails {
    /// Creates it; `None` when nothing can be repeated.
    pub(super) fn new(repeat_range: RepeatRange) -> Option<Self> {
        let RepeatRange { system_id, from, to, quiet_at } = repeat_range;
        if to <= from {
            return None;
        }
        let topics = HashMap::new();
        Some(Self { system_id, from, to, quiet_at, topics, room: RECORDS_MAX, left_out: 0 })
    }

    pub(super) fn look(&mut self, record: &ProducerRecord<'_>, position: EventPosition) -> Presence {
        if position.commit_lsn >= self.to {
            return Presence::New;
        }
        let Some(tail) = self.topics.get_mut(record.topic) else { return self.ask(record.topic) };
        if !tail.has(record, position) {
            return Presence::New;
        }
        self.left_out = self.left_out.saturating_add(1);
        Presence::There
    }

    pub(super) fn learn(&mut self, tail: Tail) {
        self.room = self.room.saturating_sub(tail.known.len());
        self.topics.insert(tail.topic.clone(), tail);
    }

    /// Returns whether nothing can be repeated from here on.
    pub(super) fn are_over(&self, lsn: Lsn) -> bool {
        lsn >= self.to
    }

    fn ask(&self, topic: &str) -> Presence {
        if self.topics.len() >= TOPICS_MAX {
            return Presence::New;
        }
        Presence::Unknown(Box::new(Question {
            topic: topic.to_owned(),
            quiet_at: self.quiet_at,
            system_id: self.system_id.clone(),
            from: self.from,
            to: self.to,
            room: self.room,
        }))
    }
}

impl Drop for Tails {
    fn drop(&mut self) {
        if self.left_out > 0 {
            tracing::info!(
                events = self.left_out,
                from = %self.from,
                to = %self.to,
                "events that the slot repeated are already in Kafka and were skipped"
            );
        }
    }
}

impl Found {
    pub(in crate::relay) const fn new(question: Question) -> Self {
        Self { question, known: Vec::new(), is_full: false }
    }

    /// Adds a record with this text of its position.
    pub(in crate::relay) fn take(
        &mut self,
        text: Option<&[u8]>,
        fingerprint: impl FnOnce() -> Fingerprint,
    ) -> Relevance {
        let Some(position) = text.and_then(|text| parse(&self.question.system_id, text)) else {
            return Relevance::Foreign;
        };
        if position.commit_lsn < self.question.from {
            return Relevance::Old;
        }
        self.is_full = self.known.len() >= self.question.room;
        if position.commit_lsn < self.question.to && !self.is_full {
            self.known.push((position, fingerprint()));
        }
        Relevance::Recent
    }

    /// Adds a record of the topic.
    pub(super) fn take_record(&mut self, record: &TailRecord<'_>) -> Relevance {
        self.take(record.position(), || record.fingerprint())
    }

    /// Returns the number of records that were found and can be repeated.
    pub(super) const fn count(&self) -> usize {
        self.known.len()
    }

    /// Returns whether there were more than there is room for.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Makes the result, for a topic with this number of partitions.
    pub(in crate::relay) fn into_tail(self, partitions: usize) -> Tail {
        let Self { question, mut known, .. } = self;
        known.sort_unstable();
        known.dedup();
        known.shrink_to_fit();
        Tail { topic: question.topic, known, partitions, gaps: HashSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::position_text::PositionText;
    use super::*;

    const FROM: u64 = 100;
    const TO: u64 = 200;
    const PARTITIONS: usize = 3;

    fn at(commit_lsn: u64, ordinal: u64) -> EventPosition {
        EventPosition::new(Lsn::new(commit_lsn), Lsn::new(commit_lsn.saturating_sub(1)), ordinal)
    }

    fn tails() -> Tails {
        let system_id = SystemId("1".to_owned());
        let (from, to) = (Lsn::new(FROM), Lsn::new(TO));
        Tails::new(RepeatRange { system_id, from, to, quiet_at: None }).unwrap()
    }

    fn record<'a>(topic: &'a str, value: &'a str) -> ProducerRecord<'a> {
        ProducerRecord {
            topic,
            partition: None,
            timestamp_ms: 0,
            key: Some(b"k"),
            value: Some(value.as_bytes()),
            headers: &[],
            position: None,
        }
    }

    fn question(tails: &mut Tails, topic: &str) -> Question {
        match tails.look(&record(topic, "x"), at(FROM, 0)) {
            Presence::Unknown(question) => *question,
            presence => panic!("{presence:?}"),
        }
    }

    fn is_there(tails: &mut Tails, topic: &str, value: &str, position: EventPosition) -> bool {
        matches!(tails.look(&record(topic, value), position), Presence::There)
    }

    /// Adds records of topic `a`, each with its position, system and value.
    fn learnt(found: &[(EventPosition, &str, &str)]) -> Tails {
        let mut tails = tails();
        let mut answer = Found::new(question(&mut tails, "a"));
        for (position, system, value) in found {
            let mut text = PositionText::new(&SystemId((*system).to_owned()));
            answer.take(Some(text.of(*position)), || record("a", value).fingerprint());
        }
        tails.learn(answer.into_tail(PARTITIONS));
        tails
    }

    #[test]
    fn only_the_events_own_record_is_a_reason_to_leave_it_out() {
        let found = [(at(150, 1), "1", "x"), (at(120, 0), "1", "y"), (at(130, 0), "2", "z")];
        let cases = [
            ("x", at(150, 1), true),
            ("y", at(120, 0), true),
            // What lies before a record that is there need not be there.
            ("x", at(150, 0), false),
            ("x", at(110, 0), false),
            ("x", at(150, 2), false),
            // The other records of a change are looked for one by one.
            ("x", at(150, 1).next_part(), false),
            // After a failover another transaction may have the same LSN; another slot counts otherwise.
            ("z", at(150, 1), false),
            ("z", at(130, 0), false),
        ];
        for (value, position, expected) in cases {
            let mut tails = learnt(&found);
            assert_eq!(is_there(&mut tails, "a", value, position), expected, "{value} {position:?}");
            assert_eq!(tails.left_out, u64::from(expected));
        }
        let mut tails = learnt(&found);
        tails.learn(Tail::unread("b".to_owned()));
        assert!(!is_there(&mut tails, "b", "x", at(150, 1)), "it is in another topic");
    }

    #[test]
    fn behind_a_gap_nothing_more_of_its_partition_is_skipped() {
        let keys = ["0", "1", "2", "3", "4", "5"];
        let partition = |key: &str| partition_of(key.as_bytes(), PARTITIONS);
        let same = keys.iter().find(|key| **key != "0" && partition(key) == partition("0")).unwrap();
        let other = keys.iter().find(|key| partition(key) != partition("0")).unwrap();
        let of = |key: &'static str| ProducerRecord { key: Some(key.as_bytes()), ..record("a", "x") };
        let lost = [(at(110, 0), "0", false)];
        let there = [(at(120, 0), *same, false), (at(120, 1), *other, true), (at(130, 0), "0", false)];
        let mut tails = tails();
        let (mut text, mut answer) =
            (PositionText::new(&SystemId("1".to_owned())), Found::new(question(&mut tails, "a")));
        for (position, key, _) in there {
            answer.take(Some(text.of(position)), || of(key).fingerprint());
        }
        tails.learn(answer.into_tail(PARTITIONS));
        for (position, key, expected) in lost.into_iter().chain(there) {
            let presence = tails.look(&of(key), position);
            assert_eq!(matches!(presence, Presence::There), expected, "{key} {position:?}");
        }
    }

    #[test]
    fn what_no_client_can_have_sent_before_is_not_requested() {
        let mut tails = tails();
        assert!(matches!(tails.look(&record("a", "x"), at(TO, 0)), Presence::New));
        assert_eq!([TO - 1, TO].map(|lsn| tails.are_over(Lsn::new(lsn))), [false, true]);
        let of = |from, to| {
            let system_id = SystemId("1".to_owned());
            let repeat_range =
                RepeatRange { system_id, from: Lsn::new(from), to: Lsn::new(to), quiet_at: None };
            Tails::new(repeat_range).is_some()
        };
        assert_eq!([of(1, 2), of(2, 2)], [true, false]);
    }

    #[test]
    fn records_are_distinguished_by_how_far_back_they_are() {
        let (mut tails, mut text) = (tails(), PositionText::new(&SystemId("1".to_owned())));
        let mut found = Found::new(question(&mut tails, "a"));
        let fingerprint = || record("a", "x").fingerprint();
        let cases = [(FROM - 1, Relevance::Old), (FROM, Relevance::Recent), (TO, Relevance::Recent)];
        for (lsn, expected) in cases {
            assert_eq!(found.take(Some(text.of(at(lsn, 0))), fingerprint), expected, "{lsn}");
        }
        assert_eq!(found.take(None, fingerprint), Relevance::Foreign);
        assert_eq!(found.take(Some(b"other"), fingerprint), Relevance::Foreign);
        assert_eq!(found.count(), 1);
    }

    #[test]
    fn topics_and_records_without_end_are_not_remembered() {
        let mut tails = tails();
        tails.room = 2;
        let (mut text, mut found) =
            (PositionText::new(&SystemId("1".to_owned())), Found::new(question(&mut tails, "a")));
        for ordinal in 0..3 {
            assert!(!found.is_full());
            found.take(Some(text.of(at(150, ordinal))), || record("a", "x").fingerprint());
        }
        assert!(found.is_full());
        tails.learn(found.into_tail(PARTITIONS));
        assert_eq!(tails.room, 0);
        assert!(is_there(&mut tails, "a", "x", at(150, 1)) && !is_there(&mut tails, "a", "x", at(150, 2)));
        for number in 0..TOPICS_MAX {
            tails.learn(Tail::unread(number.to_string()));
        }
        assert!(matches!(tails.look(&record("one more", "x"), at(150, 0)), Presence::New));
    }
}
