use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::obituary::Obituary;
use crate::connect::record::{Fingerprint, ProducerRecord};
use crate::kafka::{Fault, Rejection};
use crate::wal::Lsn;

/// How many refused records are remembered until their transactions are confirmed: some 300 bytes each.
const RECORDS_MAX: usize = 50_000;

/// How many refused topics are remembered. With more, all are tried again.
const TOPICS_MAX: usize = 1_000;

/// How long a topic that was refused is not tried again. Each try ends a session, and holds up all other events.
const TOPIC_REST: Duration = Duration::from_secs(300);

/// What is to be done about a record that Kafka refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its batch was refused: it is sent alone, to see whether it was the one.
    Suspect,
    /// It goes to the dead-letter topic.
    Dead(Arc<Obituary>),
}

/// A refused record and its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct Refused {
    pub(in crate::relay) commit_lsn: Lsn,
    pub(in crate::relay) rejection: Rejection,
}

/// What is known of records that Kafka refused. They are met again when the stream resumes at the slot.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    records: HashMap<Lsn, HashMap<(String, Fingerprint), Verdict>>,
    topics: HashMap<String, (Instant, Arc<Obituary>)>,
}

impl Verdicts {
    /// What is known of a record.
    pub(super) fn of(&self, record: &ProducerRecord<'_>, commit_lsn: Lsn, now: Instant) -> Option<Verdict> {
        if !self.topics.is_empty()
            && let Some((since, obituary)) = self.topics.get(record.topic)
            && now.saturating_duration_since(*since) < TOPIC_REST
        {
            return Some(Verdict::Dead(Arc::clone(obituary)));
        }
        let transaction = self.records.get(&commit_lsn)?;
        transaction.get(&(record.topic.to_owned(), record.fingerprint())).cloned()
    }

    /// Learns from what was refused. False when that is no help: it is nothing that a dead-letter topic is for, it was known
    /// already, or there is no room.
    pub(super) fn learn(&mut self, refused: &[Refused], dead_letter_topic: &str, now: Instant) -> bool {
        let mut learnt = false;
        for Refused { commit_lsn, rejection } in refused {
            let fault = match rejection.fault() {
                // The dead-letter topic itself must be there, and take what others do not.
                Some(Fault::Batch) => Fault::Batch,
                Some(fault) if rejection.topic != dead_letter_topic => fault,
                _ => return false,
            };
            let obituary = || Arc::new(Obituary::of_refusal(fault, rejection));
            learnt |= match fault {
                Fault::Topic => self.learn_topic(&rejection.topic, obituary(), now),
                Fault::Batch if has_company(rejection, refused) => {
                    self.learn_record(*commit_lsn, rejection, Verdict::Suspect)
                }
                Fault::Batch | Fault::Record => {
                    self.learn_record(*commit_lsn, rejection, Verdict::Dead(obituary()))
                }
            };
        }
        learnt
    }

    /// Forgets the records of transactions that are wholly acknowledged.
    pub(super) fn forget_before(&mut self, frontier: Lsn) {
        self.records.retain(|commit_lsn, _| *commit_lsn >= frontier);
    }

    fn learn_topic(&mut self, topic: &str, obituary: Arc<Obituary>, now: Instant) -> bool {
        if self.topics.len() >= TOPICS_MAX {
            self.topics.clear();
        }
        let before = self.topics.insert(topic.to_owned(), (now, obituary));
        before.is_none_or(|(since, _)| now.saturating_duration_since(since) >= TOPIC_REST)
    }

    fn learn_record(&mut self, commit_lsn: Lsn, rejection: &Rejection, verdict: Verdict) -> bool {
        let full = self.records.values().map(HashMap::len).sum::<usize>() >= RECORDS_MAX;
        let transaction = self.records.entry(commit_lsn).or_default();
        let key = (rejection.topic.clone(), rejection.fingerprint);
        match transaction.get_mut(&key) {
            Some(Verdict::Dead(_)) => false,
            Some(Verdict::Suspect) if verdict == Verdict::Suspect => false,
            Some(known) => {
                *known = verdict;
                true
            }
            None if full => {
                tracing::error!(
                    "{RECORDS_MAX} refused records wait for their transactions: no more are remembered"
                );
                false
            }
            None => {
                transaction.insert(key, verdict);
                true
            }
        }
    }
}

/// Whether others were refused with it, so that it may have been their batch that was too large.
fn has_company(rejection: &Rejection, refused: &[Refused]) -> bool {
    let same = |other: &&Refused| {
        (&other.rejection.topic, other.rejection.partition) == (&rejection.topic, rejection.partition)
    };
    refused.iter().filter(same).nth(1).is_some()
}
