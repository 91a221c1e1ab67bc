//! The check of records before the producer: repeats are skipped, refused ones become dead letters, others may have to wait.

use std::collections::VecDeque;
use std::time::Instant;

use super::dead_letters::{Company, DeadLetters, ErrorContext, Fate, Origin};
use super::flight::{Flight, RecordContext};
use super::needs::Need;
use super::repeats::{Presence, Repeats};
use crate::connect::record::{OwnedRecord, ProducerRecord};
use crate::kafka::Transport;
use crate::outbox::RawRecord;
use crate::relay::error::Error;
use crate::relay::time::clock::Now;
use crate::telemetry::{Metrics, TopicTally};
use crate::transaction::Standing;
use crate::wal::Lsn;

/// Check of records before they are sent: which of them Kafka refuses, and which it has already.
pub(in crate::relay) struct Dispatch<'p> {
    dead_letters: Option<&'p DeadLetters>,
    pub(in crate::relay) repeats: Repeats,
    tally: TopicTally,
    metrics: &'p Metrics,
}

/// Records of an event that are not handed over yet, because the first of them lacks something.
#[derive(Debug)]
pub(in crate::relay) struct Unsent {
    pub(in crate::relay) records: UnsentRecords,
    pub(in crate::relay) need: Need,
}

/// Records to hand over once a need is met. Nothing behind them is accepted.
#[derive(Debug)]
pub(in crate::relay) enum UnsentRecords {
    /// The rest of an event's records, and how the first of them stands.
    Event(VecDeque<OwnedRecord>, Standing),
    /// Remains of a row that makes no event, and the error.
    Remains(Box<(RawRecord, Error)>, Standing),
}

/// A dead letter before it is written.
struct DeadLetter<'l> {
    /// The refused record, or the remains of the row.
    record: &'l ProducerRecord<'l>,
    error_context: &'l ErrorContext,
    origin: Origin<'l>,
}

impl<'p> Dispatch<'p> {
    /// Creates it without any known repeat.
    pub(in crate::relay) fn new(dead_letters: Option<&'p DeadLetters>, metrics: &'p Metrics) -> Self {
        Self { dead_letters, repeats: Repeats::default(), tally: metrics.topic_tally(), metrics }
    }

    /// Hands over the records of an event of the open transaction, each in the way that is known to be the one for it. The first that
    /// needs something is returned, with those behind it; [`Self::resume`] hands them over.
    ///
    /// # Errors
    /// When the producer refuses one, or there is no room for what must be known.
    pub(in crate::relay) fn send(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        records: &[ProducerRecord<'_>],
        mut standing: Standing,
        now: Now,
    ) -> Result<Option<Unsent>, Error> {
        let mut rest = records;
        while let [record, behind @ ..] = rest {
            if let Some(need) = self.send_record(flight, record, standing, !behind.is_empty(), now)? {
                let records = UnsentRecords::Event(rest.iter().map(OwnedRecord::from).collect(), standing);
                return Ok(Some(Unsent { records, need }));
            }
            (rest, standing) = (behind, standing.next_part());
        }
        Ok(None)
    }

    /// Hands over what is left of a row or a message that makes no event. It is returned as a record is.
    ///
    /// # Errors
    /// When the producer refuses it, or no further key can be held.
    pub(in crate::relay) fn send_remains(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        remains: RawRecord,
        error: Error,
        standing: Standing,
        now: Now,
    ) -> Result<Option<Unsent>, Error> {
        let Some(need) = self.send_raw_letter(flight, &remains, &error, standing, now)? else {
            self.metrics.event_error("route");
            return Ok(None);
        };
        let records = UnsentRecords::Remains(Box::new((remains, error)), standing);
        Ok(Some(Unsent { records, need }))
    }

    /// Hands over records whose need is met. They may need something more.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(in crate::relay) fn resume(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        records: UnsentRecords,
        now: Now,
    ) -> Result<Option<Unsent>, Error> {
        match records {
            UnsentRecords::Event(records, standing) => self.send_rest(flight, records, standing, now),
            UnsentRecords::Remains(waiting, standing) => {
                let (remains, error) = *waiting;
                self.send_remains(flight, remains, error, standing, now)
            }
        }
    }

    /// Records that the stream is at `lsn`.
    pub(in crate::relay) fn pass(&mut self, lsn: Lsn) {
        self.repeats.pass(lsn);
    }

    /// Forgets verdicts before the frontier, up to which everything is acknowledged.
    pub(in crate::relay) fn forget_before(&self, frontier: Lsn) {
        if let Some(dead_letters) = self.dead_letters {
            dead_letters.forget_before(frontier);
        }
    }

    /// Classifies a refusal, with the recorded verdicts on refused records.
    pub(in crate::relay) fn judge(
        &self,
        refusal: Error,
        flight: &Flight<'_, impl Transport>,
        now: Instant,
    ) -> Error {
        let Error::Refused { commit_lsn, source } = refusal else { return refusal };
        match self.dead_letters.is_some_and(|letters| letters.judge(flight.refused(), now)) {
            true => Error::Condemned { commit_lsn, source },
            false => Error::Refused { commit_lsn, source },
        }
    }

    fn send_rest(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        mut records: VecDeque<OwnedRecord>,
        mut standing: Standing,
        now: Now,
    ) -> Result<Option<Unsent>, Error> {
        while let Some(record) = records.pop_front() {
            let (headers, more) = (record.headers(), !records.is_empty());
            if let Some(need) = self.send_record(flight, &record.as_record(&headers), standing, more, now)? {
                records.push_front(record);
                return Ok(Some(Unsent { records: UnsentRecords::Event(records, standing), need }));
            }
            standing = standing.next_part();
        }
        Ok(None)
    }

    /// Sends a record, or makes it a dead letter. `more` means that further records of the same event follow.
    fn send_record(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        record: &ProducerRecord<'_>,
        standing: Standing,
        more: bool,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        if standing.event().map_or(Ok(false), |event| flight.has(event))? {
            self.metrics.skipped("committed", 1);
            return Ok(None);
        }
        let fate = self.dead_letters.map(|letters| letters.fate(record, standing.position(), now.instant));
        match fate.unwrap_or(Fate::Send(Company::Others)) {
            Fate::Send(company) => {
                self.hand_over(flight, record, RecordContext { standing, more, company }, now)
            }
            Fate::Dead(error_context) => {
                let origin = Origin { standing, topic: Some(record.topic), partition: record.partition };
                self.send_letter(
                    flight,
                    DeadLetter { record, error_context: &error_context, origin },
                    more,
                    now,
                )
            }
        }
    }

    fn send_raw_letter(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        remains: &RawRecord,
        error: &Error,
        standing: Standing,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let Some(dead_letters) = self.dead_letters else { return Ok(None) };
        let record = ProducerRecord {
            topic: dead_letters.topic(),
            partition: None,
            timestamp_ms: now.unix_ms(),
            key: remains.key.as_deref(),
            value: Some(&remains.value),
            headers: &remains.headers(),
            position: None,
        };
        let origin = Origin { standing, topic: remains.topic.as_deref(), partition: None };
        let error_context = &ErrorContext::of_row(error);
        self.send_letter(flight, DeadLetter { record: &record, error_context, origin }, false, now)
    }

    fn send_letter(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        DeadLetter { record, error_context, origin }: DeadLetter<'_>,
        more: bool,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let Some(dead_letters) = self.dead_letters else { return Ok(None) };
        let need = dead_letters.write(record, error_context, origin, now, |letter, company| {
            let standing = origin.standing;
            self.hand_over(flight, letter, RecordContext { standing, more, company }, now)
        })?;
        self.metrics.keys_held(dead_letters.keys_held());
        if need.is_none() && dead_letters.is_new(origin.standing) {
            self.metrics.dead_letter(error_context.cause);
            error_context.report(record, origin);
        }
        Ok(need)
    }

    /// Hands over a record or a dead letter, unless its topic has it already.
    fn hand_over(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        record: &ProducerRecord<'_>,
        context: RecordContext,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let event = context.standing.event();
        match event.map_or(Presence::New, |event| self.repeats.look(record, event)) {
            Presence::New => {}
            Presence::Unknown(question) => return Ok(Some(Need::Tail(question))),
            Presence::There => {
                self.metrics.skipped("tail", 1);
                return Ok(None);
            }
        }
        let text = self.repeats.text.as_mut();
        let told = text.zip(event).map(|(text, event)| text.of(event));
        let need = flight.send(&ProducerRecord { position: told, ..*record }, context, now)?;
        if need.is_none() {
            self.tally.add(record.topic, 1);
        }
        Ok(need)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rdkafka::error::RDKafkaErrorCode as Code;

    use super::super::dead_letters::Refused;
    use super::*;
    use crate::ack::{Ticket, Window};
    use crate::kafka::{Cause, Delivered, Pace, Rejection, Reports};
    use crate::pgoutput::Begin;
    use crate::relay::DeadLetterOptions;
    use crate::telemetry::ConfigInfo;
    use crate::transaction::{EventPosition, Identity};
    use crate::wal::{PgTimestamp, Xid};

    const COMMIT: Lsn = Lsn::new(100);
    const DEAD: &str = "dead";

    /// Topic, value and headers of a record.
    type Sent = (String, Option<Vec<u8>>, Vec<String>);

    /// Accepts every record, and acknowledges on demand.
    #[derive(Default)]
    struct Log {
        sent: RefCell<Vec<Sent>>,
        unacknowledged: RefCell<Vec<Delivered>>,
        acknowledges: RefCell<bool>,
    }

    impl Transport for &Log {
        fn send(&self, record: &ProducerRecord<'_>, ticket: Ticket, _: Pace) -> Result<(), Rejection> {
            let headers = record.headers.iter().map(|header| header.name.to_owned()).collect();
            let sent = (record.topic.to_owned(), record.value.map(<[u8]>::to_vec), headers);
            self.sent.borrow_mut().push(sent);
            let delivered = Delivered { ticket, records: 1, bytes: record.weight() };
            self.unacknowledged.borrow_mut().push(delivered);
            Ok(())
        }

        fn take(&self, _: Vec<Delivered>) -> Reports {
            let acknowledges = *self.acknowledges.borrow();
            let delivered = if acknowledges { self.unacknowledged.take() } else { Vec::new() };
            Reports { delivered, ..Reports::default() }
        }

        fn follows_load(&self) -> bool {
            false
        }

        fn is_transactional(&self) -> bool {
            false
        }
    }

    impl Log {
        fn values(&self) -> Vec<(String, Option<Vec<u8>>)> {
            self.sent.borrow().iter().map(|(topic, value, _)| (topic.clone(), value.clone())).collect()
        }
    }

    fn in_transaction<'m>(log: &'m Log, metrics: &'m Metrics) -> Flight<'m, &'m Log> {
        let mut flight = Flight::new(log, Window::new(100, 10_000), true, metrics, Lsn::ZERO);
        let begin = Begin { final_lsn: COMMIT, commit_time: PgTimestamp(0), xid: Xid(1) };
        flight.begin(&begin, Identity::from(&begin)).unwrap();
        flight
    }

    /// Makes a record and its tombstone.
    fn records() -> [ProducerRecord<'static>; 2] {
        let record = ProducerRecord {
            topic: "a",
            partition: None,
            timestamp_ms: 7,
            key: Some(b"k"),
            value: Some(b"v"),
            headers: &[],
            position: None,
        };
        [record, ProducerRecord { value: None, ..record }]
    }

    fn now() -> Now {
        Now { instant: Instant::now(), unix_us: 0 }
    }

    fn sent(topic: &str, value: Option<&[u8]>) -> (String, Option<Vec<u8>>) {
        (topic.to_owned(), value.map(<[u8]>::to_vec))
    }

    #[test]
    fn the_records_of_an_event_wait_one_by_one_and_keep_their_order() {
        let (log, metrics) = (Log::default(), Metrics::new(&ConfigInfo::default()));
        let (mut flight, mut dispatch) = (in_transaction(&log, &metrics), Dispatch::new(None, &metrics));
        let position = EventPosition::new(COMMIT, COMMIT, 0);
        let unsent = dispatch.send(&mut flight, &records(), position.into(), now()).unwrap().unwrap();
        assert!(matches!(unsent.need, Need::Topic(topic) if topic == "a"));
        assert_eq!(log.values(), []);
        flight.learn_topic("a".to_owned(), 1, now());
        // The first record of a partition travels alone.
        let unsent = dispatch.resume(&mut flight, unsent.records, now()).unwrap().unwrap();
        assert!(matches!(unsent.need, Need::QueueEmpty), "{unsent:?}");
        assert_eq!(log.values(), [sent("a", Some(b"v"))]);
        let unsent = dispatch.resume(&mut flight, unsent.records, now()).unwrap().unwrap();
        assert!(matches!(unsent.need, Need::QueueEmpty), "it is not acknowledged yet");
        log.acknowledges.replace(true);
        flight.collect(now()).unwrap();
        assert!(dispatch.resume(&mut flight, unsent.records, now()).unwrap().is_none());
        assert_eq!(log.values(), [sent("a", Some(b"v")), sent("a", None)]);
    }

    fn dead_letters(follow_key: bool) -> DeadLetters {
        let dead_letters = DeadLetters::new(DeadLetterOptions {
            topic: DEAD.to_owned(),
            context_headers: true,
            connector_name: "c".to_owned(),
            follow_key,
            keys_max: 10,
            keeps_values: false,
        });
        let [record, _] = records();
        let rejection = Rejection {
            ticket: Ticket(0),
            topic: "a".to_owned(),
            partition: Some(0),
            event_id: None,
            fingerprint: record.fingerprint(),
            cause: Cause::Code(Code::MessageSizeTooLarge),
            reason: "too large".to_owned(),
        };
        assert!(dead_letters.judge(&[Refused { commit_lsn: COMMIT, rejection }], Instant::now()));
        dead_letters
    }

    #[test]
    fn of_several_records_only_the_refused_one_is_dead_unless_its_key_is_held() {
        for (follow_key, second) in [(false, "a"), (true, DEAD)] {
            let (log, metrics) = (Log::default(), Metrics::new(&ConfigInfo::default()));
            let dead_letters = dead_letters(follow_key);
            let (mut flight, mut dispatch) =
                (in_transaction(&log, &metrics), Dispatch::new(Some(&dead_letters), &metrics));
            for topic in ["a", DEAD] {
                flight.learn_topic(topic.to_owned(), 0, now());
            }
            let position = EventPosition::new(COMMIT, COMMIT, 0);
            assert!(dispatch.send(&mut flight, &records(), position.into(), now()).unwrap().is_none());
            assert_eq!(log.values(), [sent(DEAD, Some(b"v")), sent(second, None)]);
            let headers: Vec<_> = log.sent.take().into_iter().map(|(.., headers)| headers).collect();
            let part = "outboxd.errors.part".to_owned();
            let of_part: Vec<_> = headers.iter().map(|headers| headers.contains(&part)).collect();
            assert_eq!(of_part, [false, follow_key], "{headers:?}");
        }
    }
}
