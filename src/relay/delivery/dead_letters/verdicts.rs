//! Verdicts on records that Kafka refused. The next session reads these rows again and treats them accordingly.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error_context::ErrorContext;
use crate::connect::record::{Fingerprint, ProducerRecord};
use crate::kafka::{Fault, Rejection};
use crate::wal::Lsn;

/// Most refused records that are remembered until their transactions are confirmed, at some 300 bytes each.
const RECORDS_MAX: usize = 50_000;

/// Most refused topics that are remembered. With more, all are tried again.
const TOPICS_MAX: usize = 1_000;

/// Pause before a refused topic is tried again. Each try ends a session, and delays all other events.
const TOPIC_REST: Duration = Duration::from_secs(300);

/// Treatment of a record that Kafka refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its batch was refused: it is sent alone, to find out whether it caused that.
    Suspect,
    /// Written to the dead-letter topic.
    Dead(Arc<ErrorContext>),
}

/// A refused record and its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct Refused {
    pub(in crate::relay) commit_lsn: Lsn,
    pub(in crate::relay) rejection: Rejection,
}

/// Verdicts on records that Kafka refused. These are read again when the stream resumes at the slot.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// Verdicts with the transaction's LSN, by topic and contents: a snapshot that restarts has another LSN.
    records: HashMap<(String, Fingerprint), (Lsn, Verdict)>,
    topics: HashMap<String, (Instant, Arc<ErrorContext>)>,
}

impl Verdicts {
    /// Returns the verdict on a record, if there is one.
    pub(super) fn of(&self, record: &ProducerRecord<'_>, now: Instant) -> Option<Verdict> {
        if !self.topics.is_empty()
            && let Some((since, error_context)) = self.topics.get(record.topic)
            && now.saturating_duration_since(*since) < TOPIC_REST
        {
            return Some(Verdict::Dead(Arc::clone(error_context)));
        }
        if self.records.is_empty() {
            return None;
        }
        let (_, verdict) = self.records.get(&(record.topic.to_owned(), record.fingerprint()))?;
        Some(verdict.clone())
    }

    /// Records what was refused. Returns false when nothing was learnt: a dead-letter topic does not help, it
    /// was known already, or there is no room.
    pub(super) fn learn(&mut self, refused: &[Refused], dead_letter_topic: &str, now: Instant) -> bool {
        let mut learnt = false;
        for Refused { commit_lsn, rejection } in refused {
            let fault = match rejection.fault() {
                // The dead-letter topic itself must exist, and accept what others do not.
                Some(Fault::Size) => Fault::Size,
                Some(fault) if rejection.topic != dead_letter_topic => fault,
                // If it is no consequence of the others, it comes again, and alone.
                _ => continue,
            };
            let error_context = || Arc::new(ErrorContext::of_refusal(fault, rejection));
            learnt |= match fault {
                Fault::Topic => self.learn_topic(&rejection.topic, error_context(), now),
                fault if fault.is_of_batch() && has_company(rejection, refused) => {
                    self.learn_record(*commit_lsn, rejection, Verdict::Suspect)
                }
                _ => self.learn_record(*commit_lsn, rejection, Verdict::Dead(error_context())),
            };
        }
        learnt
    }

    /// Forgets the records of transactions that are wholly acknowledged.
    pub(super) fn forget_before(&mut self, frontier: Lsn) {
        self.records.retain(|_, (commit_lsn, _)| *commit_lsn >= frontier);
    }

    /// Remembers a topic that brokers refuse to make.
    pub(super) fn refuse_topic(&mut self, rejection: &Rejection, now: Instant) {
        let error_context = Arc::new(ErrorContext::of_refusal(Fault::Topic, rejection));
        self.learn_topic(&rejection.topic, error_context, now);
    }

    fn learn_topic(&mut self, topic: &str, error_context: Arc<ErrorContext>, now: Instant) -> bool {
        if self.topics.len() >= TOPICS_MAX {
            self.topics.clear();
        }
        let before = self.topics.insert(topic.to_owned(), (now, error_context));
        before.is_none_or(|(since, _)| now.saturating_duration_since(since) >= TOPIC_REST)
    }

    fn learn_record(&mut self, commit_lsn: Lsn, rejection: &Rejection, verdict: Verdict) -> bool {
        let full = self.records.len() >= RECORDS_MAX;
        let key = (rejection.topic.clone(), rejection.fingerprint);
        match self.records.get_mut(&key) {
            Some((_, Verdict::Dead(_))) => false,
            Some((_, Verdict::Suspect)) if verdict == Verdict::Suspect => false,
            Some(known) => {
                *known = (commit_lsn, verdict);
                true
            }
            None if full => {
                tracing::error!(
                    "{RECORDS_MAX} refused records wait for their transactions: further ones are not stored"
                );
                false
            }
            None => {
                self.records.insert(key, (commit_lsn, verdict));
                true
            }
        }
    }
}

/// Returns whether other records were refused with it, so that any of them may be the cause.
fn has_company(rejection: &Rejection, refused: &[Refused]) -> bool {
    let same = |other: &&Refused| {
        (&other.rejection.topic, other.rejection.partition) == (&rejection.topic, rejection.partition)
    };
    refused.iter().filter(same).nth(1).is_some()
}

#[cfg(test)]
mod tests {
    use rdkafka::error::RDKafkaErrorCode as Code;

    use super::*;
    use crate::ack::Ticket;
    use crate::kafka::Cause;

    const DEAD: &str = "dead";

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

    fn refused(commit_lsn: u64, topic: &str, value: &str, code: Code) -> Refused {
        let rejection = Rejection {
            ticket: Ticket(0),
            topic: topic.to_owned(),
            partition: Some(0),
            event_id: None,
            fingerprint: record(topic, value).fingerprint(),
            cause: Cause::Code(code),
            reason: "refused".to_owned(),
        };
        Refused { commit_lsn: Lsn::new(commit_lsn), rejection }
    }

    fn is_dead(verdict: Option<Verdict>) -> Option<bool> {
        verdict.map(|verdict| matches!(verdict, Verdict::Dead(_)))
    }

    #[test]
    fn what_was_refused_alone_is_dead_and_what_had_company_a_suspect() {
        use Code::{
            GroupAuthorizationFailed, InvalidRecord, MessageSizeTooLarge, UnknownPartition, UnknownTopic,
        };
        type Case<'a> = (&'a [(&'a str, Code)], bool, Option<bool>);
        // Refused together, whether that helps, and what is then known of the first.
        let cases: [Case<'_>; 11] = [
            (&[("a", MessageSizeTooLarge)], true, Some(true)),
            (&[("a", MessageSizeTooLarge), ("a", MessageSizeTooLarge)], true, Some(false)),
            (&[("a", MessageSizeTooLarge), ("b", MessageSizeTooLarge)], true, Some(true)),
            (&[("a", InvalidRecord), ("a", InvalidRecord)], true, Some(false)),
            (&[("a", UnknownPartition), ("a", UnknownPartition)], true, Some(true)),
            (&[("a", UnknownTopic), ("a", UnknownTopic)], true, Some(true)),
            (&[("a", GroupAuthorizationFailed)], false, None),
            (&[], false, None),
            (&[(DEAD, MessageSizeTooLarge)], true, Some(true)),
            (&[(DEAD, UnknownTopic)], false, None),
            (&[("a", MessageSizeTooLarge), (DEAD, UnknownTopic)], true, Some(true)),
        ];
        for (together, helps, expected) in cases {
            let all: Vec<_> = together
                .iter()
                .enumerate()
                .map(|(n, (topic, code))| refused(10, topic, &n.to_string(), *code))
                .collect();
            let (mut verdicts, now) = (Verdicts::default(), Instant::now());
            assert_eq!(verdicts.learn(&all, DEAD, now), helps, "{together:?}");
            let topic = together.first().map_or("a", |(topic, _)| topic);
            assert_eq!(is_dead(verdicts.of(&record(topic, "0"), now)), expected, "{together:?}");
            assert!(!verdicts.learn(&all, DEAD, now), "the same again is no news: {together:?}");
        }
    }

    #[test]
    fn a_suspect_that_is_refused_alone_is_dead_and_its_company_is_not() {
        let (mut verdicts, now) = (Verdicts::default(), Instant::now());
        let of = |value: &str| refused(10, "a", value, Code::MessageSizeTooLarge);
        assert!(verdicts.learn(&[of("1"), of("2")], DEAD, now));
        assert!(verdicts.learn(&[of("2")], DEAD, now));
        let found = ["1", "2", "3"].map(|value| is_dead(verdicts.of(&record("a", value), now)));
        assert_eq!(found, [Some(false), Some(true), None]);
        verdicts.forget_before(Lsn::new(10));
        assert_eq!(is_dead(verdicts.of(&record("a", "2"), now)), Some(true));
        verdicts.forget_before(Lsn::new(11));
        assert_eq!(is_dead(verdicts.of(&record("a", "2"), now)), None);
    }

    #[test]
    fn records_for_a_topic_that_cannot_be_made_are_dead() {
        let (mut verdicts, now) = (Verdicts::default(), Instant::now());
        verdicts.refuse_topic(&Rejection::of_topic("a", "its name collides".to_owned()), now);
        let found = ["a", "b"].map(|topic| is_dead(verdicts.of(&record(topic, "1"), now)));
        assert_eq!(found, [Some(true), None]);
    }

    #[test]
    fn a_topic_that_was_refused_is_tried_again_after_a_while() {
        let (mut verdicts, start) = (Verdicts::default(), Instant::now());
        assert!(verdicts.learn(&[refused(10, "a", "1", Code::UnknownTopic)], DEAD, start));
        let of = |after: Duration| is_dead(verdicts.of(&record("a", "other"), start + after));
        assert_eq!(of(TOPIC_REST - Duration::from_secs(1)), Some(true));
        assert_eq!(of(TOPIC_REST), None);
    }
}
