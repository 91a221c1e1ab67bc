use std::time::Instant;

use super::Error;
use super::clock::Now;
use super::dead_letters::{Company, DeadLetters, ErrorContext, Fate, Origin};
use super::flight::Flight;
use super::needs::Need;
use super::repeats::{Presence, Repeats};
use crate::connect::record::{OwnedRecord, ProducerRecord};
use crate::kafka::Transport;
use crate::outbox::RawRecord;
use crate::telemetry::{Metrics, TopicTally};
use crate::transaction::EventPosition;
use crate::wal::Lsn;

/// What is known of records before they are sent: which of them Kafka refuses, and which it has already.
pub(super) struct Dispatch<'p> {
    dead_letters: Option<&'p DeadLetters>,
    pub(super) repeats: Repeats,
    tally: TopicTally,
    metrics: &'p Metrics,
    /// What waits for what it needs. Nothing behind it is taken.
    kept: Option<Kept>,
}

/// What is handed over once what it needs is there.
enum Kept {
    Record(OwnedRecord, EventPosition),
    /// What is left of a row that makes no event, and why.
    Remains(Box<(RawRecord, Error)>, EventPosition),
}

impl<'p> Dispatch<'p> {
    /// Nothing is known of repeats yet.
    pub(super) fn new(dead_letters: Option<&'p DeadLetters>, metrics: &'p Metrics) -> Self {
        Self { dead_letters, repeats: Repeats::default(), tally: metrics.topic_tally(), metrics, kept: None }
    }

    /// Hands over a record of the open transaction, in the way that is known to be the one for it. One that needs something first is
    /// kept, and [`Self::go_on`] hands it over.
    ///
    /// # Errors
    /// When the producer refuses it, or there is no room for what is to be known.
    pub(super) fn send(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let need = self.send_record(flight, record, position, now)?;
        if need.is_some() {
            self.kept = Some(Kept::Record(record.into(), position));
        }
        Ok(need)
    }

    /// Hands over what is left of a row or a message that makes no event. It is kept as a record is.
    ///
    /// # Errors
    /// When the producer refuses it, or no further key can be held.
    pub(super) fn send_remains(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        remains: RawRecord,
        error: Error,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let need = self.send_raw_letter(flight, &remains, &error, position, now)?;
        match need {
            Some(_) => self.kept = Some(Kept::Remains(Box::new((remains, error)), position)),
            None => self.metrics.event_error("route"),
        }
        Ok(need)
    }

    /// Hands over what was kept. It may need something more.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(super) fn go_on(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        match self.kept.take() {
            None => Ok(None),
            Some(Kept::Record(record, position)) => {
                let need = self.send_record(flight, &record.as_record(&record.headers()), position, now)?;
                self.kept = need.is_some().then_some(Kept::Record(record, position));
                Ok(need)
            }
            Some(Kept::Remains(waiting, position)) => {
                let (remains, error) = *waiting;
                self.send_remains(flight, remains, error, position, now)
            }
        }
    }

    /// The stream is at `lsn`.
    pub(super) fn pass(&mut self, lsn: Lsn) {
        self.repeats.pass(lsn);
    }

    /// All before this is acknowledged.
    pub(super) fn forget_before(&self, frontier: Lsn) {
        if let Some(dead_letters) = self.dead_letters {
            dead_letters.forget_before(frontier);
        }
    }

    /// What a refusal means, with what is known of refused records.
    pub(super) fn judge(&self, refusal: Error, flight: &Flight<'_, impl Transport>, now: Instant) -> Error {
        let Error::Refused { commit_lsn, source } = refusal else { return refusal };
        match self.dead_letters.is_some_and(|letters| letters.judge(flight.refused(), now)) {
            true => Error::Condemned { commit_lsn, source },
            false => Error::Refused { commit_lsn, source },
        }
    }

    fn send_record(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let Some(dead_letters) = self.dead_letters else {
            return self.hand_over(flight, record, position, Company::Others, now);
        };
        match dead_letters.fate(record, position, now.instant) {
            Fate::Send(company) => self.hand_over(flight, record, position, company, now),
            Fate::Dead(error_context) => {
                let origin = Origin { position, topic: Some(record.topic), partition: record.partition };
                self.send_letter(flight, record, &error_context, origin, now)
            }
        }
    }

    fn send_raw_letter(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        remains: &RawRecord,
        error: &Error,
        position: EventPosition,
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
        let origin = Origin { position, topic: remains.topic.as_deref(), partition: None };
        self.send_letter(flight, &record, &ErrorContext::of_row(error), origin, now)
    }

    fn send_letter(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        record: &ProducerRecord<'_>,
        error_context: &ErrorContext,
        origin: Origin<'_>,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let Some(dead_letters) = self.dead_letters else { return Ok(None) };
        let need = dead_letters.write(record, error_context, origin, now, |letter, company| {
            self.hand_over(flight, letter, origin.position, company, now)
        })?;
        if need.is_none() && dead_letters.is_new(origin.position) {
            self.metrics.dead_letter(error_context.cause);
            error_context.tell(record, origin);
        }
        Ok(need)
    }

    /// Hands over a record or a letter, unless it is in its topic already.
    fn hand_over(
        &mut self,
        flight: &mut Flight<'_, impl Transport>,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        company: Company,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        match self.repeats.look(record, position) {
            Presence::New => {}
            Presence::Unknown(question) => return Ok(Some(Need::Tail(question))),
            Presence::There => {
                self.metrics.skipped("tail", 1);
                return Ok(None);
            }
        }
        let told = self.repeats.text.as_mut().map(|text| text.of(position));
        let need = flight.send(&ProducerRecord { position: told, ..*record }, position, company, now)?;
        if need.is_none() {
            self.tally.add(record.topic, 1);
        }
        Ok(need)
    }
}
