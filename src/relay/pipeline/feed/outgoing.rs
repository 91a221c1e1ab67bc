//! Path of a message's records, and the treatment of a message that makes none.

use super::Outcome;
use super::in_hand::Answers;
use crate::connect::converter::ConvertError;
use crate::connect::converter::registered::Registration;
use crate::connect::record::ProducerRecord;
use crate::kafka::{Inlet, Transport};
use crate::outbox::{MessageError, RawRecord, RouteError};
use crate::relay::delivery::dead_letters::DeadLetters;
use crate::relay::delivery::dispatch::Dispatch;
use crate::relay::delivery::flight::Flight;
use crate::relay::delivery::needs::Need;
use crate::relay::delivery::tolerance::Tolerance;
use crate::relay::error::{Error, RowName};
use crate::relay::time::clock::Now;
use crate::telemetry::Metrics;
use crate::transaction::{EventPosition, Standing};

/// The end of the feed that all kinds of messages share.
pub(in crate::relay) struct Outgoing<'p, T = Inlet> {
    pub(in crate::relay) metrics: &'p Metrics,
    pub(super) tolerance: Tolerance,
    pub(super) dead_letters: Option<&'p DeadLetters>,
    /// Check of records before they are sent.
    pub(in crate::relay) dispatch: Dispatch<'p>,
    /// The records on their way.
    pub(in crate::relay) flight: Flight<'p, T>,
}

/// Reasons why a message has made no records.
pub(super) enum Unmade {
    /// Its schema has no id yet.
    Unregistered(Box<Registration>),
    /// Something in it.
    Error(Error),
}

impl Unmade {
    /// Describes a row of this table that cannot be made into a record.
    pub(super) fn of_row(
        source: RouteError,
        table: &str,
        name: impl FnOnce() -> RowName,
        position: EventPosition,
    ) -> Self {
        Self::of_event(source, |source| Error::Row {
            table: table.to_owned(),
            name: Box::new(name()),
            position,
            source,
        })
    }

    /// Makes the failure of the change event of a logical message with this prefix.
    pub(super) fn of_message_event(source: RouteError, prefix: &str, position: EventPosition) -> Self {
        Self::of_event(source, |source| {
            let source = Box::new(MessageError::Event(source));
            Error::Message { prefix: prefix.to_owned(), position, source }
        })
    }

    /// Makes the failure of a logical message with this prefix.
    pub(super) fn of_message(source: MessageError, prefix: &str, position: EventPosition) -> Self {
        match source {
            MessageError::Convert { source: ConvertError::Unregistered(registration), .. } => {
                Self::Unregistered(registration)
            }
            source => {
                Self::Error(Error::Message { prefix: prefix.to_owned(), position, source: Box::new(source) })
            }
        }
    }

    /// Returns the registry's refusal in place of a schema that was asked for.
    pub(super) fn or_refused(self, answers: &mut Answers) -> Self {
        match self {
            Self::Unregistered(registration) => {
                answers.refused.take().map_or(Self::Unregistered(registration), Self::Error)
            }
            unmade @ Self::Error(_) => unmade,
        }
    }

    fn of_event(source: RouteError, named: impl FnOnce(Box<RouteError>) -> Error) -> Self {
        match source {
            RouteError::Convert { source: ConvertError::Unregistered(registration), .. } => {
                Self::Unregistered(registration)
            }
            source => Self::Error(named(Box::new(source))),
        }
    }
}

impl<T: Transport> Outgoing<'_, T> {
    /// Hands over the records of an event.
    pub(super) fn send(
        &mut self,
        records: &[ProducerRecord<'_>],
        standing: impl Into<Standing>,
        now: Now,
    ) -> Result<Outcome, Error> {
        Ok(self.dispatch.send(&mut self.flight, records, standing.into(), now)?.into())
    }

    /// Handles a message that has made no records: it is given again, ends the relay, goes to the
    /// dead-letter topic, or is skipped.
    pub(super) fn give_up(
        &mut self,
        unmade: Unmade,
        remains: impl FnOnce() -> Option<RawRecord>,
        standing: impl Into<Standing>,
        now: Now,
    ) -> Result<Outcome, Error> {
        let error = match unmade {
            Unmade::Error(error) => error,
            Unmade::Unregistered(registration) => return Ok(Outcome::Lacks(Need::Schema(registration))),
        };
        if let Some(remains) = self.dead_letters.and_then(|_| remains()) {
            let standing = standing.into();
            return Ok(self.dispatch.send_remains(&mut self.flight, remains, error, standing, now)?.into());
        }
        self.skip(error)?;
        Ok(Outcome::None)
    }

    /// Logs a row, or a record of one, that is skipped; or returns the error.
    pub(super) fn skip(&self, error: Error) -> Result<(), Error> {
        self.metrics.event_error("route");
        let table = error.table().map(str::to_owned);
        self.tolerance.skip(error)?;
        if let Some(table) = table {
            self.metrics.rows_not_sent(&table, "errors.tolerance").count();
        }
        Ok(())
    }
}
