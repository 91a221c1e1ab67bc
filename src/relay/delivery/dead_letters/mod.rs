//! Dead letters: events that cannot be sent go to a topic of their own instead of stopping the relay.
//!
//! ```text
//! a row makes no event ──▶ write ───────────────────────────────────▶ the dead-letter topic, acknowledged like any record
//! Kafka refuses a record ─▶ judge ─▶ new producer, new session ─▶ the record is met again: fate ─▶ write
//! ```
//!
//! What Kafka refuses stops the whole producer, before anything behind it is written. So its row must be read
//! again; what is known of it is kept here from one session to the next, and forgotten with the process.

mod error_context;
mod held_keys;
mod verdicts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::needs::Need;
use crate::connect::record::{Header, ProducerRecord, VALUE_OMITTED_HEADER};
use crate::kafka::Rejection;
use crate::relay::error::Error;
use crate::relay::options::DeadLetterOptions;
use crate::relay::time::clock::Now;
use crate::telemetry::DeathCause;
use crate::transaction::{EventPosition, Standing};
use crate::wal::Lsn;
pub(in crate::relay) use error_context::{ErrorContext, Origin};
use held_keys::{Full, HeldKeys};
pub(in crate::relay) use verdicts::Refused;
use verdicts::{Verdict, Verdicts};

/// The dead-letter topic, and what this process has recorded of events that belong there.
#[derive(Debug)]
pub struct DeadLetters {
    options: DeadLetterOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    verdicts: Verdicts,
    held: HeldKeys,
    /// Last event that was logged: after a broken connection events are read again.
    told: Option<EventPosition>,
}

/// Treatment of a record.
pub(in crate::relay) enum Fate {
    /// Sent.
    Send(Company),
    /// Written to the dead-letter topic.
    Dead(Arc<ErrorContext>),
}

/// Records that may be in flight together with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Company {
    Others,
    /// No other record, to find out whether it is the one that Kafka refuses.
    Nothing,
}

impl DeadLetters {
    /// Creates it without any verdict.
    #[must_use]
    pub fn new(options: DeadLetterOptions) -> Self {
        let state =
            State { verdicts: Verdicts::default(), held: HeldKeys::new(options.keys_max), told: None };
        Self { options, state: Mutex::new(state) }
    }

    /// Returns `errors.deadletterqueue.topic.name`.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.options.topic
    }

    /// Returns the number of keys whose events become dead letters, because one of theirs has.
    pub(in crate::relay) fn keys_held(&self) -> usize {
        self.lock().held.count()
    }

    /// Releases the keys when a snapshot begins, perhaps again: its rows have other positions than before.
    pub(in crate::relay) fn begin_snapshot(&self) {
        self.lock().held.release();
    }

    /// Records what Kafka refused. Returns false when another session would not help.
    pub(in crate::relay) fn judge(&self, refused: &[Refused], now: Instant) -> bool {
        self.lock().verdicts.learn(refused, &self.options.topic, now)
    }

    /// Records that brokers refuse to create a topic, before any record for it was sent. Returns false for
    /// the dead-letter topic itself.
    pub(in crate::relay) fn refuse_topic(&self, rejection: &Rejection, now: Instant) -> bool {
        if rejection.topic == self.options.topic {
            return false;
        }
        self.lock().verdicts.refuse_topic(rejection, now);
        true
    }

    /// Forgets verdicts before the frontier: those records are never read again.
    pub(in crate::relay) fn forget_before(&self, frontier: Lsn) {
        self.lock().verdicts.forget_before(frontier);
    }

    /// Makes the dead letter of an event, and passes it to `post`.
    ///
    /// # Errors
    /// As `post`, or when no further key can be held.
    pub(in crate::relay) fn write(
        &self,
        record: &ProducerRecord<'_>,
        error_context: &ErrorContext,
        origin: Origin<'_>,
        now: Now,
        post: impl FnOnce(&ProducerRecord<'_>, Company) -> Result<Option<Need>, Error>,
    ) -> Result<Option<Need>, Error> {
        self.hold(record.key, error_context, origin)?;
        let context = error_context.headers(&self.options, origin);
        let context = context.iter().map(|(name, value)| Header { name, value: Some(value.as_bytes()) });
        let headers: Vec<_> = record.headers.iter().copied().chain(context).collect();
        // What Kafka did not like may be the record's own timestamp.
        let timestamp_ms =
            if error_context.cause == DeathCause::Invalid { now.unix_ms() } else { record.timestamp_ms };
        let topic = self.options.topic.as_str();
        let letter = ProducerRecord { topic, partition: None, timestamp_ms, headers: &headers, ..*record };
        let verdict = self.lock().verdicts.of(&letter, now.instant);
        match verdict {
            None => post(&letter, Company::Others),
            Some(Verdict::Suspect) => post(&letter, Company::Nothing),
            // Too large for the dead-letter topic as well: its headers name what is missing.
            Some(Verdict::Dead(_)) if self.options.keeps_values && letter.value.is_some() => {
                let position = origin.standing.position();
                Err(Error::DeadLetterTooLarge { position, topic: topic.to_owned(), bytes: letter.weight() })
            }
            Some(Verdict::Dead(_)) => {
                let bytes = letter.value.map_or(0, <[u8]>::len).to_string();
                let left_out = Header { name: VALUE_OMITTED_HEADER, value: Some(bytes.as_bytes()) };
                let headers: Vec<_> = letter.headers.iter().copied().chain([left_out]).collect();
                post(&ProducerRecord { value: None, headers: &headers, ..letter }, Company::Others)
            }
        }
    }

    /// Returns the treatment of a record.
    pub(in crate::relay) fn fate(
        &self,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Instant,
    ) -> Fate {
        let state = self.lock();
        let verdict = state.verdicts.of(record, now);
        if let Some(Verdict::Dead(error_context)) = verdict {
            return Fate::Dead(error_context);
        }
        if let Some(since) = record.key.and_then(|key| state.held.held_behind(record.topic, key, position)) {
            return Fate::Dead(Arc::new(ErrorContext::of_follower(since)));
        }
        Fate::Send(verdict.map_or(Company::Others, |_| Company::Nothing))
    }

    /// Makes later events of the key follow, if that was configured. An event without a key has no order
    /// among others.
    fn hold(
        &self,
        key: Option<&[u8]>,
        error_context: &ErrorContext,
        origin: Origin<'_>,
    ) -> Result<(), Error> {
        let Some(key) = key.filter(|_| self.options.follow_key && error_context.cause != DeathCause::Key)
        else {
            return Ok(());
        };
        let held = self.lock().held.hold(origin.topic, key, origin.standing.position());
        held.map_err(|Full| Error::HeldKeysFull {
            position: origin.standing.position(),
            max: self.options.keys_max,
        })
    }

    /// Returns whether an event is logged for the first time. A row of a snapshot is a new one each time.
    pub(in crate::relay) fn is_new(&self, standing: Standing) -> bool {
        let Some(position) = standing.event() else { return true };
        let told = &mut self.lock().told;
        let is_new = *told < Some(position);
        *told = (*told).max(Some(position));
        is_new
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
