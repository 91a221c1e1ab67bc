//! The last acknowledged offset of each partition: an acknowledgement that does not advance it proves nothing.

use std::collections::HashMap;

/// Most topics that are remembered. With more, all are forgotten: then only reports without an offset are
/// doubted at first.
const REMEMBERED_MAX: usize = 10_000;

/// Reasons why an acknowledgement does not prove that the record is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// librdkafka saw a later record acknowledged and assumed that this one is written too; or the broker knew its sequence number,
    /// but not where the record is.
    #[error("it was reported as written without an offset, so Kafka may not have it")]
    NoOffset,
    /// The broker treated it as the repeat of an earlier record.
    #[error(
        "Kafka acknowledged it with offset {offset}, and an earlier record with offset {last}: so it was not written, or the \
         topic was deleted and created again"
    )]
    NotBeyond {
        /// Its assigned offset.
        offset: i64,
        /// Offset of the record before it.
        last: i64,
    },
}

/// The offset of the last acknowledged record of each partition.
///
/// One producer's records of one partition are reported in the order in which they were sent, so their offsets must grow.
#[derive(Debug, Default)]
pub(in crate::kafka) struct LogEnds {
    topics: HashMap<String, HashMap<i32, i64>>,
    /// The partition of the last report, which is not in the map: reports come in batches of one partition.
    current: Option<LogEnd>,
    /// With transactions: ends that advanced since [`Self::take_changes`], some more than once.
    fresh: Option<Vec<LogEnd>>,
}

/// The last record of a partition, or the last of ours in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kafka) struct LogEnd {
    pub(in crate::kafka) topic: String,
    pub(in crate::kafka) partition: i32,
    pub(in crate::kafka) offset: i64,
}

impl LogEnds {
    /// Records an acknowledgement.
    ///
    /// # Errors
    /// When it does not prove that the record is in the log.
    pub(in crate::kafka) fn advance(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), Doubt> {
        if offset < 0 {
            return Err(Doubt::NoOffset);
        }
        let end = match &mut self.current {
            Some(current) if current.partition == partition && current.topic == topic => current,
            _ => self.turn_to(topic, partition),
        };
        if offset <= end.offset {
            return Err(Doubt::NotBeyond { offset, last: end.offset });
        }
        end.offset = offset;
        Ok(())
    }

    /// Starts recording ends that advance; drain with [`Self::take_changes`], or the list grows.
    pub(in crate::kafka) fn record_changes(&mut self) {
        self.fresh.get_or_insert_default();
    }

    /// Returns the last record of each partition with new records since the last call.
    pub(in crate::kafka) fn take_changes(&mut self) -> Vec<LogEnd> {
        self.leave();
        let mut fresh = self.fresh.as_mut().map(std::mem::take).unwrap_or_default();
        // Offsets grow.
        fresh.sort_unstable_by(|a, b| {
            (&a.topic, a.partition, b.offset).cmp(&(&b.topic, b.partition, a.offset))
        });
        fresh.dedup_by(|a, b| a.partition == b.partition && a.topic == b.topic);
        fresh
    }

    fn turn_to(&mut self, topic: &str, partition: i32) -> &mut LogEnd {
        self.leave();
        let known = self.topics.get(topic).and_then(|partitions| partitions.get(&partition));
        let offset = known.copied().unwrap_or(-1);
        self.current.insert(LogEnd { topic: topic.to_owned(), partition, offset })
    }

    fn leave(&mut self) {
        let Some(end) = self.current.take() else { return };
        if let Some(fresh) = &mut self.fresh {
            fresh.push(end.clone());
        }
        let LogEnd { topic, partition, offset } = end;
        if self.topics.len() >= REMEMBERED_MAX && !self.topics.contains_key(&topic) {
            self.topics.clear();
        }
        self.topics.entry(topic).or_default().insert(partition, offset);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn offsets_of_a_partition_must_grow() {
        let mut ends = LogEnds::default();
        let not_beyond = |offset, last| Err(Doubt::NotBeyond { offset, last });
        let cases = [
            ("a", 0, 0, Ok(())),
            ("a", 0, 1, Ok(())),
            // Compaction and transactions leave gaps.
            ("a", 0, 7, Ok(())),
            ("a", 1, 0, Ok(())),
            ("b", 0, 3, Ok(())),
            ("a", 0, 7, not_beyond(7, 7)),
            ("a", 0, 0, not_beyond(0, 7)),
            ("a", 0, -1001, Err(Doubt::NoOffset)),
            ("a", 0, -1, Err(Doubt::NoOffset)),
            ("b", 0, 3, not_beyond(3, 3)),
            // A doubtful report changes nothing.
            ("a", 0, 8, Ok(())),
            ("b", 0, 4, Ok(())),
            ("", 0, 0, Ok(())),
            ("", 0, 0, not_beyond(0, 0)),
        ];
        for (topic, partition, offset, expected) in cases {
            assert_eq!(ends.advance(topic, partition, offset), expected, "{topic}-{partition}@{offset}");
        }
    }

    #[test]
    fn what_has_come_since_is_reported_once_with_its_last_offset() {
        let mut ends = LogEnds::default();
        ends.advance("a", 0, 1).unwrap();
        assert_eq!(ends.take_changes(), [], "nobody asked for it");
        ends.record_changes();
        for (topic, partition, offset) in [("b", 1, 4), ("a", 0, 2), ("b", 1, 5), ("a", 0, 3), ("b", 0, 7)] {
            ends.advance(topic, partition, offset).unwrap();
        }
        let end = |topic: &str, partition, offset| LogEnd { topic: topic.to_owned(), partition, offset };
        assert_eq!(ends.take_changes(), [end("a", 0, 3), end("b", 0, 7), end("b", 1, 5)]);
        assert_eq!(ends.take_changes(), []);
        assert!(ends.advance("b", 0, 7).is_err(), "what was told is not forgotten");
        ends.advance("b", 0, 8).unwrap();
        assert_eq!(ends.take_changes(), [end("b", 0, 8)]);
    }

    proptest! {
        #[test]
        fn it_judges_as_a_plain_map_does(
            reports in prop::collection::vec(("[ab]?c?", -1..3i32, prop_oneof![-2..20i64, any::<i64>()]), 0..200),
        ) {
            let (mut ends, mut naive) = (LogEnds::default(), BTreeMap::<(String, i32), i64>::new());
            for (topic, partition, offset) in reports {
                let last = naive.get(&(topic.clone(), partition)).copied();
                let expected = match last {
                    _ if offset < 0 => Err(Doubt::NoOffset),
                    Some(last) if offset <= last => Err(Doubt::NotBeyond { offset, last }),
                    _ => Ok(()),
                };
                prop_assert_eq!(ends.advance(&topic, partition, offset), expected);
                if expected.is_ok() {
                    naive.insert((topic, partition), offset);
                }
            }
        }
    }
}
