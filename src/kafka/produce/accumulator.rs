//! Batches of records by partition, of which one is passed to librdkafka at a time.

use std::collections::{HashMap, VecDeque};

use super::delivery::Landed;
use super::producer_batch::ProducerBatch;
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;

/// Number of lanes above which idle ones are forgotten.
const IDLE_LANES_MAX: usize = 10_000;
/// Number of empty batches that are retained for reuse.
const SPARE_MAX: usize = 2;

/// Records that wait until nothing of their partition is in flight: Java's `RecordAccumulator`.
///
/// librdkafka's idempotent producer has one request of a partition on its way. While others of it wait there
/// for longer than `linger.ms`, its thread polls them without a pause, which was half of outboxd's CPU time.
/// So they wait here, and are sent together.
#[derive(Debug, Default)]
pub(in crate::kafka) struct Accumulator {
    lanes: Vec<Lane>,
    /// The numbers of the lanes, by topic and partition.
    numbers: HashMap<String, HashMap<i32, usize>>,
    /// The lanes that have something waiting and nothing on its way.
    due: Vec<usize>,
    /// Number of batches that wait.
    batches: usize,
    spare: Vec<ProducerBatch>,
}

/// Records of one partition.
#[derive(Debug)]
struct Lane {
    topic: String,
    partition: i32,
    /// Number of records that were sent and not reported yet.
    on_way: usize,
    waiting: VecDeque<ProducerBatch>,
}

/// Records that will not be sent any more, and their weight in the window.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::kafka) struct Abandoned {
    pub(in crate::kafka) records: usize,
    pub(in crate::kafka) bytes: usize,
}

impl Accumulator {
    /// Stores a record until [`Self::release`] sends it.
    pub(in crate::kafka) fn push(&mut self, record: &ProducerRecord<'_>, partition: i32, ticket: Ticket) {
        let number = self.number(record.topic, partition);
        let Some(lane) = self.lanes.get_mut(number) else { return };
        if lane.waiting.is_empty() && lane.on_way == 0 {
            self.due.push(number);
        }
        match lane.waiting.back_mut().filter(|batch| !batch.is_full()) {
            Some(batch) => batch.push(record, ticket),
            None => {
                let mut batch = self.spare.pop().unwrap_or_default();
                batch.push(record, ticket);
                lane.waiting.push_back(batch);
                self.batches = self.batches.saturating_add(1);
            }
        }
    }

    /// Subtracts reported records.
    pub(in crate::kafka) fn landed(&mut self, landed: &[Landed]) {
        for Landed { topic, partition, records } in landed {
            let number = self.numbers.get(topic).and_then(|partitions| partitions.get(partition)).copied();
            let Some((number, lane)) = number.and_then(|number| Some((number, self.lanes.get_mut(number)?)))
            else {
                continue;
            };
            let before = lane.on_way;
            lane.on_way = before.saturating_sub(*records);
            if before > 0 && lane.on_way == 0 && !lane.waiting.is_empty() {
                self.due.push(number);
            }
        }
    }

    /// Sends a batch of each partition that is not blocked.
    ///
    /// # Errors
    /// When a record is refused. It and everything that waits must be abandoned then; the rest of its batch
    /// was not handed over.
    pub(in crate::kafka) fn release<E>(
        &mut self,
        mut send: impl FnMut(&ProducerRecord<'_>, Ticket) -> Result<(), E>,
    ) -> Result<(), (E, Abandoned)> {
        while let Some(number) = self.due.pop() {
            let Some(lane) = self.lanes.get_mut(number) else { continue };
            let Some(mut batch) = lane.waiting.pop_front() else { continue };
            lane.on_way = batch.len();
            self.batches = self.batches.saturating_sub(1);
            let mut rest = Abandoned { records: batch.len(), bytes: batch.weight() };
            let sent = batch.each(&lane.topic, lane.partition, |record, ticket| {
                send(record, ticket)?;
                rest.records = rest.records.saturating_sub(1);
                rest.bytes = rest.bytes.saturating_sub(record.weight());
                Ok(())
            });
            sent.map_err(|error| (error, rest))?;
            if self.spare.len() < SPARE_MAX && batch.is_worth_keeping() {
                batch.clear();
                self.spare.push(batch);
            }
        }
        Ok(())
    }

    /// Returns whether something waits.
    pub(in crate::kafka) const fn gathers(&self) -> bool {
        self.batches > 0
    }

    /// Abandons the waiting records.
    pub(in crate::kafka) fn abandon(&mut self) -> Abandoned {
        self.due.clear();
        self.batches = 0;
        let batches = self.lanes.iter_mut().flat_map(|lane| lane.waiting.drain(..));
        batches.fold(Abandoned::default(), |sum, batch| {
            sum.and(Abandoned { records: batch.len(), bytes: batch.weight() })
        })
    }

    /// Records that nothing is in flight, and nothing waits.
    pub(in crate::kafka) fn is_empty_again(&mut self) {
        if self.lanes.len() > IDLE_LANES_MAX {
            *self = Self::default();
        }
    }

    fn number(&mut self, topic: &str, partition: i32) -> usize {
        let known = self.numbers.get(topic).and_then(|partitions| partitions.get(&partition));
        if let Some(number) = known {
            return *number;
        }
        let number = self.lanes.len();
        self.lanes.push(Lane { topic: topic.to_owned(), partition, on_way: 0, waiting: VecDeque::new() });
        self.numbers.entry(topic.to_owned()).or_default().insert(partition, number);
        number
    }
}

impl Abandoned {
    pub(in crate::kafka) const fn and(self, other: Self) -> Self {
        Self {
            records: self.records.saturating_add(other.records),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const TOPICS: [&str; 2] = ["a", "b"];

    /// Handed-over records by topic and partition, in their order.
    type HandedOver = BTreeMap<(String, i32), Vec<Ticket>>;

    fn record(topic: usize) -> ProducerRecord<'static> {
        ProducerRecord {
            topic: TOPICS[topic],
            partition: None,
            timestamp_ms: 0,
            key: None,
            value: Some(b"value"),
            headers: &[],
            position: None,
        }
    }

    fn release(accumulator: &mut Accumulator) -> HandedOver {
        let mut released = HandedOver::new();
        accumulator
            .release(|record, ticket| {
                let place = (record.topic.to_owned(), record.partition.unwrap());
                released.entry(place).or_default().push(ticket);
                Ok::<_, ()>(())
            })
            .unwrap();
        released
    }

    proptest! {
        #[test]
        fn one_batch_of_a_partition_is_on_its_way_and_all_go_in_their_order(
            turns in prop::collection::vec((0..3u8, 0..2usize, 0..3i32, 1..4usize), 0..200),
        ) {
            let mut accumulator = Accumulator::default();
            let (mut pushed, mut seen) = (HandedOver::new(), HandedOver::new());
            let mut on_way: BTreeMap<(String, i32), usize> = BTreeMap::new();
            for (number, (what, topic, partition, count)) in turns.into_iter().enumerate() {
                let place = (TOPICS[topic].to_owned(), partition);
                match what {
                    0 => {
                        accumulator.push(&record(topic), partition, Ticket(number));
                        pushed.entry(place).or_default().push(Ticket(number));
                    }
                    1 => for (place, tickets) in release(&mut accumulator) {
                        prop_assert_eq!(on_way.insert(place.clone(), tickets.len()).unwrap_or(0), 0);
                        seen.entry(place).or_default().extend(tickets);
                    },
                    _ => if let Some(rest) = on_way.get_mut(&place) {
                        let records = count.min(*rest);
                        *rest -= records;
                        accumulator.landed(&[Landed { topic: place.0, partition, records }]);
                    },
                }
            }
            // Everything is reported, and so everything is sent.
            while accumulator.gathers() {
                for ((topic, partition), records) in std::mem::take(&mut on_way) {
                    accumulator.landed(&[Landed { topic, partition, records }]);
                }
                for (place, tickets) in release(&mut accumulator) {
                    on_way.insert(place.clone(), tickets.len());
                    seen.entry(place).or_default().extend(tickets);
                }
            }
            prop_assert_eq!(seen, pushed);
        }
    }

    #[test]
    fn what_is_abandoned_is_counted_and_does_not_go() {
        let mut accumulator = Accumulator::default();
        (0..3).for_each(|number| accumulator.push(&record(0), 0, Ticket(number)));
        accumulator.push(&record(1), 0, Ticket(3));
        // The second record that is sent is refused.
        let mut handed_over = 0;
        let refused = accumulator.release(|_, _| {
            handed_over += 1;
            if handed_over == 2 { Err("refused") } else { Ok(()) }
        });
        let (reason, rest) = refused.unwrap_err();
        assert_eq!(reason, "refused");
        let all = rest.and(accumulator.abandon());
        assert_eq!(all, Abandoned { records: 3, bytes: 3 * b"value".len() });
        assert!(!accumulator.gathers());
        assert_eq!(release(&mut accumulator), HandedOver::new());
        assert_eq!(accumulator.abandon(), Abandoned::default());
    }

    #[test]
    fn reports_of_unknown_partitions_release_nothing() {
        let mut accumulator = Accumulator::default();
        accumulator.push(&record(0), 0, Ticket(0));
        release(&mut accumulator);
        accumulator.push(&record(0), 0, Ticket(1));
        for (topic, partition) in [("a", 1), ("b", 0)] {
            accumulator.landed(&[Landed { topic: topic.to_owned(), partition, records: 1 }]);
        }
        assert_eq!(release(&mut accumulator), HandedOver::new());
        accumulator.landed(&[Landed { topic: "a".to_owned(), partition: 0, records: 1 }]);
        assert_eq!(release(&mut accumulator).len(), 1);
    }
}
