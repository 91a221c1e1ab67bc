//! Dead letters: where events go that cannot be sent, instead of stopping the relay.
//!
//! ```text
//! a row makes no event ──▶ bury ─────────────────────────────▶ the dead-letter topic, acknowledged like any record
//! Kafka refuses a record ─▶ judge ─▶ new producer, new session ─▶ the record is met again: dispatch ─▶ bury
//! ```
//!
//! What Kafka refuses stops the whole producer, before anything behind it is written. So its row must be read again; what is
//! known of it is kept here from one session to the next, and forgotten with the process.

mod held_keys;
mod obituary;
mod verdicts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use super::Error;
use super::feed::unix_ms;
use super::flight::Flight;
use super::needs::Need;
use super::options::DeadLetterOptions;
use crate::connect::record::{Header, ProducerRecord};
use crate::kafka::Outlet;
use crate::outbox::Salvage;
use crate::telemetry::DeathCause;
use crate::transaction::EventPosition;
use crate::wal::Lsn;
use held_keys::{Full, HeldKeys};
use obituary::{Obituary, Origin, VALUE_LEFT_OUT};
pub(super) use verdicts::Refused;
use verdicts::{Verdict, Verdicts};

/// The dead-letter topic, and what this process knows of events that belong there.
#[derive(Debug)]
pub struct DeadLetters {
    options: DeadLetterOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    verdicts: Verdicts,
    held: HeldKeys,
    /// The last event that was told of: after a broken connection events are met again.
    told: Option<EventPosition>,
}

/// What becomes of a record.
enum Fate {
    Send,
    Alone,
    Dead(Arc<Obituary>),
}

impl DeadLetters {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(options: DeadLetterOptions) -> Self {
        let state =
            State { verdicts: Verdicts::default(), held: HeldKeys::new(options.keys_max), told: None };
        Self { options, state: Mutex::new(state) }
    }

    /// `errors.deadletterqueue.topic.name`
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.options.topic
    }

    /// A snapshot begins, perhaps not for the first time: its rows have other positions than before.
    pub(super) fn begin_snapshot(&self) {
        self.lock().held.release();
    }

    /// Learns from what Kafka refused. False when another session would be of no use.
    pub(super) fn judge(&self, refused: &[Refused]) -> bool {
        self.lock().verdicts.learn(refused, &self.options.topic, Instant::now())
    }

    /// All before this is acknowledged: nothing of it is met again.
    pub(super) fn forget_before(&self, frontier: Lsn) {
        self.lock().verdicts.forget_before(frontier);
    }

    /// Hands a record over: to its own topic, or to the dead-letter topic if that is what it came to.
    ///
    /// # Errors
    /// When the producer refuses it, or no further key can be held.
    pub(super) fn dispatch(
        &self,
        flight: &mut Flight<'_, impl Outlet>,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: SystemTime,
    ) -> Result<Option<Need>, Error> {
        let origin = Origin { position, topic: Some(record.topic), partition: record.partition };
        match self.fate(record, position) {
            Fate::Send => flight.send(record, position, now),
            Fate::Alone => flight.send_alone(record, position, now),
            Fate::Dead(obituary) => self.bury(flight, record, &obituary, origin, now),
        }
    }

    /// Hands over what is left of a row or a message that makes no event.
    ///
    /// # Errors
    /// When the producer refuses it, or no further key can be held.
    pub(super) fn bury_remains(
        &self,
        flight: &mut Flight<'_, impl Outlet>,
        remains: &Salvage,
        error: &Error,
        position: EventPosition,
        now: SystemTime,
    ) -> Result<Option<Need>, Error> {
        let record = ProducerRecord {
            topic: &self.options.topic,
            partition: None,
            timestamp_ms: unix_ms(now),
            key: remains.key.as_deref(),
            value: Some(&remains.value),
            headers: &remains.headers(),
            position: None,
        };
        let origin = Origin { position, topic: remains.topic.as_deref(), partition: None };
        self.bury(flight, &record, &Obituary::of_row(error), origin, now)
    }

    fn bury(
        &self,
        flight: &mut Flight<'_, impl Outlet>,
        record: &ProducerRecord<'_>,
        obituary: &Obituary,
        origin: Origin<'_>,
        now: SystemTime,
    ) -> Result<Option<Need>, Error> {
        self.hold(record.key, obituary, origin)?;
        let context = obituary.headers(&self.options, origin);
        let context = context.iter().map(|(name, value)| Header { name, value: Some(value.as_bytes()) });
        let headers: Vec<_> = record.headers.iter().copied().chain(context).collect();
        // What Kafka did not like may be the record's own timestamp.
        let timestamp_ms =
            if obituary.cause == DeathCause::Invalid { unix_ms(now) } else { record.timestamp_ms };
        let topic = self.options.topic.as_str();
        let letter = ProducerRecord { topic, partition: None, timestamp_ms, headers: &headers, ..*record };
        let verdict = self.lock().verdicts.of(&letter, Instant::now());
        let need = match verdict {
            None => flight.send(&letter, origin.position, now)?,
            Some(Verdict::Suspect) => flight.send_alone(&letter, origin.position, now)?,
            Some(Verdict::Dead(_)) => send_without_value(flight, &letter, origin.position, now)?,
        };
        if need.is_none() && self.is_new(origin.position) {
            flight.metrics.dead_letter(obituary.cause);
            obituary.tell(record, origin);
        }
        Ok(need)
    }

    fn fate(&self, record: &ProducerRecord<'_>, position: EventPosition) -> Fate {
        let state = self.lock();
        let verdict = state.verdicts.of(record, Instant::now());
        if let Some(Verdict::Dead(obituary)) = verdict {
            return Fate::Dead(obituary);
        }
        if let Some(since) = record.key.and_then(|key| state.held.held_behind(record.topic, key, position)) {
            return Fate::Dead(Arc::new(Obituary::of_follower(since)));
        }
        verdict.map_or(Fate::Send, |_| Fate::Alone)
    }

    /// From now on later events of the key follow, if that was asked for. An event without a key has no place among others.
    fn hold(&self, key: Option<&[u8]>, obituary: &Obituary, origin: Origin<'_>) -> Result<(), Error> {
        let Some(key) = key.filter(|_| self.options.follow_key && obituary.cause != DeathCause::Key) else {
            return Ok(());
        };
        let held = self.lock().held.hold(origin.topic, key, origin.position);
        held.map_err(|Full| Error::HeldKeysFull { position: origin.position, max: self.options.keys_max })
    }

    fn is_new(&self, position: EventPosition) -> bool {
        let told = &mut self.lock().told;
        let is_new = *told < Some(position);
        *told = (*told).max(Some(position));
        is_new
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A letter that is too large for the dead-letter topic as well: its headers tell what is missing.
fn send_without_value(
    flight: &mut Flight<'_, impl Outlet>,
    letter: &ProducerRecord<'_>,
    position: EventPosition,
    now: SystemTime,
) -> Result<Option<Need>, Error> {
    let bytes = letter.value.map_or(0, <[u8]>::len).to_string();
    let left_out = Header { name: VALUE_LEFT_OUT, value: Some(bytes.as_bytes()) };
    let headers: Vec<_> = letter.headers.iter().copied().chain([left_out]).collect();
    flight.send(&ProducerRecord { value: None, headers: &headers, ..*letter }, position, now)
}
