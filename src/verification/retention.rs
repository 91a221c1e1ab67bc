//! Records that the brokers may have deleted.

use std::collections::HashMap;

use super::entry::{Expected, Spot, TopicNumber};

/// Begin of a partition that has lost its oldest records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartitionStart {
    /// The timestamp of the oldest record that is there; in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
}

/// State of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TopicState {
    /// Number of partitions.
    pub partitions: u32,
    /// `cleanup.policy` has `compact` in it.
    pub compacted: bool,
    /// The partitions that have lost their oldest records.
    pub shortened: HashMap<i32, PartitionStart>,
    /// Records that the brokers may delete.
    pub retention: Retention,
}

/// Records of a topic that the brokers may delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Records older than this, in milliseconds since 1970; without it none by their age.
    pub until_ms: Option<i64>,
    /// True if they may delete by the size too, or do not return the limits.
    pub by_more: bool,
}

/// State of all topics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topics {
    states: Vec<TopicState>,
}

/// Reasons why a row may be without a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// No excuse.
    Lost,
    /// Possibly deleted: the age of the row is not known.
    PerhapsExpired,
    /// The row is older than the oldest record of its partition, and than what the brokers keep.
    Expired,
    /// A later record of its key may have replaced it.
    PerhapsCompacted,
}

impl Topics {
    /// Creates it from topics in the order of their numbers.
    #[must_use]
    pub(crate) const fn new(states: Vec<TopicState>) -> Self {
        Self { states }
    }

    /// Returns the reason for which a row may be without a record.
    #[must_use]
    pub(crate) fn missed(&self, expected: &Expected) -> Missed {
        let Some(state) = self.state(expected.topic) else { return Missed::Lost };
        if state.compacted {
            return Missed::PerhapsCompacted;
        }
        match state.begins_at(expected.spot) {
            None => Missed::Lost,
            Some(PartitionStart { oldest_ms: Some(oldest) })
                if expected.written_ms.is_some_and(|written| written < oldest) =>
            {
                state.retention.excuses(expected.written_ms)
            }
            Some(PartitionStart { oldest_ms: Some(_) }) if expected.written_ms.is_some() => Missed::Lost,
            Some(_) => Missed::PerhapsExpired,
        }
    }

    /// Returns whether a partition may have lost a record by its age. Compaction never removes the last one
    /// of a key.
    #[must_use]
    pub(crate) fn may_have_expired(&self, topic: TopicNumber, spot: Spot) -> bool {
        self.state(topic).is_some_and(|state| state.begins_at(spot).is_some())
    }

    fn state(&self, topic: TopicNumber) -> Option<&TopicState> {
        self.states.get(usize::try_from(topic.0).ok()?)
    }
}

impl Retention {
    /// Returns the reason for which a row may be without a record, if its partition has lost those of its
    /// time.
    fn excuses(self, written_ms: Option<i64>) -> Missed {
        match (written_ms, self.until_ms) {
            (Some(written), Some(until)) if written < until => Missed::Expired,
            _ if self.by_more => Missed::PerhapsExpired,
            _ => Missed::Lost,
        }
    }
}

impl TopicState {
    /// Returns the begin of an event's partition. Without a key it may be in any: then the one that goes back
    /// farthest counts.
    fn begins_at(&self, spot: Spot) -> Option<PartitionStart> {
        let partition = match spot {
            Spot::Decided(partition) => partition,
            Spot::Hashed(hash) => i32::try_from(hash.checked_rem(self.partitions)?).ok()?,
            Spot::Any => return self.shortened.values().min_by_key(|start| start.oldest_ms).copied(),
        };
        self.shortened.get(&partition).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare::tests::expected;
    use super::*;

    fn topics(compacted: bool) -> Topics {
        let shortened = [(0, Some(100)), (1, None)];
        let shortened = shortened.map(|(id, oldest_ms)| (id, PartitionStart { oldest_ms })).into();
        let retention = Retention { until_ms: Some(90), by_more: false };
        Topics::new(vec![TopicState { partitions: 3, compacted, shortened, retention }])
    }

    #[test]
    fn a_row_is_excused_by_what_its_own_partition_has_lost() {
        let cases = [
            (Spot::Decided(0), Some(89), Missed::Expired),
            // Too young to be deleted by its age.
            (Spot::Decided(0), Some(90), Missed::Lost),
            (Spot::Decided(0), Some(99), Missed::Lost),
            (Spot::Decided(0), Some(100), Missed::Lost),
            (Spot::Decided(0), None, Missed::PerhapsExpired),
            (Spot::Decided(1), Some(99), Missed::PerhapsExpired),
            (Spot::Decided(2), Some(99), Missed::Lost),
            (Spot::Hashed(3), Some(89), Missed::Expired),
            (Spot::Hashed(5), Some(99), Missed::Lost),
            (Spot::Any, Some(99), Missed::PerhapsExpired),
        ];
        for (spot, written_ms, missed) in cases {
            let expected = Expected { spot, written_ms, ..expected(1, 0, "v") };
            assert_eq!(topics(false).missed(&expected), missed, "{spot:?} {written_ms:?}");
        }
        for (until_ms, by_more, written, missed) in [
            (None, false, 1, Missed::Lost),
            (None, true, 1, Missed::PerhapsExpired),
            (Some(90), true, 91, Missed::PerhapsExpired),
            (Some(90), true, 89, Missed::Expired),
        ] {
            let retention = Retention { until_ms, by_more };
            assert_eq!(retention.excuses(Some(written)), missed, "{retention:?} {written}");
        }
        assert!(topics(true).may_have_expired(TopicNumber(0), Spot::Decided(0)));
        assert!(!topics(true).may_have_expired(TopicNumber(0), Spot::Decided(2)));
        assert_eq!(topics(true).missed(&expected(1, 0, "v")), Missed::PerhapsCompacted);
        assert_eq!(topics(true).missed(&expected(1, 7, "v")), Missed::Lost, "no such topic");
    }
}
