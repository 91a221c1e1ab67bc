//! The model of the brokers: for each partition a log, and what its leader knows of producers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::coordinator::{Coordinator, STATE_PLACE};
use crate::relay::simulation::oracle::truth::Truth;

/// Number of a producer's batches whose offsets a leader remembers.
const KNOWN_BATCHES: usize = 5;

/// Most partitions of a topic.
const PARTITIONS_MAX: i32 = 5;

/// The topic's number and the partition's.
pub(in crate::relay::simulation) type Place = (usize, i32);

/// A batch as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(in crate::relay::simulation) producer: u64,
    pub(in crate::relay::simulation) base: u64,
    pub(in crate::relay::simulation) events: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum Answer {
    /// Written, the first record at this offset; below 0 it is known to be written, and no more.
    Written(i64),
    /// Not the leader, or no log yet: to be tried again.
    NotLeader,
    OutOfOrder,
    /// Refused for good.
    Refused,
    /// Another producer has taken the transactions over.
    Fenced,
}

#[derive(Debug, Default)]
struct Partition {
    /// The events of the records.
    log: Vec<usize>,
    /// The next sequence number of each producer, and its last batches with their offsets.
    producers: BTreeMap<u64, (u64, VecDeque<(u64, i64)>)>,
    /// Number of further requests for which there is no leader, or no log.
    absent: u32,
}

#[derive(Debug)]
pub(in crate::relay::simulation) struct Cluster {
    partitions: BTreeMap<Place, Partition>,
    pub(in crate::relay::simulation) counts: [i32; 2],
    /// Events whose record is refused.
    pub(in crate::relay::simulation) refused: BTreeSet<usize>,
    /// Brokers check sequence numbers.
    pub(in crate::relay::simulation) idempotent: bool,
    /// Coordinator, with exactly-once.
    pub(in crate::relay::simulation) coordinator: Option<Coordinator>,
}

impl Cluster {
    pub(in crate::relay::simulation) fn new(counts: [i32; 2]) -> Self {
        Self {
            partitions: BTreeMap::new(),
            counts,
            refused: BTreeSet::new(),
            idempotent: true,
            coordinator: None,
        }
    }

    /// Removes a leader for some requests.
    pub(in crate::relay::simulation) fn take_leader(&mut self, place: Place, requests: u32) {
        self.partitions.entry(place).or_default().absent = requests;
    }

    /// Makes the new leader forget producers. One that is in a transaction is not forgotten.
    pub(in crate::relay::simulation) fn forget_producers(&mut self, place: Place, truth: &mut Truth) {
        let partition = self.partitions.entry(place).or_default();
        if let Some(coordinator) = &self.coordinator {
            partition.producers.retain(|producer, _| coordinator.allows(*producer));
            return;
        }
        if !std::mem::take(&mut partition.producers).is_empty() {
            truth.except(place.0, place.1);
        }
    }

    /// Adds a partition to a topic. The order of keys is not promised over that.
    pub(in crate::relay::simulation) fn add_partition(&mut self, topic: usize, truth: &mut Truth) {
        if let Some(count) = self.counts.get_mut(topic).filter(|count| **count < PARTITIONS_MAX) {
            *count += 1;
            (0..*count).for_each(|partition| truth.except(topic, partition));
        }
    }

    /// Returns the events of a topic's records, partition by partition.
    pub(in crate::relay::simulation) fn logs(&self, topic: usize) -> impl Iterator<Item = (i32, &[usize])> {
        let partitions = self.partitions.iter().filter(move |(place, _)| place.0 == topic);
        partitions.map(|(place, partition)| (place.1, partition.log.as_slice()))
    }

    pub(in crate::relay::simulation) fn heal(&mut self) {
        self.refused.clear();
        self.partitions.values_mut().for_each(|partition| partition.absent = 0);
    }

    pub(super) fn produce(&mut self, place: Place, request: &Request, truth: &mut Truth) -> Answer {
        let partition = self.partitions.entry(place).or_default();
        truth.report(|| format!("  {place:?}, leader away for {}: {request:?}", partition.absent));
        if partition.absent > 0 {
            partition.absent -= 1;
            return Answer::NotLeader;
        }
        if self.coordinator.as_ref().is_some_and(|coordinator| !coordinator.allows(request.producer)) {
            return Answer::Fenced;
        }
        if self.coordinator.as_ref().is_some_and(|coordinator| !coordinator.is_complete()) {
            return Answer::NotLeader;
        }
        let length = request.events.len() as u64;
        if self.idempotent
            && let Some((next, known)) = partition.producers.get(&request.producer)
        {
            if request.base > *next {
                return Answer::OutOfOrder;
            }
            if request.base < *next {
                let same = known.iter().find(|(base, _)| *base == request.base);
                return Answer::Written(same.map_or(-1, |(_, offset)| *offset));
            }
        }
        if place != STATE_PLACE && request.events.iter().any(|event| self.refused.contains(event)) {
            return Answer::Refused;
        }
        let offset = i64::try_from(partition.log.len()).unwrap();
        partition.log.extend(&request.events);
        let (next, known) = partition.producers.entry(request.producer).or_default();
        *next = request.base + length;
        known.push_back((request.base, offset));
        if known.len() > KNOWN_BATCHES {
            known.pop_front();
        }
        match &mut self.coordinator {
            Some(coordinator) => coordinator.write(request.producer, place, &request.events),
            None => request.events.iter().for_each(|event| truth.written(place.0, place.1, *event)),
        }
        Answer::Written(offset)
    }
}
