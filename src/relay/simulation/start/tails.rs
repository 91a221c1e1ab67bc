//! Tails of topics as a relay reads them, correct and with a planted bug.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::kafka::partition_of;
use crate::relay::delivery::repeats::{Found, Question, Tail};
use crate::relay::simulation::bug::Bug;
use crate::relay::simulation::kafka::pipe::Kafka;
use crate::relay::simulation::oracle::truth::Truth;
use crate::relay::simulation::rows::table;
use crate::relay::simulation::rows::table::EVENTS_TOPICS;

/// Reads a topic, sometimes not far back.
pub(in crate::relay::simulation) fn read(
    kafka: &mut Kafka,
    process: usize,
    question: &Question,
    bug: Option<Bug>,
    rng: &mut Rng,
) -> Tail {
    let Kafka { cluster, truth, .. } = kafka;
    let mut found = Found::new(question.clone());
    let topic = EVENTS_TOPICS.iter().position(|topic| *topic == question.topic).unwrap();
    let counts = usize::try_from(cluster.counts[topic]).unwrap();
    let mut seen = Vec::new();
    for (partition, log) in cluster.logs(topic) {
        let back = if rng.u8(..) < 50 { rng.usize(0..=log.len()) } else { log.len() };
        seen.extend(log.iter().rev().take(back).map(|event| (partition, *event)));
    }
    truth.report(|| format!("  process {process} finds {seen:?} in topic {topic}"));
    let mut take = |truth: &Truth, position: usize, event: usize| {
        let text = truth.positions.get(&position).map(Vec::as_slice);
        found.take(text, || truth.fingerprint(event));
    };
    for (_, event) in &seen {
        take(truth, *event, *event);
    }
    for (position, event) in imagined(truth, bug, topic, counts, &seen) {
        take(truth, position, event);
    }
    truth.found(process, seen.into_iter().map(|(_, event)| event));
    found.into_tail(counts)
}

/// Returns the events that a planted bug believes to be written as well: an event whose position is named,
/// and the event that it is mistaken for.
fn imagined(
    truth: &Truth,
    bug: Option<Bug>,
    topic: usize,
    partitions: usize,
    seen: &[(i32, usize)],
) -> Vec<(usize, usize)> {
    let Some(bug) = bug else { return Vec::new() };
    if bug == Bug::SkipsRestOfEvent {
        let rest = seen.iter().map(|(_, event)| (event + 1, *event));
        let rest =
            rest.filter(|(next, event)| truth.events.get(*next).is_some_and(|next| next.of == Some(*event)));
        return rest.map(|(next, _)| (next, next)).collect();
    }
    if bug == Bug::PositionIsIdentity {
        return seen.iter().flat_map(|(_, event)| at_the_same_lsn(truth, *event)).collect();
    }
    let mut ends: BTreeMap<i32, &[u8]> = BTreeMap::new();
    for (partition, event) in seen {
        if let Some(position) = truth.positions.get(event) {
            let end = ends.entry(if bug == Bug::TailOfTopic { 0 } else { *partition }).or_default();
            *end = (*end).max(position);
        }
    }
    let of_topic = truth.sent.iter().filter(|((other, _), _)| *other == topic);
    let is_before = |partition: i32, event: usize| {
        ends.get(&partition)
            .is_some_and(|end| truth.positions.get(&event).is_some_and(|p| p <= &end.to_vec()))
    };
    let taken = of_topic.filter(|((_, partition), event)| match bug {
        Bug::TailOfTopic => is_before(0, *event),
        Bug::TailOfPartition => is_before(*partition, *event),
        Bug::TailOfPartitionNow => {
            let key = table::key(truth.events[*event].key);
            is_before(partition_of(key.as_bytes(), partitions).unwrap_or_default(), *event)
        }
        _ => false,
    });
    taken.map(|(_, event)| (*event, *event)).collect()
}

/// Returns the events that committed at the same LSN in another history.
fn at_the_same_lsn(truth: &Truth, event: usize) -> impl Iterator<Item = (usize, usize)> {
    let lsn = truth.events[event].commit_lsn;
    let others = truth.events.iter().enumerate().filter(move |(_, other)| other.commit_lsn == lsn);
    others.map(move |(other, _)| (event, other)).filter(|(event, other)| event != other)
}
